//! What operators do, judged by what becomes of requests.

use serde_json::json;

use super::common::{Operated, POLICY};

/// The entries of the audit log: who, what, to whom, before and after.
async fn audit(operated: &Operated) -> Vec<[String; 5]> {
    let log = operated.told("GET", "audit", "").await;
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let entry = |entry: &serde_json::Value| {
        ["by", "action", "target", "before", "after"].map(|member| text(&entry[member]))
    };
    log["items"].as_array().unwrap().iter().map(entry).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ban_refuses_the_next_request_and_lifting_it_lets_the_next_pass() {
    let operated = Operated::start("[[limit]]\nid = \"api\"\nlayer = \"edge\"\nrate = \"1000/min\"\n");
    assert_eq!(operated.status().await, 200);
    let ban = json!({ "client": "127.0.0.1", "for": "1h", "reason": "scraping" }).to_string();
    let imposed = operated.told("POST", "sanctions", &ban).await;
    assert_eq!((&imposed["changed"], &imposed["sanctions"][0]["kind"]), (&json!(true), &json!("ban")));
    assert_eq!(operated.status().await, 429);
    let again = operated.told("POST", "sanctions", &ban.replace("1h", "1min")).await;
    assert_eq!(again["changed"], false, "nothing is shortened");
    let standing = operated.told("GET", "standing/127.0.0.1", "").await;
    assert_eq!(standing["subjects"][0]["sanctions"][0]["reason"], "scraping");
    let lifted = operated.told("DELETE", "sanctions/127.0.0.1", "").await;
    assert_eq!(
        (&lifted["changed"], &lifted["sanctions"][0]["liftedBy"]),
        (&json!(true), &json!("environment"))
    );
    assert_eq!(operated.status().await, 200);
    assert_eq!(operated.told("DELETE", "sanctions/127.0.0.1", "").await["changed"], false);
    let audit = audit(&operated).await;
    assert_eq!(audit.len(), 2, "{audit:?}");
    let [by, action, target, before, after] = &audit[0];
    assert_eq!((by.as_str(), action.as_str(), before.as_str()), ("environment", "impose ban", ""));
    assert!(target.starts_with("address:") && after.contains("scraping"), "{audit:?}");
    let [_, action, lifted, before, after] = &audit[1];
    assert_eq!((action.as_str(), lifted, after.as_str()), ("lift", target, ""));
    assert!(before.contains("scraping"), "{audit:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_whose_counters_begin_anew_passes_again() {
    let operated = Operated::start(&format!(
        "{POLICY}[[limit]]\nid = \"edge\"\nlayer = \"edge\"\nrate = \"1000/day\"\n[[limit]]\nid = \"all\"\n\
         layer = \"endpoint\"\nper = \"everyone\"\nrate = \"1000/day\"\n"
    ));
    for status in [200, 200, 429] {
        assert_eq!(operated.status().await, status);
    }
    let other = operated.told("POST", "reset-limits", r#"{"clientId": "192.0.2.7"}"#).await;
    assert_eq!((operated.status().await, &other["limits"]), (429, &json!(["edge", "api"])), "somebody else");
    let reset =
        operated.told("POST", "reset-limits", r#"{"clientId": "127.0.0.1", "endpoint": "edge"}"#).await;
    assert_eq!((operated.status().await, &reset["limits"]), (429, &json!(["edge"])), "another limit");
    for endpoint in ["\"api\"", "\"/\"", "\"GET /\""] {
        let body = format!("{{\"clientId\": \"127.0.0.1\", \"endpoint\": {endpoint}}}");
        operated.told("POST", "reset-limits", &body).await;
        for status in [200, 200, 429] {
            assert_eq!(operated.status().await, status, "{endpoint}");
        }
    }
    let audit = audit(&operated).await;
    assert!(audit.iter().all(|[_, action, target, ..]| action == "reset" && target.starts_with("address:")));
    assert_eq!(audit.len(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_override_acts_at_once_and_is_gone_when_it_is_removed() {
    let operated = Operated::start(POLICY);
    for status in [200, 200, 429] {
        assert_eq!(operated.status().await, status);
    }
    let set =
        operated.told("PUT", "overrides/launch", r#"{"limit": "api", "rate": "5/day", "for": "1h"}"#).await;
    assert_eq!(set["override"]["inForce"], true, "{set}");
    assert_eq!(operated.status().await, 200);
    operated.told("PUT", "overrides/launch", r#"{"limit": "api", "rate": "4/day"}"#).await;
    let listed = operated.told("GET", "overrides", "").await;
    assert_eq!((&listed["items"][0]["rate"], &listed["next"]), (&json!("4/day"), &json!(null)));
    assert_eq!(operated.told("DELETE", "overrides/launch", "").await["changed"], true);
    assert_eq!(operated.told("DELETE", "overrides/launch", "").await["changed"], false);
    assert_eq!(operated.status().await, 429);
    let audit = audit(&operated).await;
    let [_, action, target, before, after] = &audit[1];
    assert_eq!((action.as_str(), target.as_str()), ("set", "override launch"));
    assert!(before.contains("5/day") && after.contains("4/day"), "{audit:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tenants_get_the_numbers_of_their_tier() {
    let operated = Operated::start(
        "[identity]\ntrusted_proxies = [\"127.0.0.1\"]\ntenant = { header = \"x-tenant\" }\nunknown_tier = \"free\"\n\
         [tiers.free]\njobs = \"1/day\"\n[tiers.paid]\njobs = \"3/day\"\n\
         [[limit]]\nid = \"jobs\"\nlayer = \"tenant\"\ncategory = \"jobs\"\n",
    );
    let ask = async || {
        let request = operated.asker.request("GET", "/", &[("x-tenant", "acme")], "");
        operated.asker.send(request).await.status.as_u16()
    };
    assert_eq!((ask().await, ask().await), (200, 429));
    let set = operated.told("PUT", "tenants/acme", r#"{"tier": "paid"}"#).await;
    assert!(set["tenant"]["subject"].as_str().unwrap().starts_with("tenant:"), "{set}");
    assert_eq!((ask().await, ask().await, ask().await), (200, 200, 429));
    assert_eq!(operated.told("GET", "tenants", "").await["items"][0]["tier"], "paid");
    assert_eq!(operated.told("DELETE", "tenants/acme", "").await["changed"], true);
    assert_eq!(operated.told("GET", "tenants", "").await["items"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn lockouts_are_listed_and_lifted() {
    let operated = Operated::start("[login]\nlockout = [{ failures = 2, lock = \"1h\" }]\n");
    operated.fails_login().await;
    operated.fails_login().await;
    assert_eq!(operated.fails_login().await, 429);
    let listed = operated.told("GET", "lockouts?client=alice%40example.com", "").await;
    assert_eq!(listed["items"].as_array().unwrap().len(), 1, "{listed}");
    assert_eq!(operated.told("GET", "lockouts?client=bob", "").await["items"], json!([]));
    assert_eq!(operated.told("DELETE", "lockouts/alice%40example.com", "").await["changed"], true);
    assert_eq!(operated.told("GET", "lockouts", "").await["items"], json!([]));
    assert_eq!(operated.fails_login().await, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_status_has_the_shape_that_was_promised() {
    let operated =
        Operated::with(POLICY, &["--archive", "archive"], &[("THRESHOLD_ADMIN_TOKEN", super::common::TOKEN)]);
    operated.status().await;
    let status = operated.told("GET", "rate-limit-status", "").await;
    assert_eq!(status["currentStrategy"], "full");
    for (component, word) in
        [("store", "healthy"), ("cache", "none"), ("ledger", "healthy"), ("archive", "healthy")]
    {
        assert_eq!(status["components"][component]["status"], word, "{status}");
        assert_eq!(status["components"][component]["failures"], 0, "{status}");
    }
    assert_eq!(status["memoryStore"]["entries"], 1, "{status}");
    assert!(status["memoryStore"]["maxEntries"].as_u64().unwrap() > 1_000_000, "{status}");
    let done = operated.told("POST", "maintenance", "{}").await;
    assert!(done["archivedRows"].as_u64().unwrap() >= 1, "{done}");
    let rates = operated.told("GET", "analytics?window=24h&view=rates", "").await;
    assert_eq!(
        (&rates["rows"][0]["endpoint"], &rates["rows"][0]["total_requests"]),
        (&json!("api"), &json!(1))
    );
    let clients = operated.told("GET", "analytics?view=clients", "").await;
    assert_eq!(clients["rows"][0]["total_requests"], 1, "{clients}");
    let client = operated.told("GET", "client-analytics/127.0.0.1?window=7d", "").await;
    assert_eq!(client["usage"][0]["total_requests"], 1, "{client}");
    assert_eq!(client["subjects"], json!([clients["rows"][0]["client_id"]]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pinned_strategy_holds_until_it_is_taken_back() {
    let arguments = ["--store", "sqlite://counters.sqlite"];
    let operated = Operated::with(POLICY, &arguments, &[("THRESHOLD_ADMIN_TOKEN", super::common::TOKEN)]);
    let pinned = operated.told("PUT", "strategy", r#"{"strategy": "memory-only"}"#).await;
    assert_eq!(pinned["currentStrategy"], "memory-only");
    let refused = operated.ask("PUT", "strategy", r#"{"strategy": "cache-only"}"#).await;
    assert_eq!(refused.status, 422, "{}", refused.text());
    let status = operated.told("GET", "rate-limit-status", "").await;
    assert_eq!(
        (&status["currentStrategy"], &status["health"]["strategy"]),
        (&json!("memory-only"), &json!("memory-only"))
    );
    let back = operated.told("PUT", "strategy", r#"{"strategy": null}"#).await;
    assert_eq!((&back["currentStrategy"], &back["pinnedStrategy"]), (&json!("full"), &json!(null)));
    let recovered = operated.told("POST", "force-recovery", r#"{"component": "store"}"#).await;
    assert_eq!(recovered["wasFailing"], false);
    let audit = audit(&operated).await;
    assert_eq!(audit[0][1..], ["pin", "strategy", "", "memory-only"], "{audit:?}");
    assert_eq!(audit[1][1..], ["pin", "strategy", "memory-only", ""], "{audit:?}");
    assert_eq!(audit[2][1..3], ["recover", "store"], "{audit:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn explaining_charges_nothing() {
    let operated = Operated::start(POLICY);
    let asked = r#"{"ip": "127.0.0.1", "method": "GET", "path": "/"}"#;
    for _ in 0..5 {
        let told = operated.told("POST", "explain", asked).await;
        assert_eq!((&told["considered"][0]["limit"], &told["passesAfterMs"]), (&json!("api"), &json!(0)));
    }
    assert_eq!((operated.status().await, operated.status().await), (200, 200));
    let told = operated.told("POST", "explain", asked).await;
    assert!(told["passesAfterMs"].as_u64().unwrap() > 0, "{told}");
    operated.told("POST", "sanctions", r#"{"client": "127.0.0.1", "for": "1h", "reason": "why"}"#).await;
    assert_eq!(operated.told("POST", "explain", asked).await["refused"], "banned");
}

#[tokio::test(flavor = "multi_thread")]
async fn users_and_tenants_begin_anew_each_by_itself() {
    let operated = Operated::start(
        "[identity]\ntrusted_proxies = [\"127.0.0.1\"]\ntenant = { header = \"x-tenant\" }\nuser = { header = \"x-user\" }\n\
         [tenants]\nacme = \"free\"\n[tiers.free]\njobs = \"3/day\"\n\
         [[limit]]\nid = \"jobs\"\nlayer = \"tenant\"\ncategory = \"jobs\"\n\
         [[limit]]\nid = \"people\"\nlayer = \"user\"\nrate = \"1/day\"\nblock_for = \"1h\"\n",
    );
    let ask = async || {
        let headers = [("x-tenant", "acme"), ("x-user", "alice")];
        let answer = operated.asker.send(operated.asker.request("GET", "/", &headers, "")).await;
        (answer.status.as_u16(), answer.header("content-type") == "application/problem+json")
    };
    let reset = async |client: &str| {
        let body = json!({ "clientId": client }).to_string();
        operated.told("POST", "reset-limits", &body).await["limits"].clone()
    };
    assert_eq!((ask().await.0, ask().await.0), (200, 429), "once a day");
    assert_eq!((reset("bob").await, ask().await.0), (json!(["people"]), 429), "somebody else");
    assert_eq!(
        (reset("alice").await, ask().await.0),
        (json!(["people"]), 429),
        "without the tenant it is another user"
    );
    for _ in 0..2 {
        assert_eq!(
            (reset("acme/alice").await, ask().await.0),
            (json!(["people"]), 200),
            "its gate is open, too"
        );
        assert_eq!(ask().await.0, 429);
    }
    assert_eq!(
        (reset("acme/alice").await, ask().await),
        (json!(["people"]), (429, true)),
        "the tenant has used all"
    );
    assert_eq!(reset("tenant:acme").await, json!(["jobs"]));
    reset("acme/alice").await;
    assert_eq!(ask().await.0, 200);
}
