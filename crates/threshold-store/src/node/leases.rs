//! All leases of a node, and how they come by their slices.

use std::collections::HashMap;
use std::future::poll_fn;
use std::hash::BuildHasherDefault;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Poll, Waker};

use threshold_core::{
    Action, Algorithm, Batch, Clock, Consistency, Key, Mode, Outcome, Retry, Source, Span, Step, Store,
    StoreError, StoreErrorKind, Timestamp, Verdict,
};

use super::NodeStore;
use super::keys::KeyHasher;
use super::lease::{Answer, Grant, Lease, Slice, Terms};
use crate::sync::{Guard, Mutex};

const SHARDS: usize = 64;
/// The most keys with a lease in one shard; what comes beyond asks the store for every decision.
const ROOM: usize = 4_096;

/// How often one decision asks for a slice; then it is made without.
const MOST_ASKED: u32 = 3;

/// What the node holds of every key's budget.
pub(super) struct Leases {
    shards: Box<[Shard]>,
    life: Span,
    nodes: u32,
    /// Slices asked for, and those that were granted.
    asked: AtomicU64,
    granted: AtomicU64,
    /// Tokens that were spent later than the store would have it.
    overshoot: AtomicU64,
}

/// In a cache line of its own, so that neighbours in use by other processors do not slow it down.
#[repr(align(64))]
struct Shard(Mutex<ByKey>);

type ByKey = HashMap<Key, Held, BuildHasherDefault<KeyHasher>>;

struct Held {
    lease: Lease,
    /// Who waits for what comes of asking.
    waiting: Vec<Waker>,
}

impl Held {
    /// True if nothing of it matters any more, and nobody waits for it.
    fn is_over(&self, now: Timestamp) -> bool {
        self.waiting.is_empty() && self.lease.is_over(now)
    }
}

/// What leases have done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaseStats {
    /// Keys of which something is held or was shortly before.
    pub keys: usize,
    /// Tokens that are held.
    pub tokens: u64,
    /// Slices that were asked for, each one operation of the store.
    pub asked: u64,
    /// Slices that were granted.
    pub granted: u64,
    /// Tokens that were spent later than the store's clock would have it: 0 while clocks keep to what is assumed of them.
    pub overshoot: u64,
}

impl Leases {
    pub(super) fn new(life: Span, nodes: u32) -> Self {
        let shards = (0..SHARDS).map(|_| Shard(Mutex::new(HashMap::default()))).collect();
        let [asked, granted, overshoot] = [const { AtomicU64::new(0) }; 3];
        Self { shards, life, nodes, asked, granted, overshoot }
    }

    pub(super) fn stats(&self) -> LeaseStats {
        let (mut keys, mut tokens) = (0, 0);
        for shard in &self.shards {
            let shard = shard.0.lock();
            keys += shard.len();
            tokens += shard.values().map(|held| held.lease.held()).sum::<u64>();
        }
        let [asked, granted, overshoot] =
            [&self.asked, &self.granted, &self.overshoot].map(|count| count.load(Ordering::Relaxed));
        LeaseStats { keys, tokens, asked, granted, overshoot }
    }

    #[expect(clippy::cast_possible_truncation, reason = "only the low bits are wanted")]
    fn shard(&self, key: &Key) -> Guard<'_, ByKey> {
        self.shards[key.halves()[0] as usize % SHARDS].0.lock()
    }

    /// What the lease of `key` says to `act`; none if there is none.
    fn with<R>(&self, key: &Key, act: impl FnOnce(&mut Held) -> R) -> Option<R> {
        self.shard(key).get_mut(key).map(act)
    }

    /// Spends `cost` from the lease of `key`, which is made if need be; none if there is no room for it.
    #[inline]
    fn spend(
        &self,
        step: &Step,
        (cost, may_renew): (u64, bool),
        now: Timestamp,
    ) -> Option<(Answer, Verdict)> {
        let (key, whole) = (&step.key, &step.algorithm);
        let mut shard = self.shard(key);
        let held = match shard.get_mut(key) {
            Some(held) => held,
            None => {
                if shard.len() >= ROOM {
                    shard.retain(|_, held| !held.is_over(now));
                }
                if shard.len() >= ROOM {
                    return None;
                }
                let lease = Lease::new(Terms::new(whole, self.life, self.nodes), now);
                shard.entry(*key).or_insert(Held { lease, waiting: Vec::new() })
            }
        };
        let lease = &mut held.lease;
        if !lease.terms.is_for(whole) {
            lease.change(Terms::new(whole, self.life, self.nodes));
        }
        let limit = lease.terms.capacity();
        if cost > limit {
            return Some((Answer::Dry(Span::ZERO), never(limit)));
        }
        let answer = lease.spend(cost, may_renew, now);
        let Answer::Dry(span) = answer else { return Some((answer, admitted(lease, now))) };
        let (remaining, reset) = (lease.held(), lease.reset(now));
        Some((answer, Verdict { retry: Retry::After(span), limit, remaining, reset, later: Span::ZERO }))
    }

    /// Spends what `step` costs from its lease, if there is one with enough and nothing else is to be done.
    #[inline]
    fn spend_at_once(&self, step: &Step, now: Timestamp) -> Option<Verdict> {
        let (mut shard, cost) = (self.shard(&step.key), step.action.cost());
        let lease = &mut shard.get_mut(&step.key)?.lease;
        let fits = lease.terms.is_for(&step.algorithm) && cost <= lease.terms.capacity();
        (fits && lease.spend_at_once(cost, true, now)).then(|| admitted(lease, now))
    }

    /// Gives back what was spent at `at`, by the node's clock.
    pub(super) fn give_back(&self, key: &Key, cost: u64, at: Timestamp) {
        self.with(key, |held| held.lease.give_back(cost, at));
    }

    /// What the node holds of the budget of `key`.
    pub(super) fn held(&self, key: &Key, now: Timestamp) -> u64 {
        self.with(key, |held| held.lease.live(now)).unwrap_or(0)
    }

    /// How long until the store has `cost` for the lease of `key`, whatever the node holds of it.
    pub(super) fn had_after(&self, key: &Key, cost: u64, now: Timestamp) -> Span {
        self.with(key, |held| held.lease.had_at(cost).since(now)).unwrap_or(Span::ZERO)
    }

    /// Forgets the leases of `keys`; what they held is lost.
    pub(super) fn forget(&self, keys: &[Key]) {
        for key in keys {
            let held = self.shard(key).remove(key);
            held.into_iter().flat_map(|held| held.waiting).for_each(Waker::wake);
        }
    }

    /// Drops what is over, of one shard after the other.
    pub(super) fn sweep(&self, now: Timestamp) {
        self.shards.iter().for_each(|shard| shard.0.lock().retain(|_, held| !held.is_over(now)));
    }

    /// What the slices of `key` are charged by.
    fn algorithm(&self, key: &Key) -> Option<Algorithm> {
        self.with(key, |held| held.lease.terms.leasable().map(|leasable| leasable.algorithm)).flatten()
    }

    /// Takes everything that is held, to be returned.
    fn surrender(&self, now: Timestamp) -> Vec<(Key, Algorithm, Slice)> {
        let mut all = Vec::new();
        for shard in &self.shards {
            for (key, mut held) in shard.0.lock().drain() {
                held.waiting.drain(..).for_each(Waker::wake);
                let Some(algorithm) = held.lease.terms.leasable().map(|leasable| leasable.algorithm) else {
                    continue;
                };
                let mut lease = held.lease;
                let slices = lease.surrender(now).into_iter().filter(|slice| slice.tokens > 0);
                all.extend(slices.map(|slice| (key, algorithm, slice)));
            }
        }
        all
    }

    /// Nobody asks after all.
    fn give_up(&self, key: &Key) {
        drop(Asking { leases: self, key: *key, told: false });
    }

    /// Waits until nobody asks for slices of `key`.
    async fn wait(&self, key: &Key) {
        poll_fn(|context| {
            let waits = self.with(key, |held| {
                let asking = held.lease.is_asking();
                if asking && !held.waiting.iter().any(|waker| waker.will_wake(context.waker())) {
                    held.waiting.push(context.waker().clone());
                }
                asking
            });
            if waits == Some(true) { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
    }
}

/// Who asks for a slice. Dropped before there is an answer, it lets others ask: what was granted meanwhile is lost.
struct Asking<'a> {
    leases: &'a Leases,
    key: Key,
    /// True once the lease knows what came of it: others may ask by then.
    told: bool,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        let waiting = self.leases.with(&self.key, |held| {
            if !self.told {
                held.lease.gave_up();
            }
            std::mem::take(&mut held.waiting)
        });
        waiting.into_iter().flatten().for_each(Waker::wake);
    }
}

impl<S: Store, C: Clock> NodeStore<S, C> {
    /// Judges and charges a batch whose steps are all leased, if the leases that the node holds are enough for it: the way
    /// of most decisions, so it is a short one.
    #[inline]
    pub(super) fn spend_at_once(&self, batch: &Batch) -> Option<Outcome> {
        let steps = batch.steps();
        if steps.is_empty() || !steps.iter().all(is_leased) {
            return None;
        }
        let at = self.clock.now();
        let mut outcome = Outcome { at, source: Source::Leased, charged: true, ..Outcome::default() };
        for (place, step) in steps.iter().enumerate() {
            let Some(verdict) = self.leases.spend_at_once(step, at) else {
                let spent = &steps[..place];
                spent.iter().for_each(|step| self.leases.give_back(&step.key, step.action.cost(), at));
                return None;
            };
            outcome.push(step.mode, verdict);
        }
        Some(outcome)
    }

    /// Judges and charges a leased step; says when it was spent, by the node's clock.
    pub(super) async fn spend(&self, step: &Step, cost: u64) -> Result<(Verdict, Timestamp), StoreError> {
        let (mut may_renew, mut asked) = (true, 0);
        let (begun, mut waiting) = (self.clock.now(), None);
        loop {
            let now = self.clock.now();
            let Some((answer, verdict)) = self.leases.spend(step, (cost, may_renew), now) else {
                return Ok((self.spend_without_lease(step, waiting).await?, Timestamp::default()));
            };
            match answer {
                Answer::Spent | Answer::Dry(_) => return Ok((verdict, now)),
                Answer::Renew(slice) => {
                    // What comes of this is for those after it.
                    let _ = self.ask_for_slice(step, (slice, 1), waiting).await;
                    may_renew = false;
                }
                Answer::Wait => {
                    let wait = async {
                        self.leases.wait(&step.key).await;
                        Ok(())
                    };
                    self.in_time(begun, wait).await?;
                }
                // Slices that have ended when they arrive are of no use, however many there are.
                Answer::Ask(_) if asked == MOST_ASKED => {
                    self.leases.give_up(&step.key);
                    return Ok((self.spend_without_lease(step, waiting).await?, Timestamp::default()));
                }
                Answer::Ask(slice) => {
                    asked += 1;
                    self.ask_for_slice(step, (slice, cost), waiting).await?;
                }
            }
            waiting = Some(begun);
        }
    }

    /// Asks the store for a slice of `asked`, or for what there is of it if that covers `cost`.
    async fn ask_for_slice(
        &self,
        step: &Step,
        (asked, cost): (u64, u64),
        mut waiting: Option<Timestamp>,
    ) -> Result<(), StoreError> {
        let leases = &self.leases;
        let mut asking = Asking { leases, key: step.key, told: false };
        let Some(algorithm) = leases.algorithm(&step.key) else { return Ok(()) };
        let mut slice = asked;
        // Others may take what there is in between.
        for _ in 0..3 {
            let Some(tokens) = NonZeroU64::new(slice) else { break };
            let charge = Step { algorithm, action: Action::Consume(tokens), mode: Mode::Enforce, ..*step };
            let sent = self.clock.now();
            leases.asked.fetch_add(1, Ordering::Relaxed);
            let outcome = self.ask(&Batch::from(charge), waiting).await?;
            waiting.get_or_insert(sent);
            let Some(verdict) = outcome.verdicts.first().copied() else {
                return Err(StoreError::new(StoreErrorKind::Corrupt, "lease", "no verdict for the slice"));
            };
            let now = self.clock.now();
            let more = leases.with(&step.key, |held| match verdict.retry {
                Retry::Now => {
                    leases.granted.fetch_add(1, Ordering::Relaxed);
                    let grant = Grant { sent, granted: outcome.at, verdict };
                    let late = held.lease.granted(slice, &grant, now);
                    leases.overshoot.fetch_add(late, Ordering::Relaxed);
                    None
                }
                Retry::After(retry) => held.lease.refused(cost, (slice, retry), (now, &verdict)),
                Retry::Never => {
                    held.lease.gave_up();
                    None
                }
            });
            match more.flatten() {
                Some(rest) => slice = rest,
                None => {
                    asking.told = true;
                    break;
                }
            }
        }
        Ok(())
    }

    /// For keys that there is no room for.
    async fn spend_without_lease(
        &self,
        step: &Step,
        waiting: Option<Timestamp>,
    ) -> Result<Verdict, StoreError> {
        let Some(leasable) = step.algorithm.leasable(self.leases.life) else { return Ok(never(0)) };
        let charge = Batch::from(Step { algorithm: leasable.algorithm, ..*step });
        let outcome = self.ask(&charge, waiting).await?;
        let missing = || StoreError::new(StoreErrorKind::Corrupt, "decide", "no verdict for the step");
        outcome.verdicts.first().copied().ok_or_else(missing)
    }

    /// Returns what is held, as far as the store can be told.
    pub(super) async fn return_leases(&self) {
        for (key, algorithm, slice) in self.leases.surrender(self.clock.now()) {
            let Some(tokens) = NonZeroU64::new(slice.tokens) else { continue };
            let batch = Batch::from(Step::consume(key, algorithm, tokens));
            let mut outcome = Outcome { at: slice.granted, charged: true, ..Outcome::default() };
            outcome.push(Mode::Enforce, Verdict { retry: Retry::Now, ..never(0) });
            // What cannot be returned is written off.
            if self.store.inner().refund(&batch, &outcome).await.is_err() {
                return;
            }
        }
    }
}

/// True if a lease decides about the step. A gate is closed by one decision and looked at by all: no node may be alone
/// with it.
pub(super) const fn is_leased(step: &Step) -> bool {
    matches!((step.sharing.consistency, step.action), (Consistency::Leased, Action::Consume(_)))
}

/// The verdict on a cost that a lease covers.
#[inline]
fn admitted(lease: &Lease, now: Timestamp) -> Verdict {
    let limit = lease.terms.capacity();
    Verdict {
        retry: Retry::Now,
        limit,
        remaining: lease.left_for_all().min(limit),
        reset: lease.reset(now),
        later: Span::ZERO,
    }
}

/// The verdict on a cost that never fits.
const fn never(limit: u64) -> Verdict {
    Verdict { retry: Retry::Never, limit, remaining: 0, reset: Span::ZERO, later: Span::ZERO }
}
