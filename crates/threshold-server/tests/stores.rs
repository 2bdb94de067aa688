//! Servers on stores and ledgers that they share, and `threshold doctor`, as they are typed.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![expect(clippy::disallowed_methods, reason = "it is about real processes, threads and time")]

#[path = "stores/apart.rs"]
mod apart;
#[path = "stores/archive.rs"]
mod archive;
#[path = "stores/batches.rs"]
mod batches;
#[path = "stores/denials.rs"]
mod denials;
#[path = "stores/outage.rs"]
mod outage;
mod support;

use std::io::{Read as _, Write as _};
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
    threshold_with(SECRET, folder, arguments)
}

/// [`threshold`] with this secret.
fn threshold_with(secret: &str, folder: &Folder, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_threshold"));
    command.current_dir(folder.path()).args(arguments).env("THRESHOLD_SECRET", secret);
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
async fn nodes_share_limits_in_durable_objects() {
    let store = format!("{}?prefix={}&timeout=10000", servers::workerd(), servers::fresh_prefix());
    let ledger = format!("{}?prefix={}", servers::redis_durable(), servers::fresh_prefix());
    share_a_limit(&["--store", &store, "--ledger", &ledger]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_token_of_a_worker_may_be_in_the_environment() {
    let folder = Folder::new();
    let store = format!("{}?prefix={}&timeout=10000", servers::workerd(), servers::fresh_prefix());
    let store = store.replace("secret@", "");
    let ledger = format!("sqlite://{}", folder.path().join("ledger.sqlite").display());
    let arguments = ["--store", &store, "--ledger", &ledger];
    let variables = [("THRESHOLD_SECRET", SECRET), ("THRESHOLD_DO_TOKEN", "secret")];
    assert_eq!(admitted(&[Server::with(HUNDRED, &arguments, &variables)], 110).await, 100);
    let ran = threshold(&folder, &[&["doctor"], &arguments[..]].concat());
    assert_eq!(ran.status.code(), Some(1), "{}", out(&ran));
    assert!(out(&ran).contains("it has no token"), "{}", out(&ran));
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
    let objects = format!("{}?prefix={}", servers::workerd(), servers::fresh_prefix());
    let cases: [(&[&str], &str); 8] = [
        (&["--store", &objects], "name a ledger, such as --ledger postgres://"),
        (&["--store", &objects, "--ledger", &objects], "keep counters and no ledger"),
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
        let arguments = [
            &["serve", "--gateway", "off", "--api", "off", "--admin", "off"][..],
            &["--resp", "off", "--rls", "off"],
            arguments,
        ]
        .concat();
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

#[test]
fn doctor_looks_at_the_second_store_too() {
    let folder = Folder::new();
    let database = servers::fresh_database();
    let store = format!("{}?timeout=10000", database.url());
    let cache = format!("{}?prefix={}&timeout=10000", servers::redis(), servers::fresh_prefix());
    let well = threshold(&folder, &["doctor", "--store", &store, "--cache", &cache]);
    assert_eq!(well.status.code(), Some(0), "{}", out(&well));
    for what in ["cache   address: redis://", "cache   eviction: nothing is evicted"] {
        assert!(out(&well).contains(what), "{what}: {}", out(&well));
    }
    // A server starts without one that is away, and not with one that cannot work.
    let away = threshold(&folder, &["doctor", "--store", &store, "--cache", "redis://127.0.0.1:1"]);
    assert_eq!(away.status.code(), Some(0), "{}", out(&away));
    assert!(out(&away).contains("doubtful  cache   connection: "), "{}", out(&away));
    let evicting = RedisOptions::new().set("maxmemory-policy", "allkeys-lru").start();
    for (cache, remedy) in [
        (evicting.url().as_str(), "set `maxmemory-policy noeviction`"),
        (store.as_str(), "this is the store itself; name another"),
        ("sqlite://cache.sqlite", "name one that all nodes share"),
    ] {
        let bad = threshold(&folder, &["doctor", "--store", &store, "--cache", cache]);
        assert_eq!(bad.status.code(), Some(1), "{}", out(&bad));
        assert!(out(&bad).contains(remedy), "{remedy}: {}", out(&bad));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_strategy_can_be_pinned_by_the_environment() {
    let folder = Folder::new();
    let store = format!("{}?prefix={}&timeout=10000", servers::redis(), servers::fresh_prefix());
    let ledger = format!("sqlite://{}", folder.path().join("ledger.sqlite").display());
    let arguments = ["--store", &store, "--ledger", &ledger];
    let pinned = |strategy| [("THRESHOLD_SECRET", SECRET), ("THRESHOLD_STRATEGY", strategy)];
    let mut alone = Server::with(HUNDRED, &arguments, &pinned("memory-only"));
    alone.hears("THRESHOLD_STRATEGY pins memory-only", 1);
    assert_eq!(admitted(&[alone], 110).await, 100, "of its own: Redis is not asked");
    assert_eq!(admitted(&[node(HUNDRED, &arguments)], 110).await, 100, "and knows nothing of it");
    for (strategy, remedy) in [
        ("fast", "\"fast\" is no strategy; choose full, store-only, cache-only or memory-only"),
        ("cache-only", "there is no second store to pin; name one by --cache"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_threshold"));
        command.current_dir(folder.path()).arg("serve").args(arguments).envs(pinned(strategy));
        let ran = command.output().unwrap();
        assert_eq!(ran.status.code(), Some(2), "{}", out(&ran));
        assert!(out(&ran).contains(remedy), "{}", out(&ran));
    }
}

#[test]
fn doctor_knows_whose_a_store_and_a_ledger_are_and_changes_nothing() {
    let folder = Folder::new();
    let database = servers::fresh_database();
    let redis = format!("{}?prefix={}&timeout=10000", servers::redis(), servers::fresh_prefix());
    let durable = format!("{}?prefix={}&timeout=10000", servers::redis_durable(), servers::fresh_prefix());
    let postgres = format!("{}?timeout=10000", database.url());
    let file = |name: &str| format!("sqlite://{}", folder.path().join(name).display());
    let (counters, ledger) = (file("odd %3F#counters.sqlite"), file("ledger.sqlite"));
    let objects = format!("{}?prefix={}&timeout=10000", servers::workerd(), servers::fresh_prefix());
    let beside = format!("{}?prefix={}&timeout=10000", servers::redis_durable(), servers::fresh_prefix());
    let cases: [[&str; 4]; 4] = [
        ["--store", &objects, "--ledger", &beside],
        ["--store", &postgres, "--ledger", &postgres],
        ["--store", &redis, "--ledger", &durable],
        ["--store", &counters, "--ledger", &ledger],
    ];
    for places in cases {
        let doctor = |secret: &str| threshold_with(secret, &folder, &[&["doctor"], &places[..]].concat());
        // Had the first kept its secret there, the second would find another's.
        for secret in [SECRET, "another secret of some length"] {
            let fresh = doctor(secret);
            assert_eq!(fresh.status.code(), Some(0), "{places:?}: {}", out(&fresh));
        }
        let node = node(HUNDRED, &places);
        let wrong = doctor("another secret of some length");
        assert_eq!(wrong.status.code(), Some(1), "{places:?}: {}", out(&wrong));
        for part in ["store ", "ledger"] {
            let told = out(&wrong).lines().any(|line| {
                line.starts_with(&format!("bad       {part}  secret: ")) && line.contains("give the secret")
            });
            assert!(told, "{places:?}, {part}: {}", out(&wrong));
        }
        drop(node);
        let before = names(&folder);
        let right = doctor(SECRET);
        assert_eq!(right.status.code(), Some(0), "{places:?}: {}", out(&right));
        assert_eq!(out(&right).matches("secret: it is the one that this was made with").count(), 2);
        assert_eq!(names(&folder), before);
    }
}

/// The files in a folder.
fn names(folder: &Folder) -> Vec<std::ffi::OsString> {
    let mut names: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    names
}

#[test]
fn doctor_finds_bad_what_serve_refuses() {
    let folder = Folder::new();
    let database = servers::fresh_database();
    std::fs::write(folder.path().join("garbage.sqlite"), "no database, ".repeat(500)).unwrap();
    let no_pool = format!("{}?pool=0", database.url());
    let cases = [
        (no_pool.as_str(), "`pool=0` is no number from 1 to 64"),
        ("sqlite://garbage.sqlite", "is no SQLite database"),
        ("sqlite://none/such/file.db", "make its folder first"),
        ("redis://me:sek/hunter2@127.0.0.1:1", "percent-encoded"),
        ("durable-object+http://sek/hunter2@127.0.0.1:1", "percent-encoded"),
        ("durable-object+http://hunter2@127.0.0.1:1", "see that it runs and listens there"),
    ];
    for (store, remedy) in cases {
        let serve = [
            "serve",
            "--gateway",
            "off",
            "--api",
            "off",
            "--admin",
            "off",
            "--resp",
            "off",
            "--rls",
            "off",
            "--ledger",
            "sqlite://l.db",
        ];
        for (command, code) in [(&serve[..], 2), (&["doctor", "--ledger", "sqlite://l.db"], 1)] {
            let ran = threshold(&folder, &[command, &["--store", store]].concat());
            assert_eq!(ran.status.code(), Some(code), "{command:?} {store}: {}", out(&ran));
            assert!(out(&ran).contains(remedy), "{command:?} {store}: {}", out(&ran));
            assert!(!out(&ran).contains("hunter2"), "{command:?} {store}: {}", out(&ran));
        }
    }
    // A server makes its data folder, and so what is in it.
    let ran = threshold(&folder, &["doctor", "--store", "sqlite://threshold-data/counters.sqlite"]);
    assert_eq!(ran.status.code(), Some(0), "{}", out(&ran));
    assert!(!folder.path().join("threshold-data").exists());
}

#[test]
fn a_postgres_that_accepts_and_never_answers_is_given_up_soon() {
    let folder = Folder::new();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let store = format!("postgres://me:hunter2@{}/limits", silent.local_addr().unwrap());
    for command in ["doctor", "serve"] {
        let ran = threshold(&folder, &[command, "--store", &store]);
        assert!(!ran.status.success(), "{command}: {}", out(&ran));
        assert!(out(&ran).contains("does not answer within 3 s"), "{command}: {}", out(&ran));
        assert!(!out(&ran).contains("hunter2"), "{command}: {}", out(&ran));
    }
}

#[test]
fn what_cannot_be_connected_to_is_named_once_with_a_remedy() {
    let folder = Folder::new();
    let database = servers::fresh_database();
    let redis = servers::redis();
    let server = redis.trim_start_matches("redis://").trim_end_matches('/');
    let url = database.url();
    let missing = format!("{}/no_such_database", url.rsplit_once('/').unwrap().0);
    let nobody = format!("postgres://postgres@{}", url.rsplit_once('@').unwrap().1);
    let http = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let web = http.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut caller in http.incoming().flatten() {
            let _ = caller.read(&mut [0; 1_024]);
            let _ = caller.write_all(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
        }
    });
    let cases = [
        (format!("redis://{web}"), "what answers there is not Redis"),
        (format!("redis://{server}/9999"), "name a database that it has"),
        ("redis://no.such.host.invalid".to_owned(), "check the name of the host"),
        (format!("rediss://{server}"), "both sides use TLS"),
        (format!("redis+cluster://{server}"), "write redis:// for redis+cluster://"),
        (format!("redis+sentinel://{server}/main"), "name the Sentinels"),
        (missing, "create the database"),
        (nobody, "give it in the URL, postgres://USER:PASSWORD@HOST"),
    ];
    for (store, remedy) in cases {
        let ran = threshold(&folder, &["doctor", "--store", &store, "--ledger", "sqlite://l.db"]);
        assert_eq!(ran.status.code(), Some(1), "{store}: {}", out(&ran));
        assert!(out(&ran).contains(remedy), "{store}: {}", out(&ran));
        assert_eq!(out(&ran).matches("could not connect to").count(), 1, "{store}: {}", out(&ran));
        assert!(store.starts_with("redis") || out(&ran).contains("Postgres at 127.0.0.1:"), "{}", out(&ran));
    }
}

#[test]
fn a_password_among_the_parameters_is_not_shown() {
    let folder = Folder::new();
    let database = servers::fresh_database();
    let url = database.url();
    let (login, place) = url.strip_prefix("postgres://").unwrap().rsplit_once('@').unwrap();
    let (user, password) = login.split_once(':').unwrap();
    let store = format!("postgres://{place}?user={user}&password={password}&timeout=10000");
    let shown = format!("postgres://{place}?user={user}&password=***&timeout=10000");
    let said = node(HUNDRED, &["--store", &store]).said();
    let doctor = out(&threshold(&folder, &["doctor", "--store", &store]));
    for text in [said, doctor] {
        assert!(text.contains(&shown) && !text.contains(password), "{text}");
    }
}
