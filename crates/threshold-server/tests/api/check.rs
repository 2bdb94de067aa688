//! `/v1/check`: what is answered about a request, allowed or refused.

use serde_json::{Value as Json, json};

use super::common::{Api, assert_problem, request_for, with};
use crate::support::client::Answered;
use crate::support::wire::until;

/// A limit of the `layer`, with `more` lines.
fn limit(layer: &str, rate: &str, more: &str) -> String {
    format!("[[limit]]\nid = \"few\"\nlayer = \"{layer}\"\nrate = \"{rate}\"\n{more}\n")
}

/// Refused until some time has passed: the headers and the body agree on how long.
#[track_caller]
fn assert_refused(answer: &Answered, error: &str, layer: &str) -> Json {
    let body = assert_problem(answer, 429, error);
    let wait: u64 = answer.header("retry-after").parse().unwrap();
    assert!(wait >= 1, "{body}");
    assert_eq!(body["retryAfter"], wait);
    assert_eq!(body["retryAfterMs"].as_u64().unwrap().div_ceil(1_000), wait, "{body}");
    assert_eq!((&body["allowed"], &body["action"]), (&json!(false), &json!("deny")));
    assert_eq!((&body["layer"], &body["remaining"], &body["delayMs"]), (&json!(layer), &json!(0), &json!(0)));
    assert!(body["resetAt"].as_str().unwrap().ends_with('Z'), "{body}");
    body
}

/// What costs more than a limit ever holds is told no time to come back.
#[track_caller]
fn assert_never(answer: &Answered, status: u16) {
    let body = assert_problem(answer, status, "cost_exceeds_capacity");
    assert_eq!(answer.header("retry-after"), "");
    assert!(body.get("retryAfter").is_none(), "{body}");
    assert_eq!((&body["retryAfterMs"], &body["resetAt"]), (&Json::Null, &Json::Null), "{body}");
    assert_eq!((&body["limit"], &body["allowed"]), (&json!("few"), &json!(false)));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_allowed_request_is_told_all_that_is_documented_and_no_more() {
    let api = Api::start(&limit("user", "100/day", ""));
    let mut body = api.check(&request_for("/")).await.json();
    let reset = body.as_object_mut().unwrap().remove("resetAt").unwrap();
    assert!(reset.as_str().unwrap().ends_with('Z'), "{reset}");
    let expected = json!({
        "allowed": true, "action": "allow", "limit": "few", "layer": "user", "remaining": 99,
        "retryAfterMs": 0, "source": "exact", "warnings": [], "delayMs": 0,
    });
    assert_eq!(body, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_allowed_request_shows_the_headers_that_the_gateway_shows() {
    let api = Api::start(&limit("user", "100/day", ""));
    let answer = api.check(&request_for("/")).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), "application/json");
    assert_eq!(answer.header("ratelimit-policy"), "\"few\";q=100;w=86400");
    assert!(answer.header("ratelimit").starts_with("\"few\";r=99"), "{}", answer.header("ratelimit"));
    assert_eq!(answer.header("x-ratelimit-limit"), "100");
    assert_eq!(answer.header("x-ratelimit-remaining"), "99");
    assert!(answer.header("x-ratelimit-reset").parse::<u64>().unwrap() > 1_700_000_000);
    assert_eq!(answer.header("retry-after"), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_older_headers_can_be_switched_off() {
    let api = Api::start(&format!("[server]\nlegacy_headers = false\n{}", limit("user", "1/day", "")));
    for expected in [200, 429] {
        let answer = api.check(&request_for("/")).await;
        assert_eq!(answer.status, expected);
        assert_eq!(answer.header("ratelimit-policy"), "\"few\";q=1;w=86400");
        assert!(!answer.headers.keys().any(|name| name.as_str().starts_with("x-ratelimit")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn where_no_limit_shows_itself_there_is_none_to_tell_of() {
    let api = Api::start("");
    let answer = api.check(&request_for("/")).await;
    let body = answer.json();
    assert_eq!((answer.status.as_u16(), &body["allowed"]), (200, &json!(true)));
    for member in ["limit", "layer", "remaining", "resetAt"] {
        assert_eq!(body[member], Json::Null, "{member}: {body}");
    }
    assert!(!answer.headers.keys().any(|name| name.as_str().contains("ratelimit")));
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_of_the_edge_and_of_users_refuse_as_through_the_gateway() {
    for (layer, source) in [("edge", "local"), ("user", "exact")] {
        let api = Api::start(&limit(layer, "1/day", ""));
        let allowed = api.check(&request_for("/")).await.json();
        assert_eq!((&allowed["layer"], &allowed["source"]), (&json!(layer), &json!(source)));
        let refused = api.check(&request_for("/")).await;
        let body = assert_refused(&refused, "rate_limited", layer);
        assert_eq!((&body["limit"], &body["source"]), (&json!("few"), &json!(source)));
        assert_eq!(body["violated-policies"], json!(["few"]));
        assert_eq!(refused.header("x-ratelimit-remaining"), "0");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_of_tenants_names_what_is_used_up() {
    let api = Api::start(
        "[identity]\ntenant = { host_label = \"example.com\" }\n[tiers.free]\nwrites = \"1/day\"\n\
         [tenants]\nacme = \"free\"\n\
         [[limit]]\nid = \"few\"\nlayer = \"tenant\"\ncategory = \"writes\"\n",
    );
    let question = with(&request_for("/"), &json!({ "host": "acme.example.com" }));
    assert_eq!(api.check(&question).await.status, 200);
    let body = assert_refused(&api.check(&question).await, "tenant_rate_limited", "tenant");
    assert_eq!(body["category"], "writes");
    assert_eq!(api.check(&request_for("/")).await.status, 200, "others are not of that tenant");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_of_an_endpoint_is_found_by_method_path_and_host() {
    let route = "[routes]\nreport = { host = \"a.example.com\", path = \"POST /report\" }\n";
    let api = Api::start(&format!("{route}{}", limit("endpoint", "1/day", "route = \"report\"")));
    let question = |method: &str, path: &str, host: &str| {
        with(&request_for(path), &json!({ "method": method, "host": host }))
    };
    assert_eq!(api.check(&question("POST", "/report?page=1", "a.example.com")).await.status, 200);
    let refused = api.check(&question("POST", "/report", "A.example.com:443")).await;
    let body = assert_refused(&refused, "endpoint_rate_limited", "endpoint");
    assert_eq!((&body["endpoint"], &body["period"]), (&json!("report"), &json!("1d")));
    assert_eq!(body["limit"], "few", "the name, as everywhere in this API");
    for (method, path, host) in [
        ("GET", "/report", "a.example.com"),
        ("POST", "/else", "a.example.com"),
        ("POST", "/report", "b.test"),
    ] {
        assert_eq!(api.check(&question(method, path, host)).await.status, 200, "{method} {path} {host}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_may_have_a_code_of_its_own() {
    let api = Api::start(&limit("user", "1/day", "error = \"uploads_exhausted\""));
    api.check(&request_for("/")).await;
    assert_refused(&api.check(&request_for("/")).await, "uploads_exhausted", "user");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_may_count_for_several() {
    let api = Api::start(&limit("user", "10/day", "algorithm = \"fixed-window\""));
    let costing = |cost: u64| with(&request_for("/"), &json!({ "cost": cost }));
    assert_eq!(api.check(&costing(7)).await.json()["remaining"], 3);
    let refused = api.check(&costing(4)).await;
    assert_eq!((refused.status.as_u16(), &refused.json()["remaining"]), (429, &json!(3)));
    assert_eq!(api.check(&costing(3)).await.json()["remaining"], 0, "a refusal is charged nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cost_that_never_fits_cannot_be_paid() {
    let api = Api::start(&limit("user", "10/day", ""));
    assert_never(&api.check(&with(&request_for("/"), &json!({ "cost": 11 }))).await, 422);
    assert_eq!(api.check(&request_for("/")).await.json()["remaining"], 9, "it was charged nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_of_bytes_count_the_bytes_that_are_told() {
    let api = Api::start(&limit("user", "1kB/day", ""));
    let sized = |bytes: u64| with(&request_for("/"), &json!({ "bytes": bytes }));
    assert_never(&api.check(&sized(1_001)).await, 413);
    assert_eq!(api.check(&sized(600)).await.status, 200);
    assert_eq!(api.check(&sized(600)).await.status, 429);
    assert_eq!(api.check(&sized(400)).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_path_that_is_none_is_refused() {
    let api = Api::start(&limit("user", "10/day", ""));
    for path in ["/a%00b", "/%zz"] {
        let body = assert_problem(&api.check(&request_for(path)).await, 400, "bad_path");
        assert_eq!((&body["allowed"], &body["retryAfterMs"]), (&json!(false), &Json::Null), "{body}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_passes_on_grace_is_to_be_warned() {
    let ladder = "[ladder]\nrungs = [{ strikes = 1, warn = true }, { strikes = 2, cooldown = \"1h\" }]\n";
    let api = Api::start(&(limit("user", "10/day", "") + ladder));
    for _ in 0..10 {
        assert_eq!(api.check(&request_for("/")).await.json()["action"], "allow");
    }
    let warned = api.check(&request_for("/")).await;
    let body = warned.json();
    assert_eq!((warned.status.as_u16(), &body["action"]), (200, &json!("warn")));
    assert_eq!((&body["allowed"], &body["warnings"]), (&json!(true), &json!(["over_limit"])));
    assert_eq!(warned.header("x-ratelimit-warning"), "true");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_in_the_shadow_is_to_be_held_back() {
    let api = Api::start("");
    api.server.command("bans add --address 192.0.2.7 --for 1h --reason scraping --kind shadow");
    let slowed = until(|| async {
        let body = api.check(&request_for("/")).await.json();
        (body["action"] != "allow").then_some(body)
    })
    .await;
    assert_eq!((&slowed["allowed"], &slowed["action"]), (&json!(true), &json!("slow")));
    assert!(slowed["delayMs"].as_u64().unwrap() > 0, "the caller holds it back: {slowed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ban_refuses_that_address_and_no_other() {
    let api = Api::start("");
    api.server.command("bans add --address 192.0.2.7 --for 1h --reason scraping");
    let banned =
        until(|| async { Some(api.check(&request_for("/")).await).filter(|answer| answer.status != 200) })
            .await;
    let body = assert_problem(&banned, 429, "banned");
    assert_eq!(banned.header("x-ratelimit-banned"), "true");
    assert!(banned.header("retry-after").parse::<u64>().unwrap() <= 3_600);
    assert!(body["retryAfterMs"].as_u64().unwrap() <= 3_600_000, "{body}");
    let other = with(&request_for("/"), &json!({ "ip": "192.0.2.8" }));
    assert_eq!(api.check(&other).await.status, 200);
    api.server.command("bans lift --address 192.0.2.7");
    until(|| async { (api.check(&request_for("/")).await.status == 200).then_some(()) }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_denied_for_good_is_not_told_to_come_back() {
    let api = Api::start("[lists]\ndeny = [\"192.0.2.0/24\"]\n");
    let denied = api.check(&request_for("/")).await;
    let body = assert_problem(&denied, 403, "banned");
    assert_eq!((denied.header("retry-after"), &body["retryAfterMs"]), ("", &Json::Null));
}

#[tokio::test(flavor = "multi_thread")]
async fn another_policy_decides_from_the_next_question_on() {
    let mut api = Api::start(&limit("user", "1/day", ""));
    assert_eq!(api.check(&request_for("/")).await.status, 200);
    assert_eq!(api.check(&request_for("/")).await.status, 429);
    api.change_policy(&limit("user", "3/day", ""));
    let allowed = api.check(&request_for("/")).await;
    assert_eq!((allowed.status.as_u16(), allowed.header("x-ratelimit-limit")), (200, "3"));
    assert_eq!(allowed.json()["remaining"], 1, "what was charged before still counts");
    api.change_policy("");
    assert_eq!(api.check(&request_for("/")).await.json()["limit"], Json::Null);
}
