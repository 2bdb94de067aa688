//! The operation as data: steps that are judged and charged together, and what comes back.

use std::num::NonZeroU64;

use smallvec::SmallVec;

use crate::algorithm::Algorithm;
use crate::key::Key;
use crate::sharing::{Consistency, OnFailure, Sharing, Source};
use crate::time::{Span, Timestamp};

/// The most steps in one batch.
pub const MAX_STEPS: usize = 1_024;

/// One key, one algorithm, one action, one mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Whose state is judged.
    pub key: Key,
    /// By what.
    pub algorithm: Algorithm,
    /// What is asked for.
    pub action: Action,
    /// Whether a refusal counts.
    pub mode: Mode,
    /// How nodes share the limit.
    pub sharing: Sharing,
}

/// What a step asks for. A lease is granted by charging a slice and returned by refunding what is left of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// Charge a cost. On a concurrency limit this can never be admitted: it needs a permit.
    Consume(NonZeroU64),
    /// Judge a cost of 1 and charge nothing, whatever becomes of the batch: a gate that other steps close. Not for
    /// logs and permits.
    Check,
    /// Take a permit of a cost, or renew it if it is held already.
    Acquire(PermitId, NonZeroU64),
    /// Keep a permit.
    Renew(PermitId),
    /// Give a permit back.
    Release(PermitId),
}

/// Names one permit among those of its key. Two holders must never choose the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PermitId([u64; 2]);

/// Whether a refusal of this step refuses the batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// It does.
    #[default]
    Enforce,
    /// It does not: the step is judged, and charged with the rest if it would be admitted.
    Observe,
}

/// Steps that are judged in order, each seeing the charges of those before it, and charged all or none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    steps: SmallVec<[Step; 4]>,
}

/// A batch that takes no further step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a batch takes at most {MAX_STEPS} steps; send the rest as another batch")]
pub struct BatchError;

/// What the algorithm answered to one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Admitted now, later or never.
    pub retry: Retry,
    /// The capacity that was judged against.
    pub limit: u64,
    /// How many more of cost 1 would be admitted at this instant, after this step.
    pub remaining: u64,
    /// How long until the key is as new, if nothing else is charged.
    pub reset: Span,
    /// How much later than the batch it was judged: nothing, but where the keys of a batch are in different places, with
    /// clocks of their own. A refund needs to know.
    pub later: Span,
}

/// When a step is admitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Retry {
    /// It was.
    #[default]
    Now,
    /// After this long and not one tick earlier, if nothing else is charged until then. Two exceptions: a batch
    /// that names a key more than once may have to wait longer, and a store that has no room to write an
    /// admission down says a second.
    After(Span),
    /// At no time: the cost is above the capacity, or the permit is gone.
    Never,
}

/// What the store answered to a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The store's time of the decision; a refund names it.
    pub at: Timestamp,
    /// One verdict for each step, in order.
    pub verdicts: SmallVec<[Verdict; 4]>,
    /// The longest wait over the refusing enforce steps; `Now` if there is none.
    pub retry: Retry,
    /// True if the admitted steps were charged; false after a refusal and after a peek. Only a charge can be
    /// refunded.
    pub charged: bool,
    /// Where the answer came from.
    pub source: Source,
}

impl PermitId {
    /// A permit's name, best drawn at random.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "each half is cut out on purpose")]
    pub const fn new(id: u128) -> Self {
        Self([(id >> 64) as u64, id as u64])
    }

    /// The number it was made from.
    #[must_use]
    pub const fn get(self) -> u128 {
        (self.0[0] as u128) << 64 | self.0[1] as u128
    }
}

impl Action {
    /// What it costs if it is admitted.
    #[must_use]
    #[inline]
    pub const fn cost(self) -> u64 {
        match self {
            Self::Consume(cost) | Self::Acquire(_, cost) => cost.get(),
            Self::Check | Self::Renew(_) | Self::Release(_) => 0,
        }
    }

    /// The permit that it takes, keeps or gives back.
    #[must_use]
    pub const fn permit(self) -> Option<PermitId> {
        match self {
            Self::Acquire(permit, _) | Self::Renew(permit) | Self::Release(permit) => Some(permit),
            Self::Consume(_) | Self::Check => None,
        }
    }
}

impl Step {
    /// A step whose refusal counts, exact and shared.
    #[must_use]
    #[inline]
    pub const fn new(key: Key, algorithm: Algorithm, action: Action) -> Self {
        let sharing = Sharing { consistency: Consistency::Exact, on_failure: OnFailure::Share };
        Self { key, algorithm, action, mode: Mode::Enforce, sharing }
    }

    /// A step that charges `cost` and whose refusal counts.
    #[must_use]
    #[inline]
    pub const fn consume(key: Key, algorithm: Algorithm, cost: NonZeroU64) -> Self {
        Self::new(key, algorithm, Action::Consume(cost))
    }

    /// The same step, judged and counted but never refusing.
    #[must_use]
    pub const fn observed(self) -> Self {
        Self { mode: Mode::Observe, ..self }
    }
}

impl Batch {
    /// Adds a step at the end.
    #[inline]
    pub fn push(&mut self, step: Step) -> Result<(), BatchError> {
        if self.steps.len() == MAX_STEPS {
            return Err(BatchError);
        }
        self.steps.push(step);
        Ok(())
    }

    /// Adds a copy of `model` and gives it to be changed in its place: a step is large.
    #[inline(always)]
    pub fn push_like(&mut self, model: &Step) -> Result<&mut Step, BatchError> {
        let at = self.steps.len();
        if at == MAX_STEPS {
            return Err(BatchError);
        }
        self.steps.push(*model);
        Ok(&mut self.steps[at])
    }

    /// Makes room for the steps of another request.
    #[inline]
    pub fn clear(&mut self) {
        self.steps.clear();
    }

    /// What gives back the permits that it takes, for who was charged and will not use them; none if it takes none.
    #[must_use]
    pub fn released(&self) -> Option<Self> {
        let release = |step: &Step| match step.action {
            Action::Acquire(permit, _) => Some(Step { action: Action::Release(permit), ..*step }),
            _ => None,
        };
        let steps: SmallVec<[Step; 4]> = self.steps.iter().filter_map(release).collect();
        (!steps.is_empty()).then_some(Self { steps })
    }

    /// The steps, in order, to be changed.
    #[must_use]
    pub fn steps_mut(&mut self) -> &mut [Step] {
        &mut self.steps
    }

    /// The steps, in order.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }
}

/// A batch of one step.
impl From<Step> for Batch {
    fn from(step: Step) -> Self {
        Self { steps: SmallVec::from_iter([step]) }
    }
}

impl Verdict {
    /// True if the step was admitted.
    #[must_use]
    #[inline]
    pub const fn admitted(&self) -> bool {
        matches!(self.retry, Retry::Now)
    }
}

impl Outcome {
    /// Makes room for the outcome of another batch, at `now`.
    #[inline]
    pub fn clear(&mut self, now: Timestamp) {
        (self.at, self.retry, self.charged, self.source) = (now, Retry::Now, false, Source::Exact);
        self.verdicts.clear();
    }

    /// Adds the verdict on the next step, of `mode`.
    #[inline(always)]
    pub fn push(&mut self, mode: Mode, verdict: Verdict) {
        if mode == Mode::Enforce && !verdict.admitted() {
            self.retry = self.retry.max(verdict.retry);
        }
        self.verdicts.push(verdict);
    }

    /// When the step that `verdict` is about was charged.
    #[must_use]
    #[inline]
    pub const fn charged_at(&self, verdict: &Verdict) -> Timestamp {
        self.at.plus(verdict.later)
    }

    /// True if no enforce step refused: everything admitted was charged.
    #[must_use]
    #[inline]
    pub const fn admitted(&self) -> bool {
        matches!(self.retry, Retry::Now)
    }
}
