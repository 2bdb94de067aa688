//! Tokens as people make and revoke them.

use super::common::{Operated, POLICY, TOKEN, assert_problem};
use crate::support::listener::Listener;

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

/// A port that is taken is the most usual mistake of a first start.
#[test]
fn a_start_that_fails_makes_no_token_that_nobody_saw() {
    let folder = threshold_testkit::folder::Folder::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let gateway = taken.local_addr().unwrap().to_string();
    let arguments = ["serve", "--api", "off", "--resp", "off", "--rls", "off", "--admin", "127.0.0.1:0"];
    let failed = std::process::Command::new(env!("CARGO_BIN_EXE_threshold"))
        .current_dir(folder.path())
        .env_remove("THRESHOLD_ADMIN_TOKEN")
        .args(arguments)
        .args(["--gateway", &gateway])
        .output()
        .unwrap();
    assert_eq!(failed.status.code(), Some(2), "{}", String::from_utf8_lossy(&failed.stderr));
    assert!(!folder.path().join("threshold-data/admin-tokens.json").exists());
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

#[tokio::test(flavor = "multi_thread")]
async fn who_listens_hears_no_more_once_its_token_is_revoked() {
    let operated = Operated::start(POLICY);
    let token = operated.token("read");
    let mut leaver = Listener::new(&operated.server, &token, "");
    let mut other = Listener::new(&operated.server, TOKEN, "");
    assert_eq!(operated.run("token revoke read", &[]).status.code(), Some(0));
    other.hears(r#""action":"revoke""#);
    leaver.ends();
    let ban = r#"{"client": "192.0.2.7", "for": "1h", "reason": "not for everybody"}"#;
    operated.told("POST", "sanctions", ban).await;
    other.hears("not for everybody");
    assert!(!leaver.1.contains("not for everybody"), "{}", leaver.1);
}

#[test]
fn beyond_this_machine_a_token_of_the_file_is_enough() {
    let folder = threshold_testkit::folder::Folder::new();
    std::fs::write(folder.path().join("policy.toml"), POLICY).unwrap();
    let run = |line: &str| {
        std::process::Command::new(env!("CARGO_BIN_EXE_threshold"))
            .current_dir(folder.path())
            .env_remove("THRESHOLD_ADMIN_TOKEN")
            .args(line.split(' '))
            .output()
            .unwrap()
    };
    let serve =
        "serve --config policy.toml --gateway 127.0.0.1:0 --api off --resp off --rls off --admin 0.0.0.0:0";
    let refused = run(serve);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("beyond this machine it needs a token") && said.contains("threshold token create"));
    assert!(!folder.path().join("threshold-data/admin-tokens.json").exists(), "none was made");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_a_token_in_its_file_is_asked_from_elsewhere() {
    let data = threshold_testkit::folder::Folder::new();
    let made = std::process::Command::new(env!("CARGO_BIN_EXE_threshold"))
        .args(["token", "create", "--scope", "admin", "--name", "me", "--data-dir"])
        .arg(data.path())
        .output()
        .unwrap();
    let token = String::from_utf8(made.stdout).unwrap().trim().to_owned();
    let arguments = ["--admin", "0.0.0.0:0", "--data-dir", data.path().to_str().unwrap()];
    let mut operated = Operated::with(POLICY, &arguments, &[]);
    let policy = format!("{POLICY}\n# Read again with the same surfaces.\n");
    operated.server.write_policy(&policy);
    operated.server.hears("policy reloaded", 1);
    let at = std::net::SocketAddr::from(([127, 0, 0, 1], operated.server.admin.port()));
    let client = crate::support::client::Client::new(at);
    let bearer = format!("Bearer {token}");
    let request = client.request("GET", "/api/admin/rate-limit-status", &[("authorization", &bearer)], "");
    assert_eq!(client.send(request).await.status, 200);
}
