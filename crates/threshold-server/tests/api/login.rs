//! `/v1/login`: attempts to log in, for services that look at passwords themselves.

use serde_json::{Value as Json, json};

use super::common::{Api, assert_problem, with};
use crate::support::client::Answered;

/// Three failures lock out; nothing else stands in the way.
const THREE: &str = "[login]\naddress = \"1000/hour\"\naccount = \"1000/hour\"\n\
                     lockout = [{ failures = 3, lock = \"1h\" }]\n";

/// An attempt at `account` from 192.0.2.7.
fn at(account: &str) -> Json {
    json!({ "account": account, "ip": "192.0.2.7" })
}

fn failed(account: &str) -> Json {
    with(&at(account), &json!({ "success": false }))
}

fn succeeded(account: &str) -> Json {
    with(&at(account), &json!({ "success": true }))
}

async fn log_in(api: &Api, attempt: &Json) -> Answered {
    api.ask("/v1/login", attempt).await
}

/// Refused, for how many milliseconds.
#[track_caller]
fn assert_locked(answer: &Answered) -> u64 {
    let body = assert_problem(answer, 429, "too_many_requests");
    assert_eq!((&body["allowed"], &body["device"]), (&json!(false), &Json::Null));
    let wait: u64 = answer.header("retry-after").parse().unwrap();
    let millis = body["lockoutRemainingMs"].as_u64().unwrap();
    assert_eq!((millis.div_ceil(1_000), &body["retryAfter"]), (wait, &json!(wait)));
    millis
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_policy_of_its_own_three_failures_lock_for_a_minute() {
    let api = Api::start("");
    for _ in 0..2 {
        let answer = log_in(&api, &failed("alice")).await;
        let expected = json!({ "allowed": true, "lockoutRemainingMs": 0, "device": null });
        assert_eq!((answer.status.as_u16(), answer.json()), (200, expected));
    }
    let third = assert_locked(&log_in(&api, &failed("alice")).await);
    assert!((1..=60_000).contains(&third), "{third}");
    let right = assert_locked(&log_in(&api, &succeeded("alice")).await);
    assert!(right <= third, "not even the right password helps, nor does it lock for longer");
    assert_eq!(log_in(&api, &at("bob")).await.status, 200, "another account is none of it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_look_counts_nothing() {
    let api = Api::start(THREE);
    for _ in 0..20 {
        assert_eq!(log_in(&api, &at("alice")).await.status, 200);
    }
    for expected in [200, 200, 429] {
        assert_eq!(log_in(&api, &failed("alice")).await.status, expected);
    }
    let before = assert_locked(&log_in(&api, &at("alice")).await);
    let after = assert_locked(&log_in(&api, &at("alice")).await);
    assert!(after <= before, "a look at a locked account sees the lock, and makes it no longer");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_source_locks_out_only_itself() {
    let api = Api::start(THREE);
    for _ in 0..3 {
        log_in(&api, &failed("alice")).await;
    }
    assert_locked(&log_in(&api, &at("alice")).await);
    let elsewhere = with(&succeeded("alice"), &json!({ "ip": "192.0.2.8" }));
    assert_eq!(log_in(&api, &elsewhere).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_success_forgets_the_failures_before() {
    let api = Api::start(THREE);
    for attempt in [failed("alice"), failed("alice"), succeeded("alice"), failed("alice"), failed("alice")] {
        assert_eq!(log_in(&api, &attempt).await.status, 200);
    }
    assert_locked(&log_in(&api, &failed("alice")).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_is_the_same_however_it_is_typed() {
    let api = Api::start(THREE);
    for account in ["alice", "ALICE", " Alice "] {
        log_in(&api, &failed(account)).await;
    }
    assert_locked(&log_in(&api, &at("alice")).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_known_device_is_let_in_while_strangers_are_locked_out() {
    let api = Api::start(THREE);
    let device = log_in(&api, &succeeded("alice")).await.json()["device"].clone();
    assert!(device.is_string(), "who logged in gets a token");
    for _ in 0..3 {
        log_in(&api, &failed("alice")).await;
    }
    assert_locked(&log_in(&api, &succeeded("alice")).await);
    assert_locked(&log_in(&api, &with(&succeeded("alice"), &json!({ "device": "forged" }))).await);
    let known = log_in(&api, &with(&succeeded("alice"), &json!({ "device": device }))).await;
    assert_eq!((known.status.as_u16(), &known.json()["device"]), (200, &device), "it keeps its token");
    for expected in [200, 200, 429] {
        let attempt = with(&failed("bob"), &json!({ "device": device }));
        assert_eq!(log_in(&api, &attempt).await.status, expected, "it is a stranger at other accounts");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_gives_no_token() {
    let api = Api::start(THREE);
    for attempt in [failed("alice"), at("alice")] {
        assert_eq!(log_in(&api, &attempt).await.json()["device"], Json::Null);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn attempts_of_one_address_are_limited_over_all_accounts() {
    let api = Api::start("[login]\naddress = \"3/hour\"\n");
    // Who may not try again is told at once.
    for (n, expected) in [200, 200, 429, 429].into_iter().enumerate() {
        assert_eq!(log_in(&api, &failed(&format!("account-{n}"))).await.status, expected);
    }
    let elsewhere = with(&failed("account-0"), &json!({ "ip": "192.0.2.8" }));
    assert_eq!(log_in(&api, &elsewhere).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn accounts_that_nobody_has_are_told_the_same() {
    let api = Api::start(THREE);
    log_in(&api, &succeeded("alice")).await;
    let mut told = Vec::new();
    for account in ["alice", "nobody-by-that-name"] {
        let mut answers = Vec::new();
        for attempt in [at(account), failed(account), failed(account), failed(account), at(account)] {
            let answer = log_in(&api, &attempt).await;
            let mut body = answer.json();
            // How long it takes is the only thing that may differ.
            for member in ["retryAfter", "lockoutRemainingMs"] {
                body.as_object_mut().unwrap().remove(member);
            }
            answers.push((answer.status, body));
        }
        told.push(answers);
    }
    assert_eq!(told[0], told[1]);
}
