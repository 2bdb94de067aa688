//! Batches whose keys are in different places: partitions of a cluster, shards of a Worker.
//!
//! Nobody can judge all of it at once, so the parts are charged one after the other. If one refuses, what was charged
//! before is taken back, and the others are only looked at. Nothing is admitted that one of its limits refuses; what others
//! see in between is a charge that may go again, so they may be refused though they need not have been.

use smallvec::SmallVec;
use threshold_core::mirror::Terms;
use threshold_core::{Batch, Key, Outcome, Step, Store, StoreError, Timestamp, Verdict};

/// What is done with a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Apply = 1,
    Peek = 2,
}

/// A store whose keys may be in different places, each of which judges what is all its own.
pub(crate) trait Parted: Store {
    /// Where a key is.
    fn place(&self, key: &Key) -> u16;

    /// Judges a batch whose keys are in one place.
    fn judge(&self, op: Op, batch: Batch) -> impl Future<Output = Result<Outcome, StoreError>> + Send;
}

/// One part of a batch, and which steps of it these are.
struct Part {
    place: u16,
    batch: Batch,
    steps: SmallVec<[usize; 4]>,
}

/// Judges and charges a batch, wherever its keys are.
pub(crate) async fn apply(store: &impl Parted, batch: &Batch) -> Result<Outcome, StoreError> {
    if !spans(store, batch) {
        return store.judge(Op::Apply, batch.clone()).await;
    }
    let parts = parts(store, batch);
    let mut outcomes: Vec<Outcome> = Vec::with_capacity(parts.len());
    for part in &parts {
        let refused = outcomes.iter().any(|outcome| !outcome.admitted());
        let op = if refused { Op::Peek } else { Op::Apply };
        match store.judge(op, part.batch.clone()).await {
            Ok(outcome) => outcomes.push(outcome),
            Err(error) => {
                take_back(store, &parts, &outcomes).await;
                return Err(error);
            }
        }
    }
    if outcomes.iter().any(|outcome| !outcome.admitted()) {
        take_back(store, &parts, &outcomes).await;
        look_again(store, &parts, &mut outcomes).await?;
    }
    Ok(joined(batch, &parts, &outcomes))
}

/// Judges a batch and charges nothing, wherever its keys are.
pub(crate) async fn peek(store: &impl Parted, batch: &Batch) -> Result<Outcome, StoreError> {
    if !spans(store, batch) {
        return store.judge(Op::Peek, batch.clone()).await;
    }
    let parts = parts(store, batch);
    let mut outcomes = Vec::with_capacity(parts.len());
    for part in &parts {
        outcomes.push(store.judge(Op::Peek, part.batch.clone()).await?);
    }
    Ok(joined(batch, &parts, &outcomes))
}

/// The steps that are to be taken back, with their numbers and when they were charged: those of one place together.
pub(crate) struct Charged<'s> {
    pub(crate) place: u16,
    pub(crate) at: Timestamp,
    pub(crate) steps: Vec<(&'s Step, Terms)>,
}

/// What is to be taken back, by its place.
pub(crate) fn charged<'s>(store: &impl Parted, batch: &'s Batch, outcome: &Outcome) -> Vec<Charged<'s>> {
    let mut places: Vec<Charged<'_>> = Vec::new();
    let charged = batch.steps().iter().zip(&outcome.verdicts);
    for (step, verdict) in charged.filter(|(_, verdict)| outcome.charged && verdict.admitted()) {
        let Some(terms) = Terms::of_refund(step) else { continue };
        let (place, at) = (store.place(&step.key), outcome.charged_at(verdict));
        match places.iter_mut().find(|other| (other.place, other.at) == (place, at)) {
            Some(part) => part.steps.push((step, terms)),
            None => places.push(Charged { place, at, steps: vec![(step, terms)] }),
        }
    }
    places
}

/// True if the keys are in more than one place.
fn spans(store: &impl Parted, batch: &Batch) -> bool {
    let mut places = batch.steps().iter().map(|step| store.place(&step.key));
    places.next().is_some_and(|first| places.any(|other| other != first))
}

fn parts(store: &impl Parted, batch: &Batch) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for (number, step) in batch.steps().iter().enumerate() {
        let place = store.place(&step.key);
        let at = parts.iter().position(|part| part.place == place).unwrap_or(parts.len());
        if at == parts.len() {
            parts.push(Part { place, batch: Batch::default(), steps: SmallVec::new() });
        }
        // A part is never longer than the whole.
        let _ = parts[at].batch.push(*step);
        parts[at].steps.push(number);
    }
    parts
}

/// Has the parts that were charged and taken back say what is really left. They were admitted, and stay so in what is
/// said: the batch was refused by others.
async fn look_again(store: &impl Parted, parts: &[Part], outcomes: &mut [Outcome]) -> Result<(), StoreError> {
    for (part, outcome) in parts.iter().zip(outcomes).filter(|(_, outcome)| outcome.charged) {
        let now = store.judge(Op::Peek, part.batch.clone()).await?;
        for (verdict, real) in outcome.verdicts.iter_mut().zip(now.verdicts) {
            (verdict.remaining, verdict.reset) = (real.remaining, real.reset);
        }
        outcome.charged = false;
    }
    Ok(())
}

/// What cannot be taken back stays charged, which refuses more and admits no more.
async fn take_back(store: &impl Parted, parts: &[Part], outcomes: &[Outcome]) {
    for (part, outcome) in parts.iter().zip(outcomes) {
        let _ = store.refund(&part.batch, outcome).await;
    }
}

/// The outcome of the whole, at the earliest of its times; each verdict knows how much later its own was.
fn joined(batch: &Batch, parts: &[Part], outcomes: &[Outcome]) -> Outcome {
    let first = outcomes.iter().map(|outcome| outcome.at).min().unwrap_or_default();
    let mut verdicts = vec![None; batch.steps().len()];
    for (part, outcome) in parts.iter().zip(outcomes) {
        for (number, verdict) in part.steps.iter().zip(&outcome.verdicts) {
            verdicts[*number] = Some(Verdict { later: outcome.at.since(first), ..*verdict });
        }
    }
    let mut outcome = Outcome::default();
    outcome.clear(first);
    for (step, verdict) in batch.steps().iter().zip(verdicts) {
        verdict.into_iter().for_each(|verdict| outcome.push(step.mode, verdict));
    }
    outcome.charged = outcomes.iter().all(|outcome| outcome.charged);
    outcome
}
