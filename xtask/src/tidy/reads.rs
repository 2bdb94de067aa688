//! Time, environment, randomness and tasks come in from outside; only a few places may reach for them.
//!
//! Test modules inside `src` are held to this too: a test that reads a clock is a test that fails once a year.

use super::tokens::Tokens;
use super::{File, Finding};

/// What a piece of code reaches out for.
#[derive(Clone, Copy, PartialEq)]
enum Reach {
    Clock,
    Environment,
    Randomness,
    Task,
}

use Reach::{Clock, Environment, Randomness, Task};

const EVERYTHING: &[Reach] = &[Clock, Environment, Randomness, Task];

/// The code that reaches out. Imports count as well: whoever imports `tokio::spawn` means to call it.
const READS: &[(&str, Reach)] = &[
    ("Instant::now", Clock),
    ("SystemTime::now", Clock),
    ("quanta::Clock", Clock),
    ("env::var", Environment),
    ("env::var_os", Environment),
    ("env::vars", Environment),
    ("env::vars_os", Environment),
    ("getrandom::fill", Randomness),
    ("rand::random", Randomness),
    ("rand::rng", Randomness),
    ("thread_rng", Randomness),
    ("tokio::spawn", Task),
    ("task::spawn", Task),
    ("thread::spawn", Task),
    ("thread::Builder", Task),
];

/// Where reaching out is at home. `**/name/` is a folder of that name anywhere.
const HOMES: &[(&str, &[Reach])] = &[
    ("crates/threshold-store/src/clock.rs", &[Clock]),
    ("crates/threshold-store/src/entropy.rs", &[Randomness]),
    // What works on a file or a connection in the place of its callers.
    ("crates/threshold-store/src/durable_objects", &[Task]),
    ("crates/threshold-store/src/ledgers/postgres/", &[Task]),
    ("crates/threshold-store/src/ledgers/shared/desk.rs", &[Task]),
    ("crates/threshold-store/src/postgres", &[Task]),
    ("crates/threshold-store/src/redis.rs", &[Task]),
    ("crates/threshold-store/src/redis/line.rs", &[Task]),
    ("crates/threshold-store/src/sqlite/line.rs", &[Task]),
    ("crates/threshold-server/", &[Environment, Task]),
    // A program of its own, which is set up as its document says.
    ("examples/communique/src/main.rs", &[Environment]),
    ("crates/threshold-testkit/", EVERYTHING),
    ("xtask/", EVERYTHING),
    ("bench/", EVERYTHING),
    ("**/tests/", EVERYTHING),
    ("**/benches/", EVERYTHING),
];

pub(crate) fn check(file: &File) -> Vec<Finding> {
    if !file.is_hand_written_rust() {
        return Vec::new();
    }
    let tokens = Tokens::of(&file.text);
    let abroad = READS.iter().filter(|(_, reach)| !is_at_home(file, *reach));
    abroad.flat_map(|&(code, reach)| findings(file, &tokens, code, reach)).collect()
}

fn findings(file: &File, tokens: &Tokens, code: &str, reach: Reach) -> Vec<Finding> {
    let what = format!("`{code}` is not at home here: {}", remedy(reach));
    tokens.lines_with(code).into_iter().map(|line| Finding::new(&file.path, line, what.as_str())).collect()
}

fn is_at_home(file: &File, reach: Reach) -> bool {
    HOMES.iter().any(|(home, may)| may.contains(&reach) && lives_in(file, home))
}

fn lives_in(file: &File, home: &str) -> bool {
    match home.strip_prefix("**/") {
        Some(folder) => file.has_folder(folder.trim_end_matches('/')),
        None => file.path.starts_with(home),
    }
}

fn remedy(reach: Reach) -> &'static str {
    match reach {
        Clock => "take a `Clock`, or the time itself, as an argument",
        Environment => "take the value as an argument; the server reads the environment",
        Randomness => "take the seed or the value as an argument",
        Task => "let the caller run it; the server starts tasks, and tests use scoped threads",
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{file, lines};
    use super::*;

    const PATH: &str = "crates/threshold/src/engine.rs";

    #[test]
    fn every_reach_is_found_abroad() {
        for (code, _) in READS {
            let text = format!("fn f() {{\n    std::{code}();\n}}\n");
            assert_eq!(lines(&check(&file(PATH, &text))), [2], "{code}");
        }
    }

    #[test]
    fn inline_tests_and_macros_are_not_exempt() {
        let text =
            "#[cfg(test)]\nmod tests {\n    fn f() {\n        assert!(Instant::now() > t);\n    }\n}\n";
        assert_eq!(lines(&check(&file(PATH, text))), [4]);
    }

    #[test]
    fn comments_strings_and_neighbours_are_not_reads() {
        let text =
            "//! Instant::now\nfn f() { g(\"env::var\"); clock.now(); scope.spawn(h); env!(\"A\"); }\n";
        assert!(check(&file(PATH, text)).is_empty());
    }

    #[test]
    fn homes_allow_what_they_are_for_and_no_more() {
        let clock = "fn f() { Instant::now(); }";
        let spawn = "fn f() { tokio::spawn(g()); }";
        assert!(check(&file("crates/threshold-store/src/clock.rs", clock)).is_empty());
        assert_eq!(check(&file("crates/threshold-store/src/clock.rs", spawn)).len(), 1);
        assert!(check(&file("crates/threshold-server/src/app.rs", spawn)).is_empty());
        assert_eq!(check(&file("crates/threshold-server/src/app.rs", clock)).len(), 1);
        for home in ["bench/src/main.rs", "crates/threshold/tests/a.rs", "crates/threshold/benches/a.rs"] {
            assert!(check(&file(home, clock)).is_empty(), "{home}");
        }
    }
}
