//! `/v1/refund`: what was charged is given back, once.

use serde_json::{Value as Json, json};

use super::common::{Api, assert_problem, with};

const NAMED: &str = "[[limit]]\nid = \"reports\"\nlayer = \"endpoint\"\nrate = \"10/day\"\nalgorithm = \"fixed-window\"\n\
                     [[limit]]\nid = \"others\"\nlayer = \"endpoint\"\nrate = \"10/day\"\nalgorithm = \"fixed-window\"\n";

/// Charges of four by a count of ten that nothing refills: by a limit of the policy, and by a rate.
fn charges() -> [Json; 2] {
    [
        json!({ "limit": "reports", "key": "k", "cost": 4 }),
        json!({ "rate": "10/day", "algorithm": "fixed-window", "key": "k", "cost": 4 }),
    ]
}

/// Charges, and the receipt for it.
async fn receipt(api: &Api, charge: &Json) -> Json {
    json!({ "receipt": api.consume(charge).await["receipt"] })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receipt_gives_back_once() {
    let api = Api::start(NAMED);
    for charge in charges() {
        let back = with(&charge, &receipt(&api, &charge).await);
        assert_eq!(api.peek(&charge).await["remaining"], 6);
        let refunded = api.ask("/v1/refund", &back).await;
        assert_eq!((refunded.status.as_u16(), &refunded.json()["remaining"]), (200, &json!(10)), "{charge}");
        assert_eq!(refunded.json()["receipt"], Json::Null);
        let body = assert_problem(&api.ask("/v1/refund", &back).await, 409, "receipt_used");
        assert!(body["detail"].as_str().unwrap().contains("used already"), "{body}");
        assert_eq!(api.peek(&charge).await["remaining"], 10);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_at_once_with_one_receipt_one_gives_back() {
    let api = Api::start(NAMED);
    let [charge, _] = charges();
    api.consume(&charge).await;
    let back = with(&charge, &receipt(&api, &charge).await);
    let answers = api.ask_at_once("/v1/refund", vec![back; 50]).await;
    assert_eq!(answers.iter().filter(|answer| answer.status == 200).count(), 1);
    assert_eq!(answers.iter().filter(|answer| answer.status == 409).count(), 49);
    assert_eq!(api.peek(&charge).await["remaining"], 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn less_than_was_charged_may_be_given_back() {
    let api = Api::start(NAMED);
    for charge in charges() {
        let back = with(&with(&charge, &receipt(&api, &charge).await), &json!({ "cost": 1 }));
        assert_eq!(api.ask("/v1/refund", &back).await.json()["remaining"], 7, "{charge}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receipt_is_for_its_own_limit_and_key() {
    let api = Api::start(NAMED);
    for charge in charges() {
        let back = with(&charge, &receipt(&api, &charge).await);
        let mut elsewhere = back.clone();
        for name in ["limit", "rate", "algorithm"] {
            elsewhere.as_object_mut().unwrap().remove(name);
        }
        for wrong in [
            with(&back, &json!({ "key": "other" })),
            with(&elsewhere, &json!({ "limit": "others" })),
            with(&elsewhere, &json!({ "rate": "10/hour" })),
            with(&back, &json!({ "receipt": "nonsense" })),
            with(
                &back,
                &json!({ "receipt": "6434c01a2b3c4.4.89abcdef01234567.0123456789abcdef0123456789abcdef" }),
            ),
        ] {
            let body = assert_problem(&api.ask("/v1/refund", &wrong).await, 422, "bad_receipt");
            assert!(
                body["detail"].as_str().unwrap().contains("send back the one that came with it"),
                "{body}"
            );
        }
        assert_eq!(api.ask("/v1/refund", &back).await.status, 200, "nothing wrong used it up");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_than_was_charged_can_be_given_back() {
    let api = Api::start(NAMED);
    for charge in charges() {
        let back = with(&charge, &receipt(&api, &charge).await);
        let more = with(&back, &json!({ "cost": 5 }));
        let body = assert_problem(&api.ask("/v1/refund", &more).await, 422, "bad_receipt");
        assert!(body["detail"].as_str().unwrap().starts_with("4 were charged"), "{body}");
        let receipt = back["receipt"].as_str().unwrap();
        let forged = receipt.replacen(".4.", ".5.", 1);
        assert_ne!(forged, receipt);
        let answer = api.ask("/v1/refund", &with(&more, &json!({ "receipt": forged }))).await;
        assert_problem(&answer, 422, "bad_receipt");
        assert_eq!(api.peek(&charge).await["remaining"], 6);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receipt_of_a_batch_gives_back_its_part() {
    let api = Api::start(NAMED);
    let [by_limit, by_rate] = charges();
    let charged = api.consume(&json!({ "batch": [by_limit, by_rate] })).await;
    let back = with(&by_rate, &json!({ "receipt": charged["results"][1]["receipt"] }));
    assert_eq!(api.ask("/v1/refund", &back).await.json()["remaining"], 10);
    assert_eq!(api.peek(&by_limit).await["remaining"], 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn charges_of_one_cost_at_one_instant_have_receipts_of_their_own() {
    let api = Api::start(NAMED);
    for charge in charges() {
        let charged = api.consume(&json!({ "batch": [charge, charge] })).await;
        for (place, left) in [(0, 6), (1, 10)] {
            let back = with(&charge, &json!({ "receipt": charged["results"][place]["receipt"] }));
            assert_eq!(api.ask("/v1/refund", &back).await.json()["remaining"], left, "{charge}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refund_needs_one_charge_and_its_receipt() {
    let api = Api::start(NAMED);
    let [charge, _] = charges();
    let batch = json!({ "batch": [charge], "receipt": "6434c01a2b3c4.4.89abcdef01234567.0123456789abcdef0123456789abcdef" });
    for (question, remedy) in [(charge, "needs the `receipt`"), (batch, "one by one")] {
        let body = assert_problem(&api.ask("/v1/refund", &question).await, 400, "bad_request");
        assert!(body["detail"].as_str().unwrap().contains(remedy), "{body}");
    }
}
