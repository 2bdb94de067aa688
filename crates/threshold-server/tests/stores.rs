//! Servers on stores and ledgers that they share, and `threshold doctor`, as they are typed.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![expect(clippy::disallowed_methods, reason = "it is about real processes, threads and time")]

#[path = "stores/outage.rs"]
mod outage;
mod support;

use std::process::{Command, Output};
use std::time::{Duration, Instant};

use http::StatusCode;
use threshold_testkit::folder::Folder;
use threshold_testkit::servers::{self, RedisOptions};
use tokio::task::JoinSet;

use support::client::Client;
use support::server::Server;

const SECRET: &str = "a secret of some length, the same on every node";
const HUNDRED: &str = "[[limit]]\nid = \"hundred\"\nlayer = \"user\"\nper = [\"ip\"]\nrate = \"100/day\"\n";

/// A node with this policy, store and ledger.
fn node(policy: &str, arguments: &[&str]) -> Server {
    Server::with(policy, arguments, &[("THRESHOLD_SECRET", SECRET)])
}

fn threshold(folder: &Folder, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_threshold"));
    command.current_dir(folder.path()).args(arguments).env("THRESHOLD_SECRET", SECRET);
    command.output().unwrap()
}

fn out(ran: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr))
}

/// How many of so many requests at once are let through, over all nodes.
async fn admitted(nodes: &[Server], requests: usize) -> usize {
    let mut all = JoinSet::new();
    for number in 0..requests {
        let client = Client::new(nodes[number % nodes.len()].gateway);
        all.spawn(async move { client.get("/").await.status });
    }
    let answers = all.join_all().await;
    let known = |status: &StatusCode| [StatusCode::OK, StatusCode::TOO_MANY_REQUESTS].contains(status);
    assert!(answers.iter().all(known), "{answers:?}");
    answers.into_iter().filter(|status| *status == StatusCode::OK).count()
}

/// Two nodes admit together what one limit allows, and a third that comes later nothing.
async fn share_a_limit(arguments: &[&str]) {
    let nodes = [node(HUNDRED, arguments), node(HUNDRED, arguments)];
    assert_eq!(admitted(&nodes, 300).await, 100);
    let later = [node(HUNDRED, arguments)];
    assert_eq!(admitted(&later, 10).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_share_limits_in_redis() {
    let store = format!("{}?prefix={}&timeout=10000", servers::redis(), servers::fresh_prefix());
    let ledger = format!("{}?prefix={}", servers::redis_durable(), servers::fresh_prefix());
    share_a_limit(&["--store", &store, "--ledger", &ledger]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_share_limits_in_a_redis_cluster() {
    let store = format!("{}?prefix={}&timeout=10000", servers::redis_cluster(), servers::fresh_prefix());
    let ledger = format!("{}?prefix={}", servers::redis_durable(), servers::fresh_prefix());
    share_a_limit(&["--store", &store, "--ledger", &ledger]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_share_limits_and_bans_in_postgres() {
    let database = servers::fresh_database();
    let store = format!("{}?timeout=10000", database.url());
    share_a_limit(&["--store", &store]).await;
    let nodes = [node(HUNDRED, &["--store", &store]), node(HUNDRED, &["--store", &store])];
    let folder = Folder::new();
    let ban = ["bans", "add", "--address", "127.0.0.9", "--for", "1h", "--reason", "why", "--store", &store];
    let ran = threshold(&folder, &ban);
    assert!(ran.status.success(), "{}", out(&ran));
    for node in &nodes {
        let client = Client::from(node.gateway, [127, 0, 0, 9]);
        let begun = Instant::now();
        // How soon is a figure, not a test; that it comes at all is.
        while !client.get("/").await.headers.contains_key("x-ratelimit-banned") {
            assert!(begun.elapsed() < Duration::from_secs(30), "the ban never reached a node");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counters_in_sqlite_survive_a_kill() {
    let folder = Folder::new();
    let store = format!("sqlite://{}", folder.path().join("counters.sqlite").display());
    let one = [node(HUNDRED, &["--store", &store])];
    assert_eq!(admitted(&one, 60).await, 60);
    one[0].signal("KILL");
    drop(one);
    assert_eq!(admitted(&[node(HUNDRED, &["--store", &store])], 60).await, 40);
}

#[test]
fn what_cannot_work_is_refused_with_a_remedy() {
    let folder = Folder::new();
    let redis = format!("{}?prefix={}", servers::redis(), servers::fresh_prefix());
    let evicting = RedisOptions::new().set("maxmemory-policy", "allkeys-lru").start();
    let evicting = evicting.url();
    let cases: [(&[&str], &str); 6] = [
        (&["--store", &redis], "name a ledger, such as --ledger postgres://"),
        (&["--store", &redis, "--ledger", &redis], "set `appendonly yes`"),
        (&["--store", &evicting, "--ledger", "sqlite://l.db"], "set `maxmemory-policy noeviction`"),
        (
            &["--store", "redis://127.0.0.1:1", "--ledger", "sqlite://l.db"],
            "see that it runs and listens there",
        ),
        (&["--store", "mysql://a"], "write memory://, sqlite://PATH"),
        (&["--store", "sqlite:///none/such/file.db"], "make its folder first"),
    ];
    for (arguments, remedy) in cases {
        let arguments =
            [&["serve", "--gateway", "off", "--api", "off", "--admin", "off"], arguments].concat();
        let ran = threshold(&folder, &arguments);
        assert_eq!(ran.status.code(), Some(2), "{arguments:?}: {}", out(&ran));
        assert!(out(&ran).contains(remedy), "{arguments:?}: {}", out(&ran));
    }
}

#[test]
fn doctor_says_what_is_well_and_what_is_not() {
    let folder = Folder::new();
    let database = servers::fresh_database();
    let well = threshold(&folder, &["doctor", "--store", &database.url()]);
    assert_eq!(well.status.code(), Some(0), "{}", out(&well));
    for what in
        ["store   version: Postgres", "store   tables: none", "ledger  role: it is a primary", "clock: "]
    {
        assert!(out(&well).contains(what), "{what}: {}", out(&well));
    }
    let redis = format!("{}?prefix={}", servers::redis(), servers::fresh_prefix());
    let bad = threshold(&folder, &["doctor", "--store", &redis, "--ledger", &redis, "--json"]);
    assert_eq!(bad.status.code(), Some(1), "{}", out(&bad));
    let document: serde_json::Value = serde_json::from_slice(&bad.stdout).unwrap();
    assert_eq!(document["ok"], false);
    let checks = document["checks"].as_array().unwrap();
    let find = |part: &str, what: &str| {
        checks.iter().find(|check| check["part"] == part && check["what"] == what).unwrap()["grade"].clone()
    };
    assert_eq!((find("store", "eviction"), find("ledger", "persistence")), ("good".into(), "bad".into()));
}
