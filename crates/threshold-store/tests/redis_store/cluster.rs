//! Partitions, and slots and masters that move.

use threshold_core::{AlgorithmKind, Batch, Step, Store as _};
use threshold_store::RedisStore;
use threshold_testkit::servers::{Redis, RedisCluster, fresh_prefix, redis_cluster};

use crate::make::batch;
use crate::traffic::{
    COUNTED, LIMIT, Told, Traffic, admits, answers_again, drain, for_a_while, open, refund_three_partitions,
    secret, stay_within_limits_of_two_partitions, step,
};

fn place() -> String {
    format!("{}?prefix={}&timeout=30000", redis_cluster(), fresh_prefix())
}

#[tokio::test]
async fn a_refusal_in_one_partition_leaves_nothing_charged_in_the_others() {
    let store = open(&place()).await;
    for kind in COUNTED {
        let full = step(kind, 1, ("full", 100));
        assert!(admits(&store, full).await);
        let free = [1, 2, 3].map(|partition| step(kind, 5, ("free", partition)));
        for place in 0..=free.len() {
            let mut steps = free.to_vec();
            steps.insert(place, full);
            let outcome = store.apply(&batch(steps)).await.unwrap();
            assert!(!outcome.admitted() && !outcome.charged, "{kind}");
            let admitted: Vec<bool> = outcome.verdicts.iter().map(|verdict| verdict.admitted()).collect();
            assert_eq!(admitted.iter().position(|admitted| !admitted), Some(place), "{kind}");
            for (at, verdict) in outcome.verdicts.iter().enumerate() {
                assert_eq!(verdict.remaining, if at == place { 0 } else { 5 }, "{kind}");
            }
        }
        for free in free {
            assert_eq!(drain(&store, free).await, 5, "{kind}");
        }
    }
}

#[tokio::test]
async fn a_batch_of_several_partitions_is_charged_and_refunded_whole() {
    let store = open(&place()).await;
    let steps = [1, 2, 3].map(|partition| step(AlgorithmKind::FixedWindow, 6, ("a", partition)));
    let batch = batch(steps);
    assert!(store.apply(&batch).await.unwrap().charged);
    let outcome = store.apply(&batch).await.unwrap();
    assert!(outcome.admitted() && outcome.charged);
    assert!(store.peek(&batch).await.unwrap().verdicts.iter().all(|verdict| verdict.remaining == 4));
    store.refund(&batch, &outcome).await.unwrap();
    for step in steps {
        assert_eq!(drain(&store, step).await, 5);
    }
}

#[tokio::test]
async fn a_refund_reaches_every_partition() {
    refund_three_partitions(&*open(&place()).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_callers_of_batches_in_two_partitions_stay_within_every_limit() {
    stay_within_limits_of_two_partitions(&open(&place()).await, 100, 10).await;
}

fn number(server: &Redis) -> String {
    server.cli(&["cluster", "myid"]).unwrap().trim().to_owned()
}

/// Where the key of a step is among the masters, and in which slot.
fn home(cluster: &mut RedisCluster, step: Step) -> (usize, String) {
    let name = format!("threshold:{{{:04x}}}:x", step.key.partition().0);
    let slot = cluster.nodes()[0].cli(&["cluster", "keyslot", &name]).unwrap().trim().to_owned();
    let number: u16 = slot.parse().unwrap();
    // As a fresh cluster divides them.
    let home = if number <= 5_460 {
        0
    } else if number <= 10_922 {
        1
    } else {
        2
    };
    (home, slot)
}

/// Moves a slot as an operator's tool does: first its keys, one after the other, then the slot.
fn migrate(nodes: &[Redis], slot: &str, (from, to): (usize, usize)) {
    let (source, target) = (number(&nodes[from]), number(&nodes[to]));
    let done = |said: Result<String, String>| assert_eq!(said.unwrap().trim(), "OK");
    done(nodes[to].cli(&["cluster", "setslot", slot, "importing", &source]));
    done(nodes[from].cli(&["cluster", "setslot", slot, "migrating", &target]));
    let port = nodes[to].port().to_string();
    loop {
        let keys = nodes[from].cli(&["cluster", "getkeysinslot", slot, "1"]).unwrap();
        let Some(key) = keys.lines().find(|line| !line.is_empty()) else { break };
        let moved = nodes[from].cli(&["migrate", "127.0.0.1", &port, key, "0", "5000"]).unwrap();
        assert!(["OK", "NOKEY"].contains(&moved.trim()), "{moved}");
    }
    for node in [to, from] {
        done(nodes[node].cli(&["cluster", "setslot", slot, "node", &target]));
    }
}

/// Nothing was charged that a caller was not told of, and nothing was admitted twice.
async fn adds_up(store: &RedisStore, step: Step, told: &Told) {
    let kind = step.algorithm.kind();
    assert!(told.admitted > 0, "{kind}");
    assert_eq!(told.admitted + drain(store, step).await, LIMIT, "{kind}: {:?}", told.errors);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_and_masters_that_move_under_traffic_lose_and_admit_nothing() {
    let mut cluster = RedisCluster::start();
    let user = "limited on >secret ~threshold:* +@read +@write +@scripting +@connection +info +time";
    for node in cluster.nodes() {
        let words: Vec<&str> = ["acl", "setuser"].into_iter().chain(user.split(' ')).collect();
        node.cli(&words).unwrap();
    }
    let url = format!("{}?timeout=30000", cluster.url()).replace("://", "://limited:secret@");
    let error = RedisStore::open(&url, &secret(), None).await.err().expect("a right is missing").to_string();
    assert!(error.contains("the user needs `~threshold:*"), "{error}");
    for node in cluster.nodes() {
        node.cli(&["acl", "setuser", "limited", "+cluster|slots"]).unwrap();
    }
    let store = open(&url).await;
    let steps = COUNTED.map(|kind| step(kind, LIMIT, ("hot", 5)));
    let (home, slot) = home(&mut cluster, steps[0]);
    let away = (home + 1) % 3;

    let traffic = steps.map(|step| (step, Traffic::start(&store, 20, step)));
    for_a_while().await;
    for (from, to) in [(home, away), (away, home), (home, away)] {
        tokio::task::block_in_place(|| migrate(cluster.nodes(), &slot, (from, to)));
        for_a_while().await;
    }
    for (step, traffic) in traffic {
        let told = traffic.stop().await;
        assert!(told.errors.is_empty(), "{:?}", told.errors);
        adds_up(&store, step, &told).await;
        store.reset(&[step.key]).await.unwrap();
    }

    let traffic = steps.map(|step| (step, Traffic::start(&store, 20, step)));
    for_a_while().await;
    tokio::task::block_in_place(|| hand_over(&mut cluster, away));
    for_a_while().await;
    for (step, traffic) in traffic {
        let told = traffic.stop().await;
        assert!(told.errors.is_empty(), "{:?}", told.errors);
        adds_up(&store, step, &told).await;
    }
}

/// Has the replica of a master take its place, as an operator would.
fn hand_over(cluster: &mut RedisCluster, master: usize) {
    let (of, nodes) = (number(&cluster.nodes()[master]), cluster.nodes());
    let is_replica = |node: &&Redis| {
        let own = node.cli(&["cluster", "nodes"]).unwrap();
        own.lines().any(|line| line.contains("myself,slave") && line.contains(&of))
    };
    let replica = nodes.iter().find(is_replica).expect("it has a replica");
    assert_eq!(replica.cli(&["cluster", "failover"]).unwrap().trim(), "OK");
    while !replica.cli(&["info", "replication"]).unwrap().contains("role:master") {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_goes_on_by_itself_when_a_master_dies() {
    let mut cluster = RedisCluster::start();
    let store = open(&format!("{}?timeout=500", cluster.url())).await;
    let partitions: Vec<Step> =
        (0..12).map(|partition| step(AlgorithmKind::FixedWindow, LIMIT, ("a", partition))).collect();
    for step in &partitions {
        assert!(admits(&store, *step).await);
    }
    tokio::task::block_in_place(|| cluster.nodes()[0].kill());
    for step in &partitions {
        answers_again(&store, *step).await;
    }
    let told = store.apply(&Batch::from(partitions[0])).await;
    assert!(told.is_ok(), "{told:?}");
}
