//! The second store: a refusal that one node was given is known to the others for up to a second, without asking the
//! first store.

use std::num::NonZeroU64;

use smallvec::SmallVec;
use threshold_core::{
    Action, Algorithm, Batch, Clock, Key, Mode, Outcome, Rate, Retry, SharedStore, Source, Span, Step, Store,
    StoreError, Timestamp, Verdict,
};

use super::component::Component;
use super::seen::{LONGEST_DENIAL, mark, refusal};
use super::{NodeStore, is_exact};

impl<S: Store, C: Clock> NodeStore<S, C> {
    /// The second store, if there is one and it is to be asked.
    pub(super) fn cache(&self) -> Option<&Component<SharedStore>> {
        let told_not_to = self.settings.pinned.is_some_and(|pinned| !pinned.asks_cache());
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
            let (key, algorithm) = denial(step)?;
            asked.push(Step::new(key, algorithm, Action::Check)).ok()?;
        }
        // A cache that fails has nothing to say.
        let known = self.ask_cache(cache, cache.inner().peek(&asked)).await.ok()?;
        for (step, verdict) in strange.iter().zip(&known.verdicts) {
            if let Retry::After(span) = verdict.retry {
                self.seen.told(step, (known.at, span), now);
            }
        }
        if known.admitted() { None } else { self.seen.denied(batch, now) }
    }

    /// Tells other nodes what the store refused or has nothing left of.
    pub(super) async fn tell_denial(&self, batch: &Batch, outcome: &Outcome) {
        let Some(cache) = self.cache() else { return };
        let mut told = Batch::default();
        for (step, verdict) in batch.steps().iter().zip(&outcome.verdicts) {
            let refused = refusal((step, verdict), outcome.charged).filter(|(span, _)| !span.is_zero());
            let (Some((span, _)), Some((key, _))) = (refused, denial(step)) else { continue };
            let rate = Rate::new(1, span.min(LONGEST_DENIAL));
            let lasting = rate.ok().and_then(|rate| Algorithm::token_bucket(&rate).ok());
            if let Some(algorithm) = lasting {
                // Observed, so that one that is known already does not keep the others out.
                let _ = told.push(Step::consume(key, algorithm, NonZeroU64::MIN).observed());
            }
        }
        if !told.steps().is_empty() {
            let _ = self.ask_cache(cache, cache.inner().apply(&told)).await;
        }
    }

    /// Has the second store judge and charge what the first cannot.
    pub(super) async fn continue_on_cache(&self, batch: &Batch) -> Option<Outcome> {
        let cache = self.cache()?;
        let outcome = self.ask_cache(cache, cache.inner().apply(batch)).await.ok()?;
        self.seen.learn(batch, &outcome, self.clock.now());
        Some(Outcome { source: Source::Fallback, ..outcome })
    }
}

/// Where the refusal of a step is kept, as a bucket of one that is empty for as long as the refusal lasts. By what it was
/// refused and for how much is in the key: a limit that was raised has not been refused.
fn denial(step: &Step) -> Option<(Key, Algorithm)> {
    let plain =
        is_exact(step) && step.mode == Mode::Enforce && !matches!(step.algorithm, Algorithm::Concurrency(_));
    let rate = Rate::new(1, Span::SECOND).ok().filter(|_| plain)?;
    let purpose = mark(&step.algorithm) ^ step.action.cost().wrapping_mul(0xD6E8_FEB8_6659_FD93);
    Some((step.key.beside(purpose), Algorithm::token_bucket(&rate).ok()?))
}

/// A verdict that lets pass.
pub(super) const fn open(limit: u64) -> Verdict {
    Verdict { retry: Retry::Now, limit, remaining: limit, reset: Span::ZERO }
}
