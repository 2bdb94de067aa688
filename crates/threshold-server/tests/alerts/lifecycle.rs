//! An alarm from the first refusal to its end.

use std::process::Command;

use serde_json::Value as Json;

use super::receiver::{Post, Receiver, SECRET, ban, policy, webhook};
use crate::support::client::Client;
use crate::support::server::Server;

fn is_over(posts: &[Post]) -> bool {
    posts.iter().any(|post| post.text.contains("resolved"))
}

fn state(json: &Json) -> (String, String) {
    (json["state"].as_str().unwrap().to_owned(), json["severity"].as_str().unwrap().to_owned())
}

/// What the code that the guide gives to receivers says of `post`.
fn guide_verifies(post: &Post, secret: &str) -> bool {
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/alerts.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    let code = guide.split("```python\n").nth(1).unwrap().split("```").next().unwrap();
    let code =
        format!("import sys\n{code}\nprint(verify(sys.argv[1], sys.argv[2].encode(), sys.argv[3].encode()))");
    let signature = post.signature.as_deref().unwrap();
    let ran = Command::new("python3").args(["-c", &code, signature, &post.text, secret]).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    ran.stdout == b"True\n"
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_alarm_is_raised_under_load_signed_and_over_when_it_is() {
    let receiver = Receiver::start(&[200]).await;
    let address = format!("http://{}/hook", receiver.application.address);
    let hook = webhook(&address, &format!("secret = \"{SECRET}\""));
    let policy = policy(&format!("allow = [\"127.0.0.1\"]\n{hook}"));
    let mut server = Server::with(&policy, &["--node", "gateway-7"], &[]);
    ban(&server, 8).await;
    let posts = receiver.until(is_over).await;
    assert!(posts.iter().all(Post::is_signed), "{posts:#?}");
    let alerts: Vec<Json> = posts.iter().map(Post::json).collect();
    assert!(alerts.iter().all(|alert| alert["alert"] == "bans" && alert["metric"] == "bans"));
    let states: Vec<_> = alerts.iter().map(state).collect();
    assert!(states.windows(2).all(|two| two[0] != two[1]), "told twice: {states:?}");
    assert!(states.contains(&("firing".to_owned(), "critical".to_owned())), "{states:?}");
    let worst = alerts.iter().find(|alert| alert["severity"] == "critical").unwrap();
    assert!(worst["value"].as_u64().unwrap() >= 5 && worst["threshold"] == 5, "{worst}");
    assert_eq!(worst["windowSeconds"], 4);
    assert!(alerts.iter().all(|alert| alert["node"] == "gateway-7"), "which node it was: {alerts:#?}");
    assert!(worst["text"].as_str().unwrap().ends_with(", on gateway-7"), "{worst}");
    assert_eq!(states.last().unwrap().0, "resolved");
    assert!(guide_verifies(&posts[0], SECRET) && !guide_verifies(&posts[0], "another secret of that length"));
    // The log has the same alarms, and nobody's secret.
    server.tells("\"event\":\"alert\"", posts.len());
    server.tells("\"node\":\"gateway-7\"", posts.len());
    assert!(!server.said().contains(SECRET) && !server.said().contains("/hook"), "{}", server.said());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slack_is_told_in_its_own_words_and_whom_it_concerns_alone() {
    let receiver = Receiver::start(&[200]).await;
    let address = format!("http://{}", receiver.application.address);
    let hooks = webhook(&format!("{address}/slack"), "format = \"slack\"")
        + &webhook(&format!("{address}/pager"), "min_severity = \"critical\"");
    let server = Server::with(&policy(&format!("allow = [\"127.0.0.0/8\"]\n{hooks}")), &[], &[]);
    // A warning, and nothing that wakes anybody.
    ban(&server, 3).await;
    let posts = receiver.until(is_over).await;
    assert!(posts.iter().all(|post| post.path == "/slack" && post.signature.is_none()), "{posts:#?}");
    let [raised, .., over] = &posts[..] else { panic!("{posts:#?}") };
    let (raised, over) = (raised.json(), over.json());
    assert!(raised["text"].as_str().unwrap().starts_with("warning: bans"), "{raised}");
    assert_eq!(raised["attachments"][0]["color"], "warning");
    assert_eq!(raised["attachments"][0]["fields"][1]["value"], "2");
    let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    assert_eq!(raised["attachments"][0]["fields"][4]["value"], machine.trim(), "its name unless told");
    assert_eq!(over["attachments"][0]["color"], "good");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_policy_ends_alarms_of_rules_that_are_gone() {
    let receiver = Receiver::start(&[200]).await;
    let hook = webhook(&format!("http://{}/", receiver.application.address), "");
    // It would last for a day.
    let lasting = policy(&format!("allow = [\"127.0.0.1\"]\n{hook}")).replace("\"4s\"", "\"24h\"");
    let mut server = Server::with(&lasting, &[], &[]);
    ban(&server, 8).await;
    receiver.until(|posts| posts.iter().any(|post| post.text.contains("critical"))).await;
    server.write_policy(&lasting.replace("id = \"bans\"", "id = \"others\""));
    server.hang_up();
    let posts = receiver.until(is_over).await;
    assert_eq!(posts.last().unwrap().json()["alert"], "bans");
    server.hears("policy reloaded", 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn decisions_do_not_wait_for_webhooks_that_never_answer() {
    // Takes connections and says nothing.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let hook = webhook(&format!("http://{}/", silent.local_addr().unwrap()), "");
    let mut server = Server::with(&policy(&format!("allow = [\"127.0.0.1\"]\n{hook}")), &[], &[]);
    ban(&server, 8).await;
    server.hears("\"event\":\"alert\"", 1);
    let client = Client::new(server.gateway);
    let mut answered = Vec::new();
    for _ in 0..50 {
        answered.push(client.get("/").await.status.as_u16());
    }
    assert_eq!(answered.iter().filter(|status| **status == 200).count(), 1, "{answered:?}");
    server.signal("TERM");
    assert!(server.ends().success(), "{}", server.said());
}
