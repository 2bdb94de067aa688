//! The rules that raise alarms: ready-made, replaced, and switched off.

use threshold::Span;
use threshold::policy::{AlertMetric, AlertTerms};

use super::policy;

fn terms(text: &str) -> Vec<AlertTerms> {
    policy(text).alert_terms()
}

fn of<'a>(terms: &'a [AlertTerms], id: &str) -> &'a AlertTerms {
    let mut found = terms.iter().filter(|terms| terms.id == id);
    let first = found.next().unwrap();
    assert_eq!(found.next(), None, "{id} is there twice");
    first
}

#[test]
fn the_ready_made_rules_are_there_without_a_word() {
    let terms = terms("");
    let numbers = |id: &str| {
        let rule = of(&terms, id);
        (rule.metric, rule.warning, rule.critical, rule.window)
    };
    assert_eq!(numbers("edge-blocks"), (AlertMetric::EdgeBlocks, Some(100), Some(1_000), Span::MINUTE));
    assert_eq!(numbers("tenant-blocks"), (AlertMetric::TenantBlocks, Some(50), Some(200), Span::MINUTE));
    assert_eq!(numbers("user-bans"), (AlertMetric::Bans, Some(10), Some(50), Span::HOUR));
    assert_eq!(numbers("single-ip-blocks"), (AlertMetric::SingleIpBlocks, Some(20), Some(100), Span::MINUTE));
    for id in ["store-down", "ledger-failing", "over-admission"] {
        assert_eq!(of(&terms, id).critical, Some(1));
    }
    assert_eq!(of(&terms, "archive-dropping").warning, Some(1));
    assert_eq!(terms.len(), 8);
}

#[test]
fn rules_of_ones_own_replace_those_of_the_same_name_and_come_beside_the_others() {
    let own = "[[alert]]\nid = \"user-bans\"\nmetric = \"bans\"\nwarning = 3\nper = \"min\"\nclear = \"50%\"\n\
               [[alert]]\nid = \"own\"\nmetric = \"refused\"\ncritical = 7\nhold = \"30s\"\nclear_for = \"5min\"\n";
    let both = terms(own);
    assert_eq!(both.len(), 9);
    let replaced = of(&both, "user-bans");
    assert_eq!((replaced.warning, replaced.critical, replaced.window), (Some(3), None, Span::MINUTE));
    assert_eq!((replaced.clear, replaced.clear_for, replaced.hold), (50, Span::MINUTE, Span::ZERO));
    let beside = of(&both, "own");
    assert_eq!(
        (beside.hold, beside.clear, beside.clear_for),
        (Span::from_secs(30), 80, Span::from_secs(300))
    );
    let alone = terms(&format!("{own}[alerts]\ndefaults = false\n"));
    assert_eq!(alone.iter().map(|rule| rule.id.as_str()).collect::<Vec<_>>(), ["user-bans", "own"]);
}
