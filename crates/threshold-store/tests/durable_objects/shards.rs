//! Batches whose keys are in different objects.

use std::sync::Arc;

use threshold_core::{AlgorithmKind, Batch, Store as _};
use threshold_testkit::servers::{fresh_prefix, workerd};
use tokio::task::JoinSet;

use crate::make::batch;
use crate::traffic::{
    COUNTED, admits, drain, open, refund_three_partitions, stay_within_limits_of_two_partitions, step,
};

fn place() -> String {
    format!("{}?prefix={}&timeout=60000", workerd(), fresh_prefix())
}

#[tokio::test]
async fn a_refusal_in_one_shard_leaves_nothing_charged_in_the_others() {
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
async fn partitions_that_share_a_shard_are_judged_as_one() {
    let store = open(&place()).await;
    // 128 further is the same object.
    let steps = [("a", 5), ("b", 133)].map(|subject| step(AlgorithmKind::FixedWindow, 6, subject));
    let whole = batch(steps);
    assert!(store.apply(&whole).await.unwrap().charged);
    assert_eq!(store.stats().calls, 1);
    let outcome = store.apply(&whole).await.unwrap();
    store.refund(&whole, &outcome).await.unwrap();
    for step in steps {
        assert_eq!(drain(&store, step).await, 5);
    }
}

#[tokio::test]
async fn a_refund_reaches_every_shard() {
    refund_three_partitions(&*open(&place()).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_of_batches_in_two_shards_stay_within_every_limit() {
    stay_within_limits_of_two_partitions(&open(&place()).await, 50, 5).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_of_one_shard_go_together() {
    let store = open(&place()).await;
    let step = step(AlgorithmKind::FixedWindow, 1_000, ("hot", 3));
    let mut callers = JoinSet::new();
    for _ in 0..100 {
        let store = Arc::clone(&store);
        callers.spawn(async move {
            for _ in 0..10 {
                store.apply(&Batch::from(step)).await.unwrap();
            }
        });
    }
    callers.join_all().await;
    let stats = store.stats();
    assert_eq!(stats.batches, 1_000);
    assert!(stats.calls < stats.batches / 2, "{stats:?}");
    assert_eq!(drain(&store, step).await, 0);
}
