//! The list of spellings in `data/paths.txt`, and random ones.

use proptest::prelude::*;
use threshold::route::{Path, RouteSpec, Routes};

use super::{compile, names};

const LIST: &str = include_str!("../data/paths.txt");

struct Line<'a> {
    number: usize,
    answer: &'a str,
    method: &'a str,
    host: Option<&'a str>,
    target: &'a str,
    /// Whether it means a request of a protected route.
    evades: bool,
}

/// The table at the head of the list.
fn table() -> Routes {
    let mut specs: Vec<RouteSpec> = Vec::new();
    for line in LIST.lines().filter_map(|line| line.strip_prefix("route\t")) {
        let [name, host, pattern] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
        if specs.last().is_none_or(|spec| spec.name != name) {
            specs.push(RouteSpec::new(name, []));
        }
        let host = (host != "-").then(|| host.to_owned());
        specs.last_mut().unwrap().patterns.push((host, pattern.to_owned()));
    }
    compile(&specs)
}

fn lines() -> Vec<Line<'static>> {
    let mut evades = false;
    let mut lines = Vec::new();
    for (index, line) in LIST.lines().enumerate() {
        evades = match line {
            "# evasions" => true,
            "# others" => false,
            _ => evades,
        };
        if line.starts_with("# ") || line == "#" || line.starts_with("route\t") {
            continue;
        }
        let [answer, method, host, target] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let host = (host != "-").then_some(host);
        lines.push(Line { number: index + 1, answer, method, host, target, evades });
    }
    lines
}

#[test]
fn every_spelling_of_the_list_gets_its_answer() {
    let routes = table();
    let lines = lines();
    assert!(lines.len() >= 1_000, "{} lines", lines.len());
    let mut wrong = Vec::new();
    for Line { number, answer, method, host, target, .. } in &lines {
        let found = match names(&routes, (method, *host, target)) {
            Ok(found) if found.is_empty() => "-".to_owned(),
            Ok(found) => found.join(","),
            Err(_) => "refused".to_owned(),
        };
        if found != *answer {
            wrong.push(format!("line {number}: {method} {host:?} {target}: {found}, not {answer}"));
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn no_evasion_of_the_list_goes_unmatched() {
    let routes = table();
    let mut evasions = 0;
    for line in lines().iter().filter(|line| line.evades) {
        evasions += 1;
        let found = names(&routes, (line.method, line.host, line.target));
        assert_ne!(found, Ok(Vec::new()), "line {}: {}", line.number, line.target);
    }
    assert!(evasions >= 1_000, "{evasions} evasions");
}

/// Spells one segment differently without changing what it means.
fn segment(text: &'static str) -> impl Strategy<Value = String> {
    let letter = |c: char| {
        let (small, large) = (c.to_ascii_lowercase(), c.to_ascii_uppercase());
        prop_oneof![
            4 => Just(c.to_string()),
            1 => Just(large.to_string()),
            1 => Just(format!("%{:02x}", u32::from(small))),
            1 => Just(format!("%{:02X}", u32::from(large))),
        ]
    };
    let parameters = prop_oneof![3 => Just(""), 1 => prop::sample::select(vec![";", ";x=1", "%3b", ";a;b"])];
    let letters: Vec<_> = text.chars().map(letter).collect();
    (letters, parameters).prop_map(|(letters, parameters)| letters.concat() + parameters)
}

/// What may stand between two segments and mean one `/`.
fn separator() -> impl Strategy<Value = String> {
    let slash = || prop::sample::select(vec!["/", "/", "/", "//", "%2f", "%2F", "\\", "%5c", "%5C"]);
    let detour = prop::sample::select(vec![
        "",
        "",
        "",
        ".",
        "%2e",
        ".;x",
        "x/..",
        "x/%2e%2e",
        "x%2f..",
        "x\\.%2E",
        "x/..;y",
        "x/y/../..",
        ";z",
    ]);
    (slash(), detour, slash()).prop_map(|(before, detour, after)| match detour {
        "" => before.to_owned(),
        detour => format!("{before}{detour}{after}"),
    })
}

/// Spellings of `/api/upload/cat`.
fn spelling() -> impl Strategy<Value = String> {
    let host = prop::sample::select(vec!["", "", "http://h", "HTTPS://user@h:1"]);
    let climb = prop::sample::select(vec!["", "", "/..", "/%2e%2e/..", "/."]);
    let end = prop::sample::select(vec!["", "/", "//", "/.", "?q=/x", "#f", "/?%zz", "%2f"]);
    let path = (separator(), segment("api"), separator(), segment("upload"), separator(), segment("cat"));
    (host, climb, path, end).prop_map(|(host, climb, (a, api, b, upload, c, cat), end)| {
        format!("{host}{climb}/{a}{api}{b}{upload}{c}{cat}{end}")
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(4_000) })]

    #[test]
    fn no_other_spelling_leaves_a_route(target in spelling()) {
        let specs = [
            RouteSpec::new("exact", ["* /api/upload/cat"]),
            RouteSpec::new("one", ["* /api/*/cat"]),
            RouteSpec::new("all", ["* /api/upload/**"]),
        ];
        let found = names(&compile(&specs), ("PUT", None, &target));
        prop_assert_eq!(found.unwrap(), ["exact", "one", "all"]);
    }

    #[test]
    fn a_second_round_of_escapes_is_refused(target in spelling(), place in any::<prop::sample::Index>()) {
        let path_end = target.find(['?', '#']).unwrap_or(target.len());
        let path_start = target.find("://").map_or(0, |at| at + 3 + target[at + 3..].find('/').unwrap());
        let at = path_start + 1 + place.index(path_end - path_start);
        let doubled = format!("{}%2561{}", &target[..at], &target[at..]);
        prop_assert!(Path::read(&doubled).is_err());
    }

    #[test]
    fn any_text_is_read_or_refused(target in ".{0,200}", method in ".{0,9}", host in prop::option::of(".{0,40}")) {
        let _ = names(&table(), (&method, host.as_deref(), &target));
        let _ = names(&table(), (&method, host.as_deref(), &format!("/{target}")));
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let routes = table();
        for target in [bytes.clone(), [b"/files/", &bytes[..]].concat(), [b"http://", &bytes[..]].concat()] {
            if let Ok(path) = Path::read(&target) {
                let _ = (routes.matches("GET", None, &path), path.to_string(), path.is_plain());
            }
        }
    }

    /// Text made only of what has a meaning in paths finds more than text of any kind.
    #[test]
    fn any_mixture_of_marks_is_read_or_refused(target in "[/\\\\.;%25efca?#:@*]{0,60}") {
        let routes = table();
        let target = format!("/{target}");
        if let Ok(path) = Path::read(&target) {
            let _ = routes.matches("GET", Some(&target), &path);
            let dots = |segment: &[u8]| matches!(segment, b"" | b"." | b"..");
            prop_assert!(!path.segments().any(dots), "{}", path);
        }
    }
}
