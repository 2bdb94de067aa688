//! Batches whose steps go different ways: leased ones first, which are cheapest to give back, then the node's own, then
//! those of the store. If one refuses, the others are given back.

use smallvec::SmallVec;
use threshold_core::{
    Batch, Clock, Consistency, Mode, Outcome, Retry, Source, Span, Step, Store, StoreError, Timestamp,
    Verdict,
};

use super::leases::is_leased;
use super::{NodeStore, pick};

type Places = SmallVec<[usize; 4]>;
/// What was spent from leases, and when.
type Spent = SmallVec<[(usize, Timestamp); 4]>;

/// Where the steps of a batch go.
#[derive(Default)]
struct Ways {
    exact: Places,
    leased: Places,
    local: Places,
}

/// Verdicts on the way, each in the place of its step.
struct Judging<'a> {
    batch: &'a Batch,
    verdicts: SmallVec<[Option<Verdict>; 4]>,
    source: Source,
    at: Timestamp,
}

impl Ways {
    fn of(batch: &Batch) -> Self {
        let mut ways = Self::default();
        for (place, step) in batch.steps().iter().enumerate() {
            match step.sharing.consistency {
                Consistency::Leased if is_leased(step) => ways.leased.push(place),
                Consistency::Leased | Consistency::Exact => ways.exact.push(place),
                Consistency::Local => ways.local.push(place),
            }
        }
        ways
    }
}

impl<'a> Judging<'a> {
    fn new(batch: &'a Batch, at: Timestamp) -> Self {
        let verdicts = batch.steps().iter().map(|_| None).collect();
        Self { batch, verdicts, source: Source::Exact, at }
    }

    fn take(&mut self, places: &[usize], outcome: &Outcome) {
        places
            .iter()
            .zip(&outcome.verdicts)
            .for_each(|(place, verdict)| self.verdicts[*place] = Some(*verdict));
        self.source = self.source.max(outcome.source);
    }

    fn refuses(&self) -> bool {
        let steps = self.batch.steps().iter().zip(&self.verdicts);
        let refused = |verdict: &Option<Verdict>| verdict.is_some_and(|verdict| !verdict.admitted());
        steps.into_iter().any(|(step, verdict)| step.mode == Mode::Enforce && refused(verdict))
    }

    fn outcome(self, charged: bool) -> Outcome {
        let mut outcome = Outcome { at: self.at, source: self.source, ..Outcome::default() };
        for (step, verdict) in self.batch.steps().iter().zip(self.verdicts) {
            let limit = step.algorithm.capacity();
            let open =
                Verdict { retry: Retry::Now, limit, remaining: limit, reset: Span::ZERO, later: Span::ZERO };
            outcome.push(step.mode, verdict.unwrap_or(open));
        }
        outcome.charged = charged && outcome.admitted();
        outcome
    }
}

impl<S: Store, C: Clock> NodeStore<S, C> {
    /// Judges and charges a batch whose steps go different ways.
    pub(super) async fn apply_mixed(&self, batch: &Batch) -> Result<Outcome, StoreError> {
        let ways = Ways::of(batch);
        let mut judging = Judging::new(batch, self.clock.now());
        let (mut spent, mut shared) = (Spent::new(), Vec::new());
        for place in &ways.leased {
            let step = &batch.steps()[*place];
            match self.spend(step, step.action.cost()).await {
                Ok((verdict, at)) => {
                    judging.take(&[*place], &alone(step, verdict, Source::Leased));
                    if verdict.admitted() {
                        spent.push((*place, at));
                    }
                }
                Err(error) => match self.apply_without(&Batch::from(*step), error).await {
                    Ok(outcome) => {
                        judging.take(&[*place], &outcome);
                        shared.push((*step, outcome));
                    }
                    Err(error) => {
                        self.give_back(batch, &spent);
                        shared.iter().for_each(|(step, outcome)| self.give_back_share(step, outcome));
                        return Err(error);
                    }
                },
            }
        }
        // Of several the first: what was spent later from a later slice is lost if it is given back, and never lasts longer.
        judging.at = spent.iter().map(|(_, at)| *at).min().unwrap_or(judging.at);
        let own = pick(batch, &ways.local);
        let counted = self.count(&own, &ways.local, &mut judging);
        let asked = match (ways.exact.is_empty(), judging.refuses()) {
            (true, _) => Ok(None),
            (false, true) => self.peek_exact(&pick(batch, &ways.exact)).await.map(Some),
            (false, false) => self.apply_exact(&pick(batch, &ways.exact)).await.map(Some),
        };
        if let Ok(Some(outcome)) = &asked {
            judging.take(&ways.exact, outcome);
            judging.at = outcome.at;
        }
        if asked.is_err() || judging.refuses() {
            self.give_back(batch, &spent);
            shared.iter().for_each(|(step, outcome)| self.give_back_share(step, outcome));
            if let Some(counted) = counted {
                self.local.refund_now(&own, &counted);
            }
        }
        asked?;
        let mut outcome = judging.outcome(true);
        if let Retry::After(_) = outcome.retry {
            outcome.retry = outcome.retry.max(self.until_leased(batch, &ways.leased));
        }
        Ok(outcome)
    }

    /// When the store has what the leased steps cost. What a refusal gives back to a lease has ended before long, so that
    /// whoever waits as told would find nothing if the wait did not cover that.
    fn until_leased(&self, batch: &Batch, leased: &[usize]) -> Retry {
        let now = self.clock.now();
        let steps = leased.iter().map(|place| &batch.steps()[*place]);
        let enforced = steps.filter(|step| step.mode == Mode::Enforce);
        let waits = enforced.map(|step| self.leases.had_after(&step.key, step.action.cost(), now));
        waits.max().filter(|wait| *wait > Span::ZERO).map_or(Retry::Now, Retry::After)
    }

    /// Has the node's own limits judge and charge.
    fn count(&self, own: &Batch, places: &[usize], judging: &mut Judging<'_>) -> Option<Outcome> {
        if places.is_empty() {
            return None;
        }
        let outcome = Outcome { source: Source::Local, ..self.local.apply_now(own) };
        judging.take(places, &outcome);
        Some(outcome)
    }

    fn give_back(&self, batch: &Batch, spent: &[(usize, Timestamp)]) {
        for (place, at) in spent {
            let step = &batch.steps()[*place];
            self.leases.give_back(&step.key, step.action.cost(), *at);
        }
    }

    /// Judges such a batch and charges nothing.
    pub(super) async fn peek_mixed(&self, batch: &Batch) -> Result<Outcome, StoreError> {
        let ways = Ways::of(batch);
        let mut judging = self.look(batch, &ways).await?;
        let now = self.clock.now();
        for place in &ways.leased {
            let step = &batch.steps()[*place];
            let held = self.leases.held(&step.key, now);
            if let Some(verdict) = &mut judging.verdicts[*place] {
                verdict.remaining = verdict.remaining.saturating_add(held).min(verdict.limit);
                if held >= step.action.cost() {
                    verdict.retry = Retry::Now;
                }
            }
            judging.source = judging.source.max(Source::Leased);
        }
        Ok(judging.outcome(false))
    }

    /// When such a batch passes and goes on passing: what is held does not count, for it ends.
    pub(super) async fn wait_mixed(&self, batch: &Batch) -> Result<Retry, StoreError> {
        Ok(self.look(batch, &Ways::of(batch)).await?.outcome(false).retry)
    }

    /// What the store and the node's own limits say to such a batch, apart from what is held.
    async fn look<'a>(&self, batch: &'a Batch, ways: &Ways) -> Result<Judging<'a>, StoreError> {
        let mut judging = Judging::new(batch, self.clock.now());
        if !ways.local.is_empty() {
            let outcome = self.local.peek_now(&pick(batch, &ways.local));
            judging.take(&ways.local, &Outcome { source: Source::Local, ..outcome });
        }
        let mut shared: Places = ways.exact.iter().chain(&ways.leased).copied().collect();
        shared.sort_unstable();
        if !shared.is_empty() {
            let mut asked = pick(batch, &shared);
            for step in asked.steps_mut() {
                if step.sharing.consistency == Consistency::Leased
                    && let Some(leasable) = step.algorithm.leasable(self.settings.lease)
                {
                    step.algorithm = leasable.algorithm;
                }
            }
            let outcome = self.peek_exact(&asked).await?;
            judging.take(&shared, &outcome);
            judging.at = outcome.at;
        }
        Ok(judging)
    }

    /// Takes back what such a batch was charged. Where the store took part, the time of the charge is the store's: what was
    /// spent from leases is lost then, for nobody can tell from which slice it came.
    pub(super) async fn refund_mixed(&self, batch: &Batch, outcome: &Outcome) -> Result<(), StoreError> {
        if !outcome.charged {
            return Ok(());
        }
        let ways = Ways::of(batch);
        if !ways.exact.is_empty() {
            let verdicts =
                ways.exact.iter().filter_map(|place| outcome.verdicts.get(*place)).copied().collect();
            let charged = Outcome { verdicts, ..outcome.clone() };
            return self.ask_store(self.store.inner().refund(&pick(batch, &ways.exact), &charged)).await;
        }
        let admitted = |place: &&usize| outcome.verdicts.get(**place).is_some_and(Verdict::admitted);
        let spent: Spent = ways.leased.iter().filter(admitted).map(|place| (*place, outcome.at)).collect();
        self.give_back(batch, &spent);
        let verdicts = ways.local.iter().filter_map(|place| outcome.verdicts.get(*place)).copied().collect();
        self.local.refund_now(&pick(batch, &ways.local), &Outcome { verdicts, ..outcome.clone() });
        Ok(())
    }
}

/// The outcome of one step.
fn alone(step: &Step, verdict: Verdict, source: Source) -> Outcome {
    let mut outcome = Outcome { source, ..Outcome::default() };
    outcome.push(step.mode, verdict);
    outcome
}
