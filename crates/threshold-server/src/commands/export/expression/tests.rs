//! The conditions are judged by a reader of their own, beside the routes that they stand for.

use threshold::route::{Path, Routes};

use super::*;

fn policy(routes: &str) -> Policy {
    Policy::read("policy.toml", routes, &|_| None).unwrap()
}

/// What Cloudflare would say of a request, by its documentation.
fn holds(expression: &Expr, method: &str, host: &str, path: &str) -> bool {
    let judge = |part: &Expr| holds(part, method, host, path);
    match expression {
        Expr::True => true,
        Expr::All(parts) => parts.iter().all(judge),
        Expr::Any(parts) => parts.iter().any(judge),
        Expr::Not(part) => !judge(part),
        Expr::Host(name) => host.to_ascii_lowercase() == *name,
        Expr::HostBelow(name) => host.to_ascii_lowercase().ends_with(&format!(".{name}")),
        Expr::Method(names) => names.iter().any(|name| name == method),
        Expr::Network(_) => false,
        Expr::Path(case, test) => {
            let path = if *case == Case::Same { path.to_ascii_lowercase() } else { path.to_owned() };
            match test {
                PathTest::Is(whole) => path == *whole,
                PathTest::Begins(start) => path.starts_with(start),
                PathTest::Ends(end) => path.ends_with(end),
                PathTest::Contains(part) => path.contains(part),
                PathTest::Like(pattern) => like(pattern, &path),
            }
        }
    }
}

fn like(pattern: &str, path: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == path,
        Some((start, rest)) => path.strip_prefix(start).is_some_and(|after| {
            (0..=after.len()).filter(|at| after.is_char_boundary(*at)).any(|at| like(rest, &after[at..]))
        }),
    }
}

/// All paths of up to four segments out of a few, with and without a slash at the end.
fn paths() -> Vec<String> {
    let mut paths = vec![String::new()];
    for _ in 0..4 {
        let longer: Vec<String> = paths
            .iter()
            .flat_map(|path| ["a", "A", "b", "ab"].map(|segment| format!("{path}/{segment}")))
            .collect();
        paths.extend(longer);
    }
    paths.sort();
    paths.dedup();
    paths.iter().flat_map(|path| [format!("{path}/"), path.clone()]).filter(|path| !path.is_empty()).collect()
}

#[test]
fn a_condition_holds_for_the_requests_of_its_route_and_no_others() {
    for pattern in [
        "* /**",
        "* /",
        "* /a",
        "* /a/",
        "GET /a/b",
        "POST,PUT /a/**",
        "* /*",
        "* /a/*",
        "* /{id}/b",
        "* /a/*/b",
        "* /*/*",
        "* /a/*/b/*",
        "GET /*/a/*/*",
    ] {
        for sensitive in [false, true] {
            let text = format!("[server]\ncase_sensitive_paths = {sensitive}\n[routes]\nr = \"{pattern}\"\n");
            let policy = policy(&text);
            let requests = of_routes(&policy, ["r"]);
            assert!(!requests.wider, "{pattern}");
            let routes = Routes::compile(&policy.route_specs(), policy.route_options()).unwrap();
            for path in paths() {
                for method in ["GET", "HEAD", "POST"] {
                    let matched = !routes.matches(method, None, &Path::read(&path).unwrap()).is_empty();
                    let held = holds(&requests.expression, method, "", &path);
                    assert_eq!(held, matched, "{pattern}: {method} {path}: {}", requests.expression);
                }
            }
        }
    }
}

#[test]
fn where_more_requests_match_than_in_the_route_it_is_told_and_none_is_missed() {
    for pattern in ["* /*/**", "* /a/*/**", "* /*/b/**"] {
        let policy = policy(&format!("[routes]\nr = \"{pattern}\"\n"));
        let requests = of_routes(&policy, ["r"]);
        assert!(requests.wider, "{pattern}");
        let routes = Routes::compile(&policy.route_specs(), policy.route_options()).unwrap();
        for path in paths() {
            let matched = !routes.matches("GET", None, &Path::read(&path).unwrap()).is_empty();
            assert!(!matched || holds(&requests.expression, "GET", "", &path), "{pattern}: {path}");
        }
    }
}

#[test]
fn hosts_match_as_routes_do() {
    let policy = policy(
        "[routes]\nr = [{ host = \"Auth.Example.com.\", path = \"* /a\" }, { host = \"*.b.com\", path = \"* /**\" }]\n",
    );
    let requests = of_routes(&policy, ["r"]);
    let routes = Routes::compile(&policy.route_specs(), policy.route_options()).unwrap();
    for host in ["auth.example.com", "AUTH.example.com", "b.com", "x.b.com", "x.y.B.com", "xb.com"] {
        for path in ["/a", "/b"] {
            let matched = !routes.matches("GET", Some(host), &Path::read(path).unwrap()).is_empty();
            assert_eq!(holds(&requests.expression, "GET", host, path), matched, "{host}{path}");
        }
    }
}

#[test]
fn a_condition_is_written_as_cloudflare_reads_it() {
    let written =
        |routes: &str| of_routes(&policy(&format!("[routes]\nr = {routes}\n")), ["r"]).expression.to_string();
    assert_eq!(
        written("\"GET /a\""),
        "http.request.method in {\"GET\" \"HEAD\"} and (lower(http.request.uri.path) eq \"/a\" or \
         lower(http.request.uri.path) eq \"/a/\")"
    );
    assert_eq!(
        written("[\"* /A/*\", \"* /b/**\"]"),
        "(not lower(http.request.uri.path) contains \"//\" and ((http.request.uri.path wildcard \"/a/*\" and \
         not http.request.uri.path wildcard \"/a/*/*\" and not ends_with(lower(http.request.uri.path), \"/\")) or \
         (http.request.uri.path wildcard \"/a/*/\" and not http.request.uri.path wildcard \"/a/*/*/\"))) or \
         lower(http.request.uri.path) eq \"/b\" or starts_with(lower(http.request.uri.path), \"/b/\")"
    );
    let outside = Expr::not(Expr::Network(vec!["10.0.0.0/8".to_owned(), "2001:db8::/32".to_owned()]));
    assert_eq!(outside.to_string(), "not ip.src in {10.0.0.0/8 2001:db8::/32}");
}

#[test]
fn nothing_in_a_path_gets_out_of_its_text() {
    let policy = policy("[routes]\nr = '* /a\")or(true)or(\"é/**'\n");
    let expression = of_routes(&policy, ["r"]).expression.to_string();
    let path = "/a%22)or(true)or(%22%c3%a9";
    assert_eq!(
        expression,
        format!(
            "lower(http.request.uri.path) eq \"{path}\" or starts_with(lower(http.request.uri.path), \"{path}/\")"
        )
    );
    assert_eq!(text("a\"b\\"), "\"a\\\"b\\\\\"");
}
