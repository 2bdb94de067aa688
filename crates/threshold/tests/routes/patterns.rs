//! Patterns: what they match, and what a wrong one is told.

use threshold::route::{Path, RouteError, RouteOptions, RouteSpec, Routes};

use super::{compile, hits, names, one};

fn errors(specs: &[RouteSpec]) -> Vec<RouteError> {
    Routes::compile(specs, RouteOptions::default()).unwrap_err()
}

/// Expects one error in a pattern: its column, and a part of its text.
#[track_caller]
fn wrong(pattern: &str, column: usize, words: &str) {
    let errors = errors(&[RouteSpec::new("it", [pattern])]);
    assert_eq!(errors.len(), 1, "{pattern:?}: {errors:?}");
    assert_eq!((errors[0].column, &*errors[0].pattern), (column, pattern), "{}", errors[0]);
    assert!(errors[0].to_string().contains(words), "{}", errors[0]);
    assert!(!errors[0].remedy.is_empty());
}

#[track_caller]
fn wrong_host(host: &str, column: usize, words: &str) {
    let errors = errors(&[RouteSpec::new("it", []).on_host(host, "* /x")]);
    assert_eq!(errors.len(), 1, "{host:?}: {errors:?}");
    assert_eq!((errors[0].column, &*errors[0].pattern), (column, host), "{}", errors[0]);
    assert!(errors[0].to_string().contains(words), "{}", errors[0]);
}

#[test]
fn methods_are_exact_and_head_counts_as_get() {
    let routes = one("GET,PUT /x");
    assert!(["GET", "PUT", "HEAD"].iter().all(|method| hits(&routes, method, "/x")));
    assert!(!["POST", "get", "GETS", ""].iter().any(|method| hits(&routes, method, "/x")));
    assert!(!hits(&one("PUT /x"), "HEAD", "/x"));
    assert!(hits(&one("* /x"), "ANYTHING", "/x"));
    assert!(hits(&one("M-SEARCH /x"), "M-SEARCH", "/x"));
}

#[test]
fn a_star_is_one_segment_and_two_are_all_below() {
    let star = one("* /a/*/c");
    assert!(hits(&star, "GET", "/a/b/c") && !hits(&star, "GET", "/a/c") && !hits(&star, "GET", "/a//c"));
    assert!(!hits(&star, "GET", "/a/b/b/c"));
    assert!(hits(&one("* /a/{id}/c"), "GET", "/a/b/c"));
    let rest = one("* /a/**");
    assert!(["/a", "/a/", "/a/b", "/a/b/c/"].iter().all(|path| hits(&rest, "GET", path)));
    assert!(!["/", "/ab", "/b/a"].iter().any(|path| hits(&rest, "GET", path)));
    assert!(hits(&one("* /**"), "GET", "/"));
    assert!(hits(&one("* /"), "GET", "/") && !hits(&one("* /"), "GET", "/a"));
    assert!(hits(&one("* /a/"), "GET", "/a"), "a slash at the end of a pattern does not matter either");
}

#[test]
fn all_matching_routes_are_named_in_their_order() {
    let specs = ["* /**", "GET /a/**", "GET /a/*", "GET /a/b", "POST /a/b", "GET /{x}/b", "GET /a/b/c"];
    let specs: Vec<_> = specs.iter().map(|pattern| RouteSpec::new(*pattern, [*pattern])).collect();
    let routes = compile(&specs);
    let found = names(&routes, ("GET", None, "/a/b")).unwrap();
    assert_eq!(found, ["* /**", "GET /a/**", "GET /a/*", "GET /a/b", "GET /{x}/b"]);
    assert_eq!(routes.index_of("GET /a/b"), Some(3));
    assert_eq!(routes.index_of("other"), None);
    assert_eq!(routes.names().len(), 7);
}

#[test]
fn a_branch_that_ends_does_not_hide_another() {
    let routes = compile(&[RouteSpec::new("literal", ["* /a/b/x"]), RouteSpec::new("star", ["* /a/*/y"])]);
    assert_eq!(names(&routes, ("GET", None, "/a/b/y")).unwrap(), ["star"]);
}

#[test]
fn case_matters_only_if_asked_for() {
    let specs = [RouteSpec::new("small", ["* /api/x"]), RouteSpec::new("large", ["* /API/x"])];
    let both = compile(&specs);
    assert_eq!(names(&both, ("GET", None, "/Api/X")).unwrap(), ["small", "large"]);
    let exact = Routes::compile(&specs, RouteOptions { case_sensitive: true }).unwrap();
    assert_eq!(names(&exact, ("GET", None, "/api/x")).unwrap(), ["small"]);
    assert_eq!(names(&exact, ("GET", None, "/%41PI/x")).unwrap(), ["large"]);
    assert!(names(&exact, ("GET", None, "/Api/x")).unwrap().is_empty());
}

#[test]
fn hosts_are_exact_or_all_below() {
    let specs = [
        RouteSpec::new("exact", []).on_host("Auth.Grove.place.", "* /x"),
        RouteSpec::new("below", []).on_host("*.grove.place", "* /x"),
        RouteSpec::new("six", []).on_host("[::1]", "* /x"),
        RouteSpec::new("every", ["* /x"]),
    ];
    let routes = compile(&specs);
    let on = |host: Option<&str>| names(&routes, ("GET", host, "/x")).unwrap();
    assert_eq!(on(Some("AUTH.grove.place:8080")), ["exact", "below", "every"]);
    assert_eq!(on(Some("a.b.grove.place.")), ["below", "every"]);
    assert_eq!(on(Some("[::1]:80")), ["six", "every"]);
    assert_eq!(on(Some("grove.place")), ["every"]);
    assert_eq!(on(Some(&".".repeat(100_000))), ["every"]);
    assert_eq!(on(None), ["every"]);
    let both = names(&routes, ("GET", Some("b.grove.place"), "http://[::1]/x")).unwrap();
    assert_eq!(both, ["below", "six", "every"], "a server may go by either host");
}

#[test]
fn wrong_patterns_are_told_what_to_write() {
    wrong("", 1, "write a method and a path: \"POST /api/posts\"");
    wrong("  ", 1, "the pattern is empty");
    wrong("/api/posts", 1, "write \"* /api/posts\" for every method");
    wrong("POST", 5, "\"POST /api/posts\"");
    wrong("post /x", 1, "write \"POST\"");
    wrong("GET,Put /x", 6, "write \"PUT\"");
    wrong("GET,,PUT /x", 5, "beside a comma");
    wrong("GET, PUT /x", 5, "no space");
    wrong("GET,* /x", 5, "every method");
    wrong("GET;PUT /x", 4, "';' is not allowed in a method");
    wrong("POST api/posts", 6, "does not start with `/`");
    wrong("GET https://example.com/x", 5, "host = \"example.com\"");
    wrong("GET /a /b", 7, "no spaces");
    wrong("GET /a//b", 8, "empty segment");
    wrong("GET /a//", 8, "empty segment");
    wrong("GET /a/./b", 8, "dot segment");
    wrong("GET /a/..", 8, "dot segment");
    wrong("GET /a/**/b", 8, "only at the end");
    wrong("GET /a/b*", 9, "not a whole segment");
    wrong("GET /a/***", 8, "not a whole segment");
    wrong("GET /a/{}", 8, "hold no name");
    wrong("GET /a/{b", 8, "whole segment");
    wrong("GET /a/x{b}", 9, "whole segment");
    wrong("GET /a/{b.c}", 8, "whole segment");
    wrong("GET /%61", 6, "the character itself");
    wrong("GET /é/%41", 9, "the character itself");
    wrong("GET /a?b", 7, "a path ends before it");
    wrong("GET /a#b", 7, "a path ends before it");
    wrong("GET /a;b", 7, "no request keeps it");
    wrong("GET /a\\b", 7, "no request keeps it");
    wrong("GET /a\u{1}", 7, "no request keeps it");
    wrong(&format!("GET {}", "/a".repeat(65)), 5, "at most 64 segments");
    wrong(&format!("GET /{}", "a".repeat(2_048)), 5, "2048 bytes");
}

#[test]
fn wrong_hosts_are_told_what_to_write() {
    wrong_host("", 1, "empty");
    wrong_host("*", 1, "no host at all for every host");
    wrong_host("*.", 3, "empty");
    wrong_host("a.*.com", 3, "\"*.example.com\"");
    wrong_host("*.*.com", 3, "\"*.example.com\"");
    wrong_host("a.com:80", 6, "leave it out");
    wrong_host("[::1]:80", 6, "leave it out");
    wrong_host("[::1", 5, "`]`");
    wrong_host("a..com", 3, "label");
    wrong_host(".com", 1, "label");
    wrong_host("http://a.com", 5, "leave it out");
    wrong_host("a b", 2, "' ' is not allowed");
    wrong_host("grün.example", 3, "'ü' is not allowed");
    wrong_host(&"a".repeat(254), 254, "253 bytes");
}

#[test]
fn all_errors_come_at_once_and_name_their_place() {
    let specs = [
        RouteSpec::new("a", ["GET /ok", "get //x/%61"]),
        RouteSpec::new("a", ["GET /ok"]),
        RouteSpec::new("empty", []),
        RouteSpec::new("", ["GET /ok"]).on_host("*", "/x"),
    ];
    let found: Vec<_> =
        errors(&specs).into_iter().map(|error| (error.route, error.index, error.column)).collect();
    let expected = [
        ("a", 0, 1), // the name, taken
        ("empty", 0, 1),
        ("", 0, 1), // the name, missing
        ("a", 1, 1),
        ("a", 1, 6),
        ("a", 1, 9),
        ("", 1, 1), // the host
        ("", 1, 1), // the method
    ];
    assert_eq!(found, expected.map(|(route, index, column)| (route.to_owned(), index, column)));
    let message = errors(&[RouteSpec::new("posts", ["post /api/posts"])])[0].to_string();
    assert_eq!(
        message,
        "route \"posts\", \"post /api/posts\", column 1: methods are upper-case; write \"POST\""
    );
}

#[test]
fn a_table_holds_1024_patterns_and_no_more() {
    let route = |index| RouteSpec::new(format!("r{index}"), [format!("GET /r/{index}").as_str()]);
    let mut specs: Vec<_> = (0..1_024).map(route).collect();
    let routes = compile(&specs);
    for index in [0, 63, 64, 500, 1_023] {
        let target = format!("/r/{index}");
        let matches = routes.matches("GET", None, &Path::read(&target).unwrap());
        assert!(matches.iter().eq([index]) && matches.contains(index) && !matches.is_empty());
        assert!(!matches.contains(index + 1) && !matches.contains(usize::MAX));
    }
    specs.push(route(1_024));
    let errors = errors(&specs);
    assert_eq!((errors.len(), &*errors[0].route), (1, "r1024"));
    assert!(errors[0].to_string().contains("more than 1024 patterns"));
}

/// Each of 1,024 patterns matches, by a different choice of letters and stars: the worst that a tree can hold.
#[test]
fn patterns_that_all_match_are_all_found() {
    let pattern = |choice: usize| {
        let segment = |bit: usize| if choice >> bit & 1 == 1 { "/a" } else { "/*" };
        format!("GET {}", (0..10).map(segment).collect::<String>())
    };
    let specs: Vec<_> =
        (0..1_024).map(|choice| RouteSpec::new(format!("r{choice}"), [&*pattern(choice)])).collect();
    let routes = compile(&specs);
    let path = "/a".repeat(10);
    assert!(routes.matches("GET", None, &Path::read(&path).unwrap()).iter().eq(0..1_024));
    let deep = "/a".repeat(4_000);
    assert!(routes.matches("GET", None, &Path::read(&deep).unwrap()).is_empty());
}
