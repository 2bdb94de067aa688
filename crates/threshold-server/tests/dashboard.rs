//! The dashboard, in a real browser.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![expect(clippy::disallowed_methods, reason = "it is about real processes, threads and time")]

mod support;

use support::browser::{self, Walked};
use support::client::Client;
use support::server::Server;
use threshold_testkit::figures::Claim;

const TOKEN: &str = "a-token-of-the-tests-that-is-long-enough";

/// Who asks is told by a proxy on this machine.
const POLICY: &str = r#"
[identity]
trusted_proxies = ["127.0.0.0/8"]
client_ip = "x-forwarded-for"
tenant = { header = "x-tenant" }
user = { header = "x-user" }

[routes]
sign-in = "POST /login"

[login]
route = "sign-in"

[[limit]]
id = "few"
layer = "endpoint"
per = "ip"
rate = "5/day"

[ladder]
"#;

fn serve() -> Server {
    Server::with(POLICY, &[], &[("THRESHOLD_ADMIN_TOKEN", TOKEN)])
}

/// Takes a walk of `browser.mjs` through the dashboard of `server`.
async fn walk(server: &Server, name: &'static str) -> String {
    let (admin, gateway, pid) = (server.admin, server.gateway, server.pid());
    browser::walk(Walked { admin, gateway, token: TOKEN, pid }, name).await
}

/// Keeps `address` out from now on.
async fn ban(server: &Server, address: &str, reason: &str) {
    let body = serde_json::json!({ "client": address, "for": "1h", "reason": reason, "kind": "ban" });
    let (client, bearer) = (Client::new(server.admin), format!("Bearer {TOKEN}"));
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
    let answer =
        client.send(client.request("POST", "/api/admin/sanctions", &headers, &body.to_string())).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn charts_move_with_the_traffic() {
    walk(&serve(), "traffic").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_ban_is_undone_in_two_clicks() {
    let server = serve();
    ban(&server, "203.0.113.7", "scraping").await;
    walk(&server, "lift").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_is_tried_put_in_force_and_taken_back() {
    // Without a ladder nobody has grace: what is too much is refused.
    let policy = POLICY.replace("[ladder]", "");
    walk(&Server::with(&policy, &[], &[("THRESHOLD_ADMIN_TOKEN", TOKEN)]), "policy").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_connection_is_told_and_found_again() {
    walk(&serve(), "lost").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_strangers_wrote_is_inert() {
    let server = serve();
    let harm = "<script>window.harmed=1</script>";
    let client = Client::new(server.gateway);
    // Paths, agents, tenants, users and accounts are theirs to choose.
    for _ in 0..12 {
        let headers = [
            ("x-forwarded-for", "203.0.113.66"),
            ("user-agent", "<script>window.harmed=1</script>\u{202e}"),
            ("x-tenant", harm),
            ("x-user", "<img src=x onerror=window.harmed=1>"),
        ];
        client.send(client.request("GET", "/%3Cscript%3Ewindow.harmed=1%3C/script%3E", &headers, "")).await;
        let account = "username=%3Cscript%3Ewindow.harmed%3D1%3C%2Fscript%3E%1b%5B31m&password=x";
        client.send(client.request("POST", "/login", &headers, account)).await;
    }
    ban(&server, "203.0.113.66", harm).await;
    assert!(!server.said().contains('\u{1b}'), "nothing moves a terminal: {}", server.said());
    walk(&server, "strangers").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn everybody_can_use_it_in_light_in_dark_and_on_a_phone() {
    let server = serve();
    ban(&server, "203.0.113.7", "scraping").await;
    walk(&server, "looks").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_is_small_and_closed_to_others() {
    let server = serve();
    let client = Client::new(server.admin);
    let page = client.get("/").await;
    assert_eq!((page.status.as_u16(), page.header("content-type")), (200, "text/html; charset=utf-8"));
    let rules = page.header("content-security-policy");
    assert!(rules.starts_with("default-src 'none'; script-src 'self';"), "{rules}");
    assert!(rules.contains("frame-ancestors 'none'") && !rules.contains("unsafe"), "{rules}");
    assert_eq!((page.header("x-content-type-options"), page.header("x-frame-options")), ("nosniff", "DENY"));
    assert_eq!(client.send(client.request("POST", "/", &[], "")).await.status, 405);
    assert_eq!(client.get("/dashboard/nothing.js").await.status, 404);
}

/// All sections of it, to a browser that has seen none; the time until something is to be seen is a figure to read.
#[tokio::test(flavor = "multi_thread")]
async fn the_whole_page_is_below_200_kilobytes() {
    let claim =
        Claim::of("first contentful paint of the dashboard in Chromium, over loopback, nothing cached");
    let said = walk(&serve(), "weight").await;
    let weighed = said.lines().find(|line| line.starts_with('{')).unwrap();
    let weighed: serde_json::Value = serde_json::from_str(weighed).unwrap();
    let (bytes, pieces) = (weighed["bytes"].as_u64().unwrap(), weighed["pieces"].as_u64().unwrap());
    assert!(pieces > 10, "its modules are among them: {weighed}");
    assert!((1..200_000).contains(&bytes), "{bytes} bytes were transferred: {weighed}");
    let paint = weighed["paint"].as_f64().unwrap();
    let figure = format!("{paint:.0} ms, the median of {} visits; {bytes} bytes in all", weighed["visits"]);
    claim.report("dashboard-first-paint", &figure, "100 ms", paint < 100.0);
}
