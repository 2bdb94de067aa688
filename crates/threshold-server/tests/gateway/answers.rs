//! What clients are told: every row of the table of answers.

use http::Response;
use serde_json::{Value as Json, json};

use crate::support::application::{Application, bare, nothing, text};
use crate::support::client::{Answered, Client};
use crate::support::server::Server;
use crate::support::wire::until;

const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";
const ABNORMAL_USAGE: &str = "https://iana.org/assignments/http-problem-types#abnormal-usage-detected";

/// A server with `policy` before a plain application, and a client of it.
async fn set_up(policy: &str) -> (Application, Server, Client) {
    let application = Application::plain().await;
    let server = Server::start(policy, application.address);
    let client = Client::new(server.gateway);
    (application, server, client)
}

/// A limit of the `layer`, with `more` lines.
fn limit(layer: &str, rate: &str, more: &str) -> String {
    format!("[[limit]]\nid = \"few\"\nlayer = \"{layer}\"\nrate = \"{rate}\"\n{more}\n")
}

/// Holds for every refusal that ends by itself: says so in the body and in the headers, and means the same by both.
fn assert_refused(answer: &Answered, error: &str) -> Json {
    assert_eq!(answer.status, 429, "{}", answer.text());
    assert_eq!(answer.header("content-type"), "application/problem+json");
    assert_eq!(answer.header("cache-control"), "no-store");
    let body = answer.json();
    assert_eq!(body["status"], 429);
    assert_eq!(body["error"], error);
    let wait: u64 = answer.header("retry-after").parse().unwrap();
    assert!(wait >= 1);
    assert_eq!(body["retryAfter"], wait);
    body
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_left_is_shown_with_the_applications_answer() {
    let (_application, _server, client) = set_up(&limit("user", "100/min", "")).await;
    let first = client.get("/").await;
    assert_eq!((first.status.as_u16(), first.text()), (200, "ok"));
    assert_eq!(first.header("ratelimit-policy"), "\"few\";q=100;w=60");
    assert!(first.header("ratelimit").starts_with("\"few\";r=99"), "{}", first.header("ratelimit"));
    assert_eq!(first.header("x-ratelimit-limit"), "100");
    assert_eq!(first.header("x-ratelimit-remaining"), "99");
    let reset: u64 = first.header("x-ratelimit-reset").parse().unwrap();
    assert!(reset > 1_700_000_000, "it is a time, not a wait");
    assert_eq!((first.header("retry-after"), first.header("x-ratelimit-warning")), ("", ""));
    assert_eq!(client.get("/").await.header("x-ratelimit-remaining"), "98");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_older_headers_can_be_switched_off() {
    let policy = format!("[server]\nlegacy_headers = false\n{}", limit("user", "1/hour", ""));
    let (_application, _server, client) = set_up(&policy).await;
    for expected in [200, 429] {
        let answer = client.get("/").await;
        assert_eq!(answer.status, expected);
        assert_eq!(answer.header("ratelimit-policy"), "\"few\";q=1;w=3600");
        let older = answer.headers.keys().filter(|name| name.as_str().starts_with("x-ratelimit"));
        assert_eq!(older.count(), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_limit_shows_itself_only_when_it_refuses() {
    let (_application, _server, client) = set_up(&limit("user", "1/hour", "silent = true")).await;
    let allowed = client.get("/").await;
    assert_eq!(allowed.status, 200);
    let shown = allowed.headers.keys().filter(|name| name.as_str().contains("ratelimit"));
    assert_eq!(shown.count(), 0);
    let refused = client.get("/").await;
    assert_refused(&refused, "rate_limited");
    assert!(refused.header("ratelimit").starts_with("\"few\";r=0;t="));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_limits_nothing_is_added() {
    let (_application, _server, client) = set_up("").await;
    let answer = client.get("/").await;
    assert_eq!(answer.status, 200);
    assert!(!answer.headers.keys().any(|name| name.as_str().contains("ratelimit")));
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_of_users_and_of_the_edge_refuse_alike() {
    for layer in ["edge", "user"] {
        let (application, _server, client) = set_up(&limit(layer, "1/hour", "")).await;
        assert_eq!(client.get("/").await.status, 200);
        let refused = client.get("/").await;
        let body = assert_refused(&refused, "rate_limited");
        assert_eq!(body["type"], QUOTA_EXCEEDED);
        assert_eq!(body["title"], "Request cannot be satisfied as assigned quota has been exceeded");
        assert_eq!(body["violated-policies"], json!(["few"]));
        assert_eq!(body["remaining"], 0);
        assert!(body["detail"].as_str().unwrap().contains("few"), "{body}");
        assert!(body["resetAt"].as_str().unwrap().ends_with('Z'), "{body}");
        let wait = body["retryAfter"].as_u64().unwrap();
        assert!((3_500..=3_600).contains(&wait), "{wait}");
        assert_eq!(refused.header("ratelimit"), format!("\"few\";r=0;t={wait}"));
        assert_eq!(refused.header("x-ratelimit-remaining"), "0");
        assert_eq!(application.count(), 1, "the application hears nothing of it");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_may_have_a_code_of_its_own() {
    let policy = limit("user", "1/hour", "error = \"uploads_exhausted\"");
    let (_application, _server, client) = set_up(&policy).await;
    client.get("/").await;
    assert_refused(&client.get("/").await, "uploads_exhausted");
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_of_tenants_name_what_is_used_up() {
    let (_application, _server, client) = set_up(
        "[identity]\ntenant = { host_label = \"example.com\" }\n[tiers.free]\nwrites = \"1/hour\"\n\
         [tenants]\nacme = \"free\"\n\
         [[limit]]\nid = \"tenant-writes\"\nlayer = \"tenant\"\ncategory = \"writes\"\n",
    )
    .await;
    let ask = || client.send(client.request("GET", "/", &[("host", "acme.example.com")], ""));
    assert_eq!(ask().await.status, 200);
    let body = assert_refused(&ask().await, "tenant_rate_limited");
    assert_eq!(body["category"], "writes");
    assert_eq!(body["violated-policies"], json!(["tenant-writes"]));
    assert_eq!(client.get("/").await.status, 200, "others are not of that tenant");
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_of_endpoints_name_the_endpoint_and_the_rate() {
    let policy =
        format!("[routes]\nreport = \"GET /report\"\n{}", limit("endpoint", "2/hour", "route = \"report\""));
    let (_application, _server, client) = set_up(&policy).await;
    for _ in 0..2 {
        assert_eq!(client.get("/report").await.status, 200);
    }
    let body = assert_refused(&client.get("/report").await, "endpoint_rate_limited");
    assert_eq!((&body["endpoint"], &body["limit"]), (&json!("report"), &json!(2)));
    assert_eq!(body["period"], "1h");
    assert_eq!(client.get("/else").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_passes_on_grace_is_warned() {
    let ladder = "[ladder]\nrungs = [{ strikes = 1, warn = true }, { strikes = 2, cooldown = \"1min\" }]\n";
    let (_application, _server, client) = set_up(&(limit("user", "10/hour", "") + ladder)).await;
    for _ in 0..10 {
        assert_eq!(client.get("/").await.header("x-ratelimit-warning"), "");
    }
    let warned = client.get("/").await;
    assert_eq!((warned.status.as_u16(), warned.text()), (200, "ok"));
    assert_eq!(warned.header("x-ratelimit-warning"), "true");
    assert_eq!(warned.header("x-ratelimit-remaining"), "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cooldown_refuses_whatever_the_limits_say() {
    let policy = format!(
        "[routes]\nreport = \"GET /report\"\n{}[ladder]\nrungs = [{{ strikes = 1, cooldown = \"1min\" }}]\n",
        limit("user", "1/hour", "route = \"report\"")
    );
    let (_application, _server, client) = set_up(&policy).await;
    assert_eq!(client.get("/report").await.status, 200);
    assert_eq!(client.get("/else").await.status, 200);
    assert_eq!(client.get("/report").await.status, 429);
    let refused = until(|| async { Some(client.get("/else").await).filter(|got| got.status != 200) }).await;
    let body = assert_refused(&refused, "rate_limited");
    assert_eq!(body["type"], QUOTA_EXCEEDED);
    assert!(body["retryAfter"].as_u64().unwrap() <= 60, "{body}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ban_for_a_while_says_when_it_ends() {
    let (application, server, client) = set_up("").await;
    assert_eq!(client.get("/").await.status, 200);
    server.command("bans add --address 127.0.0.1 --for 1h --reason scraping");
    let banned = until(|| async { Some(client.get("/").await).filter(|got| got.status != 200) }).await;
    let body = assert_refused(&banned, "banned");
    assert_eq!(body["type"], ABNORMAL_USAGE);
    assert_eq!(banned.header("x-ratelimit-banned"), "true");
    assert!(body["retryAfter"].as_u64().unwrap() <= 3_600, "{body}");
    let other = Client::from(server.gateway, [127, 0, 0, 2]);
    assert_eq!(other.get("/").await.status, 200);
    let heard = application.count();
    server.command("bans lift --address 127.0.0.1");
    until(|| async { (client.get("/").await.status == 200).then_some(()) }).await;
    assert_eq!(application.count(), heard + 1, "the application heard nothing in between");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_denied_for_good_is_not_told_to_come_back() {
    let (application, server, client) = set_up("[lists]\ndeny = [\"127.0.0.1\"]\n").await;
    let denied = client.get("/").await;
    assert_eq!(denied.status, 403);
    assert_eq!(denied.header("content-type"), "application/problem+json");
    assert_eq!(denied.header("x-ratelimit-banned"), "true");
    assert_eq!(denied.header("retry-after"), "");
    let body = denied.json();
    assert_eq!((&body["error"], &body["type"]), (&json!("banned"), &json!(ABNORMAL_USAGE)));
    assert!(body.get("retryAfter").is_none() && body.get("resetAt").is_none(), "{body}");
    assert_eq!(application.count(), 0);
    assert_eq!(Client::from(server.gateway, [127, 0, 0, 2]).get("/").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn more_bytes_than_a_limit_ever_holds_are_too_large() {
    let (application, _server, client) = set_up(&limit("user", "1kB/day", "")).await;
    let refused = client.send(client.request("POST", "/", &[], &"x".repeat(1_001))).await;
    assert_eq!(refused.status, 413);
    assert_eq!(refused.header("retry-after"), "");
    let body = refused.json();
    assert_eq!(body["error"], "cost_exceeds_capacity");
    assert_eq!(body["violated-policies"], json!(["few"]));
    assert!(body.get("retryAfter").is_none(), "{body}");
    assert_eq!(application.count(), 0);
    let fits = client.send(client.request("POST", "/", &[], &"x".repeat(1_000))).await;
    assert_eq!(fits.status, 200, "nothing was charged for what never fits");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_price_that_a_limit_never_holds_cannot_be_paid() {
    let (_application, server, client) = set_up(&limit("user", "10/hour", "cost = 5")).await;
    assert_eq!(client.get("/").await.status, 200);
    // No policy may say so by itself; an override of the rate can.
    server.command("overrides add lower --limit few --rate 3/hour --for 1h");
    let refused = until(|| async { Some(client.get("/").await).filter(|got| got.status == 422) }).await;
    assert_eq!(refused.json()["error"], "cost_exceeds_capacity");
    assert_eq!(refused.header("retry-after"), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_path_that_is_none_is_refused() {
    let (application, _server, client) = set_up("").await;
    for path in ["/a%00b", "/%zz"] {
        let refused = client.get(path).await;
        assert_eq!(refused.status, 400, "{path}");
        assert_eq!(refused.header("content-type"), "application/problem+json");
        assert_eq!(refused.json()["error"], "bad_path");
    }
    assert_eq!(application.count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_login_is_told_the_same_as_everybody() {
    let policy =
        "[routes]\nsign-in = \"POST /login\"\n[login]\nroute = \"sign-in\"\naddress = \"1 per 5min\"\n";
    let (application, _server, client) = set_up(policy).await;
    let ask = || client.send(client.request("POST", "/login", &[], "username=alice&password=x"));
    assert_eq!(ask().await.status, 200);
    let body = assert_refused(&ask().await, "too_many_requests");
    assert_eq!(body["message"], "Too many login attempts. Please try again later.");
    assert_eq!((&body["type"], &body["remaining"]), (&json!(QUOTA_EXCEEDED), &json!(0)));
    assert_eq!(application.count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_of_grpc_are_told_in_their_own_words() {
    let (_application, _server, client) = set_up(&limit("user", "1/hour", "")).await;
    let grpc = [("content-type", "application/grpc+proto")];
    assert_eq!(client.send(client.request("POST", "/a.B/C", &grpc, "")).await.text(), "ok");
    let refused = client.send(client.request("POST", "/a.B/C", &grpc, "")).await;
    assert_eq!(refused.status, 200);
    assert_eq!(refused.header("content-type"), "application/grpc");
    assert_eq!(refused.header("grpc-status"), "8");
    assert_eq!(refused.header("grpc-message"), "the limit few allows 1/hour");
    // A `google.rpc.Status`: its first field is the code 8, its second the message.
    assert!(refused.header("grpc-status-details-bin").starts_with("CAgS"));
    assert!(refused.header("retry-after").parse::<u64>().unwrap() > 3_500);
    assert!(refused.body.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_in_the_shadow_is_held_back_and_told_nothing() {
    let (_application, server, client) = set_up("[gateway]\nmax_delayed = 1\n").await;
    server.command("bans add --address 127.0.0.1 --for 1h --reason scraping --kind shadow");
    // Only one request has a place to wait; that another is refused tells that the first is held back.
    let refused = until(|| async {
        let (first, second) = tokio::join!(client.get("/"), client.get("/"));
        [first, second].into_iter().find(|answer| answer.status != 200)
    })
    .await;
    let body = assert_refused(&refused, "rate_limited");
    assert_eq!((&body["type"], &body["remaining"]), (&json!(QUOTA_EXCEEDED), &json!(0)));
    assert!(body["retryAfter"].as_u64().unwrap() <= 3, "{body}");
    let begun = std::time::Instant::now();
    let held_back = client.get("/").await;
    assert!(begun.elapsed().as_secs() >= 1);
    assert_eq!((held_back.status.as_u16(), held_back.text()), (200, "ok"));
    assert!(!held_back.headers.keys().any(|name| name.as_str().contains("ratelimit")));
    let metrics = Client::new(server.admin).get("/metrics").await;
    assert!(metrics.text().contains("\nthreshold_delayed_max 1\n"), "{}", metrics.text());
    assert!(metrics.text().contains("\nthreshold_delayed 0\n"), "{}", metrics.text());
    let turned_away =
        metrics.text().lines().find_map(|line| line.strip_prefix("threshold_delays_turned_away_total "));
    assert!(turned_away.unwrap().parse::<u64>().unwrap() >= 1, "{}", metrics.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_without_bodies_pass_as_they_are() {
    let application = Application::start(|request| async move {
        match request.uri().path() {
            "/head" => Response::new(text("hello")),
            "/not-modified" => {
                Response::builder().status(304).header("etag", "\"v1\"").body(nothing()).unwrap()
            }
            _ => bare(204),
        }
    })
    .await;
    let server = Server::start(&limit("user", "3/hour", ""), application.address);
    let client = Client::new(server.gateway);
    let head = client.send(client.request("HEAD", "/head", &[], "")).await;
    assert_eq!((head.status.as_u16(), head.header("content-length")), (200, "5"));
    assert_eq!((head.body.len(), head.header("x-ratelimit-remaining")), (0, "2"));
    let not_modified = client.get("/not-modified").await;
    assert_eq!((not_modified.status.as_u16(), not_modified.header("etag")), (304, "\"v1\""));
    let nothing = client.get("/nothing").await;
    assert_eq!((nothing.status.as_u16(), nothing.header("content-length")), (204, ""));
    let refused = client.send(client.request("HEAD", "/head", &[], "")).await;
    assert_eq!((refused.status.as_u16(), refused.body.len()), (429, 0));
    assert_ne!(refused.header("retry-after"), "");
    assert_eq!(client.get("/head").await.json()["error"], "rate_limited", "the connection is still in step");
}
