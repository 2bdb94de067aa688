//! `/v1/consume` and `/v1/peek`: charges that callers name themselves.

use serde_json::{Value as Json, json};

use super::common::{Api, admitted, assert_problem, with};

/// Limits that are charged by name.
const NAMED: &str = "[identity]\ntenant = { header = \"x-tenant\" }\ntrusted_proxies = [\"192.0.2.9\"]\n\
    [tiers.free]\njobs = \"1/day\"\n[tiers.paid]\njobs = \"3/day\"\n\
    [[limit]]\nid = \"reports\"\nlayer = \"endpoint\"\nrate = \"100/day\"\n\
    [[limit]]\nid = \"jobs\"\nlayer = \"tenant\"\ncategory = \"jobs\"\n\
    [[limit]]\nid = \"slots\"\nlayer = \"endpoint\"\nrate = \"3/s\"\nalgorithm = \"concurrency\"\n\
    [[limit]]\nid = \"asleep\"\nlayer = \"endpoint\"\nrate = \"3/day\"\nenforce = \"off\"\n\
    [[limit]]\nid = \"gated\"\nlayer = \"endpoint\"\nrate = \"2/s\"\nblock_for = \"1h\"\n";

/// A charge by a rate of three a day that nothing refills.
fn three(key: &str) -> Json {
    json!({ "rate": "3/day", "algorithm": "fixed-window", "key": key })
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_thousand_charges_at_once_exactly_a_hundred_are_admitted() {
    let api = Api::start(NAMED);
    for charge in [json!({ "rate": "100/day", "key": "k" }), json!({ "limit": "reports", "key": "k" })] {
        let answers = api.ask_at_once("/v1/consume", vec![charge.clone(); 1_000]).await;
        assert!(answers.iter().all(|answer| answer.status == 200));
        assert_eq!(admitted(&answers), 100, "{charge}");
        let charged = answers.iter().filter(|answer| answer.json()["charged"] == true).count();
        assert_eq!(charged, 100, "{charge}");
        assert_eq!(api.peek(&charge).await["allowed"], false);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn costs_at_once_never_add_up_to_more_than_the_limit() {
    let api = Api::start(NAMED);
    let charges = (0..300).map(|n| json!({ "rate": "100/day", "key": "k", "cost": 1 + n % 7 })).collect();
    let answers = api.ask_at_once("/v1/consume", charges).await;
    let allowed = answers.iter().enumerate().filter(|(_, answer)| answer.json()["allowed"] == true);
    let sum: usize = allowed.map(|(n, _)| 1 + n % 7).sum();
    assert_eq!(sum, 100, "the ones of cost 1 fill it to the brim");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_charge_is_told_all_that_is_documented_and_no_more() {
    let api = Api::start(NAMED);
    for (charge, limit, layer) in [
        (three("k"), "adhoc", Json::Null),
        (json!({ "limit": "jobs", "tier": "paid", "key": "k" }), "jobs", json!("tenant")),
    ] {
        let mut told = api.consume(&charge).await;
        let members = told.as_object_mut().unwrap();
        assert!(members.remove("resetAt").unwrap().as_str().unwrap().ends_with('Z'));
        assert!(members.remove("receipt").unwrap().is_string());
        let expected = json!({
            "allowed": true, "charged": true, "limit": limit, "layer": layer, "capacity": 3, "remaining": 2,
            "retryAfterMs": 0, "source": "exact",
        });
        assert_eq!(told, expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_says_when_the_same_charge_is_allowed() {
    let api = Api::start(NAMED);
    api.consume(&with(&three("k"), &json!({ "cost": 2 }))).await;
    let refused = api.consume(&with(&three("k"), &json!({ "cost": 2 }))).await;
    assert_eq!((&refused["allowed"], &refused["charged"]), (&json!(false), &json!(false)));
    assert_eq!((&refused["remaining"], &refused["receipt"]), (&json!(1), &Json::Null));
    assert!(refused["retryAfterMs"].as_u64().unwrap() > 0, "{refused}");
    assert_eq!(api.consume(&three("k")).await["remaining"], 0, "a refusal is charged nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cost_that_can_never_fit_has_no_time_to_come_back() {
    let api = Api::start(NAMED);
    for charge in
        [with(&three("k"), &json!({ "cost": 4 })), json!({ "limit": "reports", "key": "k", "cost": 101 })]
    {
        for told in [api.consume(&charge).await, api.peek(&charge).await] {
            assert_eq!((&told["allowed"], &told["retryAfterMs"]), (&json!(false), &Json::Null), "{told}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_look_charges_nothing() {
    let api = Api::start(NAMED);
    for _ in 0..5 {
        let seen = api.peek(&three("k")).await;
        assert_eq!((&seen["allowed"], &seen["remaining"]), (&json!(true), &json!(3)), "{seen}");
        assert_eq!((&seen["charged"], &seen["receipt"]), (&json!(false), &Json::Null));
    }
    api.consume(&three("k")).await;
    assert_eq!(api.peek(&three("k")).await["remaining"], 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_algorithm_but_that_of_permits_counts_a_rate() {
    let api = Api::start(NAMED);
    for algorithm in ["token-bucket", "fixed-window", "calendar-window", "sliding-window", "sliding-log"] {
        let charge = json!({ "rate": "3/day", "algorithm": algorithm, "key": algorithm });
        for allowed in [true, true, true, false] {
            assert_eq!(api.consume(&charge).await["allowed"], allowed, "{algorithm}");
        }
    }
    let permits = json!({ "rate": "3/day", "algorithm": "concurrency", "key": "k" });
    let body = assert_problem(&api.ask("/v1/consume", &permits).await, 422, "cannot_be_charged");
    assert!(body["detail"].as_str().unwrap().contains("ask for a rate"), "{body}");
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_and_limits_are_counted_apart() {
    let api = Api::start(NAMED);
    assert_eq!(api.consume(&with(&three("a"), &json!({ "cost": 3 }))).await["remaining"], 0);
    assert_eq!(api.peek(&three("b")).await["remaining"], 3, "another key");
    assert_eq!(api.peek(&json!({ "limit": "reports", "key": "a" })).await["remaining"], 100, "another limit");
    let hourly = json!({ "rate": "3/hour", "algorithm": "fixed-window", "key": "a" });
    assert_eq!(api.peek(&hourly).await["remaining"], 3, "another period");
    let more = json!({ "rate": "5/day", "algorithm": "fixed-window", "key": "a" });
    assert_eq!(api.peek(&more).await["remaining"], 2, "more of the same period is the same count");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_a_caller_is_nobody_who_sends_requests() {
    let api = Api::start("[[limit]]\nid = \"people\"\nlayer = \"user\"\nrate = \"1/day\"\n");
    for key in ["alice", "192.0.2.7"] {
        assert_eq!(api.consume(&json!({ "limit": "people", "key": key })).await["remaining"], 0);
    }
    for more in [json!({ "user": "alice" }), json!({})] {
        let question = with(&super::common::request_for("/"), &more);
        assert_eq!(api.check(&question).await.status, 200, "{more}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_by_tier_has_the_rate_of_the_tier_that_is_named() {
    let api = Api::start(NAMED);
    for (tier, capacity) in [("free", 1), ("paid", 3)] {
        let charge = json!({ "limit": "jobs", "tier": tier, "key": tier });
        assert_eq!(api.consume(&charge).await["capacity"], capacity);
    }
    for (charge, what) in [
        (json!({ "limit": "jobs", "key": "k" }), "none was named"),
        (json!({ "limit": "jobs", "key": "k", "tier": "gold" }), "there is no tier \"gold\""),
    ] {
        let body = assert_problem(&api.ask("/v1/consume", &charge).await, 422, "cannot_be_charged");
        let detail = body["detail"].as_str().unwrap();
        assert!(detail.contains(what) && detail.contains("free, paid"), "{detail}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_limit_suggests_a_near_one() {
    let api = Api::start(NAMED);
    for (limit, remedy) in [("report", "did you mean \"reports\"?"), ("elephants", "send a `rate`")] {
        for path in ["/v1/consume", "/v1/peek"] {
            let answer = api.ask(path, &json!({ "limit": limit, "key": "k" })).await;
            let body = assert_problem(&answer, 404, "no_such_limit");
            assert!(body["detail"].as_str().unwrap().contains(remedy), "{body}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_charge_ends_and_what_is_off_cannot_be_charged() {
    let api = Api::start(NAMED);
    for (limit, remedy) in [("slots", "ask for a rate"), ("asleep", "set `enforce`")] {
        let answer = api.ask("/v1/consume", &json!({ "limit": limit, "key": "k" })).await;
        let body = assert_problem(&answer, 422, "cannot_be_charged");
        assert!(body["detail"].as_str().unwrap().contains(remedy), "{body}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_was_over_a_limit_with_a_block_is_kept_out_for_as_long() {
    let api = Api::start(NAMED);
    let charge = json!({ "limit": "gated", "key": "k" });
    let over = json!({ "limit": "gated", "key": "k", "cost": 2 });
    assert_eq!(api.consume(&charge).await["allowed"], true);
    let refused = api.consume(&over).await;
    assert_eq!(refused["allowed"], false, "one of two is left at most");
    // The rate would let it in within a second.
    assert!(refused["retryAfterMs"].as_u64().unwrap() > 1_000_000, "{refused}");
    for seen in [api.peek(&charge).await, api.consume(&charge).await] {
        assert_eq!(seen["allowed"], false);
        assert!(seen["retryAfterMs"].as_u64().unwrap() > 1_000_000, "{seen}");
    }
    assert_eq!(api.peek(&json!({ "limit": "gated", "key": "other" })).await["allowed"], true);
}
