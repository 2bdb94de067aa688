//! Requests and answers on their way through: what is told to the other side, and what is kept from it.

use http::Response;
use http::request::Parts;

use crate::support::application::{Application, text};
use crate::support::client::Client;
use crate::support::server::Server;
use crate::support::wire::{Raw, raw, status};

/// 127.0.0.9 may speak for others.
const PROXIED: &str = "[identity]\ntrusted_proxies = [\"127.0.0.9\"]\nclient_ip = \"x-forwarded-for\"\n\
                       user = { header = \"x-user\" }\n";
const PROXY: [u8; 4] = [127, 0, 0, 9];
const ONE: &str = "[[limit]]\nid = \"one\"\nlayer = \"user\"\nrate = \"1/hour\"\n";

/// The lines of the header called `name` that the application saw.
fn lines<'a>(asked: &'a Parts, name: &str) -> Vec<&'a str> {
    asked.headers.get_all(name).iter().map(|value| value.to_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_belongs_to_one_hop_does_not_reach_the_application() {
    let application = Application::plain().await;
    let server = Server::start("", application.address);
    let request = "GET /path?query=1 HTTP/1.1\r\nhost: example.com\r\nconnection: close, X-Secret\r\n\
                   x-secret: 1\r\nkeep-alive: timeout=5\r\nproxy-connection: keep-alive\r\n\
                   proxy-authorization: Basic eDp5\r\nte: gzip\r\nx-kept: first\r\nx-kept: second\r\n\r\n";
    assert_eq!(status(&raw(server.gateway, request.as_bytes()).await), 200);
    let asked = application.last();
    assert_eq!(asked.uri, "/path?query=1");
    assert_eq!(lines(&asked, "x-kept"), ["first", "second"]);
    for name in ["x-secret", "keep-alive", "proxy-connection", "proxy-authorization", "te", "connection"] {
        assert_eq!(lines(&asked, name), [""; 0], "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_belongs_to_one_hop_does_not_reach_the_client() {
    let application = Application::start(|_| async {
        let answer = Response::builder()
            .header("connection", "X-Internal")
            .header("x-internal", "1")
            .header("keep-alive", "timeout=5")
            .header("proxy-authenticate", "Basic")
            .header("x-kept", "first")
            .header("x-kept", "second");
        answer.status(418).body(text("short and stout")).unwrap()
    })
    .await;
    let server = Server::start("", application.address);
    let answer = Client::new(server.gateway).get("/").await;
    assert_eq!((answer.status.as_u16(), answer.text()), (418, "short and stout"));
    assert_eq!(answer.headers.get_all("x-kept").iter().count(), 2);
    for name in ["x-internal", "keep-alive", "proxy-authenticate", "connection"] {
        assert_eq!(answer.header(name), "", "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_asks_is_told_as_it_is_and_not_as_the_client_says() {
    let application = Application::plain().await;
    let server = Server::start(PROXIED, application.address);
    let client = Client::new(server.gateway);
    let forged = [
        ("host", "example.com"),
        ("x-forwarded-for", "10.0.0.1"),
        ("x-forwarded-proto", "https"),
        ("x-forwarded-host", "evil.example"),
        ("x-forwarded-port", "1"),
        ("x-real-ip", "10.0.0.1"),
        ("forwarded", "for=10.0.0.1"),
    ];
    client.send(client.request("GET", "/", &forged, "")).await;
    let asked = application.last();
    assert_eq!(lines(&asked, "host"), ["example.com"]);
    assert_eq!(lines(&asked, "x-forwarded-for"), ["127.0.0.1"]);
    assert_eq!(lines(&asked, "x-forwarded-proto"), ["http"]);
    assert_eq!(lines(&asked, "x-forwarded-host"), ["example.com"]);
    assert_eq!(lines(&asked, "forwarded"), ["for=127.0.0.1;host=\"example.com\";proto=http"]);
    assert_eq!((lines(&asked, "x-real-ip").len(), lines(&asked, "x-forwarded-port").len()), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_trusted_proxy_says_is_gone_on_with() {
    let application = Application::plain().await;
    let server = Server::start(PROXIED, application.address);
    let proxy = Client::from(server.gateway, PROXY);
    let said = [
        ("host", "inner.example"),
        ("x-forwarded-for", "203.0.113.9"),
        ("x-forwarded-proto", "https"),
        ("x-forwarded-host", "example.com"),
        ("forwarded", "for=203.0.113.9"),
    ];
    proxy.send(proxy.request("GET", "/", &said, "")).await;
    let asked = application.last();
    assert_eq!(lines(&asked, "host"), ["inner.example"]);
    assert_eq!(lines(&asked, "x-forwarded-for"), ["203.0.113.9, 127.0.0.9"]);
    assert_eq!(lines(&asked, "x-forwarded-proto"), ["https"]);
    assert_eq!(lines(&asked, "x-forwarded-host"), ["example.com"]);
    let chain = "for=203.0.113.9, for=127.0.0.9;host=\"inner.example\";proto=http";
    assert_eq!(lines(&asked, "forwarded"), [chain]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forged_identity_changes_no_limit_and_reaches_nobody() {
    let application = Application::plain().await;
    let server = Server::start(&format!("{PROXIED}{ONE}"), application.address);
    let client = Client::new(server.gateway);
    for (address, user, expected) in [("10.0.0.1", "alice", 200), ("10.0.0.2", "bob", 429)] {
        let forged = [("x-forwarded-for", address), ("x-user", user), ("X-USER", user)];
        let answer = client.send(client.request("GET", "/", &forged, "")).await;
        assert_eq!(answer.status, expected);
    }
    assert_eq!(lines(&application.last(), "x-user"), [""; 0]);
    assert_eq!(application.count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_identity_from_a_trusted_proxy_counts_and_is_handed_on() {
    let application = Application::plain().await;
    let server = Server::start(&format!("{PROXIED}{ONE}"), application.address);
    let proxy = Client::from(server.gateway, PROXY);
    for (user, expected) in [("alice", 200), ("bob", 200), ("alice", 429)] {
        let answer = proxy.send(proxy.request("GET", "/", &[("x-user", user)], "")).await;
        assert_eq!(answer.status, expected, "{user}");
    }
    assert_eq!(lines(&application.last(), "x-user"), ["bob"]);
    for (address, expected) in [("203.0.113.1", 200), ("203.0.113.2", 200), ("203.0.113.1", 429)] {
        let answer = proxy.send(proxy.request("GET", "/", &[("x-forwarded-for", address)], "")).await;
        assert_eq!(answer.status, expected, "{address}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_request_has_an_id_that_both_sides_know() {
    let application = Application::plain().await;
    let server = Server::start(PROXIED, application.address);
    let client = Client::new(server.gateway);
    let mut ids = Vec::new();
    for forged in ["mine", "mine"] {
        let answer = client.send(client.request("GET", "/", &[("x-request-id", forged)], "")).await;
        let id = answer.header("x-request-id").to_owned();
        assert_eq!(lines(&application.last(), "x-request-id"), [&id]);
        assert!(id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
        ids.push(id);
    }
    assert_ne!(ids[0], ids[1]);
    let proxy = Client::from(server.gateway, PROXY);
    let answer = proxy.send(proxy.request("GET", "/", &[("x-request-id", "trace-7")], "")).await;
    assert_eq!(answer.header("x-request-id"), "trace-7");
    assert_eq!(lines(&application.last(), "x-request-id"), ["trace-7"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_cannot_pass_its_own_id_off_as_the_requests() {
    let application = Application::start(|_| async {
        Response::builder().header("x-request-id", "mine").body(text("ok")).unwrap()
    })
    .await;
    let server = Server::start("", application.address);
    let answer = Client::new(server.gateway).get("/").await;
    assert_eq!(answer.headers.get_all("x-request-id").iter().count(), 1);
    assert_eq!(lines(&application.last(), "x-request-id"), [answer.header("x-request-id")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_applications_own_limits_stay_whole_beside_ours() {
    let application = Application::start(|_| async {
        let response = Response::builder().header("x-ratelimit-remaining", "7");
        response.header("ratelimit", "\"own\";r=7").body(text("ok")).unwrap()
    })
    .await;
    let server = Server::start(ONE, application.address);
    let answer = Client::new(server.gateway).get("/").await;
    let lines = |name: &str| {
        answer.headers.get_all(name).iter().map(|line| line.to_str().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(lines("x-ratelimit-remaining"), ["7"]);
    assert!(lines("x-ratelimit-limit").is_empty(), "no half of ours beside it");
    assert_eq!(lines("ratelimit").len(), 2, "a list that both are in");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_to_be_asked_for_the_body_is_asked() {
    let application = Application::start(|request| async {
        use http_body_util::BodyExt as _;
        Response::new(request.into_body().map_err(|error| panic!("{error}")).boxed())
    })
    .await;
    let server = Server::start(ONE, application.address);
    let head = b"POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\nexpect: 100-continue\r\n\
                 content-length: 5\r\n\r\n";
    let mut waiting = Raw::connect(server.gateway).await;
    waiting.send(head).await;
    assert_eq!(status(&waiting.head().await), 100);
    waiting.send(b"hello").await;
    let answer = waiting.rest().await;
    assert!(status(&answer) == 200 && answer.ends_with("hello"), "{answer}");
    assert_eq!(lines(&application.last(), "expect"), [""; 0]);
    let mut refused = Raw::connect(server.gateway).await;
    refused.send(head).await;
    assert_eq!(status(&refused.head().await), 429, "the body of what is refused is not asked for");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_for_a_whole_address_is_for_the_host_in_it() {
    let application = Application::plain().await;
    let server = Server::start("", application.address);
    let request = b"GET http://example.com:81/path?q=1 HTTP/1.1\r\nhost: other\r\nconnection: close\r\n\r\n";
    assert_eq!(status(&raw(server.gateway, request).await), 200);
    let asked = application.last();
    assert_eq!(asked.uri, "/path?q=1");
    assert_eq!(lines(&asked, "host"), ["example.com:81"]);
    assert_eq!(lines(&asked, "x-forwarded-host"), ["example.com:81"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_needs_one_host_and_a_path() {
    let application = Application::plain().await;
    let server = Server::start("", application.address);
    for (request, expected) in [
        ("GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n", 400),
        ("GET / HTTP/1.1\r\nhost: a\r\nhost: a\r\n", 400),
        ("GET / HTTP/1.1\r\n", 400),
        ("CONNECT example.com:443 HTTP/1.1\r\nhost: example.com:443\r\n", 405),
    ] {
        let answer = raw(server.gateway, format!("{request}connection: close\r\n\r\n").as_bytes()).await;
        assert_eq!(status(&answer), expected, "{request}{answer}");
    }
    assert_eq!(application.count(), 0);
}
