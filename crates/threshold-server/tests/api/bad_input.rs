//! Questions that make no sense: each is told what is wrong and what to do, and never breaks anything.

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use serde_json::json;

use super::common::{Api, assert_problem, request_for, with};
use crate::support::application::text;
use crate::support::client::Answered;
use crate::support::wire::{self, raw, soon, status};

const POLICY: &str = "[[limit]]\nid = \"reports\"\nlayer = \"endpoint\"\nrate = \"100/day\"\n";
const LARGEST: &str = "from 1 to 9007199254740991";

/// A path, a body, and words of the remedy.
type Row<'a> = (&'a str, &'a str, &'a str);

const REQUESTS: &[Row<'_>] = &[
    ("/v1/check", r#"{"ip": "192.0.2.7", "method": "GET", "paht": "/"}"#, "did you mean `path`?"),
    ("/v1/check", r#"{"ip": "192.0.2.7", "method": "GET", "elephant": 1}"#, "there are ip, method, path"),
    ("/v1/check", r#"{"ip": "192.0.2.7", "method": "GET"}"#, "missing field `path`"),
    ("/v1/check", r#"{"method": "GET", "path": "/"}"#, "missing field `ip`"),
    ("/v1/check", r#"{"ip": "192.0.2", "method": "GET", "path": "/"}"#, "write one such as \"192.0.2.7\""),
    ("/v1/check", r#"{"ip": "192.0.2.7:80", "method": "GET", "path": "/"}"#, "`ip` is no address"),
    ("/v1/check", r#"{"ip": 7, "method": "GET", "path": "/"}"#, "expected a text"),
    ("/v1/check", r#"{"ip": "::1", "ip": "::2", "method": "GET", "path": "/"}"#, "duplicate field `ip`"),
    ("/v1/check", r#"{"ip": "::1", "method": "", "path": "/"}"#, "write one such as \"GET\""),
    ("/v1/check", r#"{"ip": "::1", "method": "G T", "path": "/"}"#, "`method` is no method"),
    ("/v1/check", r#"{"ip": "::1", "method": "GET", "path": "x"}"#, "must begin with a slash"),
    (
        "/v1/check",
        r#"{"ip": "::1", "method": "GET", "path": "/", "user": ""}"#,
        "leave it out if there is none",
    ),
    (
        "/v1/check",
        r#"{"ip": "::1", "method": "GET", "path": "/", "user": null}"#,
        "leave out what there is none of",
    ),
    ("/v1/check", r#"{"ip": "::1", "method": "GET", "path": "/", "account": " "}"#, "`account` must have"),
    ("/v1/check", r#"{"ip": "::1", "method": "GET", "path": "/", "cost": 0}"#, LARGEST),
    ("/v1/check", r#"{"ip": "::1", "method": "GET", "path": "/", "cost": 9007199254740992}"#, LARGEST),
    ("/v1/check", r#"{"ip": "::1", "method": "GET", "path": "/", "cost": -1}"#, "`-1`"),
    ("/v1/check", r#"{"ip": "::1", "method": "GET", "path": "/", "bytes": 1.5}"#, "`1.5`"),
    (
        "/v1/check",
        r#"{"ip": "::1", "method": "GET", "path": "/", "bytes": 99999999999999999999}"#,
        "/openapi.json",
    ),
    ("/v1/check", r#"{"ip": "::1", "method": "GET", "path": "/", "headers": {"a": 1}}"#, "a list of texts"),
    ("/v1/check", r#"{"ip": "::1", "method": "GET", "path": "/", "headers": []}"#, "header fields by name"),
    (
        "/v1/check?explain=maybe",
        r#"{"ip": "::1", "method": "GET", "path": "/"}"#,
        "`explain` is true or false",
    ),
    ("/v1/check?explian=true", r#"{"ip": "::1", "method": "GET", "path": "/"}"#, "there is `explain`"),
    ("/v1/login", r#"{"ip": "::1"}"#, "missing field `account`"),
    ("/v1/login", r#"{"ip": "::1", "account": ""}"#, "1 to 256 bytes"),
    ("/v1/login", r#"{"ip": "::1", "account": "a", "sucess": true}"#, "did you mean `success`?"),
    ("/v1/login", r#"{"ip": "::1", "account": "a", "success": null}"#, "leave out what there is none of"),
    ("/v1/login", r#"{"ip": "::1", "account": "a", "success": "no"}"#, "expected a boolean"),
];

const CHARGES: &[Row<'_>] = &[
    ("/v1/consume", r#"{"limit": "reports"}"#, "`key` is missing"),
    ("/v1/consume", "{}", "send `key` with `limit` or `rate`"),
    ("/v1/consume", r#"{"key": "k"}"#, "send a `limit` of the policy, or a `rate`"),
    ("/v1/consume", r#"{"key": "", "rate": "1/day"}"#, "1 to 1024 bytes"),
    ("/v1/consume", r#"{"key": "k", "rate": "1/day", "cost": 0}"#, "use /v1/peek"),
    ("/v1/consume", r#"{"key": "k", "rate": "1/day", "cost": -5}"#, "`-5`"),
    ("/v1/consume", r#"{"key": "k", "rate": "1/day", "cost": 0.5}"#, "`0.5`"),
    ("/v1/consume", r#"{"key": "k", "rate": "1/day", "cost": 1e400}"#, "number out of range"),
    ("/v1/consume", r#"{"key": "k", "rate": "1/day", "cost": 18446744073709551615}"#, "to 9007199254740991"),
    ("/v1/consume", r#"{"key": "k", "rate": "1/day", "cost": "1"}"#, "/openapi.json"),
    ("/v1/consume", r#"{"key": "k", "rate": "1/day", "limit": "reports"}"#, "not both"),
    ("/v1/consume", r#"{"key": "k", "rate": "1/day", "tier": "free"}"#, "the same for every tier"),
    ("/v1/consume", r#"{"key": "k", "limit": "reports", "algorithm": "sliding-log"}"#, "of its own"),
    ("/v1/consume", r#"{"key": "k", "rate": "1/day", "algorithm": "magic"}"#, "there are token-bucket"),
    ("/v1/consume", r#"{"key": "k", "rate": "1/day", "batch": []}"#, "not both"),
    ("/v1/consume", r#"{"key": "k", "rate": "1/day", "receipt": "x"}"#, "is for /v1/refund"),
    ("/v1/consume", r#"{"key": "k", "rate": "1/day", "idempotencyTtlMs": 5}"#, "needs an `idempotencyKey`"),
    ("/v1/consume", r#"{"key": "k", "rate": "1/day", "idempotencyKey": ""}"#, "1 to 1024 bytes"),
    (
        "/v1/consume",
        r#"{"key": "k", "rate": "1/day", "idempotencyKey": "n", "idempotencyTtlMs": 0}"#,
        "1 to 86400000",
    ),
    (
        "/v1/consume",
        r#"{"key": "k", "rate": "1/day", "idempotency_key": "n"}"#,
        "did you mean `idempotencyKey`?",
    ),
    ("/v1/consume", r#"{"batch": [{"rate": "1/day"}]}"#, "missing field `key`"),
    (
        "/v1/consume",
        r#"{"batch": [{"key": "k", "rate": "1/day", "batch": []}]}"#,
        "there is no field `batch`",
    ),
    ("/v1/consume", r#"{"batch": {}}"#, "/openapi.json"),
    ("/v1/peek", r#"{"key": "k", "rate": "1/day", "idempotencyKey": "n"}"#, "a look charges nothing"),
    ("/v1/peek", "[]", "expected an object"),
    ("/v1/peek", r#"[null, null, "1/day", null, "k"]"#, "expected an object"),
    ("/v1/peek", r#"{"batch": [[null, null, "1/day", null, "k"]]}"#, "expected an object"),
    ("/v1/peek", "null", "expected an object"),
    ("/v1/peek", "", "/openapi.json"),
    ("/v1/peek", "{", "/openapi.json"),
    ("/v1/peek", r#"{"key": "k", "rate": "1/day"} {}"#, "trailing characters"),
    ("/v1/peek", "key=k&rate=1/day", "/openapi.json"),
    ("/v1/refund", r#"{"key": "k", "rate": "1/day"}"#, "needs the `receipt`"),
];

/// Asks on one connection after the other, and finds it usable after each.
async fn ask_raw(api: &Api, path: &str, kind: Option<&str>, body: impl Into<Bytes>) -> Answered {
    let mut connection = wire::http1(api.server.api).await;
    let headers: Vec<_> = kind.map(|kind| ("content-type", kind)).into_iter().collect();
    let question = wire::request("POST", path, &headers, Full::new(body.into()).boxed());
    let answer = wire::read(wire::ask(&mut connection, question).await).await.0;
    let sane = wire::request(
        "POST",
        "/v1/peek",
        &[("content-type", "application/json")],
        text(r#"{"key": "sane", "rate": "1/day"}"#),
    );
    assert_eq!(wire::ask(&mut connection, sane).await.status(), 200, "{path}: the connection is in step");
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn what_makes_no_sense_is_refused_with_a_remedy() {
    let api = Api::start(POLICY);
    for (path, body, remedy) in [REQUESTS, CHARGES].concat() {
        let answer = ask_raw(&api, path, Some("application/json"), body).await;
        assert_eq!(answer.status, 400, "{path} {body}: {}", answer.text());
        let told = assert_problem(&answer, 400, "bad_request");
        assert!(told["detail"].as_str().unwrap().contains(remedy), "{path} {body}: {told}");
    }
    assert_eq!(api.peek(&json!({ "limit": "reports", "key": "k" })).await["remaining"], 100);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rate_that_is_none_is_told_what_is_wrong_with_it() {
    let api = Api::start(POLICY);
    for rate in ["", "100", "100/fortnight", "0/day", "-1/day", "1.5/day", "99999999999999999999/day", "day"]
    {
        let answer = api.ask("/v1/consume", &json!({ "key": "k", "rate": rate })).await;
        let body = assert_problem(&answer, 400, "bad_rate");
        assert!(body["detail"].as_str().unwrap().starts_with("`rate`: "), "{body}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_json_is_read() {
    let api = Api::start(POLICY);
    let body = r#"{"key": "k", "rate": "1/day"}"#;
    for kind in [
        None,
        Some(""),
        Some("text/plain"),
        Some("application/x-www-form-urlencoded"),
        Some("application/jsonp"),
    ] {
        let answer = ask_raw(&api, "/v1/peek", kind, body).await;
        let told = assert_problem(&answer, 415, "unsupported_media_type");
        assert!(told["detail"].as_str().unwrap().contains("send `Content-Type: application/json`"), "{told}");
    }
    for kind in ["application/json; charset=utf-8", "APPLICATION/JSON"] {
        assert_eq!(ask_raw(&api, "/v1/peek", Some(kind), body).await.status, 200, "{kind}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_are_no_text_and_nesting_without_end_are_refused() {
    let api = Api::start(POLICY);
    let deep = format!("{{\"key\": {}", "[".repeat(100_000));
    let deep_headers = format!(
        "{{\"ip\": \"::1\", \"method\": \"GET\", \"path\": \"/\", \"headers\": {}",
        "{\"a\":".repeat(100_000)
    );
    for body in [
        Bytes::from_static(b"{\"key\": \"\xff\xfe\", \"rate\": \"1/day\"}"),
        Bytes::from_static(b"\xff\xfe"),
        Bytes::from_static(b"{\"key\": \"\\ud800\", \"rate\": \"1/day\"}"),
        Bytes::from_static(b"{\"key\": \"\0\", \"rate\": \"1/day\"}"),
        Bytes::from(deep),
        Bytes::from(deep_headers),
    ] {
        for path in ["/v1/check", "/v1/consume", "/v1/login"] {
            let answer = ask_raw(&api, path, Some("application/json"), body.clone()).await;
            assert_problem(&answer, 400, "bad_request");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_of_a_mebibyte_is_read_and_a_larger_one_is_not() {
    let api = Api::start(POLICY);
    let padded = |length: usize| {
        let question = r#"{"key": "k", "rate": "1/day"}"#;
        format!("{question}{}", " ".repeat(length - question.len()))
    };
    let client = &api.client;
    let send = |length: usize| {
        client.send(client.request("POST", "/v1/peek", &[super::common::JSON], &padded(length)))
    };
    assert_eq!(send(1024 * 1024).await.status, 200);
    for length in [1024 * 1024 + 1, 8 * 1024 * 1024] {
        let told = assert_problem(&send(length).await, 413, "body_too_large");
        assert!(told["detail"].as_str().unwrap().contains("1048576 bytes; send less"), "{told}");
    }
    assert_eq!(send(100).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_body_is_refused_though_its_length_is_not_told() {
    let api = Api::start(POLICY);
    let mut connection = wire::http1(api.server.api).await;
    let (pieces, body) = wire::piped();
    let question = wire::request("POST", "/v1/peek", &[("content-type", "application/json")], body);
    let asking = tokio::spawn(async move { wire::read(wire::ask(&mut connection, question).await).await.0 });
    // One piece more than fits; the question is not over then.
    for _ in 0..17 {
        pieces.send(wire::piece(vec![b' '; 64 * 1024])).unwrap();
    }
    assert_problem(&soon(asking).await.unwrap(), 413, "body_too_large");
    assert_eq!(api.client.get("/docs").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_and_ids_have_a_longest() {
    let api = Api::start(POLICY);
    let fits = "k".repeat(1_024);
    assert_eq!(api.peek(&json!({ "rate": "1/day", "key": fits })).await["allowed"], true);
    let long = api.ask("/v1/peek", &json!({ "rate": "1/day", "key": format!("{fits}k") })).await;
    assert_problem(&long, 400, "bad_request");
    for name in ["tenant", "tier", "user", "account"] {
        let long = with(&request_for("/"), &json!({ name: "x".repeat(257) }));
        let told = assert_problem(&api.check(&long).await, 400, "bad_request");
        assert!(told["detail"].as_str().unwrap().contains(name), "{told}");
    }
    let many: Vec<_> = (0..201).map(|_| "x").collect();
    let told = api.check(&with(&request_for("/"), &json!({ "headers": { "a": many } }))).await;
    assert_problem(&told, 400, "bad_request");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_method_is_told_those_that_there_are() {
    let api = Api::start(POLICY);
    for (path, method, allowed) in [
        ("/v1/check", "GET", "POST"),
        ("/v1/consume", "PUT", "POST"),
        ("/v1/peek", "DELETE", "POST"),
        ("/v1/refund", "PATCH", "POST"),
        ("/v1/login", "OPTIONS", "POST"),
        ("/v1/forward-auth", "DELETE", "GET, HEAD, POST"),
        ("/openapi.json", "POST", "GET, HEAD"),
        ("/docs", "POST", "GET, HEAD"),
    ] {
        let answer = api.client.send(api.client.request(method, path, &[], "")).await;
        assert_problem(&answer, 405, "method_not_allowed");
        assert_eq!(answer.header("allow"), allowed, "{method} {path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn where_there_is_nothing_the_document_is_named() {
    let api = Api::start(POLICY);
    for path in ["/", "/v1", "/v1/check/", "/v1//check", "/V1/check", "/v1/%63heck", "/v2/check", "/livez"] {
        let answer = api.client.send(api.client.request("POST", path, &[super::common::JSON], "{}")).await;
        let told = assert_problem(&answer, 404, "not_found");
        assert!(told["detail"].as_str().unwrap().contains("/openapi.json"), "{told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_http_breaks_nothing() {
    let api = Api::start(POLICY);
    for bytes in [
        &b"nonsense\r\n\r\n"[..],
        b"POST /v1/check HTTP/1.1\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n",
        b"POST /v1/check HTTP/1.1\r\nhost: a\r\ncontent-length: -1\r\n\r\n",
        b"POST /v1/check HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\ncontent-type: application/json\r\n\r\nzz\r\n",
    ] {
        assert_refused_or_closed(&raw(api.server.api, bytes).await);
    }
    let head = [b"GET /docs HTTP/1.1\r\nhost: a\r\nx-large: ", &[b'x'; 128 * 1024][..]].concat();
    assert_refused_or_closed(&raw(api.server.api, &head).await);
    assert_eq!(api.client.get("/docs").await.status, 200);
}

/// Nothing has to be said to who speaks no HTTP.
#[track_caller]
fn assert_refused_or_closed(answer: &str) {
    assert!(answer.is_empty() || status(answer).is_client_error(), "{answer}");
}
