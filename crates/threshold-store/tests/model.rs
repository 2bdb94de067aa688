//! Every interleaving of two or three threads on one store, judged by what the threads were told.
//!
//! Run with `cargo nextest run -p threshold-store --features loom --test model`.
#![cfg(feature = "loom")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use loom::sync::atomic::AtomicU64;
use loom::thread;
use threshold_core::{
    Action, Algorithm, AlgorithmKind, Batch, Clock, Key, ManualClock, PermitId, Span, Step, Timestamp,
};
use threshold_store::MemoryStore;

const NOON: Timestamp = Timestamp::from_micros(1_000_000_000);
/// The smallest cap there is: four shards.
const CAP: usize = 64 << 10;
/// Keys that crowd the table of each of the four shards so that its next key makes it grow: as many in the
/// last two as are needed to leave room for one growth only.
const CROWDS: [u64; 4] = [243, 256, 272, 287];

type Still = MemoryStore<ManualClock>;

#[test]
fn of_two_threads_that_want_the_last_token_one_gets_it() {
    for kind in [AlgorithmKind::TokenBucket, AlgorithmKind::SlidingWindow, AlgorithmKind::SlidingLog] {
        explore(move || {
            let (store, limit) = (still_store(), algorithm(kind, "2/min"));
            assert!(consume(&store, key(0, 1), limit));
            let got = both(&store, move |store, _| consume(store, key(0, 1), limit));
            assert_eq!(got.iter().filter(|got| **got).count(), 1);
            assert!(!consume(&store, key(0, 1), limit));
        });
    }
}

#[test]
fn of_two_threads_that_want_the_last_permit_one_gets_it() {
    explore(|| {
        let (store, limit) = (still_store(), algorithm(AlgorithmKind::Concurrency, "2/min"));
        assert!(acquire(&store, key(0, 1), limit, 0));
        let got = both(&store, move |store, me| acquire(store, key(0, 1), limit, 1 + me));
        assert_eq!(got.iter().filter(|got| **got).count(), 1);
    });
}

/// X and Y name the same two keys in opposite order and only one of them fits. A third thread takes what is
/// left of the wider key: were there a moment at which both X and Y had charged it, that thread would be
/// refused.
#[test]
fn batches_in_opposite_order_neither_block_each_other_nor_charge_a_half() {
    explore_within(Some(3), || {
        let store = still_store();
        let (wide, narrow) = ((key(0, 1), bucket("2/min")), (key(1, 1), bucket("1/min")));
        let x = charging(&store, [wide, narrow]);
        let y = charging(&store, [narrow, wide]);
        let alone = consume(&store, wide.0, wide.1);
        let admitted = [x.join().unwrap(), y.join().unwrap()];
        assert!(alone, "half a batch was visible");
        assert_eq!(admitted.iter().filter(|admitted| **admitted).count(), 1);
        assert!(!consume(&store, wide.0, wide.1));
        assert!(!consume(&store, narrow.0, narrow.1));
    });
}

#[test]
fn no_charge_is_lost_while_a_table_grows() {
    explore(|| {
        let (store, limit) = (still_store(), bucket("2/min"));
        // Seven keys crowd the first shard's smallest table: the next one makes it grow.
        for home in 0..7 {
            assert!(consume(&store, key(0, home), limit));
        }
        let grown = store.clone();
        let grower = thread::spawn(move || consume(&grown, key(0, 7), limit));
        assert!(consume(&store, key(0, 3), limit));
        assert!(grower.join().unwrap());
        assert!(!consume(&store, key(0, 3), limit), "both tokens of the old key are spent");
        let left = (0..8).filter(|home| *home != 3).filter(|home| consume(&store, key(0, *home), limit));
        assert_eq!(left.count(), 7, "every other key has one token left");
    });
}

/// One token each 100 µs. The first is taken at noon, so the second is there 100 µs later and the third 200 µs
/// later, whoever sweeps in between and whenever the charge beside it looked at the clock.
#[test]
fn a_sweep_beside_a_charge_drops_nothing_that_counts() {
    for kind in [AlgorithmKind::TokenBucket, AlgorithmKind::FixedWindow, AlgorithmKind::SlidingLog] {
        explore(move || {
            let (clock, limit) = (Hand::at(NOON), algorithm(kind, "1 per 100us"));
            let store = MemoryStore::builder().max_bytes(CAP).clock(clock.clone()).build().unwrap();
            assert!(consume(&store, key(0, 1), limit));
            let swept = store.clone();
            let hand = clock.clone();
            let sweeper = thread::spawn(move || {
                hand.set(NOON.plus(Span::from_micros(101)));
                let _ = swept.sweep_now(usize::MAX);
            });
            let beside = consume(&store, key(0, 1), limit);
            sweeper.join().unwrap();
            clock.set(NOON.plus(Span::from_micros(199)));
            let after = consume(&store, key(0, 1), limit);
            assert!(!(beside && after), "three in less than 200us");
            assert!(beside || after, "the second was due");
        });
    }
}

/// A decision that waited for its shard must not be dated before those that went first: a charge taken back
/// would count for more than is left of it.
#[test]
fn a_refund_beside_a_later_charge_gives_back_no_more_than_is_left() {
    explore(|| {
        let (clock, limit) = (Hand::at(NOON), bucket("1 per 100us"));
        let store = MemoryStore::builder().max_bytes(CAP).clock(clock.clone()).build().unwrap();
        let charge = Batch::from(step(key(0, 1), limit));
        let charged = store.apply_now(&charge);
        let refunding = store.clone();
        let refunder = thread::spawn(move || refunding.refund_now(&charge, &charged));
        clock.set(NOON.plus(Span::from_micros(100)));
        assert!(consume(&store, key(0, 1), limit), "the second is due, refunded or not");
        refunder.join().unwrap();
        clock.set(NOON.plus(Span::from_micros(199)));
        assert!(!consume(&store, key(0, 1), limit), "the second alone lasts until 200us");
    });
}

/// What a refund takes back whole is gone like what has expired: a charge that waited beside it must not be
/// dated before it.
#[test]
fn a_charge_beside_a_refund_that_leaves_nothing_is_not_dated_before_it() {
    explore(|| {
        let (clock, limit) = (Hand::at(NOON), bucket("1 per 100us"));
        let store = MemoryStore::builder().max_bytes(CAP).clock(clock.clone()).build().unwrap();
        let charge = Batch::from(step(key(0, 1), limit));
        let charged = store.apply_now(&charge);
        let (refunding, hand) = (store.clone(), clock.clone());
        let refunder = thread::spawn(move || {
            hand.set(NOON.plus(Span::from_micros(60)));
            refunding.refund_now(&charge, &charged);
        });
        let beside = consume(&store, key(0, 1), limit);
        refunder.join().unwrap();
        clock.set(NOON.plus(Span::from_micros(159)));
        let after = consume(&store, key(0, 1), limit);
        assert!(!(beside && after), "two in less than 100us after the refund");
    });
}

/// One log is dropped to make room for another, so there are as many as before.
#[test]
fn a_charge_beside_a_log_that_takes_its_place_is_not_dated_before_it() {
    explore(|| {
        let (clock, limit) = (Hand::at(NOON), algorithm(AlgorithmKind::SlidingLog, "1 per 2ms"));
        let store = MemoryStore::builder().max_bytes(CAP).clock(clock.clone()).build().unwrap();
        // Three logs fill the smallest map; the first to expire makes room for the fourth.
        assert!(consume(&store, key(0, 1), limit));
        clock.set(NOON.plus(Span::from_micros(1)));
        assert!(consume(&store, key(0, 2), limit) && consume(&store, key(0, 3), limit));
        let (dropping, hand) = (store.clone(), clock.clone());
        let dropper = thread::spawn(move || {
            hand.set(NOON.plus(Span::from_micros(2_001)));
            assert!(consume(&dropping, key(0, 4), limit));
        });
        let beside = consume(&store, key(0, 1), limit);
        dropper.join().unwrap();
        clock.set(NOON.plus(Span::from_micros(3_999)));
        let after = consume(&store, key(0, 1), limit);
        assert!(!(beside && after), "three in less than 4ms");
    });
}

#[test]
fn two_threads_at_the_cap_never_exceed_it_and_share_without_admitting_more() {
    let winners = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
    let seen = Arc::clone(&winners);
    explore_within(Some(2), move || {
        let (store, limit) = (still_store(), bucket("1/min"));
        crowd(&store, limit);
        let before = store.stats().keys;
        let got = both(&store, move |store, me| {
            let admitted = [consume(store, key(me, 0), limit), consume(store, key(me, 0), limit)];
            (admitted, store.stats().bytes)
        });
        for (admitted, bytes) in &got {
            assert_eq!(*admitted, [true, false], "its limit is one, in a slot or in a shared bucket");
            assert!(*bytes <= CAP);
        }
        let stats = store.stats();
        assert!(stats.bytes <= stats.max_bytes);
        // Which of the two found room is not judged, only that both orders were seen.
        let own = usize::from(stats.keys == before + 1 && stats.shared_charges == 1);
        let first = usize::from(room_of_shard_zero_was_taken(&store, limit));
        seen[first].fetch_add(own, Ordering::Relaxed);
    });
    let [second, first] = [0, 1].map(|index| winners[index].load(Ordering::Relaxed));
    assert!(first > 0 && second > 0, "the threads did not compete: {first} and {second}");
}

#[test]
fn a_reset_beside_a_consume_forgives_exactly_once() {
    explore(|| {
        let (store, limit) = (still_store(), bucket("1/min"));
        assert!(consume(&store, key(0, 1), limit));
        let resetting = store.clone();
        let resetter = thread::spawn(move || resetting.reset_now(&[key(0, 1)]));
        let beside = consume(&store, key(0, 1), limit);
        resetter.join().unwrap();
        assert_ne!(beside, consume(&store, key(0, 1), limit));
    });
}

#[test]
fn a_refund_beside_a_consume_gives_back_exactly_once() {
    for kind in [AlgorithmKind::TokenBucket, AlgorithmKind::FixedWindow, AlgorithmKind::SlidingLog] {
        explore(move || {
            let (store, limit) = (still_store(), algorithm(kind, "2/min"));
            let charge = Batch::from(step(key(0, 1), limit));
            let charged = store.apply_now(&charge);
            let refunding = store.clone();
            let refunder = thread::spawn(move || refunding.refund_now(&charge, &charged));
            assert!(consume(&store, key(0, 1), limit));
            refunder.join().unwrap();
            assert!(consume(&store, key(0, 1), limit), "what was given back");
            assert!(!consume(&store, key(0, 1), limit), "and not one more");
        });
    }
}

fn explore(model: impl Fn() + Send + Sync + 'static) {
    explore_within(None, model);
}

/// All interleavings, or all with at most so many preemptions where three threads would make too many.
fn explore_within(preemptions: Option<usize>, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions;
    builder.max_branches = 20_000;
    builder.check(model);
}

fn still_store() -> Still {
    let clock = ManualClock::starting_at(NOON);
    MemoryStore::builder().max_bytes(CAP).clock(clock).build().unwrap()
}

/// Runs `act` for two threads, which are told which they are.
fn both<T: 'static>(store: &Still, act: impl Fn(&Still, u64) -> T + Copy + Send + 'static) -> [T; 2] {
    let other = store.clone();
    let first = thread::spawn(move || act(&other, 0));
    let second = act(store, 1);
    [first.join().unwrap(), second]
}

fn charging(store: &Still, steps: [(Key, Algorithm); 2]) -> thread::JoinHandle<bool> {
    let store = store.clone();
    thread::spawn(move || store.apply_now(&batch(steps)).admitted())
}

/// Fills every table to the brim, in as few batches as that takes.
fn crowd(store: &Still, limit: Algorithm) {
    let crowds = (0..4).zip(CROWDS);
    for (shard, crowd) in crowds {
        let outcome = store.apply_now(&batch((0..crowd).map(|home| (key(shard, 1 + home), limit))));
        assert!(outcome.admitted());
    }
}

/// The key of shard 0 has a slot of its own if its bucket is untouched: another key of that bucket still gets
/// a token, where otherwise it finds it spent.
fn room_of_shard_zero_was_taken(store: &Still, limit: Algorithm) -> bool {
    consume(store, key(0, u64::MAX >> 8), limit)
}

/// A key of a shard of four, whose slot is the further back the larger `home` is.
fn key(shard: u64, home: u64) -> Key {
    Key::from_raw(u128::from(home << 54) << 64 | u128::from(shard), 7)
}

fn algorithm(kind: AlgorithmKind, rate: &str) -> Algorithm {
    Algorithm::new(kind, &rate.parse().unwrap()).unwrap()
}

fn bucket(rate: &str) -> Algorithm {
    algorithm(AlgorithmKind::TokenBucket, rate)
}

fn step(key: Key, limit: Algorithm) -> Step {
    Step::consume(key, limit, NonZeroU64::MIN)
}

fn batch(steps: impl IntoIterator<Item = (Key, Algorithm)>) -> Batch {
    let mut batch = Batch::default();
    steps.into_iter().for_each(|(key, limit)| batch.push(step(key, limit)).unwrap());
    batch
}

fn consume<C: Clock>(store: &MemoryStore<C>, key: Key, limit: Algorithm) -> bool {
    store.apply_one_now(&step(key, limit)).1.admitted()
}

fn acquire(store: &Still, key: Key, limit: Algorithm, holder: u64) -> bool {
    let action = Action::Acquire(PermitId::new(holder.into()), NonZeroU64::MIN);
    store.apply_one_now(&Step { action, ..step(key, limit) }).1.admitted()
}

/// A clock that the model checker sees: reading it is a step of its own.
#[derive(Clone)]
struct Hand(Arc<AtomicU64>);

impl Hand {
    fn at(start: Timestamp) -> Self {
        Self(Arc::new(AtomicU64::new(start.as_micros())))
    }

    fn set(&self, to: Timestamp) {
        self.0.store(to.as_micros(), Ordering::SeqCst);
    }
}

impl Clock for Hand {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::SeqCst))
    }
}
