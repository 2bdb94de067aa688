//! Policies that are changed over the API.

use serde_json::json;

use super::common::{Operated, POLICY, TOKEN};

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_is_put_in_force_and_taken_back() {
    let operated = Operated::start(POLICY);
    let file = operated.server.folder.path().join("policy.toml");
    let rolled = operated.ask("POST", "policy/rollback", "{}").await;
    assert_eq!(rolled.status, 409, "{}", rolled.text());
    let stricter = POLICY.replace("2/day", "1/day");
    let applied = operated.told("POST", "policy/apply", &json!({ "policy": stricter }).to_string()).await;
    assert_eq!(
        (&applied["changed"], &applied["report"]["limits"][0]["rate"]),
        (&json!(true), &json!("1/day"))
    );
    assert_eq!((operated.status().await, operated.status().await), (200, 429), "in force when it is told");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), stricter);
    let broken = operated
        .ask("POST", "policy/apply", &json!({ "policy": "[[limit]]\nid = \"x\"\n" }).to_string())
        .await;
    assert_eq!(broken.status, 422);
    assert!(broken.json()["problems"].as_array().is_some_and(|all| !all.is_empty()), "{}", broken.text());
    assert_eq!(std::fs::read_to_string(&file).unwrap(), stricter, "nothing of it is written");
    operated.told("POST", "policy/rollback", "{}").await;
    assert_eq!(std::fs::read_to_string(&file).unwrap(), POLICY);
    assert_eq!((operated.status().await, operated.status().await), (200, 429));
    let shown = operated.told("GET", "policy", "").await;
    assert_eq!((&shown["text"], &shown["canRollBack"]), (&json!(POLICY), &json!(true)));
    let log = operated.told("GET", "audit", "").await;
    let (applied, rolled) = (&log["items"][0], &log["items"][1]);
    assert_eq!((&applied["action"], &rolled["action"]), (&json!("apply"), &json!("roll back")), "{log}");
    assert_eq!((&applied["before"], &applied["after"]), (&rolled["after"], &rolled["before"]), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn validating_changes_nothing_and_the_text_is_for_who_may_change_it() {
    let operated = Operated::start(POLICY);
    let report = operated.told("POST", "policy/validate", &json!({ "policy": POLICY }).to_string()).await;
    assert_eq!((&report["ok"], &report["limits"][0]["id"]), (&json!(true), &json!("api")));
    let report = operated.told("POST", "policy/validate", r#"{"policy": "limit = 1"}"#).await;
    assert_eq!(report["ok"], false);
    let reader = operated.token("read");
    let shown = operated.ask_as(&reader, ("GET", "policy"), &[], "").await.json();
    assert_eq!((&shown["text"], &shown["report"]["ok"]), (&json!(null), &json!(true)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_the_file_is_what_is_told() {
    let mut operated = Operated::start(POLICY);
    operated.server.write_policy(&POLICY.replace("2/day", "7/day"));
    operated.server.hang_up();
    operated.server.hears("policy reloaded", 1);
    let shown = operated.ask_as(TOKEN, ("GET", "policy"), &[], "").await.json();
    assert_eq!(shown["report"]["limits"][0]["rate"], "7/day", "{shown}");
}
