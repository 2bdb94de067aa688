//! Far more keys than there is room for: memory stays under its cap, and nobody gets more for it.
#![cfg(not(feature = "loom"))]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "common/heap.rs"]
mod heap;
#[path = "common/judge.rs"]
mod judge;
#[path = "common/make.rs"]
mod make;

use std::time::Instant;

use heap::Mark;
use judge::Judge;
use make::{acquire, admits, algorithm, drain, one};
use threshold_core::{
    Algorithm, AlgorithmKind, Clock, Key, LimitId, LimitKey, ManualClock, Retry, Secret, Span, Step, Unit,
};
use threshold_store::MemoryStore;
use threshold_testkit::figures::{Claim, proving, size};

/// Throttled before the flood.
const VICTIMS: u64 = 50;
/// Keys of the flood whose every admission is judged.
const SAMPLES: u64 = 4_000;
/// How often a sample tries each time: more than any limit here.
const TRIES: u64 = 8;

#[test]
fn a_flood_of_cells_stays_under_the_cap_and_admits_nothing_extra() {
    for kind in [AlgorithmKind::FixedWindow, AlgorithmKind::SlidingWindow] {
        flood(kind, size(300_000, 1_000_000), 2 << 20);
    }
    let claim = Claim::of("a flood of distinct keys stays under the byte cap and over-admits nothing");
    let (keys, cap) = (size(1_000_000, 10_000_000), as_bytes(size(8 << 20, 256 << 20)));
    let peak = flood(AlgorithmKind::TokenBucket, keys, cap);
    let figure = format!("{keys} keys: {peak} bytes at most, 0 over");
    claim.show("flood-of-cells", &figure, &format!("{cap} bytes, 0 over"), peak <= cap);
}

#[test]
fn a_flood_of_logs_stays_under_the_cap_and_admits_nothing_extra() {
    let claim = Claim::of("a flood of sliding logs stays under the byte cap and over-admits nothing");
    let (keys, cap) = (size(200_000, 2_000_000), as_bytes(size(4 << 20, 64 << 20)));
    let peak = flood(AlgorithmKind::SlidingLog, keys, cap);
    let figure = format!("{keys} keys: {peak} bytes at most, 0 over");
    claim.show("flood-of-logs", &figure, &format!("{cap} bytes, 0 over"), peak <= cap);
}

#[test]
fn a_flood_of_permits_stays_under_the_cap_and_admits_nothing_extra() {
    let claim = Claim::of("a flood of concurrency keys stays under the byte cap and over-admits nothing");
    let (keys, cap) = (size(200_000, 2_000_000), as_bytes(size(4 << 20, 64 << 20)));
    let peak = flood(AlgorithmKind::Concurrency, keys, cap);
    let figure = format!("{keys} keys: {peak} bytes at most, 0 over");
    claim.show("flood-of-permits", &figure, &format!("{cap} bytes, 0 over"), peak <= cap);
}

/// Users with keys of their own go on as if nothing were the matter while another thread floods the store. How
/// long their decisions take is a figure of the proof run and no condition.
#[test]
fn users_with_keys_of_their_own_do_not_notice_a_flood() {
    let claim = Claim::of("the 99th percentile of a decision during a flood, against before it");
    let (keys, cap) = (size(200_000, 10_000_000), as_bytes(size(2 << 20, 256 << 20)));
    let users = size(10_000, 1_000_000);
    let (_, store) = make::store(cap);
    let user = Subjects::new("users", algorithm(AlgorithmKind::TokenBucket, "1000000/hour"));
    decisions(&store, &user, users, || false);
    // The first time made the keys; now they are known.
    let calm = decisions(&store, &user, users, || false);
    let stranger = Subjects::new("strangers", algorithm(AlgorithmKind::TokenBucket, "5/hour"));
    let stormy = std::thread::scope(|scope| {
        let flood = scope.spawn(|| {
            (0..keys).for_each(|subject| _ = admits(&store, &stranger.step(subject, 0)));
        });
        decisions(&store, &user, users, || !flood.is_finished())
    });
    assert!(store.stats().shared_charges > 0, "the flood was no flood");
    if proving() {
        let ratio = stormy / calm;
        let figure = format!("{calm:.0} ns before, {stormy:.0} ns during: {ratio:.2} times");
        claim.show("flood-latency", &figure, "2 times", ratio <= 2.0);
    }
}

/// Runs a whole flood: throttled victims before it, samples through it, and recovery after it. Returns the most
/// bytes the store ever took.
fn flood(kind: AlgorithmKind, keys: u64, cap: usize) -> usize {
    let mut flood = Flood::new(kind, cap);
    flood.throttle_victims();
    let every = keys / SAMPLES;
    for subject in 0..keys {
        if subject % every == 0 {
            flood.try_sample(subject / every);
            flood.check_victim(subject / every % VICTIMS);
        } else {
            let _ = admits(&flood.store, &flood.limit.step(1_000_000 + subject, 0));
        }
        // Ten minutes in all, so that nothing expires and no victim is due while the flood lasts.
        if subject % (keys / 20) == 0 {
            flood.clock.advance(Span::from_secs(30));
        }
        assert!(flood.heap.peak() <= cap, "{} bytes after {subject} keys", flood.heap.peak());
    }
    assert!(flood.is_full(), "the flood was no flood");
    (0..VICTIMS).for_each(|victim| flood.check_victim(victim));
    (0..SAMPLES).for_each(|sample| flood.try_sample(sample));
    flood.recover();
    flood.judge();
    flood.heap.peak()
}

/// A store under a flood, and what its clients know.
struct Flood {
    heap: Mark,
    /// What an untouched store takes.
    fresh: usize,
    clock: ManualClock,
    store: MemoryStore<ManualClock>,
    limit: Subjects,
    judges: Vec<Judge>,
    throttled_at: Option<(threshold_core::Timestamp, Span)>,
}

impl Flood {
    fn new(kind: AlgorithmKind, cap: usize) -> Self {
        let limit = Subjects::new("flood", algorithm(kind, "5/hour"));
        // Each sample comes four times; from here on only the store takes anything from the heap.
        let judges = (0..SAMPLES).map(|_| Judge::with_room_for(4 * 5)).collect();
        let heap = Mark::here();
        let (clock, store) = make::store(cap);
        Self { fresh: heap.live(), heap, clock, store, limit, judges, throttled_at: None }
    }

    fn throttle_victims(&mut self) {
        for victim in 0..VICTIMS {
            let admitted = (0..TRIES).filter(|turn| admits(&self.store, &self.limit.step(victim, *turn)));
            assert_eq!(admitted.count(), 5);
        }
        let retry = self.store.apply_one_now(&self.limit.step(0, TRIES)).1.retry;
        let Retry::After(wait) = retry else { panic!("a victim is throttled, not {retry:?}") };
        self.throttled_at = Some((self.clock.now(), wait));
    }

    /// A victim is refused, until exactly the instant it was told before the flood.
    fn check_victim(&self, victim: u64) {
        let (at, wait) = self.throttled_at.unwrap();
        let gone = self.clock.now().since(at);
        let left = Span::from_micros(wait.as_micros() - gone.as_micros());
        let retry = self.store.apply_one_now(&self.limit.step(victim, TRIES)).1.retry;
        assert_eq!(retry, Retry::After(left), "victim {victim} after {gone}");
    }

    fn try_sample(&mut self, sample: u64) {
        let now = self.clock.now();
        for turn in 0..TRIES {
            // A holder that comes again must be another one, or it would only renew.
            let turn = now.as_micros() + turn;
            if admits(&self.store, &self.limit.step(VICTIMS + sample, turn)) {
                self.judges[sample as usize].saw(now, 1);
            }
        }
    }

    fn is_full(&self) -> bool {
        self.store.stats().shared_charges + self.store.stats().refused_for_room > 0
    }

    /// Once strangers expire there is room again: first for the samples, which bring along what they were
    /// charged; in the end for everyone.
    fn recover(&mut self) {
        // One and two hours after the first strangers came, which is when they expire, and the last have not.
        for minutes in [51, 60] {
            self.clock.advance(Span::from_secs(minutes * 60));
            let _ = self.store.sweep_now(usize::MAX);
            (0..SAMPLES).for_each(|sample| self.try_sample(sample));
        }
        self.clock.advance(Span::from_secs(3 * 3_600));
        let _ = self.store.sweep_now(usize::MAX);
        assert_eq!(self.heap.live(), self.fresh, "everything has expired, so everything is given back");
        let newcomers = 20_000_000..20_000_000 + 2_000;
        for newcomer in newcomers {
            let admitted = (0..TRIES).filter(|turn| admits(&self.store, &self.limit.step(newcomer, *turn)));
            assert_eq!(admitted.count(), 5, "a newcomer shares with nobody");
        }
    }

    fn judge(&self) {
        let guarantee = self.limit.algorithm.guarantee();
        if self.limit.algorithm.kind() == AlgorithmKind::Concurrency {
            // A permit that nobody releases lasts for its lifetime, like an entry of a log.
            let log = algorithm(AlgorithmKind::SlidingLog, "5/hour").guarantee();
            return self.judges.iter().for_each(|judge| judge.hold_to(&log));
        }
        self.judges.iter().for_each(|judge| judge.hold_to(&guarantee));
        let judged: u64 = self.judges.iter().map(Judge::total).sum();
        assert!(judged > 1_000, "only {judged} admissions were judged");
    }
}

/// The keys of one limit.
struct Subjects {
    algorithm: Algorithm,
    keys: LimitKey,
}

impl Subjects {
    fn new(name: &str, algorithm: Algorithm) -> Self {
        let keys = Secret::new([7; 16]).limit_key(&LimitId::new(name).unwrap(), &algorithm, Unit::Requests);
        Self { algorithm, keys }
    }

    fn key(&self, subject: u64) -> Key {
        self.keys.key(subject.to_le_bytes().as_slice())
    }

    /// One unit, or where permits are counted the one of the holder who comes at this turn.
    fn step(&self, subject: u64, turn: u64) -> Step {
        match self.algorithm {
            Algorithm::Concurrency(_) => acquire(self.key(subject), self.algorithm, turn),
            _ => one(self.key(subject), self.algorithm),
        }
    }
}

/// Lets every user decide, and on while `more` says so, all of them admitted. Returns the 99th percentile of
/// how long a decision took, in nanoseconds.
#[expect(clippy::disallowed_methods, reason = "a figure for the proof, nothing depends on it")]
fn decisions(store: &MemoryStore<ManualClock>, user: &Subjects, users: u64, more: impl Fn() -> bool) -> f64 {
    let mut took = Vec::new();
    for turn in 0.. {
        if turn >= users && !more() {
            break;
        }
        // A step that is coprime to the number of users, so that neighbours in time are none in memory.
        let step = user.step(turn * 7_919 % users, 0);
        let start = Instant::now();
        let admitted = admits(store, &step);
        took.push(u32::try_from(start.elapsed().as_nanos()).unwrap_or(u32::MAX));
        assert!(admitted, "a user was refused");
    }
    let index = took.len() * 99 / 100;
    let (_, percentile, _) = took.select_nth_unstable(index);
    f64::from(*percentile)
}

fn as_bytes(size: u64) -> usize {
    usize::try_from(size).unwrap()
}

/// The same in small: a key in a bucket first and in a slot later.
#[test]
fn a_key_that_starts_in_a_shared_bucket_is_held_to_one_limit_in_all() {
    let (clock, store) = make::store(512 << 10);
    let limit = Subjects::new("late", algorithm(AlgorithmKind::FixedWindow, "5/hour"));
    let brief = Subjects::new("brief", algorithm(AlgorithmKind::FixedWindow, "1/min"));
    (0..40_000).for_each(|subject| _ = admits(&store, &brief.step(subject, 0)));
    assert!(admits(&store, &limit.step(1, 0)) && admits(&store, &limit.step(1, 0)));
    clock.advance(Span::from_secs(61));
    let _ = store.sweep_now(usize::MAX);
    assert_eq!(drain(&store, &limit.step(1, 0)), 3);
}
