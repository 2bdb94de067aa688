//! `threshold status` and `threshold audit`, as they are typed.

use super::common::{Operated, POLICY, TOKEN};

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_asks_a_running_server() {
    let operated = Operated::start(POLICY);
    let (admin, token) = (operated.server.admin, [("THRESHOLD_ADMIN_TOKEN", TOKEN)]);
    let told = operated.run(&format!("status --admin http://{admin}"), &token);
    let text = String::from_utf8(told.stdout).unwrap();
    assert_eq!(told.status.code(), Some(0), "{text}{}", String::from_utf8_lossy(&told.stderr));
    assert!(text.contains("COMPONENT") && text.contains("strategy  full"), "{text}");
    let told = operated.run(&format!("status --json --admin http://{admin}/"), &token);
    let document: serde_json::Value = serde_json::from_slice(&told.stdout).unwrap();
    assert_eq!(document["components"]["ledger"]["status"], "healthy");
    let told = operated.run(&format!("audit --admin http://{admin}"), &token);
    assert_eq!(String::from_utf8(told.stdout).unwrap(), "Nothing was changed.\n");
    for number in 0..3 {
        let ban = format!("{{\"client\": \"192.0.2.{number}\", \"for\": \"1h\", \"reason\": \"{number}\"}}");
        operated.told("POST", "sanctions", &ban).await;
    }
    std::fs::write(operated.server.folder.path().join("token"), format!("{TOKEN}\n")).unwrap();
    let told = operated.run(&format!("audit --rows 2 --json --token-file token --admin http://{admin}"), &[]);
    let document: serde_json::Value = serde_json::from_slice(&told.stdout).unwrap();
    let after: Vec<&str> =
        document.as_array().unwrap().iter().map(|one| one["after"].as_str().unwrap()).collect();
    assert!(after.len() == 2 && after[0].ends_with(": 1") && after[1].ends_with(": 2"), "{after:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn mistakes_are_told_with_a_remedy() {
    let operated = Operated::start(POLICY);
    let admin = operated.server.admin;
    for (line, token, remedy) in [
        (format!("status --admin http://{admin}"), None, "--token-file"),
        (format!("status --admin http://{admin}"), Some("wrong-token"), "threshold token list"),
        (format!("status --admin {admin}"), Some(TOKEN), "write one such as"),
        (format!("status --admin http://{}", operated.server.gateway), Some(TOKEN), "--admin"),
        ("status --admin http://127.0.0.1:1".to_owned(), Some(TOKEN), "--admin"),
    ] {
        let environment: Vec<_> = token.map(|token| ("THRESHOLD_ADMIN_TOKEN", token)).into_iter().collect();
        let told = operated.run(&line, &environment);
        let said = String::from_utf8(told.stderr).unwrap();
        assert_eq!(told.status.code(), Some(2), "{line}: {said}");
        assert!(said.contains(remedy), "{line}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bans_lockouts_and_overrides_work_on_a_running_server() {
    let operated = Operated::start(POLICY);
    let at = format!("--admin http://{}", operated.server.admin);
    let run = |line: &str| {
        let told = operated.run(&format!("{line} {at}"), &[("THRESHOLD_ADMIN_TOKEN", TOKEN)]);
        let said =
            format!("{}{}", String::from_utf8_lossy(&told.stdout), String::from_utf8_lossy(&told.stderr));
        (told.status.code().unwrap(), said)
    };
    assert_eq!(run("bans add --address 127.0.0.1 --for 24h --reason scraping").0, 0);
    assert_eq!(operated.status().await, 429);
    let (_, listed) = run("bans list --json --address 127.0.0.1");
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    assert_eq!((&listed[0]["inForce"], &listed[0]["operator"]), (&true.into(), &"environment".into()));
    let local = operated.run("bans list --json --data-dir threshold-data", &[]);
    let local: serde_json::Value = serde_json::from_slice(&local.stdout).unwrap();
    assert_eq!(local, listed, "the same, whoever is asked");
    assert!(run("bans list").1.contains("scraping"));
    assert_eq!(run("bans lift --address 127.0.0.1").0, 0);
    assert_eq!(run("bans lift --address 127.0.0.1").0, 1);
    for status in [200, 200, 429] {
        assert_eq!(operated.status().await, status);
    }
    let (code, said) = run("overrides add launch --limit api --rate 9/day --for 1h");
    assert_eq!(code, 0, "{said}");
    assert_eq!(operated.status().await, 200);
    assert!(run("overrides list").1.contains("9/day"));
    assert_eq!((run("overrides lift launch").0, run("overrides lift launch").0), (0, 1));
    assert_eq!((run("lockouts list").0, run("lockouts lift --account alice").0), (0, 1));
    let (code, said) = run("overrides add launch --limit nothing --rate 9/day");
    assert!(code == 2 && said.contains("threshold check"), "{code} {said}");
}
