//! The examples and the guide: every policy in them is one.

use crate::{examples, policy, root};
use threshold::policy::Severity;

#[test]
fn every_example_is_a_policy() {
    for (_, text) in examples() {
        assert!(!policy(&text).limit.is_empty());
    }
}

#[test]
fn examples_have_no_warnings_but_the_one_their_document_asks_for() {
    for (name, text) in examples() {
        let findings = policy(&text).lint();
        let warnings: Vec<&str> = findings
            .iter()
            .filter(|finding| finding.severity == Severity::Warning)
            .map(|finding| finding.what.as_str())
            .collect();
        match name.as_str() {
            "gateway.toml" => {
                assert_eq!(
                    warnings,
                    ["10 clients that use all of `per-address` leave nothing to everyone else"]
                );
            }
            _ => assert_eq!(warnings, [""; 0], "{name}"),
        }
    }
}

#[test]
fn every_block_of_the_guide_is_a_policy() {
    let page = |name| std::fs::read_to_string(root().join("docs/guide").join(name)).unwrap();
    let pages = [page("policy.md"), page("abuse.md"), page("alerts.md"), page("analytics.md")];
    let of_page = |page| str::split(page, "```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let blocks: Vec<&str> = pages.iter().flat_map(|page| of_page(page)).collect();
    assert!(blocks.len() >= 10, "only {} blocks", blocks.len());
    let environment = |name: &str| {
        let secret = "0123456789abcdef0123456789abcdef".to_owned();
        match name {
            "JWT_SECRET" | "THRESHOLD_SECRET" | "HOOK_SECRET" => Some(secret),
            "SLACK_URL" => Some(format!("https://hooks.example.com/services/{secret}")),
            _ => None,
        }
    };
    for block in blocks {
        if let Err(error) = threshold::policy::Policy::read("guide", block, &environment) {
            panic!("{error}\n{block}");
        }
    }
}
