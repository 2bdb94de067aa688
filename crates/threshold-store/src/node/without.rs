//! How a node goes on when its store is gone, and what it tells the store when that is back.
//!
//! A limit that is closed admits nothing. One that is shared goes on with the node's share: from what the node saw last if
//! that was less. What was admitted that way is charged to the store before the next decision about the same key, so that
//! coming back is no fresh budget. A store that came back without its data starts exhausted for closed limits.

use std::num::NonZeroU64;
use std::sync::atomic::Ordering;

use threshold_core::{
    Action, Algorithm, AlgorithmKind, Batch, Clock, Mode, OnFailure, Outcome, Rate, Retry, Source, Span,
    Step, Store, StoreError, Timestamp, Verdict,
};

use super::cache::open;
use super::component::ComponentName;
use super::debts::Debts;
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
        if let Some(outcome) = self.peek_on_cache(batch).await {
            return Ok(outcome);
        }
        let (shares, places) = self.shares_of(batch);
        Ok(merge(batch, &places, &self.shares.peek_now(&shares)))
    }

    fn apply_shares(&self, batch: &Batch) -> Outcome {
        let (shares, places) = self.shares_of(batch);
        self.warm(batch, &shares, &places);
        // One that has no share refuses; then nothing is charged to the others.
        let judged =
            match batch.steps().iter().enumerate().any(|(place, step)| has_none(step, place, &places)) {
                true => self.shares.peek_now(&shares),
                false => self.shares.apply_now(&shares),
            };
        let outcome = merge(batch, &places, &judged);
        if outcome.charged {
            self.owe(&shares, &judged);
        }
        outcome
    }

    /// Remembers what the store has to be charged with.
    fn owe(&self, shares: &Batch, judged: &Outcome) {
        let now = self.clock.now();
        for (step, verdict) in shares.steps().iter().zip(&judged.verdicts) {
            let charges = verdict.admitted() && !matches!(step.algorithm, Algorithm::Concurrency(_));
            if charges && step.action.cost() > 0 {
                let until = now.plus(step.algorithm.memory());
                self.debts.add(&step.key, step.action.cost(), until, now);
                raise(&self.unsettled, until);
            }
        }
    }

    /// Takes back what a step was charged without the store.
    pub(super) fn give_back_share(&self, step: &Step, outcome: &Outcome) {
        let (shares, _) = self.shares_of(&Batch::from(*step));
        if outcome.charged {
            self.shares.refund_now(&shares, outcome);
            self.debts.forgive(&step.key, step.action.cost());
        }
    }

    /// By how many each limit is divided: the nodes; and what they have without a second store is its other half.
    fn sharers(&self) -> u32 {
        self.settings.nodes.saturating_mul(if self.cache.is_some() { 2 } else { 1 })
    }

    /// The node's shares of the limits that have some, and where in the batch they are.
    fn shares_of(&self, batch: &Batch) -> (Batch, Vec<usize>) {
        let (mut shares, mut places) = (Batch::default(), Vec::new());
        for (place, step) in batch.steps().iter().enumerate() {
            if step.sharing.on_failure == OnFailure::Share
                && let Some(algorithm) = share(step, self.sharers())
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

    /// True if something may have been admitted without the store that it was not charged with yet.
    pub(super) fn may_owe(&self) -> bool {
        self.unsettled.load(Ordering::Acquire) > self.clock.now().as_micros()
    }

    /// Charges the store with what was admitted without it.
    pub(super) async fn settle(&self, batch: &Batch) -> Result<(), StoreError> {
        if self.may_owe() { self.settle_now(batch).await } else { Ok(()) }
    }

    #[cold]
    async fn settle_now(&self, batch: &Batch) -> Result<(), StoreError> {
        let now = self.clock.now();
        let mut owed = Owed { debts: &self.debts, batch: Batch::default(), now };
        for step in batch.steps() {
            let debt = self.debts.take(&step.key, now).min(step.algorithm.capacity());
            if let Some(debt) = NonZeroU64::new(debt) {
                let _ = owed.batch.push(Step { action: Action::Consume(debt), ..*step }.observed());
            }
        }
        if !owed.batch.steps().is_empty() {
            self.drain(&owed.batch).await?;
            owed.batch = Batch::default();
        }
        Ok(())
    }

    /// Charges the store with all of `owed` that there is: what does not fit is charged as far as it does.
    async fn drain(&self, owed: &Batch) -> Result<(), StoreError> {
        let told = self.store.inner().apply(owed).await?;
        let mut rest = Batch::default();
        for (step, verdict) in owed.steps().iter().zip(&told.verdicts) {
            if let (false, Some(left)) = (verdict.admitted(), NonZeroU64::new(verdict.remaining)) {
                let _ = rest.push(Step { action: Action::Consume(left), ..*step });
            }
        }
        match rest.steps().is_empty() {
            true => Ok(()),
            false => self.store.inner().apply(&rest).await.map(drop),
        }
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
        // By the node's own clock, and from when it noticed: other clocks may show another time.
        let now = self.clock.now();
        if self.loss.load(Ordering::Acquire) != lost.as_micros() {
            // First: who sees the loss must not take it for one of long ago.
            let noticed = now.minus(self.store.inner().lost_ago());
            self.loss_noticed.store(noticed.as_micros(), Ordering::Release);
            if self.loss.swap(lost.as_micros(), Ordering::AcqRel) != lost.as_micros() {
                let reason =
                    "it may have lost what it had acknowledged; closed limits start with nothing left";
                self.changed(ComponentName::Store, self.store.state(), reason.to_owned());
            }
        }
        let noticed = Timestamp::from_micros(self.loss_noticed.load(Ordering::Acquire));
        let (mut all, mut marks) = (Batch::default(), Batch::default());
        for step in batch.steps().iter().filter(|step| is_closed(step)) {
            let memory = step.algorithm.memory();
            let charges = matches!(step.action, Action::Consume(_))
                && !matches!(step.algorithm, Algorithm::Concurrency(_));
            let capacity =
                NonZeroU64::new(step.algorithm.capacity()).filter(|_| charges && now < noticed.plus(memory));
            if let (Some(capacity), Some(mark)) = (capacity, mark(step, lost)) {
                let _ = all.push(Step { action: Action::Consume(capacity), ..*step }.observed());
                let _ = marks.push(mark);
            }
        }
        if all.steps().is_empty() {
            return Ok(());
        }
        // Once for each key: a mark beside it says that it was done. If two do it at once, it is done twice, which admits
        // nothing.
        let marked = self.store.inner().peek(&marks).await?;
        let (mut left, mut to_mark) = (Batch::default(), Batch::default());
        for ((step, mark), verdict) in all.steps().iter().zip(marks.steps()).zip(&marked.verdicts) {
            if verdict.admitted() {
                let _ = left.push(*step);
                let _ = to_mark.push(*mark);
            }
        }
        if left.steps().is_empty() {
            return Ok(());
        }
        self.drain(&left).await?;
        self.store.inner().apply(&to_mark).await.map(drop)
    }
}

/// Debts that are being paid. What is not paid when this is dropped is owed again: a caller may be cut off at any time.
struct Owed<'a> {
    debts: &'a Debts,
    batch: Batch,
    now: Timestamp,
}

impl Drop for Owed<'_> {
    fn drop(&mut self) {
        for step in self.batch.steps() {
            let until = self.now.plus(step.algorithm.memory());
            self.debts.add(&step.key, step.action.cost(), until, self.now);
        }
    }
}

/// Says beside a key that it was exhausted after a loss.
fn mark(step: &Step, lost: Timestamp) -> Option<Step> {
    let rate = Rate::new(1, step.algorithm.memory()).ok()?;
    let algorithm = Algorithm::new(AlgorithmKind::FixedWindow, &rate).ok()?;
    Some(Step::consume(step.key.beside(lost.as_micros()), algorithm, NonZeroU64::MIN).observed())
}

/// What a step has of its limit where that is divided; none if there is nothing to divide. What only looks or observes refuses
/// nobody by itself: it stays whole.
pub(super) fn share(step: &Step, sharers: u32) -> Option<Algorithm> {
    let whole = step.mode == Mode::Observe || step.action == Action::Check;
    step.algorithm.share(sharers).or(whole.then_some(step.algorithm))
}

/// True if a step is to be shared and there is nothing to share: more nodes than the limit holds.
fn has_none(step: &Step, place: usize, places: &[usize]) -> bool {
    step.sharing.on_failure == OnFailure::Share && step.mode == Mode::Enforce && !places.contains(&place)
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
pub(super) fn merge(batch: &Batch, places: &[usize], shares: &Outcome) -> Outcome {
    let mut outcome = Outcome { at: shares.at, source: Source::Open, ..Outcome::default() };
    let mut judged = places.iter().zip(&shares.verdicts).peekable();
    for (place, step) in batch.steps().iter().enumerate() {
        let limit = step.algorithm.capacity();
        let verdict = match judged.next_if(|(at, _)| **at == place) {
            Some((_, verdict)) => of_whole(step, *verdict),
            None if step.sharing.on_failure == OnFailure::Share => nothing(limit),
            None => open(limit),
        };
        outcome.push(step.mode, verdict);
    }
    if batch.steps().iter().any(|step| step.sharing.on_failure != OnFailure::Open) {
        outcome.source = Source::Fallback;
    }
    outcome.charged = shares.charged && outcome.admitted() && !places.is_empty();
    outcome
}

/// What a part of a limit says to a cost that is too much for the part and not for the whole: not now. Nobody knows when the
/// whole is there again.
fn of_whole(step: &Step, verdict: Verdict) -> Verdict {
    let asks = matches!(step.action, Action::Consume(_) | Action::Acquire(..));
    match verdict.retry {
        Retry::Never if asks && step.action.cost() <= step.algorithm.capacity() => {
            Verdict { retry: Retry::After(Span::SECOND), ..verdict }
        }
        _ => verdict,
    }
}

/// A share that is nothing: there are more nodes than the limit holds.
const fn nothing(limit: u64) -> Verdict {
    Verdict { retry: Retry::After(Span::SECOND), limit, remaining: 0, reset: Span::SECOND, later: Span::ZERO }
}
