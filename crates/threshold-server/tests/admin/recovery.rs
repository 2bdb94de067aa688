//! A component that was given up is tried at once when an operator says so, in a real outage.

use threshold_testkit::servers::{Postgres, Redis};

use super::common::{Operated, TOKEN};
use crate::support::client::Client;

const ENVIRONMENT: [(&str, &str); 2] = [
    ("THRESHOLD_ADMIN_TOKEN", TOKEN),
    ("THRESHOLD_SECRET", "a secret of some length, the same on every node"),
];

/// A component that fails is left alone for an hour, and decisions that need it are refused.
const PATIENT: &str = "[store]\nbreaker = { failures = 3, open = \"1h\", probe = \"1h\" }\n";
const TEN: &str = "[[limit]]\nid = \"ten\"\nlayer = \"user\"\nper = \"ip\"\nrate = \"10/day\"\non_store_failure = \"closed\"\n";

async fn statuses(operated: &Operated, requests: usize) -> Vec<u16> {
    let mut statuses = Vec::new();
    for _ in 0..requests {
        statuses.push(operated.status().await);
    }
    statuses
}

/// Every counter, as Redis has it.
fn counters(redis: &Redis) -> Vec<String> {
    let mut keys: Vec<String> = redis.cli(&["KEYS", "*"]).unwrap().lines().map(str::to_owned).collect();
    keys.sort();
    keys.iter().map(|key| format!("{key} {}", redis.cli(&["DUMP", key]).unwrap())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_decides_exactly_again_at_once() {
    let mut redis = Redis::durable();
    let store = format!("{}?timeout=1000", redis.url());
    let arguments = ["--store", &store, "--ledger", "sqlite://ledger.sqlite"];
    let operated = Operated::with(&format!("{PATIENT}{TEN}"), &arguments, &ENVIRONMENT);
    assert_eq!(statuses(&operated, 4).await, [200; 4]);
    redis.kill();
    assert_eq!(statuses(&operated, 6).await, [503; 6]);
    let status = operated.told("GET", "rate-limit-status", "").await;
    assert_eq!(status["components"]["store"]["status"], "failing", "{status}");
    redis.start_again();
    let before = counters(&redis);
    assert_eq!(statuses(&operated, 6).await, [503; 6], "it is left alone");
    assert_eq!(counters(&redis), before, "nobody has asked it");
    let recovered = operated.told("POST", "force-recovery", r#"{"component": "store"}"#).await;
    assert_eq!(recovered["wasFailing"], true, "{recovered}");
    assert_eq!(operated.status().await, 200, "the very next one: {}", operated.server.said());
    assert_ne!(counters(&redis), before, "it was charged there");
    assert_eq!(statuses(&operated, 6).await, [200, 200, 200, 200, 200, 429], "ten in all, before and after");
    let status = operated.told("GET", "rate-limit-status", "").await;
    assert_eq!(status["components"]["store"]["status"], "healthy", "{status}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ledger_is_written_again_and_what_could_not_be_written_down_is_told() {
    let mut postgres = Postgres::start();
    let ledger = postgres.url();
    let policy = format!(
        "{PATIENT}[[limit]]\nid = \"one\"\nlayer = \"user\"\nper = \"ip\"\nrate = \"1/day\"\n\
         [ladder]\nrungs = [{{ strikes = 1, ban = \"1h\" }}]\n"
    );
    let mut operated = Operated::with(&policy, &["--ledger", &ledger], &ENVIRONMENT);
    postgres.kill();
    operated.server.hears("ledger_failed", 1);
    // Each is due a strike that nobody can write down.
    for last in 1..=5 {
        let client = Client::from(operated.server.gateway, [127, 0, 0, last]);
        assert_eq!(
            (client.get("/").await.status, client.get("/").await.status.as_u16()),
            (http::StatusCode::OK, 429)
        );
    }
    let status = operated.told("GET", "rate-limit-status", "").await;
    assert_eq!(status["components"]["ledger"]["status"], "failing", "{status}");
    let tried = operated.told("POST", "force-recovery", r#"{"component": "ledger"}"#).await;
    assert_eq!((&tried["wasFailing"], &tried["audited"]), (&true.into(), &false.into()), "{tried}");
    operated.server.tells("\"event\":\"admin_changed\"", 1);
    operated.server.tells("not in the audit log: recover ledger", 1);
    postgres.start_again();
    operated.told("POST", "force-recovery", r#"{"component": "ledger"}"#).await;
    let client = Client::from(operated.server.gateway, [127, 0, 0, 9]);
    client.get("/").await;
    client.get("/").await;
    assert!(client.get("/").await.headers.contains_key("x-ratelimit-banned"), "{}", operated.server.said());
    let found = postgres.sql("SELECT count(*) FROM threshold.ledger_rows WHERE class = 'violation'");
    assert_eq!(found.trim(), "1");
}
