//! Logins that pass through the gateway: what the application answers is what counts.

use http::Response;
use http_body_util::BodyExt as _;
use serde_json::Value as Json;

use crate::support::application::{Application, nothing};
use crate::support::client::{Answered, Client};
use crate::support::server::Server;

const ROUTE: &str = "[routes]\nsign-in = \"POST /login\"\n[login]\nroute = \"sign-in\"\n";
/// Three failures lock out; nothing else stands in the way.
const THREE: &str = "address = \"1000/hour\"\naccount = \"1000/hour\"\n\
                     lockout = [{ failures = 3, lock = \"1h\" }]\n";

/// An application at which `right` is everybody's password, and `crash` is what it fails at.
async fn application() -> Application {
    Application::start(|request| async move {
        let body = request.into_body().collect().await.unwrap().to_bytes();
        let said = |what: &str| String::from_utf8_lossy(&body).contains(what);
        let status = match () {
            () if said("crash") => 500,
            () if said("right") || body.is_empty() => 200,
            () => 401,
        };
        Response::builder().status(status).body(nothing()).unwrap()
    })
    .await
}

/// A client of a gateway with `login` among its policy.
async fn set_up(login: &str) -> (Application, Server, Client) {
    let application = application().await;
    let server = Server::start(&format!("{ROUTE}{login}"), application.address);
    let client = Client::new(server.gateway);
    (application, server, client)
}

/// Tries `password` at alice's account by a form.
async fn log_in(client: &Client, password: &str, headers: &[(&str, &str)]) -> Answered {
    let body = format!("username=alice&password={password}");
    client.send(client.request("POST", "/login", headers, &body)).await
}

/// The cookie that an answer gives to a device, as the device sends it back.
fn device(answer: &Answered) -> String {
    answer.header("set-cookie").split(';').next().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_passwords_lock_out_whether_by_form_or_by_json() {
    let (application, server, client) = set_up(THREE).await;
    assert_eq!(log_in(&client, "wrong", &[]).await.status, 401);
    for body in ["{\"username\": \"alice\", \"password\": \"x\"}", "{\"email\": \"ALICE\"}"] {
        assert_eq!(client.send(client.request("POST", "/login", &[], body)).await.status, 401);
    }
    let refused = log_in(&client, "right", &[]).await;
    assert_eq!(refused.status, 429);
    assert_eq!(refused.json()["error"], "too_many_requests");
    assert_eq!(refused.json()["message"], "Too many login attempts. Please try again later.");
    let wait: u64 = refused.header("retry-after").parse().unwrap();
    assert!((3_500..=3_600).contains(&wait), "{wait}");
    assert_eq!(application.count(), 3, "the application does not even see the right password");
    let elsewhere = Client::from(server.gateway, [127, 0, 0, 2]);
    assert_eq!(log_in(&elsewhere, "right", &[]).await.status, 200, "one source locks out only itself");
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_refused_is_told_the_same() {
    let (_application, _server, client) = set_up(THREE).await;
    let refusal = |answer: Answered| {
        assert_eq!(answer.status, 429);
        let mut body: Json = answer.json();
        // How long it takes is the only thing that may differ.
        body.as_object_mut().unwrap().remove("retryAfter");
        body
    };
    for account in ["alice", "nobody-by-that-name"] {
        let body = format!("username={account}&password=wrong");
        for _ in 0..3 {
            client.send(client.request("POST", "/login", &[], &body)).await;
        }
    }
    let known = refusal(log_in(&client, "right", &[]).await);
    let body = "username=nobody-by-that-name&password=x";
    let unknown = refusal(client.send(client.request("POST", "/login", &[], body)).await);
    assert_eq!(known, unknown);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_success_forgets_the_failures_before() {
    let (_application, _server, client) = set_up(THREE).await;
    for password in ["wrong", "wrong", "right", "wrong", "wrong"] {
        let expected = if password == "right" { 200 } else { 401 };
        assert_eq!(log_in(&client, password, &[]).await.status, expected);
    }
    assert_eq!(log_in(&client, "right", &[]).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_success_gives_the_device_a_cookie() {
    let (_application, _server, client) = set_up(THREE).await;
    assert_eq!(log_in(&client, "wrong", &[]).await.header("set-cookie"), "");
    let cookie = log_in(&client, "right", &[]).await.header("set-cookie").to_owned();
    assert!(cookie.starts_with("threshold_device="), "{cookie}");
    let attributes: Vec<&str> = cookie.split("; ").skip(1).collect();
    assert_eq!(attributes, ["Path=/", "Max-Age=31536000", "HttpOnly", "SameSite=Lax"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_a_proxy_that_speaks_tls_the_cookie_is_for_tls_alone() {
    let proxied = format!("[identity]\ntrusted_proxies = [\"127.0.0.9\"]\n{ROUTE}{THREE}");
    let application = application().await;
    let server = Server::start(&proxied, application.address);
    for (from, secure) in [([127, 0, 0, 9], true), ([127, 0, 0, 1], false)] {
        let client = Client::from(server.gateway, from);
        let answer = log_in(&client, "right", &[("x-forwarded-proto", "https")]).await;
        assert_eq!(answer.header("set-cookie").ends_with("; Secure"), secure);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_known_device_is_let_in_while_strangers_are_locked_out() {
    let (_application, _server, client) = set_up(THREE).await;
    let known = device(&log_in(&client, "right", &[]).await);
    for _ in 0..3 {
        assert_eq!(log_in(&client, "wrong", &[]).await.status, 401);
    }
    assert_eq!(log_in(&client, "right", &[]).await.status, 429);
    assert_eq!(log_in(&client, "right", &[("cookie", "threshold_device=forged")]).await.status, 429);
    assert_eq!(log_in(&client, "right", &[("cookie", &known)]).await.status, 200);
    let body = "username=bob&password=wrong";
    for expected in [401, 401, 401, 429] {
        let answer = client.send(client.request("POST", "/login", &[("cookie", &known)], body)).await;
        assert_eq!(answer.status, expected, "it is known at one account, and a stranger at others");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_application_never_sees_the_cookie_of_a_login() {
    let (application, _server, client) = set_up(THREE).await;
    let known = device(&log_in(&client, "right", &[]).await);
    let cookies = format!("theme=dark; {known}; lang=de");
    log_in(&client, "right", &[("cookie", &cookies)]).await;
    assert_eq!(application.last().headers["cookie"], "theme=dark; lang=de");
    log_in(&client, "right", &[("cookie", &known)]).await;
    assert!(!application.last().headers.contains_key("cookie"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_application_never_sees_the_cookie_elsewhere_either() {
    let (application, _server, client) = set_up(THREE).await;
    let cookies = format!("theme=dark; {}", device(&log_in(&client, "right", &[]).await));
    // Browsers send it with every request, since its path is `/`.
    client.send(client.request("GET", "/", &[("cookie", &cookies)], "")).await;
    assert_eq!(application.last().headers["cookie"], "theme=dark");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_tries_no_password_counts_by_address_alone() {
    let tokens = "address = \"4/hour\"\nrequire = { grant_type = \"password\" }\n\
                  lockout = [{ failures = 1, lock = \"1h\" }]\n";
    let (application, server, client) = set_up(tokens).await;
    let body = "grant_type=refresh_token&username=alice&refresh_token=stale";
    for expected in [401, 401, 401, 401, 429] {
        assert_eq!(client.send(client.request("POST", "/login", &[], body)).await.status, expected);
    }
    assert_eq!(application.count(), 4);
    let elsewhere = Client::from(server.gateway, [127, 0, 0, 2]);
    let body = "grant_type=password&username=alice&password=wrong";
    for expected in [401, 429] {
        assert_eq!(elsewhere.send(elsewhere.request("POST", "/login", &[], body)).await.status, expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_could_mean_two_accounts_never_reaches_the_application() {
    let (application, _server, client) = set_up(THREE).await;
    for body in [
        "username=alice&username=bob&password=right",
        "{\"username\": \"alice\", \"username\": \"bob\"}",
        "{\"username\": [\"alice\"]}",
        "{\"username\": \"alice\"",
        "password=right",
        "",
    ] {
        let answer = client.send(client.request("POST", "/login", &[], body)).await;
        assert_eq!(answer.status, 400, "{body}");
        assert_eq!(answer.header("content-type"), "application/problem+json");
        assert_eq!(answer.json()["error"], "bad_login");
    }
    let large = format!("username=alice&password={}", "x".repeat(64 * 1024));
    let answer = client.send(client.request("POST", "/login", &[], &large)).await;
    assert_eq!((answer.status.as_u16(), &answer.json()["error"]), (413, &"body_too_large".into()));
    assert_eq!(application.count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_that_fails_neither_locks_out_nor_forgets() {
    let (_application, _server, client) = set_up(THREE).await;
    for password in ["crash", "crash", "crash", "crash"] {
        let answer = log_in(&client, password, &[]).await;
        assert_eq!((answer.status.as_u16(), answer.header("set-cookie")), (500, ""));
    }
    for password in ["wrong", "wrong", "crash", "wrong"] {
        log_in(&client, password, &[]).await;
    }
    assert_eq!(log_in(&client, "right", &[]).await.status, 429, "a crash in between forgets no failure");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_that_fails_uses_up_no_ceiling_of_failures() {
    let (_application, _server, client) = set_up(&format!("{THREE}ceiling = \"2/hour\"\n")).await;
    for _ in 0..3 {
        assert_eq!(log_in(&client, "crash", &[]).await.status, 500);
    }
    assert_eq!(log_in(&client, "right", &[]).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_may_say_success_by_other_statuses() {
    let (_application, _server, client) = set_up(&format!("{THREE}success = [302]\n")).await;
    for expected in [200, 200, 200, 429] {
        let answer = log_in(&client, "right", &[]).await;
        assert_eq!((answer.status.as_u16(), answer.header("set-cookie")), (expected, ""));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_read_for_a_login_reaches_the_application_whole() {
    let (application, _server, client) = set_up(THREE).await;
    let answer = log_in(&client, "right", &[("content-type", "application/x-www-form-urlencoded")]).await;
    assert_eq!(answer.status, 200);
    let asked = application.last();
    assert_eq!(asked.headers["content-length"], "29");
    assert_eq!(asked.headers["content-type"], "application/x-www-form-urlencoded");
    let shown = client.get("/login").await;
    assert_eq!(shown.status, 200, "the page with the form is no attempt");
}
