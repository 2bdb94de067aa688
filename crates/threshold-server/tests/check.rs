//! `threshold check` and `threshold schema`, as they are typed.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs the binary at the root of the repository, with an empty environment but for `variables`.
fn threshold(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_threshold"));
    command.args(arguments).current_dir(root()).env_clear().envs(variables.iter().copied());
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

const GROVE: &str = "examples/grove/policy.toml";
const BROKEN: &str = "crates/threshold/tests/data/bad-policies/several-at-once.toml";

#[test]
fn every_example_can_be_used() {
    for (name, closing) in [
        ("grove/policy", "can be used; 23 limits, 0 warnings, "),
        ("fitbit2garmin/policy", "can be used; 5 limits, 0 warnings, 0 notes"),
        ("policies/gateway", "can be used; 2 limits, 1 warning, 1 note"),
    ] {
        let file = format!("examples/{name}.toml");
        let ran = threshold(&["check", &file], &[]);
        let out = text(&ran.stdout);
        assert_eq!(ran.status.code(), Some(0), "{out}{}", text(&ran.stderr));
        assert_eq!(text(&ran.stderr), "");
        let last = out.lines().last().unwrap();
        assert!(last.starts_with(&format!("{file}: {closing}")), "{last}");
    }
}

#[test]
fn limits_are_printed_by_layer_with_what_they_promise() {
    let ran = threshold(&["check", GROVE], &[]);
    let out = text(&ran.stdout);
    let place = |part: &str| out.find(part).unwrap_or_else(|| panic!("{part:?} is missing in\n{out}"));
    let layers = ["edge layer", "\ntenant layer", "\nuser layer", "\nendpoint layer", "\nFindings"];
    assert!(layers.map(place).is_sorted());
    place(
        "  edge-auth: 50 per 5min, token-bucket, route `oauth`\n    \
         each address: per node, at most 99 in any 5min: 50 at once, then 50 per 5min\n    \
         once over, refused for 5min\n    \
         while the store fails: the same: it needs no store\n",
    );
    place("each account and address: at most 5 in any 5min\n");
    place("while the store fails: nothing is admitted\n");
}

#[test]
fn a_broken_policy_is_told_all_of_it_at_once() {
    let ran = threshold(&["check", BROKEN], &[]);
    assert_eq!(ran.status.code(), Some(1));
    assert_eq!(text(&ran.stdout), "");
    let told: Vec<&str> = text(&ran.stderr).lines().collect();
    let corpus = std::fs::read_to_string(root().join(BROKEN)).unwrap();
    let mut expected: Vec<String> = corpus
        .lines()
        .map_while(|line| line.strip_prefix("#! "))
        .map(|problem| format!("{BROKEN}:{problem}"))
        .collect();
    expected.push(format!(
        "{BROKEN}: {} problems; nothing of it is used until all are put right",
        expected.len()
    ));
    assert_eq!(told, expected);
}

#[test]
fn json_has_one_shape_for_both_outcomes() {
    let good = threshold(&["check", GROVE, "--json"], &[]);
    let bad = threshold(&["check", BROKEN, "--json"], &[]);
    assert_eq!((good.status.code(), bad.status.code()), (Some(0), Some(1)));
    assert_eq!(text(&bad.stderr), "");
    let good: Value = serde_json::from_slice(&good.stdout).unwrap();
    let bad: Value = serde_json::from_slice(&bad.stdout).unwrap();
    let names = |document: &Value| document.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&good), names(&bad));
    assert_eq!((&good["ok"], &bad["ok"]), (&Value::Bool(true), &Value::Bool(false)));
    assert_eq!(bad["problems"][0]["field"], "store.url");
    assert_eq!(bad["problems"][0]["line"], 7);
    let limits = good["limits"].as_array().unwrap();
    let login = limits.iter().find(|limit| limit["id"] == "auth-login").unwrap();
    assert_eq!(login["layer"], "user");
    assert_eq!(login["tier"], Value::Null);
    assert_eq!(login["rate"], "5 per 5min");
    assert_eq!(login["normal"], "at most 5 in any 5min");
    assert_eq!(login["store_failure"], "nothing is admitted");
    assert!(good["findings"].as_array().unwrap().iter().all(|finding| finding["severity"] == "note"));
}

#[test]
fn strict_wants_no_warnings() {
    let gateway = "examples/policies/gateway.toml";
    assert_eq!(threshold(&["check", gateway, "--strict"], &[]).status.code(), Some(3));
    assert_eq!(threshold(&["check", gateway, "--strict", "--json"], &[]).status.code(), Some(3));
    assert_eq!(threshold(&["check", GROVE, "--strict"], &[]).status.code(), Some(0));
    // A rate that a hundred and more clients cannot fill between them.
    let raised = threshold(&["check", gateway, "--strict"], &[("GLOBAL_RATE", "5000/min")]);
    assert_eq!(raised.status.code(), Some(0), "{}", text(&raised.stdout));
}

#[test]
fn a_file_that_cannot_be_read_is_told_with_a_remedy() {
    let missing = threshold(&["check", "no/such/policy.toml"], &[]);
    assert_eq!(missing.status.code(), Some(2));
    let told = text(&missing.stderr);
    assert!(told.starts_with("error: no/such/policy.toml: there is no such file"), "{told}");
    assert!(told.ends_with("; check the path, which starts from the current folder\n"), "{told}");
    let folder = threshold(&["check", "examples"], &[]);
    assert_eq!(folder.status.code(), Some(2));
    assert!(text(&folder.stderr).contains("this is a folder"), "{}", text(&folder.stderr));
}

#[test]
fn what_is_not_understood_is_usage() {
    for arguments in [&["chekc", GROVE][..], &["check"][..], &["check", GROVE, "--yaml"][..]] {
        let ran = threshold(arguments, &[]);
        assert_eq!(ran.status.code(), Some(2), "{arguments:?}");
        assert!(text(&ran.stderr).contains("Usage:") || text(&ran.stderr).contains("tip:"), "{arguments:?}");
    }
}

#[test]
fn help_has_examples_and_exit_codes() {
    let help = threshold(&["--help"], &[]);
    assert_eq!(help.status.code(), Some(0));
    assert!(text(&help.stdout).contains("threshold check policy.toml"));
    let help = threshold(&["check", "--help"], &[]);
    for part in ["Exit codes:", "Examples:", "--strict", "--json", "\"findings\""] {
        assert!(text(&help.stdout).contains(part), "{part}");
    }
}

#[test]
fn nothing_is_coloured_where_no_terminal_is_or_nobody_wants_it() {
    for variables in [&[][..], &[("NO_COLOR", "1")][..]] {
        for file in [GROVE, BROKEN] {
            let ran = threshold(&["check", file], variables);
            assert!(!text(&ran.stdout).contains('\u{1b}') && !text(&ran.stderr).contains('\u{1b}'));
        }
    }
}

#[test]
fn a_key_that_verifies_nothing_breaks_the_policy() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let file = folder.join("key.toml");
    std::fs::write(&file, "[identity]\nuser = { jwt = { algorithm = \"ES256\", public_key = \"none\" } }\n")
        .unwrap();
    let ran = threshold(&["check", file.to_str().unwrap()], &[]);
    assert_eq!(ran.status.code(), Some(1));
    assert!(text(&ran.stderr).contains("the ES256 key cannot be used"), "{}", text(&ran.stderr));
}

#[test]
fn the_schema_is_printed() {
    let ran = threshold(&["schema"], &[]);
    assert_eq!(ran.status.code(), Some(0));
    let schema: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(schema, threshold::policy::Policy::schema());
}

#[test]
fn a_policy_without_limits_is_told_to_limit_nothing() {
    let folder = threshold_testkit::folder::Folder::new();
    let file = folder.path().join("policy.toml");
    std::fs::write(&file, "# nothing yet\n").unwrap();
    let ran = threshold(&["check", file.to_str().unwrap()], &[]);
    let out = text(&ran.stdout);
    assert!(out.contains(":1:1: warning: limit: there is no limit: every request passes"), "{out}");
    assert!(out.contains("`threshold init` writes a policy to start from"), "{out}");
    assert!(out.contains("can be used; 0 limits, 1 warning, 0 notes"), "{out}");
    let strict = threshold(&["check", "--strict", file.to_str().unwrap()], &[]);
    assert_eq!(strict.status.code(), Some(3));
}
