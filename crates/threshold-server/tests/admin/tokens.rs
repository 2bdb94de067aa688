//! Tokens as people make and revoke them.

use super::common::{Operated, POLICY, assert_problem};

#[tokio::test(flavor = "multi_thread")]
async fn the_first_token_is_shown_once_and_kept_as_a_hash() {
    let operated = Operated::with(POLICY, &[], &[]);
    let said = operated.server.said();
    let line = said.lines().find(|line| line.trim_start().starts_with("token")).unwrap();
    let token = line.split_whitespace().nth(1).unwrap();
    assert_eq!(token.len(), 64, "{line}");
    let answer = operated.ask_as(token, ("GET", "rate-limit-status"), &[], "").await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let file = operated.server.folder.path().join("threshold-data/admin-tokens.json");
    assert!(!std::fs::read_to_string(file).unwrap().contains(token));
    assert_eq!(said.matches(token).count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_work_until_they_are_revoked_and_sign_what_they_change() {
    let operated = Operated::start(POLICY);
    let token = operated.token("operate");
    let ban = r#"{"client": "192.0.2.7", "for": "1h", "reason": "why"}"#;
    let answer = operated.ask_as(&token, ("POST", "sanctions"), &[], ban).await;
    assert_eq!(answer.json()["sanctions"][0]["operator"], "operate", "{}", answer.text());
    let listed = operated.run("token list --json", &[]);
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!((&listed[0]["name"], &listed[0]["scope"]), (&"operate".into(), &"operate".into()));
    assert!(!listed.to_string().contains(&token));
    assert_eq!(operated.run("token revoke operate", &[]).status.code(), Some(0));
    assert_eq!(operated.run("token revoke operate", &[]).status.code(), Some(1));
    let answer = operated.ask_as(&token, ("GET", "audit"), &[], "").await;
    assert_problem(&answer, 401, "unauthorized");
}
