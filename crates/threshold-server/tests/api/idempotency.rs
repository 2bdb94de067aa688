//! Questions with a name: whoever repeats one is answered as before, and charged once.

use serde_json::{Value as Json, json};

use super::common::{Api, assert_problem, with};
use crate::support::wire::until;

const TWO_KEYS: &str = "[api]\nkeys = { web = \"key-of-the-website-1\", jobs = \"key-of-the-jobs-2\" }\n";

/// A charge by a count of a hundred that nothing refills.
fn hundred() -> Json {
    json!({ "rate": "100/day", "algorithm": "fixed-window", "key": "k", "cost": 10 })
}

fn named(name: &str) -> Json {
    with(&hundred(), &json!({ "idempotencyKey": name }))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_is_answered_byte_for_byte_and_charged_once() {
    let api = Api::start("");
    let first = api.ask("/v1/consume", &named("order-1")).await;
    api.consume(&hundred()).await;
    for _ in 0..3 {
        let repeat = api.ask("/v1/consume", &named("order-1")).await;
        assert_eq!((repeat.status, &repeat.body), (first.status, &first.body));
    }
    assert_eq!(api.peek(&hundred()).await["remaining"], 80, "the first, and the one without a name");
    assert_eq!(api.consume(&named("order-2")).await["remaining"], 70);
}

#[tokio::test(flavor = "multi_thread")]
async fn repeats_at_once_are_answered_alike_and_charged_once() {
    let api = Api::start("");
    let answers = api.ask_at_once("/v1/consume", vec![named("order-1"); 50]).await;
    assert!(answers.iter().all(|answer| answer.status == 200 && answer.body == answers[0].body));
    assert_eq!(api.peek(&hundred()).await["remaining"], 90);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_batch_is_charged_once() {
    let api = Api::start("");
    let batch = json!({ "batch": [hundred(), hundred()], "idempotencyKey": "order-1" });
    let first = api.ask("/v1/consume", &batch).await;
    assert_eq!(api.ask("/v1/consume", &batch).await.body, first.body);
    assert_eq!(api.peek(&hundred()).await["remaining"], 80);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_is_repeated_as_well() {
    let api = Api::start("");
    let large = with(&named("order-1"), &json!({ "cost": 60 }));
    assert_eq!(api.consume(&with(&hundred(), &json!({ "cost": 60 }))).await["remaining"], 40);
    let refused = api.ask("/v1/consume", &large).await;
    assert_eq!(refused.json()["allowed"], false);
    assert_eq!(api.ask("/v1/consume", &large).await.body, refused.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_question_under_the_same_name_is_refused() {
    let api = Api::start("");
    api.consume(&named("order-1")).await;
    for other in [json!({ "cost": 11 }), json!({ "key": "other" }), json!({ "idempotencyTtlMs": 5_000 })] {
        let answer = api.ask("/v1/consume", &with(&named("order-1"), &other)).await;
        let body = assert_problem(&answer, 422, "idempotency_mismatch");
        assert!(body["detail"].as_str().unwrap().contains("choose a new one"), "{body}");
    }
    assert_eq!(api.peek(&hundred()).await["remaining"], 90);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_question_in_another_spelling_is_the_same() {
    let api = Api::start("");
    let first = api.ask("/v1/consume", &named("order-1")).await;
    let spelled = "{ \"idempotencyKey\": \"order-1\",\n \"key\": \"\\u006b\", \"cost\": 10,\n\
                   \"algorithm\": \"fixed-window\", \"rate\": \"100/day\" }";
    let request = api.client.request("POST", "/v1/consume", &[super::common::JSON], spelled);
    assert_eq!(api.client.send(request).await.body, first.body);
    assert_eq!(api.peek(&hundred()).await["remaining"], 90);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_could_not_be_answered_may_be_put_right_under_its_name() {
    let api = Api::start("");
    let wrong = json!({ "limit": "none", "key": "k", "idempotencyKey": "order-1" });
    assert_problem(&api.ask("/v1/consume", &wrong).await, 404, "no_such_limit");
    let right = api.ask("/v1/consume", &named("order-1")).await;
    assert_eq!(right.json()["remaining"], 90);
    assert_eq!(api.ask("/v1/consume", &named("order-1")).await.body, right.body);
    assert_problem(&api.ask("/v1/consume", &wrong).await, 422, "idempotency_mismatch");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_is_forgotten_after_its_lifetime() {
    let api = Api::start("");
    let short = with(&named("order-1"), &json!({ "idempotencyTtlMs": 1 }));
    assert_eq!(api.consume(&short).await["remaining"], 90);
    let again = until(|| async {
        let answer = api.consume(&short).await;
        (answer["remaining"] != 90).then_some(answer)
    })
    .await;
    assert_eq!(again["remaining"], 80);
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_do_not_share_names() {
    let api = Api::start(TWO_KEYS);
    for (key, left) in [("key-of-the-website-1", 90), ("key-of-the-jobs-2", 80), ("key-of-the-website-1", 90)]
    {
        let answer = api.ask_as(key, "/v1/consume", &named("order-1")).await;
        assert_eq!((answer.status.as_u16(), &answer.json()["remaining"]), (200, &json!(left)), "{key}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_refund_is_answered_as_the_first() {
    let api = Api::start("");
    let receipt = api.consume(&hundred()).await["receipt"].clone();
    let back = with(&hundred(), &json!({ "receipt": receipt, "idempotencyKey": "order-1" }));
    let first = api.ask("/v1/refund", &back).await;
    assert_eq!(first.json()["remaining"], 100);
    assert_eq!(api.ask("/v1/refund", &back).await.body, first.body, "no complaint about a used receipt");
    assert_eq!(
        api.consume(&named("order-1")).await["remaining"],
        90,
        "a charge of that name is another matter"
    );
}
