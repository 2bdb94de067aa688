//! The store in memory: exact under threads, under a hard cap on its bytes.
//!
//! Keys fall into shards by their hash; a batch locks the shards it needs in ascending order, reads the clock
//! once, and runs the transition. Nothing that still matters is ever evicted: an expired state equals no state,
//! so dropping it loses nothing, and when the cap is reached new keys share overflow buckets that
//! may refuse more and never admit more.

mod budget;
mod builder;
#[cfg(all(test, not(feature = "loom")))]
#[path = "../tests/common/heap.rs"]
mod heap;
mod hint;
mod lists;
mod locked;
mod overflow;
mod shard;
mod table;

use std::future::{Future, ready};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use threshold_core::{
    Action, Algorithm, Batch, Clock, Health, Key, Outcome, Source, Span, Step, Store, StoreError, Swept,
    Timestamp, Verdict, transition,
};

use crate::clock::SystemClock;
use crate::sync::{AtomicUsize, Mutex};
use locked::Locked;
use shard::{Room, Shard};

pub use builder::{MemoryStoreBuilder, MemoryStoreError};

/// A store in this process. Clones share the same states.
pub struct MemoryStore<C = SystemClock> {
    inner: Arc<Inner<C>>,
}

struct Inner<C> {
    shards: Box<[Padded]>,
    /// Where the next sweep goes on.
    sweep_from: AtomicUsize,
    room: Arc<Room>,
    /// What the shards take before the first key comes.
    fixed_bytes: usize,
    max_bytes: usize,
    clock: C,
}

/// A shard in a cache line of its own, with its lock: a decision waits for this line and for its slot's, and
/// neighbours in use by other processors do not slow it down.
#[repr(align(64))]
struct Padded(Mutex<Shard>);

#[cfg(all(target_pointer_width = "64", not(feature = "loom")))]
const _: () = assert!(size_of::<Padded>() == 64, "a shard and its lock share one cache line");

/// What the store holds and what it had to do for want of room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryStats {
    /// Keys with a state of their own.
    pub keys: usize,
    /// Bytes taken.
    pub bytes: usize,
    /// The cap.
    pub max_bytes: usize,
    /// Charges that went to a bucket shared with other keys, which may refuse more and never admits more.
    pub shared_charges: u64,
    /// Sliding logs folded into one entry, likewise.
    pub merged_logs: u64,
    /// Steps refused because there was no room to write the admission down.
    pub refused_for_room: u64,
}

impl MemoryStore {
    /// A store with the default cap of 256 MiB and the system's clock.
    #[must_use]
    pub fn new() -> Self {
        MemoryStoreBuilder::default().build().expect("the default cap is large enough")
    }

    /// A store to be shaped: its cap, its clock.
    #[must_use]
    pub fn builder() -> MemoryStoreBuilder {
        MemoryStoreBuilder::default()
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl<C: Clock> MemoryStore<C> {
    /// Judges and charges a batch, without a future: nothing here ever waits for anything but a lock.
    #[must_use]
    pub fn apply_now(&self, batch: &Batch) -> Outcome {
        if batch.steps().len() > 1 {
            batch.steps().iter().for_each(|step| self.prefetch(&step.key));
        }
        let mut outcome = Outcome::default();
        self.apply_into(batch, self.now(), &mut outcome);
        outcome
    }

    /// [`apply_now`](Self::apply_now) for who has a place for the outcome, has read this store's clock already, just
    /// before, and has asked for [what the keys need](Store::prefetch).
    pub fn apply_into(&self, batch: &Batch, now: Timestamp, outcome: &mut Outcome) {
        if let [step] = batch.steps() {
            return self.apply_alone(step, now, outcome);
        }
        let mut states = Locked::new(self.inner.shards.len());
        states.lock(&self.inner.shards, batch.steps());
        let now = states.advance(now);
        transition::apply_into(batch.steps(), now, &mut states, outcome);
    }

    /// A batch of one, without the bookkeeping of several.
    fn apply_alone(&self, step: &Step, now: Timestamp, outcome: &mut Outcome) {
        let mut shard = self.inner.shards[self.shard_of(&step.key)].0.lock();
        let now = shard.advance(now);
        let pending = transition::apply_one(&step.key, &step.algorithm, step.action, now, &mut *shard);
        drop(shard);
        outcome.clear(now);
        outcome.push(step.mode, pending.verdict(&step.algorithm, now));
        outcome.charged = outcome.admitted();
    }

    /// Judges and charges one step, without a future.
    #[must_use]
    #[inline]
    pub fn apply_one_now(&self, step: &Step) -> (Timestamp, Verdict) {
        self.act_now(&step.key, &step.algorithm, step.action)
    }

    /// [`apply_one_now`](Self::apply_one_now) without a step around it: the shortest way to a decision.
    #[must_use]
    #[inline]
    pub fn act_now(&self, key: &Key, algorithm: &Algorithm, action: Action) -> (Timestamp, Verdict) {
        let now = self.inner.clock.now();
        let mut shard = self.inner.shards[self.shard_of(key)].0.lock();
        let now = shard.advance(now);
        let pending = transition::apply_one(key, algorithm, action, now, &mut *shard);
        drop(shard);
        (now, pending.verdict(algorithm, now))
    }

    /// The store's time.
    #[must_use]
    #[inline]
    pub fn now(&self) -> Timestamp {
        self.inner.clock.now()
    }

    /// What the store holds. Visits every shard: for operators, not for decisions.
    #[must_use]
    pub fn stats(&self) -> MemoryStats {
        let room = &self.inner.room;
        MemoryStats {
            keys: self.inner.shards.iter().map(|shard| shard.0.lock().len()).sum(),
            bytes: self.inner.fixed_bytes + room.states.used() + room.overflow.used(),
            max_bytes: self.inner.max_bytes,
            shared_charges: room.shortages.shared.load(Ordering::Relaxed),
            merged_logs: room.shortages.merged.load(Ordering::Relaxed),
            refused_for_room: room.shortages.refused.load(Ordering::Relaxed),
        }
    }

    /// Judges a batch and charges nothing, without a future.
    #[must_use]
    pub fn peek_now(&self, batch: &Batch) -> Outcome {
        let (now, mut states) = self.lock(batch.steps());
        let now = states.not_before(now);
        transition::peek(batch.steps(), now, &mut states)
    }

    /// Takes back what a batch was charged, without a future.
    pub fn refund_now(&self, batch: &Batch, outcome: &Outcome) {
        let (_, mut states) = self.lock(batch.steps());
        // The time after the wait for the locks: what was refilled until then may have been given to others
        // meanwhile, and must not be given back as well.
        let now = states.advance(self.inner.clock.now());
        transition::refund(batch.steps(), outcome, now, &mut states);
    }

    /// Forgets all that is known of the keys, without a future.
    pub fn reset_now(&self, keys: &[Key]) {
        for key in keys {
            self.inner.shards[self.shard_of(key)].0.lock().reset(key);
        }
    }

    /// Drops what has expired, one whole shard after the other until about `budget` states were looked at,
    /// without a future. Only the shard at hand is locked.
    pub fn sweep_now(&self, budget: usize) -> Swept {
        let now = self.inner.clock.now();
        let mut swept = Swept::default();
        let mut left = budget;
        for _ in 0..self.inner.shards.len() {
            if left == 0 {
                break;
            }
            let index = self.inner.sweep_from.fetch_add(1, Ordering::Relaxed) % self.inner.shards.len();
            let (part, looked_at) = self.inner.shards[index].0.lock().sweep(now);
            left = left.saturating_sub(looked_at.max(1));
            swept.seen += part.seen;
            swept.dropped += part.dropped;
        }
        swept
    }

    /// Reads the clock, before it waits for any lock, and locks what `steps` need.
    fn lock(&self, steps: &[Step]) -> (Timestamp, Locked<'_>) {
        let now = self.inner.clock.now();
        let mut states = Locked::new(self.inner.shards.len());
        states.lock(&self.inner.shards, steps);
        (now, states)
    }

    #[inline]
    fn shard_of(&self, key: &Key) -> usize {
        shard_of(key, self.inner.shards.len())
    }
}

/// The shard of a key among `shards`, a power of two.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "only the low bits are wanted")]
const fn shard_of(key: &Key, shards: usize) -> usize {
    let [low, _] = key.halves();
    low as usize & (shards - 1)
}

impl<C: Clock> Store for MemoryStore<C> {
    fn apply(&self, batch: &Batch) -> impl Future<Output = Result<Outcome, StoreError>> + Send {
        ready(Ok(self.apply_now(batch)))
    }

    fn apply_one(
        &self,
        step: &Step,
    ) -> impl Future<Output = Result<(Timestamp, Verdict, Source), StoreError>> + Send {
        let (at, verdict) = self.apply_one_now(step);
        ready(Ok((at, verdict, Source::Exact)))
    }

    #[inline]
    fn apply_at_once(&self, batch: &Batch) -> Option<Outcome> {
        Some(self.apply_now(batch))
    }

    #[inline]
    fn apply_one_at_once(&self, step: &Step) -> Option<(Timestamp, Verdict)> {
        Some(self.apply_one_now(step))
    }

    fn peek(&self, batch: &Batch) -> impl Future<Output = Result<Outcome, StoreError>> + Send {
        ready(Ok(self.peek_now(batch)))
    }

    fn refund(
        &self,
        batch: &Batch,
        outcome: &Outcome,
    ) -> impl Future<Output = Result<(), StoreError>> + Send {
        self.refund_now(batch, outcome);
        ready(Ok(()))
    }

    fn reset(&self, keys: &[Key]) -> impl Future<Output = Result<(), StoreError>> + Send {
        self.reset_now(keys);
        ready(Ok(()))
    }

    fn sweep(&self, budget: usize) -> impl Future<Output = Result<Swept, StoreError>> + Send {
        ready(Ok(self.sweep_now(budget)))
    }

    #[inline]
    fn prefetch(&self, key: &Key) {
        self.inner.room.hints[self.shard_of(key)].prefetch(key);
    }

    fn health(&self) -> impl Future<Output = Health> + Send {
        ready(Health::Up { latency: Span::ZERO })
    }

    fn close(&self) -> impl Future<Output = Result<(), StoreError>> + Send {
        ready(Ok(()))
    }
}

impl<C> Clone for MemoryStore<C> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<C: Clock> std::fmt::Debug for MemoryStore<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("MemoryStore").field(&self.stats()).finish()
    }
}
