//! Stores, limits and steps in few words.
#![allow(dead_code, reason = "each test binary takes what it needs")]
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up fails")]

use std::num::NonZeroU64;

use threshold_core::{
    Action, Algorithm, AlgorithmKind, Batch, Clock, Key, ManualClock, PermitId, Step, Timestamp,
};
use threshold_store::MemoryStore;

pub(crate) const NOON: Timestamp = Timestamp::from_micros(43_200_000_000);

/// The algorithms whose state fits into a cell.
pub(crate) const CELLS: [AlgorithmKind; 4] = [
    AlgorithmKind::TokenBucket,
    AlgorithmKind::FixedWindow,
    AlgorithmKind::CalendarWindow,
    AlgorithmKind::SlidingWindow,
];

pub(crate) fn store(max_bytes: usize) -> (ManualClock, MemoryStore<ManualClock>) {
    let clock = ManualClock::starting_at(NOON);
    let store = MemoryStore::builder().max_bytes(max_bytes).clock(clock.clone()).build().unwrap();
    (clock, store)
}

pub(crate) fn algorithm(kind: AlgorithmKind, rate: &str) -> Algorithm {
    Algorithm::new(kind, &rate.parse().unwrap()).unwrap()
}

pub(crate) fn cost(cost: u64) -> NonZeroU64 {
    NonZeroU64::new(cost).unwrap()
}

pub(crate) fn one(key: Key, algorithm: Algorithm) -> Step {
    Step::consume(key, algorithm, NonZeroU64::MIN)
}

pub(crate) fn acquire(key: Key, algorithm: Algorithm, holder: u64) -> Step {
    Step { action: Action::Acquire(PermitId::new(holder.into()), NonZeroU64::MIN), ..one(key, algorithm) }
}

pub(crate) fn batch(steps: impl IntoIterator<Item = Step>) -> Batch {
    let mut batch = Batch::default();
    steps.into_iter().for_each(|step| batch.push(step).unwrap());
    batch
}

pub(crate) fn admits<C: Clock>(store: &MemoryStore<C>, step: &Step) -> bool {
    store.apply_one_now(step).1.admitted()
}

/// How often `step` is admitted until it is refused for the first time.
pub(crate) fn drain<C: Clock>(store: &MemoryStore<C>, step: &Step) -> u64 {
    (0..1_000_000).find(|_| !admits(store, step)).expect("a limit that refuses at some time")
}

/// Numbers that look random and are the same in every run.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }

    pub(crate) fn below(&mut self, length: usize) -> usize {
        usize::try_from(self.roll(length as u64)).unwrap()
    }
}
