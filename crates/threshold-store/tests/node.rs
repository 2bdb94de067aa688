//! A node and its store, by the clock: what is remembered, what is given back, and what follows an outage.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use threshold_core::{
    Action, Algorithm, AlgorithmKind, Batch, Consistency, Health, Key, ManualClock, OnFailure, Outcome,
    PermitId, Sharing, Source, Span, Step, Store, StoreError, StoreErrorKind, Swept, Timestamp,
};
use threshold_store::node::Strategy;
use threshold_store::{MemoryStore, NodeSettings, NodeStore};

type Memory = MemoryStore<ManualClock>;

/// A store that can be out of reach, and slow: then it is waited for as long as [`PATIENCE`] says.
#[derive(Clone)]
struct Far {
    store: Memory,
    gone: Arc<AtomicBool>,
    /// How long one answer takes, in milliseconds.
    slow: Arc<AtomicU64>,
}

const PATIENCE: Duration = Duration::from_millis(40);

impl Far {
    fn reach(&self) -> Result<&Memory, StoreError> {
        match self.gone.load(Ordering::Relaxed) {
            true => Err(StoreError::new(StoreErrorKind::Unavailable, "reach it", "it is gone")),
            false => Ok(&self.store),
        }
    }

    async fn wait(&self) -> Result<(), StoreError> {
        match self.slow.load(Ordering::Relaxed) {
            0 => Ok(()),
            slow => {
                let answer = tokio::time::timeout(PATIENCE, tokio::time::sleep(Duration::from_millis(slow)));
                let late = |_| StoreError::new(StoreErrorKind::Timeout, "reach it", "it is slow");
                answer.await.map_err(late)
            }
        }
    }
}

impl Store for Far {
    async fn apply(&self, batch: &Batch) -> Result<Outcome, StoreError> {
        self.wait().await?;
        Ok(self.reach()?.apply_now(batch))
    }

    fn patience(&self) -> Option<Span> {
        Some(Span::from(PATIENCE)).filter(|_| self.slow.load(Ordering::Relaxed) > 0)
    }

    async fn peek(&self, batch: &Batch) -> Result<Outcome, StoreError> {
        Ok(self.reach()?.peek_now(batch))
    }

    async fn refund(&self, batch: &Batch, outcome: &Outcome) -> Result<(), StoreError> {
        self.reach()?.refund_now(batch, outcome);
        Ok(())
    }

    async fn reset(&self, keys: &[Key]) -> Result<(), StoreError> {
        self.reach()?.reset_now(keys);
        Ok(())
    }

    async fn sweep(&self, budget: usize) -> Result<Swept, StoreError> {
        Ok(self.reach()?.sweep_now(budget))
    }

    async fn health(&self) -> Health {
        self.store.health().await
    }

    async fn close(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

/// Nodes that share a store, and the time of all of them.
struct World {
    clock: ManualClock,
    far: Far,
    nodes: Vec<NodeStore<Far, ManualClock>>,
}

fn world(nodes: u32) -> World {
    let clock = ManualClock::starting_at(Timestamp::from_micros(1_800_000_000_000_000));
    let memory = || MemoryStore::builder().max_bytes(1 << 20).clock(clock.clone()).build().unwrap();
    let far = Far { store: memory(), gone: Arc::default(), slow: Arc::default() };
    let settings = NodeSettings { nodes, ..NodeSettings::default() };
    let node = || NodeStore::with_clock(far.clone(), settings, clock.clone(), [memory(), memory()]);
    let nodes = (0..nodes).map(|_| node()).collect();
    World { clock, far, nodes }
}

fn step(kind: AlgorithmKind, rate: &str, cost: u64) -> Step {
    let algorithm = Algorithm::new(kind, &rate.parse().unwrap()).unwrap();
    Step::consume(Key::from_raw(7, 7), algorithm, NonZeroU64::new(cost).unwrap())
}

fn bucket(rate: &str, cost: u64) -> Batch {
    Batch::from(step(AlgorithmKind::TokenBucket, rate, cost))
}

fn shared(step: Step, consistency: Consistency, on_failure: OnFailure) -> Step {
    Step { sharing: Sharing { consistency, on_failure }, ..step }
}

#[tokio::test]
async fn a_reset_passes_every_nodes_memory_of_refusals_within_a_second() {
    let World { clock, nodes, .. } = world(2);
    let batch = bucket("5/day", 1);
    for _ in 0..5 {
        assert!(nodes[0].apply(&batch).await.unwrap().admitted());
    }
    let refused = nodes[0].apply(&batch).await.unwrap();
    assert_eq!((refused.admitted(), refused.source), (false, Source::DenialCache), "nothing was left");
    nodes[1].reset(&[batch.steps()[0].key]).await.unwrap();
    assert!(nodes[1].apply(&batch).await.unwrap().admitted(), "the node that resets knows at once");
    clock.advance(Span::from_micros(999_999));
    assert!(!nodes[0].apply(&batch).await.unwrap().admitted());
    clock.advance(Span::TICK);
    let after = nodes[0].apply(&batch).await.unwrap();
    assert_eq!((after.admitted(), after.source), (true, Source::Exact));
}

/// At night nothing is asked, and an operator waits for the store to be well.
#[tokio::test]
async fn a_store_that_is_back_is_found_without_a_decision() {
    let World { clock, far, nodes } = world(1);
    far.gone.store(true, Ordering::Relaxed);
    for _ in 0..5 {
        let _ = nodes[0].apply(&bucket("5/day", 1)).await;
    }
    assert_eq!(nodes[0].strategy(), Strategy::MemoryOnly);
    clock.advance(Span::SECOND);
    let _ = nodes[0].sweep(0).await;
    assert_eq!(nodes[0].strategy(), Strategy::MemoryOnly, "it is still gone");
    far.gone.store(false, Ordering::Relaxed);
    clock.advance(Span::SECOND);
    nodes[0].sweep(0).await.unwrap();
    assert_eq!(nodes[0].strategy(), Strategy::Full);
}

#[tokio::test]
async fn a_raised_limit_and_a_smaller_cost_have_not_been_refused() {
    let World { nodes, .. } = world(1);
    assert!(nodes[0].apply(&bucket("10/day", 8)).await.unwrap().admitted());
    assert!(!nodes[0].apply(&bucket("10/day", 5)).await.unwrap().admitted());
    assert_eq!(nodes[0].apply(&bucket("10/day", 5)).await.unwrap().source, Source::DenialCache);
    assert!(nodes[0].apply(&bucket("10/day", 1)).await.unwrap().admitted(), "two are left");
    assert!(nodes[0].apply(&bucket("20/day", 5)).await.unwrap().admitted(), "the limit was raised");
}

#[tokio::test]
async fn a_refusal_says_when_it_is_over_however_it_is_known() {
    let World { clock, nodes, .. } = world(1);
    let batch = bucket("1/min", 1);
    assert!(nodes[0].apply(&batch).await.unwrap().admitted());
    for millis in [0, 100, 300, 700, 1_500] {
        clock.advance(Span::from_micros(millis * 1_000));
        let refused = nodes[0].apply(&batch).await.unwrap();
        let peeked = nodes[0].peek(&batch).await.unwrap();
        assert_eq!(refused.retry, peeked.retry, "after {millis} ms more");
        assert_eq!(refused.at, peeked.at);
    }
}

#[tokio::test]
async fn a_larger_cost_is_told_its_own_wait() {
    let World { nodes, .. } = world(1);
    for _ in 0..5 {
        assert!(nodes[0].apply(&bucket("5/min", 1)).await.unwrap().admitted());
    }
    assert_eq!(nodes[0].apply(&bucket("5/min", 1)).await.unwrap().source, Source::DenialCache);
    let larger = bucket("5/min", 5);
    assert_eq!(nodes[0].apply(&larger).await.unwrap().retry, nodes[0].peek(&larger).await.unwrap().retry);
}

#[tokio::test]
async fn permits_are_never_remembered_as_refused() {
    let World { nodes, .. } = world(2);
    let acquire = |id| {
        let step = step(AlgorithmKind::Concurrency, "1 per 60s", 1);
        Batch::from(Step { action: Action::Acquire(PermitId::new(id), NonZeroU64::MIN), ..step })
    };
    assert!(nodes[0].apply(&acquire(1)).await.unwrap().admitted());
    assert!(!nodes[1].apply(&acquire(2)).await.unwrap().admitted());
    let release = acquire(1).released().unwrap();
    assert!(nodes[0].apply(&release).await.unwrap().admitted());
    assert!(nodes[1].apply(&acquire(2)).await.unwrap().admitted());
}

#[tokio::test]
async fn a_batch_of_all_kinds_is_charged_all_or_none() {
    let World { nodes, clock, .. } = world(1);
    let exact = step(AlgorithmKind::FixedWindow, "3/day", 1);
    let leased =
        shared(step(AlgorithmKind::TokenBucket, "1000/day", 1), Consistency::Leased, OnFailure::Share);
    let local = shared(step(AlgorithmKind::FixedWindow, "1000/day", 1), Consistency::Local, OnFailure::Share);
    let leased = Step { key: leased.key.beside(1), ..leased };
    let local = Step { key: local.key.beside(2), ..local };
    let mut batch = Batch::default();
    [leased, local, exact].into_iter().for_each(|step| batch.push(step).unwrap());
    for _ in 0..3 {
        assert!(nodes[0].apply(&batch).await.unwrap().admitted());
    }
    for _ in 0..50 {
        clock.advance(Span::TICK);
        let outcome = nodes[0].apply(&batch).await.unwrap();
        assert!(!outcome.admitted() && !outcome.charged);
    }
    let left = |step: Step| {
        let batch = Batch::from(step);
        let node = &nodes[0];
        async move { node.peek(&batch).await.unwrap().verdicts[0].remaining }
    };
    assert_eq!(left(local).await, 997);
    let all = leased.algorithm.leasable(Span::SECOND).unwrap().algorithm.capacity();
    // What was spent in the very instant in which its slice came is lost when it is given back.
    assert!((all - 13..=all - 3).contains(&left(leased).await), "{} of {all}", left(leased).await);
}

#[tokio::test]
async fn each_node_has_its_own_local_limits() {
    let World { nodes, .. } = world(2);
    let local = shared(step(AlgorithmKind::FixedWindow, "3/day", 1), Consistency::Local, OnFailure::Closed);
    for node in &nodes {
        let mut admitted = 0;
        for _ in 0..10 {
            let outcome = node.apply(&Batch::from(local)).await.unwrap();
            assert_eq!(outcome.source, Source::Local);
            admitted += u64::from(outcome.admitted());
        }
        assert_eq!(admitted, 3);
    }
}

#[tokio::test]
async fn a_share_goes_on_from_what_was_seen_and_comes_back_to_the_store() {
    let World { far, nodes, clock } = world(2);
    let batch = bucket("100/day", 1);
    for _ in 0..60 {
        assert!(nodes[0].apply(&batch).await.unwrap().admitted());
    }
    far.gone.store(true, Ordering::Relaxed);
    let admitted = |node: &'static str, count: u64| (node, count);
    let mut by_share = 0;
    for _ in 0..200 {
        let outcome = nodes[0].apply(&batch).await.unwrap();
        assert_eq!(outcome.source, Source::Fallback);
        by_share += u64::from(outcome.admitted());
    }
    assert_eq!(admitted("of 40 that were left", by_share), admitted("of 40 that were left", 40));
    let mut unseen = 0;
    for _ in 0..200 {
        unseen += u64::from(nodes[1].apply(&batch).await.unwrap().admitted());
    }
    assert_eq!(unseen, 50, "a node that has not seen the key has its half");
    far.gone.store(false, Ordering::Relaxed);
    clock.advance(Span::SECOND);
    for node in &nodes {
        assert!(!node.apply(&batch).await.unwrap().admitted(), "coming back is no fresh budget");
    }
}

#[tokio::test]
async fn what_is_closed_is_not_decided_and_what_is_open_passes() {
    let World { far, nodes, .. } = world(1);
    far.gone.store(true, Ordering::Relaxed);
    let of = |on_failure| {
        Batch::from(shared(step(AlgorithmKind::SlidingLog, "1/day", 1), Consistency::Exact, on_failure))
    };
    assert!(nodes[0].apply(&of(OnFailure::Closed)).await.is_err());
    for _ in 0..10 {
        let outcome = nodes[0].apply(&of(OnFailure::Open)).await.unwrap();
        assert_eq!((outcome.admitted(), outcome.source), (true, Source::Open));
    }
    assert_eq!(nodes[0].stats().degraded, 11);
}

#[tokio::test]
async fn more_nodes_than_tokens_have_no_share() {
    let World { far, nodes, .. } = world(3);
    far.gone.store(true, Ordering::Relaxed);
    assert!(!nodes[0].apply(&bucket("2/day", 1)).await.unwrap().admitted());
}

#[tokio::test]
async fn what_was_admitted_without_the_store_is_charged_to_it_once() {
    for kind in [AlgorithmKind::TokenBucket, AlgorithmKind::SlidingLog, AlgorithmKind::SlidingWindow] {
        let World { far, nodes, clock } = world(1);
        let batch = Batch::from(step(kind, "100/day", 1));
        for _ in 0..60 {
            assert!(nodes[0].apply(&batch).await.unwrap().admitted());
        }
        far.gone.store(true, Ordering::Relaxed);
        for _ in 0..5 {
            assert!(nodes[0].apply(&batch).await.unwrap().admitted());
        }
        far.gone.store(false, Ordering::Relaxed);
        clock.advance(Span::SECOND);
        let mut admitted = 0;
        for _ in 0..100 {
            admitted += u64::from(nodes[0].apply(&batch).await.unwrap().admitted());
            clock.advance(Span::from_micros(10_000));
        }
        assert_eq!(admitted, 35, "{kind}: of a hundred");
    }
}

#[tokio::test]
async fn a_dry_lease_refuses_no_smaller_cost_and_asks_again_within_a_second() {
    let World { nodes, clock, .. } = world(2);
    let of = |cost| {
        let step = step(AlgorithmKind::FixedWindow, "100/day", cost);
        Batch::from(shared(step, Consistency::Leased, OnFailure::Share))
    };
    assert!(nodes[0].apply(&of(60)).await.unwrap().admitted());
    assert!(!nodes[0].apply(&of(50)).await.unwrap().admitted());
    assert!(nodes[0].apply(&of(1)).await.unwrap().admitted(), "forty were left");
    assert!(!nodes[0].apply(&of(50)).await.unwrap().admitted());
    nodes[1].reset(&[of(1).steps()[0].key]).await.unwrap();
    clock.advance(Span::SECOND);
    assert!(nodes[0].apply(&of(50)).await.unwrap().admitted(), "it was reset elsewhere");
}

/// Admits three of ten by the share of a node whose store is gone.
async fn three_without_the_store(far: &Far, node: &NodeStore<Far, ManualClock>) -> Batch {
    let batch = bucket("10/day", 1);
    far.gone.store(true, Ordering::Relaxed);
    for _ in 0..3 {
        assert_eq!(node.apply(&batch).await.unwrap().source, Source::Fallback);
    }
    far.gone.store(false, Ordering::Relaxed);
    batch
}

#[tokio::test(start_paused = true)]
async fn however_often_the_store_is_asked_for_a_decision_there_is_one_deadline() {
    let World { far, nodes, .. } = world(2);
    let batch = three_without_the_store(&far, &nodes[0]).await;
    // It is told what was admitted without it, and then asked: in time each, and too long together.
    far.slow.store(30, Ordering::Relaxed);
    let begun = tokio::time::Instant::now();
    let outcome = nodes[0].apply(&batch).await.unwrap();
    assert_eq!((outcome.source, begun.elapsed()), (Source::Fallback, PATIENCE));
}

#[tokio::test(start_paused = true)]
async fn what_could_not_be_told_to_the_store_in_time_is_told_later() {
    let World { far, nodes, .. } = world(2);
    let batch = three_without_the_store(&far, &nodes[0]).await;
    far.slow.store(50, Ordering::Relaxed);
    {
        let mut cut_off = std::pin::pin!(nodes[0].apply(&batch));
        let at_once = tokio::time::timeout(PATIENCE / 2, &mut cut_off).await;
        assert!(at_once.is_err(), "it is on its way to the store");
    }
    far.slow.store(0, Ordering::Relaxed);
    let outcome = nodes[0].apply(&batch).await.unwrap();
    assert_eq!((outcome.source, outcome.verdicts[0].remaining), (Source::Exact, 6), "three, and this one");
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_a_slice_that_another_asks_for_waits_no_longer_than_that() {
    let World { far, nodes, .. } = world(1);
    far.slow.store(60, Ordering::Relaxed);
    let leased = shared(step(AlgorithmKind::TokenBucket, "100/s", 1), Consistency::Leased, OnFailure::Closed);
    let batch = Batch::from(leased);
    let begun = tokio::time::Instant::now();
    let (one, other, third) =
        tokio::join!(nodes[0].apply(&batch), nodes[0].apply(&batch), nodes[0].apply(&batch));
    for decided in [one, other, third] {
        assert_eq!(decided.unwrap_err().kind(), StoreErrorKind::Timeout);
    }
    assert_eq!(begun.elapsed(), PATIENCE, "not one after the other");
}
