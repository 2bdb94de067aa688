//! Batches whose keys are in different partitions of a cluster.
//!
//! No server can judge all of it at once, so the parts are charged one after the other. If one refuses, what was charged
//! before is taken back, and the others are only looked at. Nothing is admitted that one of its limits refuses; what others
//! see in between is a charge that may go again, so they may be refused though they need not have been.

use smallvec::SmallVec;
use threshold_core::mirror::Terms;
use threshold_core::{Batch, Outcome, Partition, Step, Store, StoreError};

use super::RedisStore;
use super::wire::Op;

/// One part of a batch, and which steps of it these are.
struct Part {
    partition: Partition,
    batch: Batch,
    places: SmallVec<[usize; 4]>,
}

/// True if the keys are in more than one partition.
pub(super) fn spans(batch: &Batch) -> bool {
    let mut partitions = batch.steps().iter().map(|step| step.key.partition());
    partitions.next().is_some_and(|first| partitions.any(|other| other != first))
}

/// Steps that are taken back, by their place.
pub(super) fn places<'s>(steps: &[(&'s Step, Terms)]) -> Vec<Vec<(&'s Step, Terms)>> {
    let mut places: Vec<Vec<(&Step, Terms)>> = Vec::new();
    for (step, terms) in steps {
        let of = |place: &&mut Vec<(&Step, Terms)>| {
            place.first().is_some_and(|(first, _)| first.key.partition() == step.key.partition())
        };
        match places.iter_mut().find(of) {
            Some(place) => place.push((step, *terms)),
            None => places.push(vec![(step, *terms)]),
        }
    }
    places
}

fn parts(batch: &Batch) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for (place, step) in batch.steps().iter().enumerate() {
        let partition = step.key.partition();
        let at = parts.iter().position(|part| part.partition == partition).unwrap_or(parts.len());
        if at == parts.len() {
            parts.push(Part { partition, batch: Batch::default(), places: SmallVec::new() });
        }
        // A part is never longer than the whole.
        let _ = parts[at].batch.push(*step);
        parts[at].places.push(place);
    }
    parts
}

impl RedisStore {
    pub(super) async fn apply_across(&self, batch: &Batch) -> Result<Outcome, StoreError> {
        let parts = parts(batch);
        let mut outcomes: Vec<Outcome> = Vec::with_capacity(parts.len());
        for part in &parts {
            let refused = outcomes.iter().any(|outcome| !outcome.admitted());
            let op = if refused { Op::Peek } else { Op::Apply };
            match self.judge(op, part.batch.clone()).await {
                Ok(outcome) => outcomes.push(outcome),
                Err(error) => {
                    self.take_back(&parts, &outcomes).await;
                    return Err(error);
                }
            }
        }
        if outcomes.iter().any(|outcome| !outcome.admitted()) {
            self.take_back(&parts, &outcomes).await;
            self.look_again(&parts, &mut outcomes).await?;
        }
        Ok(joined(batch, &parts, &outcomes))
    }

    pub(super) async fn peek_across(&self, batch: &Batch) -> Result<Outcome, StoreError> {
        let parts = parts(batch);
        let mut outcomes = Vec::with_capacity(parts.len());
        for part in &parts {
            outcomes.push(self.judge(Op::Peek, part.batch.clone()).await?);
        }
        Ok(joined(batch, &parts, &outcomes))
    }

    /// Has the parts that were charged and taken back say what is really left. They were admitted, and stay so in what is
    /// said: the batch was refused by others.
    async fn look_again(&self, parts: &[Part], outcomes: &mut [Outcome]) -> Result<(), StoreError> {
        for (part, outcome) in parts.iter().zip(outcomes).filter(|(_, outcome)| outcome.charged) {
            let now = self.judge(Op::Peek, part.batch.clone()).await?;
            for (verdict, real) in outcome.verdicts.iter_mut().zip(now.verdicts) {
                (verdict.remaining, verdict.reset) = (real.remaining, real.reset);
            }
            outcome.charged = false;
        }
        Ok(())
    }

    /// What cannot be taken back stays charged, which refuses more and admits no more.
    async fn take_back(&self, parts: &[Part], outcomes: &[Outcome]) {
        for (part, outcome) in parts.iter().zip(outcomes) {
            let _ = self.refund(&part.batch, outcome).await;
        }
    }
}

/// The outcome of the whole, at the earliest of its times: what is refunded by it is never more than was charged.
fn joined(batch: &Batch, parts: &[Part], outcomes: &[Outcome]) -> Outcome {
    let mut verdicts = vec![None; batch.steps().len()];
    for (part, outcome) in parts.iter().zip(outcomes) {
        for (place, verdict) in part.places.iter().zip(&outcome.verdicts) {
            verdicts[*place] = Some(*verdict);
        }
    }
    let mut outcome = Outcome::default();
    outcome.clear(outcomes.iter().map(|outcome| outcome.at).min().unwrap_or_default());
    for (step, verdict) in batch.steps().iter().zip(verdicts) {
        verdict.into_iter().for_each(|verdict| outcome.push(step.mode, verdict));
    }
    outcome.charged = outcomes.iter().all(|outcome| outcome.charged);
    outcome
}
