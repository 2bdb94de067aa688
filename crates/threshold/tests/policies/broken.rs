//! Broken policies, each with exactly what is said about it.
//!
//! A file of the corpus starts with the expected problems, one per line after `#!`, in the order of the file.

use std::path::Path;

use crate::{files, read};

#[test]
fn every_broken_policy_is_told_exactly_what_is_wrong() {
    let corpus = files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/bad-policies"));
    assert!(corpus.len() >= 60, "only {} broken policies", corpus.len());
    let mut wrong = Vec::new();
    for (name, text) in &corpus {
        let expected: Vec<&str> = text.lines().map_while(|line| line.strip_prefix("#! ")).collect();
        assert!(!expected.is_empty(), "{name} does not say what is wrong with it");
        let told: Vec<String> = match read(text) {
            Ok(_) => vec!["nothing".to_owned()],
            Err(error) => error.problems.iter().map(ToString::to_string).collect(),
        };
        if told != expected {
            wrong.push(format!("{name}:\n  expected {expected:#?}\n  told {told:#?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn all_problems_are_told_at_once_in_the_order_of_the_file() {
    let text = "[store]\nnodes = 0\n\n[[limit]]\nid = \"a\"\nlayer = \"moon\"\nrate = \"1/min\"\n\n[ladder]\nrungs = []\n";
    let error = read(text).unwrap_err();
    let fields: Vec<&str> = error.problems.iter().map(|problem| problem.field.as_str()).collect();
    assert_eq!(fields, ["store.nodes", "limit[0].layer", "ladder.rungs"]);
}

#[test]
fn an_error_names_the_file_on_every_line() {
    let error = read("[store]\nnodes = -1\n\n[server]\nupstream = 1\n").unwrap_err();
    let lines: Vec<String> = error.to_string().lines().map(str::to_owned).collect();
    assert_eq!(
        lines,
        [
            "policy.toml:2:9: store.nodes: -1 stands here; write a whole number of at least 0",
            "policy.toml:5:12: server.upstream: 1 stands here; write a string in quotes",
        ]
    );
}

#[test]
fn what_could_not_be_read_is_not_called_missing_too() {
    let error = read("[[limit]]\nid = \"a\"\nlayer = \"user\"\nrate = \"often\"\n").unwrap_err();
    assert_eq!(error.problems.len(), 1);
    assert_eq!(error.problems[0].field, "limit[0].rate");
    let text = "[identity]\ntenant = { host_label = 7 }\nunknown_tier = \"free\"\n\n[tiers.free]\nai = \"often\"\n\n\
                [tenants]\nacme = \"free\"\n\n[routes]\nposts = 7\n\n\
                [[limit]]\nid = \"a\"\nlayer = \"tenant\"\ncategory = \"ai\"\nroute = \"posts\"\n";
    let error = read(text).unwrap_err();
    let fields: Vec<&str> = error.problems.iter().map(|problem| problem.field.as_str()).collect();
    assert_eq!(fields, ["identity.tenant.host_label", "tiers.free.ai", "routes.posts"]);
}
