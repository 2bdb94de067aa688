//! Logins through the layer, before an application of axum.

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{get, post};
use http_body_util::Full;
use threshold::Span;
use threshold_http::ThresholdLayer;
use tower_layer::Layer as _;

use crate::wire::{Answered, Client, Served, engine, request, serve};

const POLICY: &str = r#"
[routes]
login = "POST /login"

[login]
route = "login"
account_field = "username"
lockout = [{ failures = 3, lock = "1min" }]
"#;

/// Lets in whoever knows the word; shows which cookies it was sent.
async fn log_in(headers: HeaderMap, body: Bytes) -> (StatusCode, String) {
    let cookies = headers.get("cookie").map_or("none", |cookie| cookie.to_str().unwrap());
    let said = format!("{} with cookies: {cookies}", String::from_utf8_lossy(&body));
    match body.ends_with(b"password=right") {
        true => (StatusCode::OK, said),
        false if body.ends_with(b"password=broken") => (StatusCode::INTERNAL_SERVER_ERROR, said),
        false => (StatusCode::UNAUTHORIZED, said),
    }
}

async fn site() -> (Served, threshold::ManualClock) {
    let (engine, clock) = engine(POLICY);
    let app = Router::new().route("/login", post(log_in)).route("/", get(async || "hello"));
    (serve(ThresholdLayer::new(Arc::clone(&engine)).layer(app)).await, clock)
}

async fn attempt(served: &Served, account: &str, password: &str, cookie: Option<&str>) -> Answered {
    let cookie = cookie.map(|cookie| ("cookie", cookie));
    let headers: Vec<_> = cookie.into_iter().collect();
    let body = format!("username={account}&password={password}");
    Client::connect(served.address).await.send(request("POST", "/login", &headers, body)).await
}

#[tokio::test]
async fn the_application_gets_the_body_that_was_sent() {
    let (served, _) = site().await;
    let answered = attempt(&served, "alice", "right", Some("a=1")).await;
    assert_eq!(answered.text(), "username=alice&password=right with cookies: a=1");
    assert_eq!(Client::connect(served.address).await.get("/").await.text(), "hello");
}

#[tokio::test]
async fn three_failures_lock_out_and_every_account_is_answered_alike() {
    let (served, clock) = site().await;
    for account in ["alice", "nobody"] {
        for _ in 0..3 {
            assert_eq!(attempt(&served, account, "wrong", None).await.status, 401);
        }
    }
    let locked = attempt(&served, "alice", "right", None).await;
    let unknown = attempt(&served, "nobody", "right", None).await;
    assert_eq!(locked.status, 429);
    assert_eq!(
        (&locked.headers.get("retry-after"), &locked.body),
        (&unknown.headers.get("retry-after"), &unknown.body)
    );
    assert_eq!(locked.json()["error"], "too_many_requests");
    let wait: u64 = locked.header("retry-after").parse().unwrap();
    clock.advance(Span::from_secs(wait));
    assert_eq!(attempt(&served, "alice", "right", None).await.status, 200, "it waited {wait} s as told");
}

#[tokio::test]
async fn a_device_that_logged_in_is_known_again_and_the_application_never_sees_its_token() {
    let (served, _) = site().await;
    let first = attempt(&served, "alice", "right", None).await;
    let cookie = first.header("set-cookie");
    for attribute in ["HttpOnly", "Secure", "SameSite=Lax", "Path=/"] {
        assert!(cookie.contains(attribute), "{cookie}");
    }
    let token = cookie.split(';').next().unwrap().to_owned();
    for _ in 0..3 {
        attempt(&served, "alice", "wrong", None).await;
    }
    assert_eq!(attempt(&served, "alice", "right", None).await.status, 429, "strangers are locked out");
    let known = attempt(&served, "alice", "right", Some(&format!("a=1; {token}; b=2"))).await;
    assert_eq!(known.text(), "username=alice&password=right with cookies: a=1; b=2");
}

#[tokio::test]
async fn an_application_that_fails_is_nobodys_failure() {
    let (served, _) = site().await;
    for _ in 0..4 {
        assert_eq!(attempt(&served, "alice", "broken", None).await.status, 500);
    }
    assert_eq!(attempt(&served, "alice", "right", None).await.status, 200);
}

#[tokio::test]
async fn what_cannot_be_read_as_a_login_does_not_reach_the_application() {
    let (served, _) = site().await;
    let send = async |body: Vec<u8>| {
        Client::connect(served.address).await.send(request("POST", "/login", &[], body)).await
    };
    for body in ["username=a&username=b&password=right", "password=right", "{\"username\": "] {
        let refused = send(body.into()).await;
        assert_eq!((refused.status.as_u16(), &refused.json()["error"]), (400, &"bad_login".into()), "{body}");
    }
    let refused = send(vec![b'x'; 65 * 1_024]).await;
    assert_eq!((refused.status.as_u16(), &refused.json()["error"]), (413, &"body_too_large".into()));
}

#[tokio::test]
async fn cookies_without_tls_have_to_be_asked_for() {
    let (engine, _) = engine(POLICY);
    let app = Router::new().route("/login", post(log_in));
    let service = ThresholdLayer::new(engine).insecure_cookies().layer(app);
    let login = crate::ask("", "POST", "/login").map(|_| Full::from("username=alice&password=right"));
    let cookie = crate::read(&service, login).await.header("set-cookie").to_owned();
    assert!(cookie.starts_with("threshold_device=") && !cookie.contains("Secure"), "{cookie}");
}
