//! The second store: a refusal that one node was given is known to the others for up to a second, without asking the
//! first store.

use std::num::NonZeroU64;
use std::sync::atomic::Ordering;

use smallvec::SmallVec;
use threshold_core::{
    Action, Algorithm, Batch, Clock, Key, Mode, OnFailure, Outcome, Rate, Retry, SharedStore, Sharing, Span,
    Step, Store, StoreError, Timestamp, Verdict,
};

use super::breaker::ComponentState;
use super::component::Component;
use super::seen::{LONGEST_DENIAL, mark, refusal};
use super::without::{merge, share};
use super::{NodeStore, is_exact, pick, raise};

impl<S: Store, C: Clock> NodeStore<S, C> {
    /// The second store, if there is one and it is to be asked.
    pub(super) fn cache(&self) -> Option<&Component<SharedStore>> {
        let told_not_to = self.pinned().is_some_and(|pinned| !pinned.asks_cache());
        self.cache.as_ref().filter(|_| !told_not_to)
    }

    /// Asks the second store.
    pub(super) async fn ask_cache<R>(
        &self,
        cache: &Component<SharedStore>,
        asking: impl Future<Output = Result<R, StoreError>>,
    ) -> Result<R, StoreError> {
        cache.ask(&self.clock, asking, |name, state, why| self.changed(name, state, why)).await
    }

    /// The refusal of `batch` that another node was given. Asked only about keys of which nothing fresh is known here.
    pub(super) async fn denied_elsewhere(&self, batch: &Batch, now: Timestamp) -> Option<Outcome> {
        let cache = self.cache()?;
        let strange: SmallVec<[&Step; 4]> =
            self.seen.strange(batch, now).filter(|step| denial(step).is_some()).collect();
        if strange.is_empty() {
            return None;
        }
        let mut asked = Batch::default();
        for step in &strange {
            let (believed, lasting, algorithm) = denial(step)?;
            for key in [believed, lasting] {
                asked.push(Step::new(key, algorithm, Action::Check).observed()).ok()?;
            }
        }
        // A cache that fails has nothing to say.
        let known = self.ask_cache(cache, cache.inner().peek(&asked)).await.ok()?;
        let mut denied = false;
        for (step, verdicts) in strange.iter().zip(known.verdicts.chunks(2)) {
            let span = |place: usize| match verdicts.get(place).map(|verdict| verdict.retry) {
                Some(Retry::After(span)) => span,
                _ => Span::ZERO,
            };
            if !span(0).is_zero() {
                denied = true;
                self.seen.told(step, known.at, (span(0), span(1)), now);
            }
        }
        if denied { self.seen.denied(batch, now) } else { None }
    }

    /// Tells other nodes what the store refused or has nothing left of.
    pub(super) async fn tell_denial(&self, batch: &Batch, outcome: &Outcome) {
        let Some(cache) = self.cache() else { return };
        let mut told = Batch::default();
        for (step, verdict) in batch.steps().iter().zip(&outcome.verdicts) {
            let refused = refusal((step, verdict), outcome.charged).filter(|(span, _)| !span.is_zero());
            let (Some((span, _)), Some((believed, lasting, _))) = (refused, denial(step)) else { continue };
            for (key, span) in [(believed, span.min(LONGEST_DENIAL)), (lasting, span)] {
                let rate = Rate::new(1, span).ok();
                if let Some(algorithm) = rate.and_then(|rate| Algorithm::token_bucket(&rate).ok()) {
                    // Observed, so that one that is known already does not keep the others out.
                    let _ = told.push(Step::consume(key, algorithm, NonZeroU64::MIN).observed());
                }
            }
        }
        if !told.steps().is_empty() {
            let _ = self.ask_cache(cache, cache.inner().apply(&told)).await;
        }
    }

    /// Has the second store judge and charge what the first cannot: by the half of each limit, because nodes that lose this
    /// one too go on with the other.
    pub(super) async fn continue_on_cache(&self, batch: &Batch) -> Option<Outcome> {
        let cache = self.counted_on()?;
        let (halves, places) = halves(batch)?;
        let memory = halves.steps().iter().map(|step| step.algorithm.memory()).max()?;
        raise(&self.cache_counts, self.clock.now().plus(memory));
        let outcome = self.ask_cache(cache, cache.inner().apply(&halves)).await.ok()?;
        self.seen.learn_left(&pick(batch, &places), &outcome, self.clock.now());
        Some(merge(batch, &places, &outcome))
    }

    /// The same for a batch that is only looked at.
    pub(super) async fn peek_on_cache(&self, batch: &Batch) -> Option<Outcome> {
        let cache = self.counted_on()?;
        let (halves, places) = halves(batch)?;
        let outcome = self.ask_cache(cache, cache.inner().peek(&halves)).await.ok()?;
        Some(merge(batch, &places, &outcome))
    }

    /// The second store, unless it has lost what was counted on it: that would be a fresh budget.
    fn counted_on(&self) -> Option<&Component<SharedStore>> {
        self.cache().filter(|cache| losses(cache) == self.cache_lost.load(Ordering::Acquire))
    }

    /// Sweeps the second store, and takes note of what it has lost, while the first answers and nothing that was counted on the second is
    /// felt any more.
    pub(super) async fn tend_cache(&self, budget: usize) {
        let Some(cache) = self.cache() else { return };
        let _ = self.ask_cache(cache, cache.inner().sweep(budget)).await;
        // A closed limit has it say whether it is the same as before.
        if let Ok(algorithm) = Rate::new(1, Span::SECOND)
            .map_err(drop)
            .and_then(|rate| Algorithm::token_bucket(&rate).map_err(drop))
        {
            let step = Step::new(Key::from_raw(0, 0), algorithm, Action::Check);
            let closed = Sharing { on_failure: OnFailure::Closed, ..Sharing::default() };
            let _ = self
                .ask_cache(cache, cache.inner().apply(&Batch::from(Step { sharing: closed, ..step })))
                .await;
        }
        let counts = self.cache_counts.load(Ordering::Acquire) > self.clock.now().as_micros();
        if !counts && self.store.state() == ComponentState::Up {
            self.cache_lost.store(losses(cache), Ordering::Release);
        }
    }
}

/// When it last lost something, as a number.
fn losses(cache: &Component<SharedStore>) -> u64 {
    cache.inner().lost_at().map_or(0, Timestamp::as_micros)
}

/// The halves of the limits that go on with a part of themselves, and where in the batch they are; none if there is no such
/// limit, or one that cannot be halved. They are closed to a store that has lost what it knew.
fn halves(batch: &Batch) -> Option<(Batch, Vec<usize>)> {
    let (mut halves, mut places) = (Batch::default(), Vec::new());
    for (place, step) in batch.steps().iter().enumerate() {
        if step.sharing.on_failure != OnFailure::Open {
            let sharing = Sharing { on_failure: OnFailure::Closed, ..step.sharing };
            halves.push(Step { algorithm: share(step, 2)?, sharing, ..*step }).ok()?;
            places.push(place);
        }
    }
    (!places.is_empty()).then_some((halves, places))
}

/// Where the refusal of a step is kept, as buckets of one: empty for as long as it is to be believed, and for as long as it
/// lasts. By what it was refused and for how much is in the key: a limit that was raised has not been refused.
fn denial(step: &Step) -> Option<(Key, Key, Algorithm)> {
    let plain =
        is_exact(step) && step.mode == Mode::Enforce && !matches!(step.algorithm, Algorithm::Concurrency(_));
    let rate = Rate::new(1, Span::SECOND).ok().filter(|_| plain)?;
    let purpose = mark(&step.algorithm) ^ step.action.cost().wrapping_mul(0xD6E8_FEB8_6659_FD93);
    let keys = (step.key.beside(purpose), step.key.beside(purpose.rotate_left(17)));
    Some((keys.0, keys.1, Algorithm::token_bucket(&rate).ok()?))
}

/// A verdict that lets pass.
pub(super) const fn open(limit: u64) -> Verdict {
    Verdict { retry: Retry::Now, limit, remaining: limit, reset: Span::ZERO, later: Span::ZERO }
}
