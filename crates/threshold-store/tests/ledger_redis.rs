//! What only a ledger in Redis can get wrong: opening it, sharing it, losing its server.
#![cfg(not(feature = "loom"))]

#[path = "common/nodes.rs"]
mod nodes;

use nodes::{ban, other, secret, strike};
use threshold_core::{Ledger as _, StoreError, StoreErrorKind};
use threshold_store::RedisLedger;
use threshold_testkit::figures::Claim;
use threshold_testkit::servers::{Redis, RedisCluster, RedisOptions, Sentinel, fresh_prefix, redis_durable};

fn place() -> String {
    format!("{}?prefix={}", redis_durable(), fresh_prefix())
}

async fn open(url: &str) -> RedisLedger {
    RedisLedger::open(url, &secret(), None).await.expect("the ledger opens")
}

async fn refused(url: &str) -> StoreError {
    let error = RedisLedger::open(url, &secret(), None).await.err().expect("it does not open");
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{error}");
    error
}

#[tokio::test]
async fn a_ban_reaches_the_other_node() {
    let place = place();
    nodes::a_ban_reaches_the_other_node(&open(&place).await, &open(&place).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everyone_on_two_nodes_makes_one_strike() {
    let place = place();
    nodes::everyone_on_two_nodes_makes_one_strike(open(&place).await, open(&place).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_follows_the_changes_misses_nothing() {
    let place = place();
    nodes::a_follower_misses_nothing(open(&place).await, open(&place).await, open(&place).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server_loses_nothing_acknowledged() {
    let mut server = Redis::durable();
    let claim = Claim::of("bans that a ledger in Redis acknowledged are there after its server was killed");
    let ledgers = (open(&server.url()).await, open(&server.url()).await);
    nodes::nothing_acknowledged_is_lost((claim, "kill-ledger-redis"), ledgers, || {
        server.kill();
        server.start_again();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_goes_on_and_listens_again_when_its_server_was_restarted() {
    let mut server = Redis::durable();
    let (one, other) = (open(&server.url()).await, open(&server.url()).await);
    nodes::it_goes_on_and_listens_again(one, other, || server.start_again()).await;
}

#[tokio::test]
async fn a_server_that_may_lose_what_it_acknowledged_is_refused() {
    for (options, remedy) in [
        (RedisOptions::new(), "set `appendonly yes`"),
        (RedisOptions::new().set("appendonly", "yes"), "set `appendfsync always`"),
        (
            RedisOptions::new().durable().set("maxmemory-policy", "allkeys-lru"),
            "set `maxmemory-policy noeviction`",
        ),
    ] {
        let server = options.start();
        let error = refused(&server.url()).await;
        assert!(error.to_string().contains(remedy), "{error}");
    }
}

#[tokio::test]
async fn a_server_that_does_not_tell_how_it_is_set_is_refused_with_the_right_to_grant() {
    let rights = "~threshold:* &threshold:* +@read +@write +@scripting +@connection +@pubsub +info +time";
    let server = RedisOptions::new().durable().user("limited", "secret", rights).start();
    let error = refused(&server.url()).await;
    assert!(error.to_string().contains("grant the user `+config|get`"), "{error}");
    server.cli(&["acl", "setuser", "limited", "+config|get"]).expect("it is granted");
    let (one, other) = (open(&server.url()).await, open(&server.url()).await);
    nodes::a_ban_reaches_the_other_node(&one, &other).await;
}

#[tokio::test]
async fn it_belongs_to_its_secret() {
    let place = place();
    open(&place).await.write(&[ban("alice")]).await.expect("it writes");
    let error = RedisLedger::open(&place, &other(), None).await.err().expect("it does not open");
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
    assert!(error.to_string().contains("made with another secret; give the secret"), "{error}");
    // Taken over, it belongs to the new one.
    RedisLedger::open(&place, &other(), Some(&secret())).await.expect("it is taken over");
    RedisLedger::open(&place, &other(), None).await.expect("it opens");
    refused(&place).await;
}

#[tokio::test]
async fn one_of_a_newer_version_is_refused() {
    let server = Redis::durable();
    drop(open(&server.url()).await);
    server.cli(&["hset", "threshold:{ledger}:meta", "format", "1000"]).expect("it is set");
    let error = refused(&server.url()).await;
    assert!(error.to_string().contains("a newer version of Threshold; run that version"), "{error}");
}

#[tokio::test]
async fn no_key_and_no_value_names_anybody() {
    let server = Redis::durable();
    let ledger = open(&server.url()).await;
    ledger.write(&[ban("alice@example.com"), strike("alice@example.com")]).await.expect("it writes");
    let all = "local all = {} for _, key in ipairs(redis.call('KEYS', '*')) do all[#all + 1] = key \
               local kind = redis.call('TYPE', key).ok \
               local read = kind == 'hash' and {'HGETALL', key} or {'ZRANGE', key, 0, -1} \
               for _, value in ipairs(redis.call(unpack(read))) do all[#all + 1] = value end end return all";
    let said = server.cli(&["eval", all, "0"]).expect("it answers");
    assert!(said.contains("scraping"), "{said}");
    assert!(!said.contains("alice"), "{said}");
}

#[tokio::test]
async fn what_is_over_leaves_nothing_behind() {
    let server = Redis::durable();
    let ledger = open(&server.url()).await;
    ledger.write(&[ban("alice"), strike("bob")]).await.expect("it writes");
    ledger.sweep(threshold_core::Timestamp::MAX, &Default::default()).await.expect("it sweeps");
    let keys = server.cli(&["keys", "*"]).expect("it answers");
    assert_eq!(keys.trim(), "threshold:{ledger}:meta");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_lives_in_one_place_of_a_cluster() {
    let cluster = RedisCluster::start_with(&RedisOptions::new().durable());
    let (one, other) = (open(&cluster.url()).await, open(&cluster.url()).await);
    nodes::a_ban_reaches_the_other_node(&one, &other).await;
    nodes::everyone_on_two_nodes_makes_one_strike(one, other).await;
}

#[tokio::test]
async fn it_is_found_through_sentinels() {
    let mut watched = Sentinel::start(1);
    for (name, value) in [("appendonly", "yes"), ("appendfsync", "always")] {
        watched.master().cli(&["config", "set", name, value]).expect("it is set");
    }
    let (one, other) = (open(&watched.url()).await, open(&watched.url()).await);
    nodes::a_ban_reaches_the_other_node(&one, &other).await;
}
