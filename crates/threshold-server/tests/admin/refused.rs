//! Nobody is let in who should not be.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;

use super::common::{Operated, POLICY, TOKEN, assert_problem, routes};
use crate::support::client::Client;
use crate::support::listener::Listener;

/// A body for those that want one.
fn body(method: &str) -> &'static str {
    if ["POST", "PUT"].contains(&method) { "{}" } else { "" }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_wants_a_token() {
    let operated = Operated::start(POLICY);
    for (method, path, _) in routes() {
        let path = format!("/api/admin/{path}");
        let headers = [("content-type", "application/json")];
        let request = operated.client.request(&method, &path, &headers, body(&method));
        let answer = operated.client.send(request).await;
        assert_problem(&answer, 401, "unauthorized");
        assert_eq!(answer.header("www-authenticate"), "Bearer");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_tokens_are_refused_and_then_limited_while_right_ones_go_on() {
    let operated = Operated::start(POLICY);
    let mut statuses = Vec::new();
    for (method, path, _) in routes() {
        let answer = operated.ask_as("wrong-token", (&method, &path), &[], body(&method)).await;
        statuses.push(answer.status.as_u16());
        if answer.status == 429 {
            assert!(answer.header("retry-after").parse::<u64>().unwrap() >= 1);
        }
    }
    assert_eq!(statuses[..10], [401; 10]);
    assert!(
        statuses.contains(&429) && !statuses.iter().any(|status| ![401, 429].contains(status)),
        "{statuses:?}"
    );
    operated.told("GET", "rate-limit-status", "").await;
    let other = Client::from(operated.server.admin, [127, 0, 0, 2]);
    let headers = [("authorization", "Bearer wrong")];
    let answer = other.send(other.request("GET", "/api/admin/audit", &headers, "")).await;
    assert_problem(&answer, 401, "unauthorized");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scope_allows_its_own_and_what_is_below_it() {
    let operated = Operated::start(POLICY);
    let tokens = ["read", "operate"].map(|scope| (scope, operated.token(scope)));
    // Events never end.
    for (method, path, needed) in routes().into_iter().filter(|(_, path, _)| path != "events") {
        for (scope, token) in &tokens {
            let rank =
                |scope: &str| ["read", "operate", "admin"].iter().position(|known| *known == scope).unwrap();
            let answer = operated.ask_as(token, (&method, &path), &[], body(&method)).await;
            match rank(scope) < rank(&needed) {
                true => assert_problem(&answer, 403, "insufficient_scope"),
                false => assert!(
                    ![401, 403].contains(&answer.status.as_u16()),
                    "{method} {path}: {}",
                    answer.text()
                ),
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_strangers_are_refused_whatever_token_they_have() {
    let operated = Operated::start(POLICY);
    for (method, path, _) in routes() {
        for origin in ["https://evil.example", "null", "http://localhost:1"] {
            let headers = [("origin", origin)];
            let answer = operated.ask_as(TOKEN, (&method, &path), &headers, body(&method)).await;
            assert_problem(&answer, 403, "foreign_origin");
            assert_eq!(answer.header("access-control-allow-origin"), "");
        }
        let headers = [("host", "evil.example")];
        let answer = operated.ask_as(TOKEN, (&method, &path), &headers, body(&method)).await;
        assert_problem(&answer, 403, "foreign_host");
    }
    let own = format!("http://{}", operated.server.admin);
    let answer = operated.ask_as(TOKEN, ("GET", "audit"), &[("origin", &own)], "").await;
    assert_eq!(answer.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn hosts_that_the_policy_lists_are_known() {
    let operated = Operated::start(&format!("[server]\nadmin_hosts = [\"admin.example\"]\n{POLICY}"));
    for (host, status) in [("admin.example", 200), ("localhost:8083", 200), ("other.example", 403)] {
        let answer = operated.ask_as(TOKEN, ("GET", "audit"), &[("host", host)], "").await;
        assert_eq!(answer.status, status, "{host}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_makes_no_sense_is_told_with_a_remedy() {
    let operated = Operated::start(POLICY);
    assert_problem(&operated.ask("GET", "nothing", "").await, 404, "not_found");
    let answer = operated.ask("POST", "audit", "{}").await;
    assert_problem(&answer, 405, "method_not_allowed");
    assert_eq!(answer.header("allow"), "GET, HEAD, OPTIONS");
    let answer = operated.ask("OPTIONS", "sanctions", "").await;
    assert_eq!((answer.status.as_u16(), answer.header("allow")), (204, "GET, POST, HEAD, OPTIONS"));
    let answer = operated.ask("HEAD", "audit", "").await;
    assert_eq!((answer.status.as_u16(), answer.text()), (200, ""));
    let path = "/api/admin/sanctions";
    let headers = [("authorization", &*format!("Bearer {TOKEN}")), ("content-type", "text/plain")];
    let answer = operated.client.send(operated.client.request("POST", path, &headers, "{}")).await;
    assert_problem(&answer, 415, "unsupported_media_type");
    for (method, path, body) in [
        ("POST", "sanctions", "{"),
        ("POST", "sanctions", "[]"),
        ("POST", "sanctions", "{}"),
        ("POST", "sanctions", r#"{"client": "192.0.2.7", "for": "soon", "reason": "why"}"#),
        ("POST", "sanctions", r#"{"client": "192.0.2.7", "for": "1h", "reason": "why", "kind": "jail"}"#),
        ("POST", "sanctions", r#"{"client": "192.0.2.7", "for": "1h", "reason": "why", "extra": 1}"#),
        ("POST", "reset-limits", r#"{"clientId": "192.0.2.7", "endpoint": "nothing"}"#),
        ("GET", "sanctions?limit=0", ""),
        ("GET", "sanctions?limit=1001", ""),
        ("GET", "sanctions?after=x", ""),
        ("GET", "audit?order=best", ""),
        ("GET", "sanctions?clint=192.0.2.7", ""),
        ("GET", "analytics?window=soon", ""),
        ("GET", "analytics?view=nothing", ""),
        ("GET", "standing/%ff", ""),
    ] {
        let answer = operated.ask(method, path, body).await;
        assert_eq!(answer.status, 400, "{method} {path} {body}: {}", answer.text());
    }
    for (method, path, body) in [
        ("POST", "sanctions", r#"{"client": "tenant:acme", "for": "1h", "reason": "why"}"#),
        ("POST", "force-recovery", r#"{"component": "cache"}"#),
        ("PUT", "strategy", r#"{"strategy": "memory-only"}"#),
        ("PUT", "tenants/acme", r#"{"tier": "gold"}"#),
        ("PUT", "overrides/launch", r#"{"limit": "nothing", "rate": "5/min"}"#),
        ("GET", "analytics?view=rates", ""),
        ("POST", "reset-limits", r#"{"clientId": "address:0123456789abcdef0123456789abcdef"}"#),
    ] {
        let answer = operated.ask(method, path, body).await;
        assert_eq!(answer.status, 422, "{method} {path} {body}: {}", answer.text());
    }
}

/// Connections that say nothing, or half of something, are for free: they must not keep operators and probes out.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_keeps_operators_out_by_holding_connections_open() {
    let operated = Operated::start(POLICY);
    // A connection that an operator keeps, and somebody who listens.
    operated.told("GET", "token", "").await;
    let mut listener = Listener::new(&operated.server, TOKEN, "");
    let hold = |number: usize| {
        let mut stream = TcpStream::connect(operated.server.admin).unwrap();
        if number.is_multiple_of(2) {
            stream.write_all(b"GET /api/admin/token HTTP/1.1\r\nHost: local").unwrap();
        }
        stream
    };
    let mut held: Vec<TcpStream> = (0..300).map(hold).collect();
    assert_eq!(Client::new(operated.server.admin).get("/livez").await.status, 200);
    operated.told("GET", "token", "").await;
    let ban = r#"{"client": "192.0.2.7", "for": "1h", "reason": "still heard"}"#;
    operated.told("POST", "sanctions", ban).await;
    listener.hears("still heard");
    // Room was made, by few: it was not that all of them ran out of time.
    let closed = |stream: &mut TcpStream| {
        stream.set_nonblocking(true).unwrap();
        !stream.read(&mut [0; 1]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    };
    let gone = held.iter_mut().filter_map(|stream| closed(stream).then_some(())).count();
    assert!((1..100).contains(&gone), "{gone} of 300");
}
