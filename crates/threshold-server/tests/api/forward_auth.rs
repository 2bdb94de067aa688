//! `/v1/forward-auth`: what proxies are told about the requests that they ask about.

use serde_json::json;

use super::common::{Api, assert_problem};
use crate::support::client::{Answered, Client};

/// Two requests a day for each client behind the proxy at 127.0.0.1, and one report.
const POLICY: &str = "[identity]\ntrusted_proxies = [\"127.0.0.1\"]\nclient_ip = \"x-forwarded-for\"\n\
    [routes]\nreports = { host = \"a.example.com\", path = \"POST /report\" }\n\
    [[limit]]\nid = \"people\"\nlayer = \"user\"\nper = \"ip\"\nrate = \"2/day\"\n\
    [[limit]]\nid = \"reports\"\nlayer = \"endpoint\"\nroute = \"reports\"\nper = \"ip\"\nrate = \"1/day\"\n\
    [[limit]]\nid = \"bytes\"\nlayer = \"user\"\nper = \"ip\"\nrate = \"1kB/day\"\nsilent = true\n";

type Headers<'a> = [(&'a str, &'a str)];

async fn ask(api: &Api, query: &str, headers: &Headers<'_>) -> Answered {
    ask_by(&api.client, "GET", query, headers).await
}

async fn ask_by(client: &Client, method: &str, query: &str, headers: &Headers<'_>) -> Answered {
    client.send(client.request(method, &format!("/v1/forward-auth{query}"), headers, "")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn either_spelling_of_the_original_request_is_understood() {
    let api = Api::start(POLICY);
    for (client, method, uri, host) in [
        ("192.0.2.1", "x-forwarded-method", "x-forwarded-uri", "x-forwarded-host"),
        ("192.0.2.2", "x-original-method", "x-original-uri", "x-original-host"),
    ] {
        let headers =
            [(method, "POST"), (uri, "/report?a=b"), (host, "a.example.com"), ("x-forwarded-for", client)];
        let allowed = ask(&api, "", &headers).await;
        assert_eq!((allowed.status.as_u16(), allowed.text()), (200, ""));
        assert_eq!(allowed.header("ratelimit-policy"), "\"reports\";q=1;w=86400");
        let refused = ask(&api, "", &headers).await;
        let body = assert_problem(&refused, 429, "endpoint_rate_limited");
        assert_eq!(refused.header("x-threshold-status"), "429");
        assert_eq!(body["retryAfter"].to_string(), refused.header("retry-after"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn proxies_may_ask_by_several_methods_and_for_whole_addresses() {
    let api = Api::start(POLICY);
    let headers = |client, uri| {
        [
            ("x-forwarded-method", "POST"),
            ("x-forwarded-uri", uri),
            ("x-forwarded-host", "a.example.com"),
            ("x-forwarded-for", client),
        ]
    };
    for (method, client) in [("GET", "192.0.2.1"), ("HEAD", "192.0.2.2"), ("POST", "192.0.2.3")] {
        let whole = headers(client, "https://a.example.com/report");
        assert_eq!(ask_by(&api.client, method, "", &whole).await.status, 200, "{method}");
        assert_eq!(
            ask_by(&api.client, method, "", &headers(client, "/report")).await.status,
            429,
            "{method}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_about_no_request_is_refused() {
    let api = Api::start(POLICY);
    for headers in [
        &[][..],
        &[("x-forwarded-method", "GET")],
        &[("x-original-uri", "/")],
        &[("x-forwarded-host", "a.example.com"), ("x-forwarded-for", "192.0.2.1")],
    ] {
        let body = assert_problem(&ask(&api, "", headers).await, 400, "original_request_missing");
        assert!(body["detail"].as_str().unwrap().contains("X-Original-URI"), "{body}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_about_two_requests_is_refused() {
    let api = Api::start(POLICY);
    let sane = [("x-forwarded-method", "GET"), ("x-forwarded-uri", "/"), ("x-forwarded-host", "a.test")];
    for (name, other, same, client) in [
        ("x-original-uri", "/else", "/", "192.0.2.1"),
        ("x-forwarded-uri", "/else", "/", "192.0.2.2"),
        ("x-original-method", "POST", "GET", "192.0.2.3"),
        ("x-original-host", "b.test", "a.test", "192.0.2.4"),
    ] {
        let headers = [&sane[..], &[(name, other), ("x-forwarded-for", client)]].concat();
        let body = assert_problem(&ask(&api, "", &headers).await, 400, "original_request_ambiguous");
        assert!(body["detail"].as_str().unwrap().contains("set one and clear the others"), "{body}");
        let headers = [&sane[..], &[(name, same), ("x-forwarded-for", client)]].concat();
        assert_eq!(ask(&api, "", &headers).await.status, 200, "{name}: twice the same is one thing");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_no_trusted_proxy_speaks_for_nobody() {
    let api = Api::start(POLICY);
    let stranger = Client::from(api.server.api, [127, 0, 0, 2]);
    let headers = [("x-forwarded-method", "GET"), ("x-forwarded-uri", "/")];
    let body = assert_problem(&ask_by(&stranger, "GET", "", &headers).await, 403, "untrusted_peer");
    let detail = body["detail"].as_str().unwrap();
    assert!(detail.contains("127.0.0.2") && detail.contains("trusted_proxies"), "{detail}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_that_knows_few_statuses_gets_the_one_it_asks_for() {
    let api = Api::start(POLICY);
    let headers = [("x-original-method", "GET"), ("x-original-uri", "/"), ("x-forwarded-for", "192.0.2.1")];
    for _ in 0..2 {
        assert_eq!(ask(&api, "?deny=403", &headers).await.status, 200);
    }
    // What the client's own query says behind it changes nothing.
    for query in ["?deny=403", "?deny=403&deny=teapot", "?x=y&deny=403"] {
        let denied = ask(&api, query, &headers).await;
        assert_eq!((denied.status.as_u16(), denied.header("x-threshold-status")), (403, "429"), "{query}");
        assert_ne!(denied.header("retry-after"), "");
        assert_eq!(
            (&denied.json()["status"], &denied.json()["error"]),
            (&json!(429), &json!("rate_limited"))
        );
    }
    assert_eq!(ask(&api, "", &headers).await.status, 429);
    for query in ["?deny=", "?deny=200", "?deny=teapot", "?deny=500"] {
        let body = assert_problem(&ask(&api, query, &headers).await, 400, "bad_request");
        assert!(body["detail"].as_str().unwrap().contains("403 for nginx"), "{body}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_size_of_the_body_counts_where_the_proxy_tells_it() {
    let api = Api::start(POLICY);
    let sized = |client, bytes| {
        [
            ("x-original-method", "POST"),
            ("x-original-uri", "/"),
            ("x-original-content-length", bytes),
            ("x-forwarded-for", client),
        ]
    };
    assert_eq!(
        ask(&api, "", &sized("192.0.2.1", "")).await.status,
        200,
        "nginx sends it empty if there is none"
    );
    assert_eq!(ask(&api, "", &sized("192.0.2.2", "900")).await.status, 200);
    assert_problem(&ask(&api, "", &sized("192.0.2.2", "200")).await, 429, "rate_limited");
    let large = ask(&api, "?deny=403", &sized("192.0.2.3", "1001")).await;
    assert_eq!((large.status.as_u16(), large.header("x-threshold-status")), (403, "413"));
    for wrong in ["-1", "1.5", "many"] {
        assert_problem(&ask(&api, "", &sized("192.0.2.4", wrong)).await, 400, "bad_request");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_path_that_is_none_is_refused() {
    let api = Api::start(POLICY);
    for uri in ["", "report", "/%zz"] {
        let headers = [("x-original-method", "GET"), ("x-original-uri", uri)];
        let answer = ask(&api, "", &headers).await;
        assert_problem(&answer, 400, "bad_path");
        assert_eq!(answer.header("x-threshold-status"), "400");
    }
}
