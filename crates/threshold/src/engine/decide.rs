//! Decide: the outcome makes a decision, what the caller is told.

use std::num::NonZeroU64;
use std::time::Duration;

use smallvec::SmallVec;
use threshold_core::{Action, Batch, Mode, Outcome, Rate, Retry, Step, Timestamp, Verdict};

use super::select::{Plan, Planned, Role};
use crate::identify::Doubts;
use crate::policy::Layer;
use crate::route::PathError;

/// What is told to a caller about one request.
#[must_use = "a decision may be a refusal"]
pub struct Decision {
    pub(crate) at: Timestamp,
    pub(crate) refusal: Option<Refusal>,
    pub(crate) quota: Option<Quota>,
    pub(crate) doubts: Doubts,
    /// What was asked and answered, for refunds and explanations. The edge, then the other layers.
    pub(crate) edge: Asked,
    pub(crate) inner: Asked,
}

/// A plan and its outcome.
#[derive(Default)]
pub(crate) struct Asked {
    pub(crate) plan: Plan,
    pub(crate) outcome: Option<Outcome>,
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Refusal {
    /// What refused it.
    pub reason: Reason,
    /// When the same request passes, if nothing else is charged until then: the longest wait over all limits that
    /// refuse it.
    pub retry: Retry,
}

/// What refused a request.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Reason {
    /// A limit: the first that refuses, in the order of the layers.
    Limit(RefusedBy),
    /// The path cannot be read as one, so nobody can tell which limits it is for.
    Path(PathError),
}

/// The limit that refused a request.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct RefusedBy {
    /// Its id.
    pub limit: &'static str,
    /// Its layer.
    pub layer: Layer,
    /// The code for the body of the answer.
    pub error: &'static str,
    /// The category of the tiers that it takes its rate from.
    pub category: Option<&'static str>,
    /// Its rate.
    pub rate: Rate,
    /// True if the subject was over before and is kept out for a while.
    pub blocked: bool,
}

/// How much of a limit is left: that of the tightest one, for the headers of an answer.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Quota {
    /// The limit's id.
    pub limit: &'static str,
    /// Its rate.
    pub rate: Rate,
    /// Its capacity.
    pub capacity: u64,
    /// How many more of cost 1 would be allowed at this instant.
    pub remaining: u64,
    /// How long until it is as new, if nothing else is charged.
    pub reset: Duration,
}

impl Decision {
    /// True if the request may go on.
    #[must_use]
    pub const fn allowed(&self) -> bool {
        self.refusal.is_none()
    }

    /// Why it may not.
    #[must_use]
    pub const fn refusal(&self) -> Option<&Refusal> {
        self.refusal.as_ref()
    }

    /// What is left of the tightest limit that shows itself.
    #[must_use]
    pub const fn quota(&self) -> Option<&Quota> {
        self.quota.as_ref()
    }

    /// What the request claimed and was not believed.
    #[must_use]
    pub fn doubts(&self) -> &Doubts {
        &self.doubts
    }

    /// The store's time of the decision.
    #[must_use]
    pub const fn at(&self) -> Timestamp {
        self.at
    }

    /// When the same request passes; none if it passed, and none if it never will.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self.refusal.as_ref()?.retry {
            Retry::After(span) => Some(span.into()),
            Retry::Now | Retry::Never => None,
        }
    }
}

impl Asked {
    /// Each step with its verdict.
    pub(crate) fn verdicts(&self) -> impl Iterator<Item = (usize, &Verdict)> {
        self.outcome.iter().flat_map(|outcome| outcome.verdicts.iter().enumerate())
    }

    /// The first step that refuses.
    pub(crate) fn refusing(&self) -> Option<usize> {
        let steps = self.plan.batch.steps();
        let refuses =
            |(index, verdict): &(usize, &Verdict)| steps[*index].mode == Mode::Enforce && !verdict.admitted();
        self.verdicts().find(refuses).map(|(index, _)| index)
    }

    /// The refusal, if a step refuses.
    pub(crate) fn refusal(&self) -> Option<Refusal> {
        let Planned { about, role } = self.plan.steps[self.refusing()?];
        let reason = Reason::Limit(RefusedBy {
            limit: about.limit,
            layer: about.layer,
            error: about.error,
            category: about.category,
            rate: about.rate,
            blocked: role == Role::Gate,
        });
        Some(Refusal { reason, retry: self.outcome.as_ref().map_or(Retry::Never, |outcome| outcome.retry) })
    }

    /// The tightest limit that shows itself: the one with the smallest share left.
    pub(crate) fn quota(&self) -> Option<Quota> {
        let shown = self.verdicts().filter(|(index, verdict)| {
            let planned = &self.plan.steps[*index];
            let counts = planned.role == Role::Limit && self.plan.batch.steps()[*index].mode == Mode::Enforce;
            counts && (!planned.about.silent || !verdict.admitted())
        });
        let share = |one: &Verdict, other: &Verdict| u128::from(one.remaining) * u128::from(other.limit);
        let (index, verdict) = shown.min_by(|(_, a), (_, b)| share(a, b).cmp(&share(b, a)))?;
        let about = self.plan.steps[index].about;
        Some(Quota {
            limit: about.limit,
            rate: about.rate,
            capacity: verdict.limit,
            remaining: verdict.remaining,
            reset: verdict.reset.into(),
        })
    }

    /// The gates of the limits that refuse, to be closed. One that is closed already stays as it is.
    pub(crate) fn gates(&self) -> Batch {
        let mut batch = Batch::default();
        for (index, _) in self.verdicts().filter(|(_, verdict)| !verdict.admitted()) {
            let refusing = &self.plan.steps[index];
            let is_gate =
                |other: &Planned| other.about.limit == refusing.about.limit && other.role == Role::Gate;
            let Some(gate) = self.plan.steps.iter().position(is_gate) else { continue };
            let step = self.plan.batch.steps()[gate];
            if refusing.role != Role::Gate && step.mode == Mode::Enforce {
                // It fits: there are no more gates than steps.
                let _ = batch.push(Step { action: Action::Consume(NonZeroU64::MIN), ..step });
            }
        }
        batch
    }

    /// What was charged for more bytes than `seen`, to be given back.
    pub(crate) fn unused_bytes(&self, seen: u64) -> Option<(Batch, Outcome)> {
        let outcome = self.outcome.as_ref().filter(|outcome| outcome.charged)?;
        let mut batch = Batch::default();
        let mut charged = Outcome { verdicts: SmallVec::new(), ..outcome.clone() };
        for (index, step) in self.plan.batch.steps().iter().enumerate() {
            let Action::Consume(cost) = step.action else { continue };
            let unused = NonZeroU64::new(cost.get().saturating_sub(seen));
            if let (true, Some(unused)) = (self.plan.steps[index].about.bytes, unused)
                && batch.push(Step { action: Action::Consume(unused), ..*step }).is_ok()
            {
                charged.verdicts.push(outcome.verdicts[index]);
            }
        }
        (!batch.steps().is_empty()).then_some((batch, charged))
    }

    /// The permits that were taken, to be given back.
    pub(crate) fn permits(&self) -> Batch {
        let mut batch = Batch::default();
        for step in self.plan.batch.steps() {
            if let Action::Acquire(permit, _) = step.action {
                let _ = batch.push(Step { action: Action::Release(permit), ..*step });
            }
        }
        batch
    }
}
