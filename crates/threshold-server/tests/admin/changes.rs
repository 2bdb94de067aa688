//! Changes that the ledger has no records of: each is one event, for who listens, in the log and in the archive.

use serde_json::{Value as Json, json};

use super::common::{Operated, POLICY, TOKEN};
use crate::support::listener::Listener;

const ENVIRONMENT: [(&str, &str); 1] = [("THRESHOLD_ADMIN_TOKEN", TOKEN)];

#[tokio::test(flavor = "multi_thread")]
async fn every_change_is_one_event() {
    let arguments = ["--store", "sqlite://counters.sqlite", "--archive", "archive"];
    let mut operated = Operated::with(POLICY, &arguments, &ENVIRONMENT);
    let mut listener = Listener::new(&operated.server, TOKEN, "?event=admin_changed,subject_erased");
    operated.told("PUT", "strategy", r#"{"strategy": "memory-only"}"#).await;
    operated.told("PUT", "strategy", r#"{"strategy": null}"#).await;
    operated.told("POST", "force-recovery", r#"{"component": "store"}"#).await;
    let policy = json!({ "policy": POLICY.replace("2/day", "3/day") }).to_string();
    operated.told("POST", "policy/apply", &policy).await;
    operated.told("POST", "policy/rollback", "{}").await;
    operated.told("POST", "reset-limits", r#"{"clientId": "192.0.2.7"}"#).await;
    operated.told("POST", "maintenance", "{}").await;
    operated.told("DELETE", "subjects/192.0.2.7", "").await;
    operated.token("read");
    listener.hears("\"target\":\"token read\"");
    assert!(operated.run("token revoke read", &[]).status.success());
    listener.hears("\"action\":\"revoke\"");
    let told = listener.documents();
    let action = |one: &Json| one["action"].as_str().unwrap_or("erased").to_owned();
    let actions: Vec<String> = told.iter().map(action).collect();
    let wanted = [
        "pin",
        "pin",
        "recover",
        "apply",
        "roll back",
        "reset",
        "maintain",
        "erased",
        "erase counters and archive",
        "make",
        "revoke",
    ];
    assert_eq!(actions, wanted, "{told:?}");
    assert_eq!((&told[0]["before"], &told[0]["after"]), (&json!(""), &json!("memory-only")));
    assert_eq!((&told[9]["by"], &told[9]["after"]), (&json!("token file"), &json!("read")));
    assert!(told.iter().take(9).all(|one| one["by"] == "environment"), "{told:?}");
    assert!(told.iter().all(|one| one["timestamp"].is_string()), "{told:?}");
    operated.server.tells("\"event\":\"admin_changed\"", 10);
    operated.server.tells("\"event\":\"subject_erased\"", 1);
    // Those after the maintenance above, which is written down itself: it, the erasure with its note, and the token's two.
    let done = operated.told("POST", "maintenance", "{}").await;
    assert_eq!(done["archivedEvents"], 5, "{done}");
}

/// What moves a cursor or turns a line round does so in the terminal of whoever looks at the log, too.
#[tokio::test(flavor = "multi_thread")]
async fn what_operators_write_is_harmless_in_the_log_and_to_listeners() {
    let mut operated = Operated::start(POLICY);
    let mut listener = Listener::new(&operated.server, TOKEN, "");
    let ban = json!({ "client": "192.0.2.7", "for": "1h", "reason": "over \u{9b}31m\u{202e}done" });
    operated.told("POST", "sanctions", &ban.to_string()).await;
    let written = r"over \u009b31m\u202edone";
    listener.hears(written);
    operated.server.hears(written, 1);
}
