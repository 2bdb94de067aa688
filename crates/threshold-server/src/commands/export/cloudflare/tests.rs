use super::*;

const ROUTES: &str = "[routes]\na = \"* /a/**\"\nb = \"POST /b\"\nall = \"* /**\"\nwide = \"* /*/b/**\"\n";

fn exported(limits: &str) -> Export {
    let policy = Policy::read("policy.toml", &format!("{limits}\n{ROUTES}"), &|_| None);
    export(&policy.unwrap_or_else(|error| panic!("{error:?}")))
}

fn limit(fields: &str) -> String {
    format!("[[limit]]\nid = \"one\"\nlayer = \"edge\"\n{fields}\n")
}

fn one(fields: &str) -> Rule {
    let mut export = exported(&limit(fields));
    assert!(export.left_out.is_empty(), "{fields}: {:?}", export.left_out);
    export.rules.remove(0)
}

fn why_not(fields: &str) -> String {
    let mut export = exported(&limit(fields));
    assert!(export.rules.is_empty(), "{fields}: {:?}", export.rules);
    export.left_out.remove(0).why
}

#[test]
fn a_rate_is_kept_or_lowered_and_what_differs_is_told() {
    for (rate, numbers, notes) in [
        ("1000/min", (60, 1000), &[][..]),
        ("50 per 5min", (300, 50), &[]),
        ("100/hour", (3600, 100), &[]),
        ("500/day", (65_535, 379), &["no period of 1d: it counts 379 per 65535 s, which is no more"]),
        ("60 per 7min", (300, 42), &["no period of 7min"]),
        ("20/s", (10, 200), &["no higher a rate, and lets 200 come at once"]),
        ("100/min burst 10", (60, 100), &["the burst of 10 is not kept: 100 may come at once"]),
        ("100/min burst 100", (60, 100), &[]),
    ] {
        let rule = one(&format!("rate = \"{rate}\"\nblock_for = \"1min\""));
        assert_eq!((rule.period, rule.requests), numbers, "{rate}");
        assert_eq!(rule.notes.len(), notes.len(), "{rate}: {:?}", rule.notes);
        for (note, part) in rule.notes.iter().zip(notes) {
            assert!(note.contains(part), "{rate}: {note}");
        }
    }
}

#[test]
fn no_rule_has_a_higher_rate_than_its_limit() {
    for count in [1, 2, 7, 59, 60, 1_000_003] {
        for seconds in [1, 9, 10, 11, 60, 61, 3_599, 3_601, 70_000, 86_400, 604_800] {
            for cost in [1, 2, 3, 60] {
                let rate = Rate::new(count, Span::from_secs(seconds)).unwrap();
                let Ok((period, requests)) = counted(&rate, cost, &mut Vec::new()) else { continue };
                let (rule, limit) = (requests * cost * seconds, count * period);
                assert!(rule <= limit, "{count} per {seconds} s at {cost}: {requests} per {period} s");
                assert!(rule + cost * seconds > limit, "it is the largest that is no more");
            }
        }
    }
}

#[test]
fn what_a_request_costs_is_divided_by() {
    let rule = one("rate = \"100/min\"\ncost = 20\nblock_for = \"1min\"");
    assert_eq!((rule.requests, rule.notes.len()), (5, 0));
    let rule = one("rate = \"100/min\"\ncost = 30\nblock_for = \"1min\"");
    assert_eq!(rule.requests, 3);
    assert!(rule.notes[0].contains("leaves a remainder"), "{:?}", rule.notes);
}

#[test]
fn a_block_is_as_long_as_the_policys_or_longer_if_there_is_one() {
    for (block, timeout, note) in [
        ("1min", 60, None),
        ("24h", 86_400, None),
        ("7s", 10, Some("does not block for 7s: it blocks for 10 s")),
        ("2h", 65_535, Some("does not block for 2h")),
        ("20h", 86_400, Some("blocks for 86400 s")),
        ("7 days", 86_400, Some("does not block for 7d")),
    ] {
        let rule = one(&format!("rate = \"10/min\"\nblock_for = \"{block}\""));
        assert_eq!(rule.timeout, timeout, "{block}");
        assert_eq!(rule.notes.len(), usize::from(note.is_some()), "{block}: {:?}", rule.notes);
        assert!(note.is_none_or(|part| rule.notes[0].contains(part)), "{:?}", rule.notes);
    }
    let without = one("rate = \"10 per 2min\"");
    assert_eq!(without.timeout, 120);
    assert!(without.notes[0].contains("no `block_for`"), "{:?}", without.notes);
}

#[test]
fn what_is_not_in_force_does_not_block() {
    let block = "rate = \"10/min\"\nblock_for = \"1min\"\n";
    let enforced = |how: &str| one(&format!("{block}enforce = \"{how}\""));
    for (how, blocks, enabled, part) in [
        ("off", true, false, "it is off"),
        ("observe", false, true, "the rule logs"),
        ("25%", false, true, "in force for 25 % of the addresses"),
    ] {
        let rule = enforced(how);
        assert_eq!((rule.blocks, rule.enabled), (blocks, enabled), "{how}");
        assert!(rule.notes[0].contains(part), "{how}: {:?}", rule.notes);
    }
    assert!(enforced("on").notes.is_empty());
}

#[test]
fn algorithms_that_are_lost_are_told() {
    for kind in ["sliding-log", "sliding-window", "calendar-window"] {
        let rule = one(&format!("rate = \"10/hour\"\nblock_for = \"1h\"\nalgorithm = \"{kind}\""));
        assert!(rule.notes[0].contains(&format!("{kind} is not kept")), "{:?}", rule.notes);
    }
    assert!(one("rate = \"10/min\"\nblock_for = \"1min\"\nalgorithm = \"fixed-window\"").notes.is_empty());
}

#[test]
fn what_cannot_be_said_is_left_out_with_its_reason() {
    assert!(why_not("per = \"everyone\"\nrate = \"10/min\"").contains("everyone together"));
    assert!(why_not("rate = \"1/day\"").contains("less than one request"));
    let many: Vec<String> =
        (0..80).map(|number| format!("\"* /{}{number}/**\"", "long".repeat(10))).collect();
    let limits = limit("route = \"many\"\nrate = \"10/min\"");
    let policy = format!("{limits}[routes]\nmany = [{}]\n", many.join(", "));
    let export = export(&Policy::read("policy.toml", &policy, &|_| None).unwrap());
    assert!(export.left_out[0].why.contains("of at most 4096; make several limits"), "{export:?}");
}

#[test]
fn unmatched_is_what_no_other_route_of_the_edge_matches() {
    let other = |route: &str| {
        format!("[[limit]]\nid = \"other\"\nlayer = \"edge\"\nroute = {route}\nrate = \"9/min\"\n")
    };
    let unmatched = limit("route = \"unmatched\"\nrate = \"10/min\"");
    let export = exported(&(unmatched.clone() + &other("[\"a\", \"b\"]")));
    let expected = "not (lower(http.request.uri.path) eq \"/a\" or starts_with(lower(http.request.uri.path), \"/a/\") or \
        (http.request.method in {\"POST\"} and (lower(http.request.uri.path) eq \"/b\" or \
        lower(http.request.uri.path) eq \"/b/\")))";
    assert_eq!(export.rules[0].expression, expected);
    assert_eq!(exported(&unmatched).rules[0].expression, "true");
    for (route, part) in [("\"all\"", "it is for none"), ("\"wide\"", "cannot say")] {
        let export = exported(&(unmatched.clone() + &other(route)));
        assert!(export.left_out[0].why.contains(part), "{:?}", export.left_out);
    }
    assert!(
        one("route = \"wide\"\nrate = \"9/min\"").notes.iter().any(|note| note.contains("may hold slashes"))
    );
}

#[test]
fn who_is_always_allowed_is_not_counted() {
    let lists = "[lists]\nallow = [\"10.0.0.0/8\", \"192.0.2.7\"]\ndeny = [\"203.0.113.0/24\"]\n";
    let export = exported(&(limit("rate = \"10/min\"") + lists));
    assert_eq!(export.rules[0].expression, "not ip.src in {10.0.0.0/8 192.0.2.7/32}");
    assert!(export.remarks.iter().any(|remark| remark.contains("[lists].deny")));
    assert_eq!(export.plan(), Plan::Business);
}

#[test]
fn the_least_plan_that_has_all_of_it_is_named() {
    for (fields, plan) in [
        ("rate = \"10 per 10s\"\nblock_for = \"10s\"\nroute = \"a\"", Plan::Free),
        ("rate = \"10/min\"\nblock_for = \"1h\"", Plan::Pro),
        ("rate = \"10 per 10s\"\nblock_for = \"10s\"\nroute = \"b\"", Plan::Business),
        ("rate = \"10 per 5min\"\nblock_for = \"1h\"", Plan::Business),
        ("rate = \"10/min\"\nblock_for = \"24h\"", Plan::Business),
        ("rate = \"10/hour\"\nblock_for = \"1h\"", Plan::Enterprise),
        ("rate = \"10 per 10s\"\nblock_for = \"10s\"\nenforce = \"observe\"", Plan::Enterprise),
    ] {
        assert_eq!(exported(&limit(fields)).plan(), plan, "{fields}");
    }
}

#[test]
fn a_refusal_is_told_as_everywhere_else() {
    let rule =
        one("rate = \"10/min\"\nblock_for = \"5min\"\nerror = \"too_fast\"\ndescription = \"For all.\"");
    let body: serde_json::Value = serde_json::from_str(&rule.body).unwrap();
    let expected = serde_json::json!({
        "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
        "title": "Request cannot be satisfied as assigned quota has been exceeded",
        "status": 429, "error": "too_fast", "detail": "the limit one allows 10/min",
        "violated-policies": ["one"], "retryAfter": 300, "remaining": 0,
    });
    assert_eq!(body, expected);
    assert_eq!(rule.description, "one: 10/min for each address: For all.");
}
