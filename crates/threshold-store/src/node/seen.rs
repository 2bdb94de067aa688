//! What the store said of each key last: a refusal that still holds, and what was left.
//!
//! A refusal is believed until it is over, for a second at most, and for the same cost; an admission never.
//! What was left tells a node where to go on when the store is gone. Both are forgotten where memory is short, which
//! costs a question to the store and never admits more.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::atomic::{AtomicU64, Ordering};

use threshold_core::{
    Action, Algorithm, Batch, Key, Mode, Outcome, Retry, Source, Span, Step, Timestamp, Verdict,
};

use super::keys::KeyHasher;
use crate::sync::{Guard, Mutex};

/// How long a refusal is believed at most: so long may a reset or a raised limit go unnoticed.
pub const LONGEST_DENIAL: Span = Span::SECOND;

const SHARDS: usize = 64;
/// The most keys of one shard.
const ROOM: usize = 2_048;

type Entries = HashMap<Key, Entry, BuildHasherDefault<KeyHasher>>;

pub(super) struct Seen {
    shards: Box<[Shard]>,
    /// How long a refusal is believed here.
    longest: Span,
    hits: AtomicU64,
    misses: AtomicU64,
}

#[repr(align(64))]
struct Shard(Mutex<Entries>);

/// What the store said last, and when.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Which algorithm it was said by.
    mark: u64,
    /// The time of the answer, by the node's clock and by the store's.
    learned: Timestamp,
    at: Timestamp,
    /// What was left.
    remaining: u64,
    /// When all of it is as new, by the node's clock.
    full: Timestamp,
    /// Until when costs of so much are refused, as far as that is believed.
    denied: (Timestamp, u64),
    /// When the refused cost is admitted in truth.
    retry: Timestamp,
}

impl Seen {
    pub(super) fn new(longest: Span) -> Self {
        let shards = (0..SHARDS).map(|_| Shard(Mutex::new(HashMap::default()))).collect();
        Self {
            shards,
            longest: longest.min(LONGEST_DENIAL),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        }
    }

    /// Refusals that were known, and batches that had to be asked about.
    pub(super) fn figures(&self) -> (u64, u64) {
        (self.hits.load(Ordering::Relaxed), self.misses.load(Ordering::Relaxed))
    }

    #[expect(clippy::cast_possible_truncation, reason = "only the low bits are wanted")]
    fn shard(&self, key: &Key) -> Guard<'_, Entries> {
        self.shards[key.halves()[0] as usize % SHARDS].0.lock()
    }

    fn entry(&self, step: &Step) -> Option<Entry> {
        let entry = *self.shard(&step.key).get(&step.key)?;
        (entry.mark == mark(&step.algorithm)).then_some(entry)
    }

    /// The refusal of `batch` that is known already, at `now`.
    pub(super) fn denied(&self, batch: &Batch, now: Timestamp) -> Option<Outcome> {
        if !batch.steps().iter().all(is_plain) {
            return None;
        }
        let known = |step: &Step| {
            let entry = self.entry(step)?;
            let (until, cost) = entry.denied;
            // For this cost and no other: a larger one waits longer, and is to be told how long.
            (now < until && step.action.cost().max(1) == cost).then_some(entry)
        };
        let first = batch.steps().iter().find_map(known);
        let counter = if first.is_some() { &self.hits } else { &self.misses };
        counter.fetch_add(1, Ordering::Relaxed);
        let first = first?;
        let at = first.at.plus(now.since(first.learned));
        let mut outcome = Outcome { at, source: Source::DenialCache, ..Outcome::default() };
        for step in batch.steps() {
            let limit = step.algorithm.capacity();
            let verdict = match known(step) {
                Some(entry) => Verdict {
                    retry: Retry::After(entry.retry.since(now).max(Span::TICK)),
                    limit,
                    remaining: entry.remaining,
                    reset: entry.full.since(now),
                    later: Span::ZERO,
                },
                // Not asked: nothing says that it would refuse.
                None => Verdict {
                    retry: Retry::Now,
                    limit,
                    remaining: limit,
                    reset: Span::ZERO,
                    later: Span::ZERO,
                },
            };
            outcome.push(step.mode, verdict);
        }
        Some(outcome)
    }

    /// The steps of `batch` of which nothing fresh is known.
    pub(super) fn strange<'a>(&self, batch: &'a Batch, now: Timestamp) -> impl Iterator<Item = &'a Step> {
        batch
            .steps()
            .iter()
            .filter(move |step| self.entry(step).is_none_or(|entry| now.since(entry.learned) >= self.longest))
    }

    /// Remembers what the store said of `batch`, at `now`.
    pub(super) fn learn(&self, batch: &Batch, outcome: &Outcome, now: Timestamp) {
        self.note(batch, outcome, now, |step, verdict| refusal((step, verdict), outcome.charged));
    }

    /// Remembers what is left by what the second store said of parts of these limits; they are not refused by that.
    pub(super) fn learn_left(&self, batch: &Batch, outcome: &Outcome, now: Timestamp) {
        self.note(batch, outcome, now, |_, _| None);
    }

    fn note(
        &self,
        batch: &Batch,
        outcome: &Outcome,
        now: Timestamp,
        refusal: impl Fn(&Step, &Verdict) -> Option<(Span, u64)>,
    ) {
        for (step, verdict) in batch.steps().iter().zip(&outcome.verdicts) {
            if matches!(step.algorithm, Algorithm::Concurrency(_)) {
                continue;
            }
            let (until, cost) = refusal(step, verdict)
                .map_or((Timestamp::default(), 1), |(span, cost)| (now.plus(span), cost));
            let entry = Entry {
                mark: mark(&step.algorithm),
                learned: now,
                at: outcome.at,
                remaining: verdict.remaining,
                full: now.plus(verdict.reset),
                denied: (until.min(now.plus(self.longest)), cost),
                retry: until,
            };
            self.keep(&step.key, entry, now);
        }
    }

    fn keep(&self, key: &Key, entry: Entry, now: Timestamp) {
        let mut shard = self.shard(key);
        if shard.len() >= ROOM && !shard.contains_key(key) {
            shard.retain(|_, entry| now < entry.full);
            if shard.len() >= ROOM {
                shard.clear();
            }
        }
        shard.insert(*key, entry);
    }

    /// A refusal that another node was given: it is to be believed for the first span, and lasts for the second.
    pub(super) fn told(&self, step: &Step, at: Timestamp, (believed, span): (Span, Span), now: Timestamp) {
        let until = now.plus(span.max(believed));
        let denied = (now.plus(believed.min(self.longest)), step.action.cost().max(1));
        let mark = mark(&step.algorithm);
        let entry = Entry { mark, learned: now, at, remaining: 0, full: until, denied, retry: until };
        self.keep(&step.key, entry, now);
    }

    /// How much of `share` is gone already, as far as the node has seen.
    pub(super) fn gone(&self, step: &Step, share: u64, now: Timestamp) -> u64 {
        let Some(entry) = self.entry(step) else { return 0 };
        let gone = share.saturating_sub(entry.remaining);
        let whole = entry.full.since(entry.learned).as_micros();
        if gone == 0 || whole == 0 {
            return 0;
        }
        // What has refilled since is there again; what is under way counts as gone.
        let left = u128::from(entry.full.since(now).as_micros());
        let gone = (u128::from(gone) * left).div_ceil(u128::from(whole));
        u64::try_from(gone).unwrap_or(share).min(share)
    }

    pub(super) fn forget(&self, keys: impl IntoIterator<Item = Key>) {
        for key in keys {
            self.shard(&key).remove(&key);
        }
    }
}

/// For how long which cost is refused after `verdict`: that of the step, or any if nothing is left.
pub(super) fn refusal((step, verdict): (&Step, &Verdict), charged: bool) -> Option<(Span, u64)> {
    match verdict.retry {
        Retry::After(span) => Some((span, step.action.cost().max(1))),
        Retry::Now if verdict.remaining == 0 && charged => Some((step.algorithm.next_unit(verdict)?, 1)),
        _ => None,
    }
}

/// True if a refusal of it is known without counting anything.
fn is_plain(step: &Step) -> bool {
    step.mode == Mode::Enforce && matches!(step.action, Action::Consume(_) | Action::Check)
}

/// Tells algorithms apart: a limit whose numbers change has not been refused yet.
pub(super) fn mark(algorithm: &Algorithm) -> u64 {
    let count = if let Algorithm::TokenBucket(bucket) = algorithm { bucket.count() } else { 0 };
    let words = [algorithm.kind() as u64, algorithm.capacity(), count, algorithm.period().as_micros()];
    words
        .into_iter()
        .fold(0, |mark: u64, word| (mark.rotate_left(23) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15))
}
