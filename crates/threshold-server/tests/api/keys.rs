//! Who may ask: whoever shows one of the policy's keys.

use serde_json::json;

use super::common::{Api, JSON, assert_problem};
use crate::support::client::Answered;

const WEB: &str = "key-of-the-website-1";
const JOBS: &str = "key-of-the-jobs-2";
const KEYS: &str = "[api]\nkeys = { web = \"key-of-the-website-1\", jobs = \"${JOBS_KEY}\" }\n\
                    [identity]\ntrusted_proxies = [\"127.0.0.1\"]\n";

fn start() -> Api {
    Api::with(KEYS, &[("JOBS_KEY", JOBS)])
}

/// Charges with these headers.
async fn consume(api: &Api, headers: &[(&str, &str)]) -> Answered {
    let body = json!({ "rate": "100/day", "key": "k" }).to_string();
    let headers = [&[JSON], headers].concat();
    api.client.send(api.client.request("POST", "/v1/consume", &headers, &body)).await
}

#[track_caller]
fn assert_unknown(answer: &Answered, what: &str) {
    let body = assert_problem(answer, 401, "unauthorized");
    assert_eq!(answer.header("www-authenticate"), "Bearer");
    assert!(body["detail"].as_str().unwrap().contains(what), "{body}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_question_needs_a_key_where_there_are_some() {
    let api = start();
    for path in ["/v1/check", "/v1/consume", "/v1/peek", "/v1/refund", "/v1/login"] {
        assert_unknown(&api.ask(path, &json!({})).await, "a key is needed; send one of [api].keys");
    }
    assert_unknown(&api.client.get("/v1/forward-auth").await, "let the proxy send");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_may_stand_in_either_header() {
    let api = start();
    for key in [WEB, JOBS] {
        for (name, value) in [
            ("x-threshold-key", key.to_owned()),
            ("authorization", format!("Bearer {key}")),
            ("authorization", format!("bearer  {key} ")),
        ] {
            assert_eq!(consume(&api, &[(name, &value)]).await.status, 200, "{name}: {value}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_key_of_ours_is_refused() {
    let api = start();
    let longer = format!("{WEB}x");
    for key in ["", "key-of-the-website", &longer, "KEY-OF-THE-WEBSITE-1", "web"] {
        assert_unknown(&consume(&api, &[("x-threshold-key", key)]).await, "this key is none of ours");
        assert_eq!(consume(&api, &[("authorization", &format!("Bearer {key}"))]).await.status, 401, "{key}");
    }
    assert_unknown(&consume(&api, &[("authorization", &format!("Basic {WEB}"))]).await, "a key is needed");
    let both = [("x-threshold-key", "wrong"), ("authorization", "Bearer key-of-the-website-1")];
    assert_unknown(&consume(&api, &both).await, "this key is none of ours");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxys_key_is_not_taken_from_what_its_client_sent() {
    let api = start();
    let original = [("x-original-method", "GET"), ("x-original-uri", "/")];
    for (name, value, status) in
        [("authorization", "Bearer key-of-the-website-1", 401), ("x-threshold-key", WEB, 200)]
    {
        let headers = [&original[..], &[(name, value)]].concat();
        let answer = api.client.send(api.client.request("GET", "/v1/forward-auth", &headers, "")).await;
        assert_eq!(answer.status, status, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_document_is_for_everybody() {
    let api = start();
    assert_eq!(api.client.get("/openapi.json").await.json()["openapi"], "3.1.0");
    let page = api.client.get("/docs").await;
    assert_eq!((page.status.as_u16(), page.header("content-type")), (200, "text/html; charset=utf-8"));
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_change_with_the_policy() {
    let mut api = start();
    api.change_policy("[api]\nkeys = { web = \"another-key-of-the-website\" }\n");
    assert_unknown(&consume(&api, &[("x-threshold-key", WEB)]).await, "this key is none of ours");
    assert_eq!(consume(&api, &[("x-threshold-key", "another-key-of-the-website")]).await.status, 200);
    api.change_policy("");
    assert_eq!(consume(&api, &[]).await.status, 200, "nobody needs one where there is none");
}
