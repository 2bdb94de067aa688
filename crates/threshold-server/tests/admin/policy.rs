//! Policies that are changed over the API.

use serde_json::json;

use super::common::{Operated, POLICY, TOKEN, assert_problem};
use crate::support::server::Server;

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

/// Two look at the same policy, and both change it.
#[tokio::test(flavor = "multi_thread")]
async fn who_changes_another_policy_than_it_looked_at_is_told() {
    let operated = Operated::start(POLICY);
    let version = operated.told("GET", "policy", "").await["version"].clone();
    let apply = |rate: &str, base: &serde_json::Value| {
        json!({ "policy": POLICY.replace("2/day", rate), "base": base }).to_string()
    };
    operated.told("POST", "policy/apply", &apply("3/day", &version)).await;
    let late = operated.ask("POST", "policy/apply", &apply("4/day", &version)).await;
    assert_problem(&late, 409, "policy_changed");
    let shown = operated.told("GET", "policy", "").await;
    assert_eq!(shown["report"]["limits"][0]["rate"], "3/day");
    // Both go back: once is what both want.
    let back = json!({ "base": shown["version"] }).to_string();
    operated.told("POST", "policy/rollback", &back).await;
    assert_problem(&operated.ask("POST", "policy/rollback", &back).await, 409, "policy_changed");
    let shown = operated.told("GET", "policy", "").await;
    assert_eq!((&shown["report"]["limits"][0]["rate"], &shown["version"]), (&json!("2/day"), &version));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_the_file_is_written_down_and_can_be_taken_back() {
    let mut operated = Operated::start(POLICY);
    let of = |rate: &str| POLICY.replace("2/day", rate);
    operated.told("POST", "policy/apply", &json!({ "policy": of("3/day") }).to_string()).await;
    operated.told("POST", "policy/rollback", "{}").await;
    operated.server.write_policy(&of("7/day"));
    operated.server.hears(r#""action":"take over""#, 1);
    let log = operated.told("GET", "audit?order=newest&limit=2", "").await;
    let (file, rolled) = (&log["items"][0], &log["items"][1]);
    assert_eq!((&file["by"], &file["before"]), (&json!("policy file"), &rolled["after"]), "{log}");
    operated.told("POST", "policy/rollback", "{}").await;
    let shown = operated.told("GET", "policy", "").await;
    assert_eq!(
        shown["report"]["limits"][0]["rate"], "2/day",
        "what was in force before the file was changed"
    );
}

/// Whatever is in the file that was never looked at is somebody's work.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_saved_a_moment_ago_is_not_written_over() {
    let mut operated = Operated::start(POLICY);
    let of = |rate: &str| json!({ "policy": POLICY.replace("2/day", rate) }).to_string();
    for number in 1..=10 {
        let by_hand = POLICY.replace("2/day", &format!("{number}0/day"));
        operated.server.write_policy(&by_hand);
        let answer = operated.ask("POST", "policy/apply", &of("9/day")).await;
        // It was in force before, or it is now, whoever was faster: it is written down either way.
        operated.server.hears(r#""action":"take over""#, number);
        if answer.status == 409 {
            assert_problem(&answer, 409, "policy_changed");
            let shown = operated.told("GET", "policy", "").await;
            assert_eq!(shown["text"], json!(by_hand));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_was_refused_can_be_replaced() {
    let mut operated = Operated::start(POLICY);
    operated.server.write_policy("limit = [");
    operated.server.hears("policy refused", 1);
    let policy = POLICY.replace("2/day", "4/day");
    operated.told("POST", "policy/apply", &json!({ "policy": policy }).to_string()).await;
    let file = operated.server.folder.path().join("policy.toml");
    assert_eq!(std::fs::read_to_string(file).unwrap(), policy);
}

#[test]
fn a_policy_that_limits_nothing_is_told_at_the_start_and_when_it_is_read_again() {
    let mut server = Server::with("# nothing yet\n", &[], &[]);
    server.hears("there is no limit: every request passes", 1);
    server.write_policy("# still nothing\n");
    server.hang_up();
    server.hears("there is no limit: every request passes", 2);
}
