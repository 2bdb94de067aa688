//! Many charges as one.

use std::collections::HashMap;

use serde_json::{Value as Json, json};

use super::common::{Api, assert_problem};
use crate::support::client::Answered;

const NAMED: &str =
    "[[limit]]\nid = \"reports\"\nlayer = \"endpoint\"\nrate = \"3/day\"\nalgorithm = \"fixed-window\"\n";

/// A charge of `cost` to `key` by a count of `capacity` that nothing refills.
fn charge(key: &str, cost: u64, capacity: u64) -> Json {
    json!({ "rate": format!("{capacity}/day"), "algorithm": "fixed-window", "key": key, "cost": cost })
}

fn results(answer: &Json) -> &Vec<Json> {
    answer["results"].as_array().unwrap()
}

/// What is left of `key`, by a look.
async fn left(api: &Api, key: &str, capacity: u64) -> u64 {
    api.peek(&charge(key, 1, capacity)).await["remaining"].as_u64().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_is_charged_whole_or_not_at_all() {
    let api = Api::start(NAMED);
    let batch =
        json!({ "batch": [charge("a", 1, 3), charge("b", 2, 3), { "limit": "reports", "key": "c" }] });
    for (allowed, a) in [(true, 2), (false, 2)] {
        let answer = api.consume(&batch).await;
        assert_eq!((&answer["allowed"], &answer["atomic"]), (&json!(allowed), &json!(true)));
        assert!(results(&answer).iter().all(|one| one["charged"] == allowed), "{answer}");
        assert!(results(&answer).iter().all(|one| one["receipt"].is_string() == allowed), "{answer}");
        assert_eq!(left(&api, "a", 3).await, a);
    }
    let refused = api.consume(&batch).await;
    let each: Vec<_> = results(&refused).iter().map(|one| one["allowed"] == true).collect();
    assert_eq!(each, [true, false, true], "each is told by its own limit");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_atomic_each_is_charged_by_itself() {
    let api = Api::start(NAMED);
    let batch = json!({
        "atomic": false,
        "batch": [charge("a", 2, 3), charge("a", 2, 3), charge("a", 1, 3), { "limit": "reports", "key": "a" }],
    });
    let answer = api.consume(&batch).await;
    assert_eq!((&answer["allowed"], &answer["atomic"]), (&json!(false), &json!(false)));
    let charged: Vec<_> = results(&answer).iter().map(|one| one["charged"] == true).collect();
    assert_eq!(charged, [true, false, true, true]);
    assert_eq!(left(&api, "a", 3).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn charges_of_one_batch_to_one_key_add_up() {
    let api = Api::start(NAMED);
    let twice = json!({ "batch": [charge("a", 2, 3), charge("a", 2, 3)] });
    assert_eq!(api.consume(&twice).await["allowed"], false);
    assert_eq!(left(&api, "a", 3).await, 3);
    let fits = json!({ "batch": [charge("a", 2, 3), charge("a", 1, 3)] });
    assert_eq!(api.consume(&fits).await["allowed"], true);
    assert_eq!(left(&api, "a", 3).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_of_looks_charges_nothing() {
    let api = Api::start(NAMED);
    for atomic in [true, false] {
        let seen =
            api.peek(&json!({ "atomic": atomic, "batch": [charge("a", 3, 3), charge("b", 4, 3)] })).await;
        let each: Vec<_> = results(&seen).iter().map(|one| one["allowed"] == true).collect();
        assert_eq!(each, [true, false]);
        assert!(results(&seen).iter().all(|one| one["charged"] == false));
    }
    assert_eq!(left(&api, "a", 3).await, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_charges_are_answered_in_their_order() {
    let api = Api::start(NAMED);
    for atomic in [true, false] {
        let key = |n: u64| format!("{atomic}-{n}");
        let batch: Vec<_> = (1..=1_000).map(|n| charge(&key(n), n, 1_000 + n)).collect();
        let answer = api.consume(&json!({ "batch": batch, "atomic": atomic })).await;
        let capacities: Vec<_> =
            results(&answer).iter().map(|one| one["capacity"].as_u64().unwrap()).collect();
        assert_eq!(capacities, (1_001..=2_000).collect::<Vec<u64>>());
        assert!(
            results(&answer).iter().all(|one| one["remaining"] == 1_000),
            "each was charged its own cost"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn none_and_more_than_a_thousand_are_refused_whole() {
    let api = Api::start(NAMED);
    for (count, atomic) in [(0, true), (1_001, true), (1_001, false)] {
        let batch = vec![charge("a", 1, 3); count];
        for path in ["/v1/consume", "/v1/peek"] {
            let answer = api.ask(path, &json!({ "batch": batch, "atomic": atomic })).await;
            let body = assert_problem(&answer, 400, "bad_request");
            assert!(body["detail"].as_str().unwrap().contains("1 to 1000"), "{body}");
        }
    }
    assert_eq!(left(&api, "a", 3).await, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_cannot_be_charged_is_named_and_none_is_charged() {
    let api = Api::start(NAMED);
    for (wrong, status) in [
        (json!({ "limit": "report", "key": "k" }), 404),
        (json!({ "rate": "3/day", "algorithm": "concurrency", "key": "k" }), 422),
        (json!({ "rate": "3/fortnight", "key": "k" }), 400),
        (json!({ "rate": "3/day", "key": "" }), 400),
    ] {
        for atomic in [true, false] {
            let batch = json!({ "atomic": atomic, "batch": [charge("a", 1, 3), wrong] });
            let answer = api.ask("/v1/consume", &batch).await;
            assert_eq!(answer.status, status, "{batch}: {}", answer.text());
            assert_eq!(answer.json()["place"], 1, "{batch}: {}", answer.text());
            assert_eq!(left(&api, "a", 3).await, 3, "{batch}");
        }
    }
}

/// The keys that batches overlap on, and what each holds.
const KEYS: u64 = 8;
const CAPACITY: u64 = 40;

/// The batch number `n`: three keys, in another order each time, with costs of 1 to 3.
fn overlapping(n: u64) -> Vec<(String, u64)> {
    (0..3)
        .map(|place| (format!("key-{}", (n * (place + 1) + place * 5) % KEYS), 1 + (n + place) % 3))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_at_once_over_the_same_keys_are_never_charged_by_halves() {
    let api = Api::start(NAMED);
    let asked: Vec<Vec<(String, u64)>> = (0..400).map(overlapping).collect();
    let questions = asked.iter().map(|batch| {
        let batch: Vec<_> = batch.iter().map(|(key, cost)| charge(key, *cost, CAPACITY)).collect();
        json!({ "batch": batch })
    });
    let answers = api.ask_at_once("/v1/consume", questions.collect()).await;
    let admitted: Vec<bool> = answers.iter().map(whole_or_nothing).collect();
    assert!(admitted.contains(&true) && admitted.contains(&false), "some of them have to be refused");
    let mut sums: HashMap<&str, u64> = HashMap::new();
    for (batch, _) in asked.iter().zip(&admitted).filter(|(_, admitted)| **admitted) {
        batch.iter().for_each(|(key, cost)| *sums.entry(key).or_default() += cost);
    }
    for n in 0..KEYS {
        let key = format!("key-{n}");
        let charged = sums.get(key.as_str()).copied().unwrap_or_default();
        assert_eq!(left(&api, &key, CAPACITY).await, CAPACITY - charged, "{key}: {sums:?}");
    }
}

/// Whether a batch was admitted, which all of its parts agree on.
fn whole_or_nothing(answer: &Answered) -> bool {
    let body = answer.json();
    let allowed = body["allowed"] == true;
    assert!(results(&body).iter().all(|one| one["charged"] == allowed), "{body}");
    allowed
}
