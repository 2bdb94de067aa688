//! Servers whose stores die.

use std::time::Duration;

use http::StatusCode;
use threshold_testkit::folder::Folder;
use threshold_testkit::servers::Redis;

use super::node;
use crate::support::client::Client;
use crate::support::server::Server;

const POLICY: &str = r#"
[store]
nodes = 2

[routes]
closed = "* /closed"
shared = "* /shared"
open = "* /open"

[[limit]]
id = "closed"
layer = "user"
route = "closed"
per = ["ip"]
rate = "10/day"
on_store_failure = "closed"

[[limit]]
id = "shared"
layer = "user"
route = "shared"
per = ["ip"]
rate = "10/day"

[[limit]]
id = "open"
layer = "user"
route = "open"
per = ["ip"]
rate = "10/day"
on_store_failure = "open"
"#;

/// How many of so many requests are let through, and how many are not decided.
async fn ask(server: &Server, path: &str, requests: usize) -> (usize, usize) {
    let client = Client::new(server.gateway);
    let (mut passed, mut undecided) = (0, 0);
    for _ in 0..requests {
        let answer = client.get(path).await;
        match answer.status {
            StatusCode::SERVICE_UNAVAILABLE => {
                assert!(answer.headers.contains_key("retry-after"), "{:?}", answer.headers);
                undecided += 1;
            }
            StatusCode::TOO_MANY_REQUESTS => {}
            _ => passed += 1,
        }
    }
    (passed, undecided)
}

/// What `/readyz` says of the strategy, the store and the second store. It is ready whatever they are.
async fn parts(server: &Server) -> [String; 3] {
    let answer = Client::new(server.admin).get("/readyz").await;
    assert_eq!(answer.status, StatusCode::OK);
    ["strategy", "store", "cache"].map(|part| answer.json()[part].as_str().unwrap_or_default().to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_limit_does_what_its_policy_says_while_redis_is_gone() {
    let (folder, mut redis) = (Folder::new(), Redis::start());
    let ledger = format!("sqlite://{}", folder.path().join("ledger.sqlite").display());
    let mut server = node(POLICY, &["--store", &redis.url(), "--ledger", &ledger]);
    assert_eq!(ask(&server, "/closed", 1).await, (1, 0));
    assert_eq!(parts(&server).await, ["full", "ok", "none"]);
    redis.kill();
    assert_eq!(ask(&server, "/closed", 20).await, (0, 20), "nothing passes");
    assert_eq!(ask(&server, "/shared", 20).await, (5, 0), "the half of ten");
    assert_eq!(ask(&server, "/open", 20).await, (20, 0), "everything passes");
    assert_eq!(parts(&server).await, ["memory-only", "failing", "none"]);
    redis.start_again();
    let mut back = false;
    for _ in 0..400 {
        back = ask(&server, "/closed", 1).await.1 == 0;
        if back {
            break;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    assert!(back, "it goes on by itself: {}", server.said());
    assert_eq!(parts(&server).await, ["full", "ok", "none"]);
    assert_eq!(ask(&server, "/closed", 20).await, (0, 0), "what Redis forgot starts exhausted");
    assert_eq!(ask(&server, "/shared", 20).await, (5, 0), "what was admitted meanwhile counts");
    // It is seen to be another server and to be empty, whichever comes first.
    server.hears("may have lost", 1);
    server.hears("component_changed", 3);
    let said = server.said();
    let changes = said.lines().filter(|line| line.contains("component_changed"));
    let (lost, others): (Vec<&str>, Vec<&str>) = changes.partition(|line| line.contains("may have lost"));
    assert!((1..=2).contains(&lost.len()), "{said}");
    assert_eq!(others.len(), 2, "only changes are told: {said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counters_continue_on_the_second_store() {
    let (folder, mut redis, cache) = (Folder::new(), Redis::start(), Redis::start());
    let ledger = format!("sqlite://{}", folder.path().join("ledger.sqlite").display());
    let arguments = ["--store", &redis.url(), "--cache", &cache.url(), "--ledger", &ledger];
    let mut server = node(POLICY, &arguments);
    redis.kill();
    assert_eq!(ask(&server, "/shared", 20).await, (5, 0), "the second store has the half of it");
    server.hears("cache-only", 1);
    assert_eq!(parts(&server).await, ["cache-only", "failing", "ok"]);
    server.tells("\"alert\":\"store-down\"", 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_redis_lost_while_no_node_ran_is_noticed_by_one_that_was_there_before() {
    let (folder, redis) = (Folder::new(), Redis::start());
    let ledger = format!("sqlite://{}", folder.path().join("ledger.sqlite").display());
    let data = folder.path().join("data").display().to_string();
    let arguments = ["--store", &redis.url(), "--ledger", &ledger, "--data-dir", &data];
    let mut before = node(POLICY, &arguments);
    assert_eq!(ask(&before, "/closed", 3).await, (3, 0));
    before.signal("TERM");
    assert!(before.ends().success(), "{}", before.said());
    let again = node(POLICY, &arguments);
    assert_eq!(ask(&again, "/closed", 1).await, (1, 0), "nothing was lost yet");
    drop(again);
    redis.cli(&["FLUSHALL"]).unwrap();
    let mut after = node(POLICY, &arguments);
    assert_eq!(ask(&after, "/closed", 20).await, (0, 0), "what Redis forgot starts exhausted");
    after.hears("may have lost", 1);
    // One without a memory hears of it, for it is kept with the counters from then on.
    let new = node(POLICY, &["--store", &redis.url(), "--ledger", &ledger]);
    assert_eq!(ask(&new, "/closed", 20).await, (0, 0));
}
