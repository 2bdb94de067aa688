//! Limits that another one keeps from ever refusing, and limits that only look like it.

use threshold::policy::Severity;

use crate::policy;

/// Who hides whom, as `hidden by hider`, among the limits of a policy.
fn hidden(text: &str) -> Vec<String> {
    let about_reach = ["never refuses while", "contradicts", "repeats"];
    let findings = policy(text).lint().into_iter();
    let told = findings.filter(|finding| about_reach.iter().any(|words| finding.what.contains(words)));
    told.inspect(|finding| assert_eq!(finding.severity, Severity::Warning))
        .map(|finding| format!("{} by {}", finding.limits[0], finding.limits[1]))
        .collect()
}

/// Two limits for every request by address.
fn two(a: &str, b: &str) -> Vec<String> {
    let limit = |id: &str, rest: &str| {
        format!("[[limit]]\nid = \"{id}\"\nlayer = \"user\"\nper = \"ip\"\nrate = {rest}\n")
    };
    hidden(&(limit("a", a) + &limit("b", b)))
}

#[test]
fn a_bucket_is_hidden_by_one_that_holds_less_and_fills_slower() {
    assert_eq!(two("\"30/min\"", "\"10/hour\""), ["a by b"]);
    assert_eq!(two("\"100/day\"", "\"50/day\""), ["a by b"]);
    assert_eq!(two("\"50/day\"", "\"100/day\""), ["b by a"]);
    // A burst of ten a second, a hundred an hour: each refuses something that the other lets through.
    assert_eq!(two("\"10/s\"", "\"100/hour\""), [""; 0]);
    assert_eq!(two("\"100/min burst 10\"", "\"50/min\""), [""; 0]);
    // One more than the other lets through at once, but for the flow the same.
    assert_eq!(two("\"100/min burst 51\"", "\"100/min burst 50\""), ["a by b"]);
}

#[test]
fn windows_and_logs_are_compared_by_what_passes_in_their_period() {
    let log = "\nalgorithm = \"sliding-log\"";
    assert_eq!(two(&format!("\"199/min\"{log}"), "\"100/min\""), ["a by b"]);
    assert_eq!(two(&format!("\"198/min\"{log}"), "\"100/min\""), [""; 0]);
    let window = "\nalgorithm = \"fixed-window\"";
    // Two windows can meet: a bucket of 20 takes both, one of 19 does not.
    assert_eq!(two("\"20/min\"", &format!("\"10/min\"{window}")), ["a by b"]);
    assert_eq!(two("\"19/min\"", &format!("\"10/min\"{window}")), [""; 0]);
    let sliding = "\nalgorithm = \"sliding-window\"";
    assert_eq!(two(&format!("\"20/min\"{sliding}"), &format!("\"10 per 2min\"{log}")), ["a by b"]);
    assert_eq!(two(&format!("\"15/min\"{sliding}"), &format!("\"10/min\"{log}")), [""; 0]);
    let permits = "\nalgorithm = \"concurrency\"";
    assert_eq!(two(&format!("\"9 per 30s\"{permits}"), &format!("\"5 per 60s\"{permits}")), ["a by b"]);
    assert_eq!(two(&format!("\"9 per 60s\"{permits}"), &format!("\"5 per 30s\"{permits}")), [""; 0]);
    assert_eq!(two(&format!("\"9 per 30s\"{permits}"), "\"5 per 60s\""), [""; 0]);
}

#[test]
fn what_a_request_costs_counts() {
    assert_eq!(two("\"100/min\"\ncost = 2", "\"49/min\""), ["a by b"]);
    assert_eq!(two("\"100/min\"\ncost = 3", "\"50/min\""), ["b by a"]);
    assert_eq!(two("\"100/min\"", "\"200/min\"\ncost = 2"), ["b by a"]);
    // Bytes and requests say nothing about each other.
    assert_eq!(two("\"1TB/s\"", "\"1/day\""), [""; 0]);
    assert_eq!(two("\"50MB/day\"", "\"10MB/day\""), ["a by b"]);
}

#[test]
fn numbers_at_their_largest_are_compared_without_overflow() {
    assert_eq!(two("\"274877906943/s\"\ncost = 1000000", "\"274877906942/s\""), ["b by a"]);
    assert_eq!(two("\"1/s\"", "\"274877906943 per 3000 days\""), ["b by a"]);
}

#[test]
fn two_that_say_the_same_or_something_else_about_the_same_are_named() {
    let what = |a: &str, b: &str| {
        let limit = |id: &str, rate: &str| {
            format!("[[limit]]\nid = \"{id}\"\nlayer = \"user\"\nper = \"ip\"\nrate = \"{rate}\"\n")
        };
        let findings = policy(&(limit("a", a) + &limit("b", b))).lint();
        findings.into_iter().find(|finding| finding.severity == Severity::Warning).unwrap().what
    };
    assert_eq!(
        what("30/min", "10/min"),
        "it contradicts `b`: 30/min here and 10/min there, for the same requests and subjects; only 10/min ever refuses"
    );
    assert_eq!(what("30/min", "30/min"), "it repeats `a`: the same rate for the same requests and subjects");
}

#[test]
fn only_a_subject_that_holds_the_other_hides_it() {
    let two = |a: &str, b: &str| {
        let limit = |id: &str, per: &str, rate: &str| {
            format!("[[limit]]\nid = \"{id}\"\nlayer = \"user\"\nper = {per}\nrate = \"{rate}\"\n")
        };
        let identity = "[identity]\nuser = { cookie = \"u\" }\ntenant = { host_label = true }\n";
        hidden(&(identity.to_owned() + &limit("a", a, "100/min") + &limit("b", b, "10/min")))
    };
    assert_eq!(two("\"ip\"", "\"everyone\""), ["a by b"]);
    assert_eq!(two("[\"account\", \"ip\"]", "\"ip\""), ["a by b"]);
    assert_eq!(two("[\"account\", \"ip\"]", "[\"ip\", \"account\"]"), ["a by b"]);
    assert_eq!(two("\"everyone\"", "\"ip\""), [""; 0]);
    assert_eq!(two("\"ip\"", "\"user\""), [""; 0]);
    assert_eq!(two("\"user\"", "\"ip\""), [""; 0]);
    // The anonymous of one address may ask several tenants.
    assert_eq!(two("\"user\"", "\"tenant\""), [""; 0]);
}

/// A limit on one route and one on another, of the given layers.
fn routed((a_layer, a): (&str, &str), (b_layer, b): (&str, &str)) -> Vec<String> {
    let routes = "[routes]\nposts = \"POST /api/posts\"\napi = \"* /api/**\"\nother = \"GET /api/posts\"\n\
                  hosted = { host = \"a.example.com\", path = \"* /**\" }\n";
    let limit = |id: &str, layer: &str, rate: &str, route: &str| {
        format!("[[limit]]\nid = \"{id}\"\nlayer = \"{layer}\"\nper = \"ip\"\nrate = \"{rate}\"\n{route}\n")
    };
    hidden(&(routes.to_owned() + &limit("a", a_layer, "100/day", a) + &limit("b", b_layer, "50/day", b)))
}

#[test]
fn only_a_limit_that_every_request_meets_hides_it() {
    let (posts, api, other) = ("route = \"posts\"", "route = \"api\"", "route = \"other\"");
    assert_eq!(routed(("endpoint", posts), ("user", posts)), ["a by b"]);
    assert_eq!(routed(("endpoint", posts), ("user", "")), ["a by b"]);
    assert_eq!(routed(("endpoint", posts), ("user", api)), ["a by b"]);
    assert_eq!(routed(("endpoint", "route = [\"posts\", \"other\"]"), ("user", api)), ["a by b"]);
    assert_eq!(routed(("endpoint", api), ("user", posts)), [""; 0]);
    assert_eq!(routed(("endpoint", posts), ("user", other)), [""; 0]);
    assert_eq!(routed(("endpoint", posts), ("user", "route = \"hosted\"")), [""; 0]);
    assert_eq!(routed(("endpoint", "route = \"unmatched\""), ("user", "")), ["a by b"]);
    assert_eq!(routed(("endpoint", "route = \"unmatched\""), ("user", "route = \"unmatched\"")), [""; 0]);
}

#[test]
fn the_edge_counts_what_later_layers_refuse() {
    assert_eq!(routed(("edge", ""), ("user", "")), [""; 0]);
    assert_eq!(routed(("user", ""), ("edge", "")), ["a by b"]);
    assert_eq!(routed(("edge", ""), ("edge", "")), ["a by b"]);
}

#[test]
fn a_limit_that_is_not_in_force_hides_nothing() {
    assert_eq!(two("\"30/min\"", "\"10/hour\"\nenforce = \"observe\""), [""; 0]);
    assert_eq!(two("\"30/min\"", "\"10/hour\"\nenforce = \"50%\""), [""; 0]);
    assert_eq!(two("\"30/min\"\nenforce = \"observe\"", "\"10/hour\""), ["a by b"]);
    assert_eq!(two("\"30/min\"\nenforce = \"off\"", "\"10/hour\""), [""; 0]);
}

#[test]
fn nodes_that_count_for_themselves_let_more_through() {
    let text = |nodes: &str| {
        format!(
            "[store]\nurl = \"redis://localhost\"\nsecret = \"0123456789abcdef\"\n{nodes}\n\
             [[limit]]\nid = \"a\"\nlayer = \"user\"\nper = \"ip\"\nrate = \"100/min\"\n\
             [[limit]]\nid = \"b\"\nlayer = \"edge\"\nrate = \"50/min\"\n"
        )
    };
    assert_eq!(hidden(&text("nodes = 2")), ["a by b"]);
    assert_eq!(hidden(&text("nodes = 3")), [""; 0]);
    assert_eq!(hidden(&text("")), [""; 0]);
}

#[test]
fn the_users_of_a_small_tier_are_noted() {
    let text = "[identity]\ntenant = { host_label = true }\nuser = { cookie = \"u\" }\nunknown_tier = \"free\"\n\
                [tenants]\nacme = \"paid\"\n[tiers.free]\nai = \"25/day\"\n[tiers.paid]\nai = \"100/day\"\n\
                [[limit]]\nid = \"tenant-ai\"\nlayer = \"tenant\"\ncategory = \"ai\"\n\
                [[limit]]\nid = \"ai\"\nlayer = \"user\"\nrate = \"50/day\"\n";
    let findings = policy(text).lint();
    let found = findings.iter().find(|finding| finding.limits == ["ai", "tenant-ai"]).unwrap();
    assert_eq!(found.severity, Severity::Note);
    assert_eq!(
        found.what,
        "a signed-in user of a known tenant never reaches it in the tiers `free` (25/day): \
         `tenant-ai` gives the whole tenant no more"
    );
}
