//! Decide: the outcome makes a decision, what the caller is told.

use std::num::NonZeroU64;
use std::time::Duration;

use smallvec::SmallVec;
use threshold_core::{
    Action, Batch, Mode, OnFailure, Outcome, Rate, Retry, Source, Span, Step, Timestamp, Verdict,
};

use super::select::{Plan, Planned, Role};
use crate::identify::{Doubts, Identity};
use crate::policy::Layer;
use crate::route::PathError;

/// What is told to a caller about one request.
#[must_use = "a decision may be a refusal"]
#[derive(Default)]
pub struct Decision {
    pub(crate) at: Timestamp,
    pub(crate) refused: Option<Refused>,
    /// True if it passed on grace, or came close to a sanction otherwise.
    pub(crate) warned: bool,
    /// How long the answer is to be held back.
    pub(crate) delay: Duration,
    /// Beside what the refusal itself says, when the same request passes.
    pub(crate) floor: Retry,
    pub(crate) doubts: Doubts,
    /// Whether the tenant that the request names is believed, if that was asked.
    pub(crate) tenant_believed: Option<bool>,
    /// What was asked and answered: the edge, then the other layers.
    pub(crate) edge: Asked,
    pub(crate) inner: Asked,
}

/// A plan and its outcome. An outcome without verdicts if it was not asked.
#[derive(Default)]
pub(crate) struct Asked {
    pub(crate) plan: Plan,
    pub(crate) outcome: Outcome,
}

/// One limit's part in a decision.
pub(crate) struct Part<'a> {
    pub(crate) planned: &'a Planned,
    pub(crate) step: &'a Step,
    pub(crate) verdict: &'a Verdict,
    /// True if its cost was charged.
    pub(crate) charged: bool,
}

/// What refused a request, in short.
#[derive(Clone, Copy)]
pub(crate) enum Refused {
    Path(PathError),
    Listed,
    /// Until then.
    Banned(Timestamp),
    /// Until then.
    Cooldown(Timestamp),
    Edge,
    Inner,
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
    /// The policy lists it as refused, for good.
    Listed,
    /// It is banned for a while.
    Banned {
        /// When that ends.
        until: Timestamp,
    },
    /// It has to wait for a while, whatever its limits say.
    Cooldown {
        /// When that ends.
        until: Timestamp,
    },
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
    /// The names of the routes that it is for, as a list; none if it is for every request.
    pub routes: Option<&'static str>,
    /// True if it counts bytes.
    pub bytes: bool,
    /// Its rate.
    pub rate: Rate,
    /// True if the subject was over before and is kept out for a while.
    pub blocked: bool,
}

/// Permits to be [given back](super::Engine::release_permits) when their request ends.
#[derive(Clone, Debug)]
pub struct Permits(pub(crate) Batch);

impl Permits {
    /// True if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.steps().is_empty()
    }
}

/// How much of a limit is left: that of the tightest one, for the headers of an answer.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Quota {
    /// What the limit is called: its id, or its name where it has one.
    pub limit: &'static str,
    /// Its layer.
    pub layer: Layer,
    /// Its rate.
    pub rate: Rate,
    /// The period that it counts in, which is another than its rate's where an override has one.
    pub period: Span,
    /// Its capacity.
    pub capacity: u64,
    /// How many more of cost 1 would be allowed at this instant.
    pub remaining: u64,
    /// True if it counts bytes.
    pub bytes: bool,
    /// How long it takes to allow its capacity once more; none for limits of how many at the same time.
    pub window: Option<Duration>,
    /// How long until one more would be allowed, if nothing else is charged; none where that is not known.
    pub next: Option<Duration>,
    /// How long until it is as new, if nothing else is charged.
    pub reset: Duration,
}

impl Decision {
    /// True if the request may go on.
    #[must_use]
    pub const fn allowed(&self) -> bool {
        self.refused.is_none()
    }

    /// Why it may not.
    #[must_use]
    pub fn refusal(&self) -> Option<Refusal> {
        match self.refused? {
            Refused::Path(error) => Some(Refusal { reason: Reason::Path(error), retry: Retry::Never }),
            Refused::Listed => Some(Refusal { reason: Reason::Listed, retry: Retry::Never }),
            Refused::Banned(until) => Some(self.sanction(until, Reason::Banned { until })),
            Refused::Cooldown(until) => Some(self.sanction(until, Reason::Cooldown { until })),
            Refused::Edge => self.floored(self.edge.refusal()?),
            Refused::Inner => self.floored(self.inner.refusal()?),
        }
    }

    /// With what else has to be waited for.
    fn floored(&self, refusal: Refusal) -> Option<Refusal> {
        Some(Refusal { retry: refusal.retry.max(self.floor), ..refusal })
    }

    /// True if a limit of the edge refused it.
    pub(crate) const fn refused_at_edge(&self) -> bool {
        matches!(self.refused, Some(Refused::Edge))
    }

    /// What the tightest limit would say if it refused: for who is refused for another reason and is not to know it.
    #[must_use]
    pub fn as_if_refused(&self) -> Option<(RefusedBy, Quota)> {
        let part = self.tightest()?;
        Some((part.refused_by(), Quota { remaining: 0, ..part.quota() }))
    }

    fn sanction(&self, until: Timestamp, reason: Reason) -> Refusal {
        Refusal { reason, retry: Retry::After(until.since(self.at)).max(self.floor) }
    }

    /// When the ban or the cooldown ends that refused it.
    pub(crate) const fn sanctioned_until(&self) -> Option<Timestamp> {
        match self.refused {
            Some(Refused::Banned(until) | Refused::Cooldown(until)) => Some(until),
            _ => None,
        }
    }

    /// True if the request passes with a warning: it is over a limit, and grace let it pass.
    #[must_use]
    pub const fn warned(&self) -> bool {
        self.warned
    }

    /// How long the answer is to be held back; zero as a rule. Nothing else may tell the client apart.
    #[must_use]
    pub const fn delay(&self) -> Duration {
        if self.allowed() { self.delay } else { Duration::ZERO }
    }

    /// What is left of the tightest limit that shows itself: the first one that refuses, or else the one with the
    /// smallest share left.
    #[must_use]
    pub fn quota(&self) -> Option<Quota> {
        self.tightest().map(|part| part.quota())
    }

    fn tightest(&self) -> Option<Part<'_>> {
        // Of a limit that was open because nobody could be asked, nobody knows what is left.
        let open = self.inner.outcome.source == Source::Open;
        let known = move |part: &Part<'_>| !open || part.step.sharing.on_failure != OnFailure::Open;
        let shown = || self.parts().filter(Part::shows_itself).filter(known);
        let refusing = if self.allowed() { None } else { shown().find(Part::refuses) };
        refusing.or_else(|| smallest(shown()))
    }

    /// What the request claimed and was not believed.
    #[must_use]
    pub fn doubts(&self) -> &Doubts {
        &self.doubts
    }

    /// Where the answer came from.
    #[must_use]
    pub fn source(&self) -> Source {
        match self.refused {
            Some(Refused::Edge) => Source::Local,
            _ if self.inner.plan.steps.is_empty() && !self.edge.plan.steps.is_empty() => Source::Local,
            _ => self.inner.outcome.source,
        }
    }

    /// The store's time of the decision.
    #[must_use]
    pub const fn at(&self) -> Timestamp {
        self.at
    }

    /// How many bytes of the request's body are charged to every limit that counts them; none if none does.
    #[must_use]
    pub fn charged_bytes(&self) -> Option<u64> {
        self.inner.parts().filter(Part::counts_bytes).map(|part| part.step.action.cost()).min()
    }

    /// The permits that it took, for who lets go of the decision before the request ends.
    #[must_use]
    pub fn permits(&self) -> Permits {
        Permits(self.inner.permits())
    }

    /// When the same request passes; none if it passed, and none if it never will.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self.refusal()?.retry {
            Retry::After(span) => Some(span.into()),
            Retry::Now | Retry::Never => None,
        }
    }

    /// Nothing asked yet, at `at`.
    #[inline]
    pub(crate) fn begin(&mut self, at: Timestamp, identity: &Identity<'_>) {
        (self.at, self.refused, self.warned) = (at, None, false);
        (self.delay, self.floor) = (Duration::ZERO, Retry::Now);
        self.doubts.clone_from(&identity.doubts);
        self.tenant_believed = None;
        self.edge.clear();
        self.inner.clear();
    }

    /// Concludes from what the edge answered; gives the gates that are to be closed now.
    #[inline]
    pub(crate) fn conclude_edge(&mut self) -> Option<Batch> {
        self.at = self.edge.outcome.at;
        if self.edge.outcome.admitted() {
            return None;
        }
        self.refused = Some(Refused::Edge);
        self.edge.close()
    }

    /// Concludes from what the store answered. True if the request is refused.
    #[inline]
    pub(crate) fn conclude(&mut self) -> bool {
        self.at = self.inner.outcome.at;
        let refused = !self.inner.outcome.admitted();
        if refused {
            self.refused = Some(Refused::Inner);
        }
        refused
    }

    /// Every limit's part in it, the edge's first.
    pub(crate) fn parts(&self) -> impl Iterator<Item = Part<'_>> {
        self.edge.parts().chain(self.inner.parts())
    }
}

/// The part with the smallest share left.
fn smallest<'a>(parts: impl Iterator<Item = Part<'a>>) -> Option<Part<'a>> {
    let share = |one: &Verdict, other: &Verdict| u128::from(one.remaining) * u128::from(other.limit);
    parts.min_by(|a, b| share(a.verdict, b.verdict).cmp(&share(b.verdict, a.verdict)))
}

impl Asked {
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.plan.clear();
        self.outcome.clear(Timestamp::default());
    }

    pub(crate) fn parts(&self) -> impl Iterator<Item = Part<'_>> {
        let steps = self.plan.steps.iter().zip(self.plan.batch.steps());
        steps.zip(&self.outcome.verdicts).map(|((planned, step), verdict)| {
            let charged = self.outcome.charged && verdict.admitted();
            Part { planned, step, verdict, charged }
        })
    }

    /// The first limit that refuses, if the whole is `refused`, or else the one with the smallest share left; of those that
    /// show themselves and are known.
    pub(crate) fn tightest(&self, refused: bool) -> Option<Part<'_>> {
        let open = self.outcome.source == Source::Open;
        let known = move |part: &Part<'_>| !open || part.step.sharing.on_failure != OnFailure::Open;
        let shown = || self.parts().filter(Part::shows_itself).filter(known);
        let refusing = if refused { shown().find(Part::refuses) } else { None };
        refusing.or_else(|| smallest(shown()))
    }

    /// The refusal of the first limit that refuses.
    fn refusal(&self) -> Option<Refusal> {
        let part = self.parts().find(Part::refuses)?;
        Some(Refusal { reason: Reason::Limit(part.refused_by()), retry: self.outcome.retry })
    }

    /// What was charged for more bytes than `seen`, to be given back; from now on it was never charged.
    pub(crate) fn unused_bytes(&mut self, seen: u64) -> Option<(Batch, Outcome)> {
        let mut batch = Batch::default();
        let mut charged = Outcome { verdicts: SmallVec::new(), ..self.outcome.clone() };
        for part in self.parts().filter(|part| part.charged && part.planned.about.bytes) {
            let unused = NonZeroU64::new(part.step.action.cost().saturating_sub(seen));
            if let Some(unused) = unused
                && batch.push(Step { action: Action::Consume(unused), ..*part.step }).is_ok()
            {
                charged.verdicts.push(*part.verdict);
            }
        }
        let seen = NonZeroU64::new(seen).unwrap_or(NonZeroU64::MIN);
        for (step, planned) in self.plan.batch.steps_mut().iter_mut().zip(&self.plan.steps) {
            if let (Action::Consume(cost), true) = (&mut step.action, planned.about.bytes) {
                *cost = seen.min(*cost);
            }
        }
        (!batch.steps().is_empty()).then_some((batch, charged))
    }

    /// `more` bytes for every limit that was charged for bytes.
    pub(crate) fn more_bytes(&self, more: NonZeroU64) -> Batch {
        let mut batch = Batch::default();
        for part in self.parts().filter(Part::counts_bytes) {
            let _ = batch.push(Step { action: Action::Consume(more), ..*part.step });
        }
        batch
    }

    /// What refused `more` of them.
    pub(crate) fn refused_bytes(&self, outcome: &Outcome) -> Option<Refusal> {
        let counting = self.parts().filter(Part::counts_bytes);
        let mut refusing = counting
            .zip(&outcome.verdicts)
            .filter(|(part, verdict)| part.step.mode == Mode::Enforce && !verdict.admitted());
        let (part, _) = refusing.next()?;
        Some(Refusal { reason: Reason::Limit(part.refused_by()), retry: outcome.retry })
    }

    /// From now on `outcome` is what was charged for bytes.
    pub(crate) fn charged_bytes(&mut self, batch: &Batch, outcome: &Outcome) {
        let counts: SmallVec<[bool; 8]> = self.parts().map(|part| part.counts_bytes()).collect();
        let places = (0..counts.len()).filter(|place| counts[*place]);
        for (place, (step, verdict)) in places.zip(batch.steps().iter().zip(&outcome.verdicts)) {
            self.plan.batch.steps_mut()[place] = *step;
            self.outcome.verdicts[place] = *verdict;
        }
        self.outcome.at = outcome.at;
    }

    /// The permits that were taken, to be given back.
    pub(crate) fn permits(&self) -> Batch {
        let mut batch = Batch::default();
        for part in self.parts().filter(|part| part.charged) {
            if let Action::Acquire(permit, _) = part.step.action {
                let _ = batch.push(Step { action: Action::Release(permit), ..*part.step });
            }
        }
        batch
    }
}

impl Part<'_> {
    /// True if the subject asks for more than it has left now; a cost that never fits is no sign of that.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.verdict.retry, Retry::After(_))
    }

    pub(crate) fn quota(&self) -> Quota {
        let (about, verdict) = (self.planned.about, self.verdict);
        Quota {
            limit: about.called,
            layer: about.layer,
            rate: about.rate,
            period: self.step.algorithm.period(),
            capacity: verdict.limit,
            remaining: verdict.remaining,
            bytes: about.bytes,
            window: self.step.algorithm.window(verdict.limit).map(Into::into),
            next: self.step.algorithm.next_unit(verdict).map(Into::into),
            reset: verdict.reset.into(),
        }
    }

    fn refused_by(&self) -> RefusedBy {
        let Planned { about, role } = *self.planned;
        RefusedBy {
            limit: about.limit,
            layer: about.layer,
            error: about.error,
            category: about.category,
            routes: about.routes,
            bytes: about.bytes,
            rate: about.rate,
            blocked: matches!(role, Role::Gate | Role::PreviousGate),
        }
    }

    /// True if bytes were charged to it.
    fn counts_bytes(&self) -> bool {
        self.charged && self.planned.about.bytes && matches!(self.step.action, Action::Consume(_))
    }

    pub(crate) fn refuses(&self) -> bool {
        self.step.mode == Mode::Enforce && !self.verdict.admitted()
    }

    fn shows_itself(&self) -> bool {
        let limit = matches!(self.planned.role, Role::Limit | Role::Graced);
        let counts = limit && self.step.mode == Mode::Enforce;
        counts && (!self.planned.about.silent || !self.verdict.admitted())
    }
}
