//! A server that forgets the scripts, is killed, falls silent, or is no master any more.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use threshold_core::{AlgorithmKind, Batch, Health, Step, Store as _, StoreErrorKind};
use threshold_store::RedisStore;
use threshold_testkit::servers::{Redis, RedisOptions, Sentinel};

use crate::traffic::{COUNTED, LIMIT, Told, Traffic, admits, answers_again, drain, for_a_while, open, step};

fn signal(server: &Redis, name: &str) {
    let sent = Command::new("kill").args([format!("-{name}"), server.process_id().to_string()]).status();
    assert!(sent.unwrap().success());
}

fn hot(kind: AlgorithmKind) -> Step {
    step(kind, LIMIT, ("hot", 0))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_forgets_the_scripts_changes_nothing() {
    let server = Redis::start();
    let store = open(&format!("{}?timeout=30000", server.url())).await;
    let traffic = COUNTED.map(|kind| (kind, Traffic::start(&store, 20, hot(kind))));
    for _ in 0..20 {
        for_a_moment().await;
        server.cli(&["script", "flush"]).unwrap();
    }
    for (kind, traffic) in traffic {
        let told = traffic.stop().await;
        assert!(told.errors.is_empty(), "{kind}: {:?}", told.errors);
        assert!(told.admitted > 0, "{kind}");
        assert_eq!(told.admitted + drain(&store, hot(kind)).await, LIMIT, "{kind}");
    }
    let batch = Batch::from(step(AlgorithmKind::FixedWindow, 5, ("other", 0)));
    let outcome = store.apply(&batch).await.unwrap();
    server.cli(&["script", "flush"]).unwrap();
    store.refund(&batch, &outcome).await.unwrap();
    assert_eq!(drain(&store, batch.steps()[0]).await, 5);
}

async fn for_a_moment() {
    tokio::time::sleep(Duration::from_millis(10)).await;
}

/// What was charged and could not be said any more is lost to the callers, and nothing else is.
async fn adds_up(store: &RedisStore, kind: AlgorithmKind, told: &Told) {
    let all = told.admitted + drain(store, hot(kind)).await;
    let unsaid = told.errors.len() as u64;
    assert!(all <= LIMIT, "{kind}: {all} were admitted");
    assert!(all + unsaid >= LIMIT, "{kind}: {all} were admitted, {unsaid} had no answer");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server_is_found_again_and_admits_nothing_twice() {
    let mut server = Redis::durable();
    // An error that comes within this timeout was not waited for.
    let store = open(&format!("{}?timeout=600000", server.url())).await;
    let traffic = COUNTED.map(|kind| (kind, Traffic::start(&store, 20, hot(kind))));
    for _ in 0..3 {
        for_a_while().await;
        tokio::task::block_in_place(|| server.kill());
        let error = store.apply(&Batch::from(hot(AlgorithmKind::TokenBucket))).await;
        assert_eq!(error.map(drop).expect_err("nobody is there").kind(), StoreErrorKind::Unavailable);
        assert!(matches!(store.health().await, Health::Down { .. }));
        tokio::task::block_in_place(|| server.start_again());
        answers_again(&store, step(AlgorithmKind::TokenBucket, 100, ("other", 0))).await;
    }
    for_a_while().await;
    for (kind, traffic) in traffic {
        let told = traffic.stop().await;
        let at_once = |kind| kind == StoreErrorKind::Unavailable;
        assert!(told.errors.iter().all(|error| at_once(error.kind())), "{kind}: {:?}", told.errors);
        adds_up(&store, kind, &told).await;
    }
    assert!(matches!(store.health().await, Health::Up { .. }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_server_times_out_and_counts_as_charged() {
    let server = Redis::start();
    let store = open(&format!("{}?timeout=200", server.url())).await;
    let step = step(AlgorithmKind::FixedWindow, 50, ("a", 0));
    assert!(admits(&store, step).await);
    signal(&server, "STOP");
    for _ in 0..3 {
        let error = store.apply(&Batch::from(step)).await.expect_err("nobody answers");
        assert_eq!(error.kind(), StoreErrorKind::Timeout, "{error}");
    }
    signal(&server, "CONT");
    let other = crate::traffic::step(AlgorithmKind::FixedWindow, 50, ("b", 0));
    answers_again(&store, other).await;
    assert_eq!(drain(&store, step).await, 46, "one was admitted, and three may have been");
}

#[tokio::test]
async fn a_server_without_room_says_so() {
    let server = RedisOptions::new().set("maxmemory", "3mb").start();
    let store = open(&format!("{}?timeout=5000", server.url())).await;
    server.cli(&["config", "set", "maxmemory", "1kb"]).unwrap();
    let error = store.apply(&Batch::from(hot(AlgorithmKind::FixedWindow))).await.expect_err("it is full");
    assert_eq!(error.kind(), StoreErrorKind::Unavailable);
    assert!(error.to_string().contains("give it more memory"), "{error}");
}

/// Waits until the replica has all that its master has.
fn is_level(watched: &mut Sentinel) {
    let offset = |server: &Redis| {
        let said = server.cli(&["info", "replication"]).unwrap();
        said.lines().find_map(|line| line.strip_prefix("master_repl_offset:").map(str::to_owned)).unwrap()
    };
    while offset(watched.master()) != offset(watched.replica()) {
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Charges, has another server become the master, and goes on where it was.
async fn goes_on(watched: &mut Sentinel, fail_over: impl FnOnce(&mut Sentinel)) {
    let store = open(&format!("{}?timeout=500", watched.url())).await;
    let before = step(AlgorithmKind::FixedWindow, 10, ("before", 0));
    for _ in 0..4 {
        assert!(admits(&store, before).await);
    }
    is_level(watched);
    let traffic = Traffic::start(&store, 10, hot(AlgorithmKind::TokenBucket));
    for_a_while().await;
    let master = watched.master_port();
    tokio::task::block_in_place(|| fail_over(watched));
    while watched.master_port() == master {
        for_a_while().await;
    }
    // The new master knows itself a little later than the Sentinels do.
    while !watched.replica().cli(&["info", "replication"]).unwrap().contains("role:master") {
        for_a_while().await;
    }
    let probe = step(AlgorithmKind::FixedWindow, LIMIT, ("probe", 0));
    let arrived = async |store: &Arc<RedisStore>, server: &Redis| {
        let _ = store.apply(&Batch::from(probe)).await;
        server.cli(&["keys", &format!("*{:032x}", probe.key.hash())]).unwrap().trim() != ""
    };
    while !arrived(&store, watched.replica()).await {
        for_a_while().await;
    }
    let told = traffic.stop().await;
    assert!(told.admitted > 0);
    assert!(told.errors.iter().all(|error| error.is_transient()), "{:?}", told.errors);
    assert_eq!(drain(&store, before).await, 6);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_follows_the_sentinels_to_another_master() {
    goes_on(&mut Sentinel::start(1), |watched| watched.fail_over()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_leaves_a_silent_master_for_the_one_that_takes_over() {
    goes_on(&mut Sentinel::start(1), |watched| signal(watched.master(), "STOP")).await;
}
