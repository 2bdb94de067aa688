//! How a node goes on when its store is gone, and what it tells the store when that is back.
//!
//! A limit that is closed admits nothing. One that is shared goes on with the node's share: from what the node saw last if
//! that was less. What was admitted that way is charged to the store before the next decision about the same key, so that
//! coming back is no fresh budget. A store that came back without its data starts exhausted for closed limits.

use std::num::NonZeroU64;
use std::sync::atomic::Ordering;

use threshold_core::{
    Action, Algorithm, Batch, Clock, Mode, OnFailure, Outcome, Retry, Source, Span, Step, Store, StoreError,
    Timestamp, Verdict,
};

use super::cache::open;
use super::{NodeStore, raise};

impl<S: Store, C: Clock> NodeStore<S, C> {
    /// Judges and charges what the store could not, because of `error`.
    #[cold]
    pub(super) async fn apply_without(
        &self,
        batch: &Batch,
        error: StoreError,
    ) -> Result<Outcome, StoreError> {
        self.degraded.fetch_add(1, Ordering::Relaxed);
        if batch.steps().iter().any(is_closed) {
            return Err(error);
        }
        match self.continue_on_cache(batch).await {
            Some(outcome) => Ok(outcome),
            None => Ok(self.apply_shares(batch)),
        }
    }

    /// The same for a batch that is only looked at.
    #[cold]
    pub(super) async fn peek_without(&self, batch: &Batch, error: StoreError) -> Result<Outcome, StoreError> {
        if batch.steps().iter().any(is_closed) {
            return Err(error);
        }
        if let Some(cache) = self.cache()
            && let Ok(outcome) = self.ask_cache(cache, cache.inner().peek(batch)).await
        {
            return Ok(Outcome { source: Source::Fallback, ..outcome });
        }
        let (shares, places) = self.shares_of(batch);
        Ok(merge(batch, &places, &self.shares.peek_now(&shares)))
    }

    fn apply_shares(&self, batch: &Batch) -> Outcome {
        let (shares, places) = self.shares_of(batch);
        self.warm(batch, &shares, &places);
        let outcome = merge(batch, &places, &self.shares.apply_now(&shares));
        let now = self.clock.now();
        for step in shares.steps() {
            raise(&self.unsettled, now.plus(step.algorithm.memory()));
        }
        outcome
    }

    /// The node's shares of the limits that have some, and where in the batch they are.
    fn shares_of(&self, batch: &Batch) -> (Batch, Vec<usize>) {
        let (mut shares, mut places) = (Batch::default(), Vec::new());
        for (place, step) in batch.steps().iter().enumerate() {
            if step.sharing.on_failure == OnFailure::Share
                && let Some(algorithm) = step.algorithm.share(self.settings.nodes)
                && shares.push(Step { algorithm, ..*step }).is_ok()
            {
                places.push(place);
            }
        }
        (shares, places)
    }

    /// Charges the shares of keys that are new here with what the node saw to be gone.
    fn warm(&self, batch: &Batch, shares: &Batch, places: &[usize]) {
        let fresh = self.shares.peek_now(shares);
        for ((place, share), verdict) in places.iter().zip(shares.steps()).zip(&fresh.verdicts) {
            if charged(share, verdict) > 0 {
                continue;
            }
            let capacity = share.algorithm.capacity();
            let gone = self.seen.gone(&batch.steps()[*place], capacity, self.clock.now());
            if let Some(gone) = NonZeroU64::new(gone) {
                let _ = self.shares.apply_one_now(&Step { action: Action::Consume(gone), ..*share });
            }
        }
    }

    /// Charges the store with what was admitted without it.
    pub(super) async fn settle(&self, batch: &Batch) -> Result<(), StoreError> {
        if self.unsettled.load(Ordering::Acquire) <= self.clock.now().as_micros() {
            return Ok(());
        }
        self.settle_now(batch).await
    }

    #[cold]
    async fn settle_now(&self, batch: &Batch) -> Result<(), StoreError> {
        let (shares, places) = self.shares_of(batch);
        let found = self.shares.peek_now(&shares);
        let mut owed = Batch::default();
        for ((place, share), verdict) in places.iter().zip(shares.steps()).zip(&found.verdicts) {
            let step = &batch.steps()[*place];
            if let Some(charged) = NonZeroU64::new(charged(share, verdict)) {
                let _ = owed.push(Step { action: Action::Consume(charged), ..*step }.observed());
            }
        }
        if owed.steps().is_empty() {
            return Ok(());
        }
        let told = self.store.inner().apply(&owed).await?;
        self.settled(&owed, &told);
        // What does not fit is charged as far as it does; the rest stays with the node's share.
        let mut rest = Batch::default();
        for (step, verdict) in owed.steps().iter().zip(&told.verdicts) {
            if let (false, Some(left)) = (verdict.admitted(), NonZeroU64::new(verdict.remaining)) {
                let _ = rest.push(Step { action: Action::Consume(left), ..*step });
            }
        }
        if !rest.steps().is_empty() {
            let told = self.store.inner().apply(&rest).await?;
            self.settled(&rest, &told);
        }
        Ok(())
    }

    /// What the store was charged is no longer charged to the node's share: and only that, or every outage would begin with
    /// a fresh one.
    fn settled(&self, owed: &Batch, told: &Outcome) {
        let (shares, places) = self.shares_of(owed);
        let verdicts = places.iter().filter_map(|place| told.verdicts.get(*place)).copied().collect();
        let charged =
            Outcome { at: self.shares.now(), verdicts, charged: told.charged, ..Outcome::default() };
        self.shares.refund_now(&shares, &charged);
    }

    /// Where the store may have lost what it acknowledged, closed limits start with nothing left.
    pub(super) async fn start_exhausted(&self, batch: &Batch) -> Result<(), StoreError> {
        match self.store.inner().lost_at() {
            None => Ok(()),
            Some(lost) => self.exhaust(batch, lost).await,
        }
    }

    #[cold]
    async fn exhaust(&self, batch: &Batch, lost: Timestamp) -> Result<(), StoreError> {
        let now = self.clock.now();
        let mut all = Batch::default();
        for step in batch.steps().iter().filter(|step| is_closed(step)) {
            let felt = now < lost.plus(step.algorithm.memory());
            let charges = matches!(step.action, Action::Consume(_))
                && !matches!(step.algorithm, Algorithm::Concurrency(_));
            if let Some(capacity) = NonZeroU64::new(step.algorithm.capacity()).filter(|_| felt && charges) {
                // Charged only while nothing is gone from it: a key that was charged since is on its way already.
                let _ = all.push(Step { action: Action::Consume(capacity), ..*step }.observed());
            }
        }
        if !all.steps().is_empty() {
            self.store.inner().apply(&all).await?;
        }
        Ok(())
    }
}

/// What had been charged when `step` was looked at; nothing for permits, which come back by themselves.
fn charged(step: &Step, verdict: &Verdict) -> u64 {
    if matches!(step.algorithm, Algorithm::Concurrency(_)) {
        return 0;
    }
    step.algorithm.capacity().saturating_sub(verdict.remaining)
}

/// True if nothing is admitted while the store is gone.
fn is_closed(step: &Step) -> bool {
    step.sharing.on_failure == OnFailure::Closed && step.mode == Mode::Enforce
}

/// What comes of a batch of which only the steps at `places` were judged, as shares.
fn merge(batch: &Batch, places: &[usize], shares: &Outcome) -> Outcome {
    let mut outcome = Outcome { at: shares.at, source: Source::Open, ..Outcome::default() };
    let mut judged = places.iter().zip(&shares.verdicts).peekable();
    for (place, step) in batch.steps().iter().enumerate() {
        let limit = step.algorithm.capacity();
        let verdict = match judged.next_if(|(at, _)| **at == place) {
            Some((_, verdict)) => *verdict,
            None if step.sharing.on_failure == OnFailure::Share => nothing(limit),
            None => open(limit),
        };
        outcome.push(step.mode, verdict);
    }
    if batch.steps().iter().any(|step| step.sharing.on_failure == OnFailure::Share) {
        outcome.source = Source::Fallback;
    }
    outcome.charged = shares.charged;
    outcome
}

/// A share that is nothing: there are more nodes than the limit holds.
const fn nothing(limit: u64) -> Verdict {
    Verdict { retry: Retry::After(Span::SECOND), limit, remaining: 0, reset: Span::SECOND }
}
