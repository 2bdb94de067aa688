//! Descriptors: what proxies like Envoy ask about. Each is a list of keys and values that finds a limit of its domain, and
//! all of one call are judged and charged as one. They enter the path of a decision at the plan: nobody is identified,
//! and nothing is held against anybody.

use std::num::NonZeroU64;
use std::ops::Range;

use smallvec::SmallVec;
use threshold_core::{
    AlgorithmKind, Clock, Ledger, LimitError, MAX_STEPS, Rate, Retry, Source, Span, Store, StoreError,
    SubjectId, Timestamp,
};

use super::charge::{AdhocError, plan_adhoc};
use super::decide::{Asked, Part, Quota};
use super::rules::Rule;
use super::select::{Plan, Request, Selecting, merge};
use super::subject::{descriptor, descriptor_id};
use super::{Asking, Engine, State};
use crate::policy::{Cost, Enforce};

/// One descriptor of a call.
#[derive(Clone, Copy, Debug)]
pub struct Descriptor<'a> {
    /// Its keys and values, in order.
    pub entries: &'a [(&'a str, &'a str)],
    /// How many hits it counts for; none to look only.
    pub hits: Option<NonZeroU64>,
    /// A limit that comes with it, in the place of any that it would find.
    pub own: Option<OwnLimit>,
}

/// A limit that comes with a descriptor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OwnLimit {
    /// A rate. The same descriptor under another count of the same period is still the same count.
    Rate(Rate, AlgorithmKind),
    /// Nothing is admitted.
    Nothing,
}

/// What came of a call.
#[derive(Default)]
pub struct DescriptorDecision {
    asked: Asked,
    /// What was only looked at, which few calls do.
    looked: Option<Box<Asked>>,
    met: SmallVec<[Met; 4]>,
    /// True if a limit refuses that needs no count for it.
    refused: bool,
    /// True if what was asked has its outcome.
    judged: bool,
    /// How many like calls it is about, if it is more than one.
    times: Option<NonZeroU64>,
}

/// What came of a run of like calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DescriptorRun {
    /// All of them pass.
    Passed,
    /// Nobody knows yet; it is to be [finished](Engine::finish_rate_limit_run).
    Waits,
    /// They have to be asked about one by one. Nothing is charged.
    Apart,
}

/// What one descriptor of a call came to.
#[derive(Clone, Debug, PartialEq)]
pub enum DescriptorStatus {
    /// No limit is for it, or another stands for the one that is.
    Free,
    /// Its limit is switched off.
    Unlimited,
    /// Its limit admits nothing.
    Nothing,
    /// It has a limit.
    Limited {
        /// What is left of it.
        quota: Quota,
        /// When the limit allows it, whatever others do; never, if it costs more than there is.
        retry: Retry,
        /// True if the limit came with the descriptor.
        own: bool,
    },
}

/// What a descriptor met.
enum Met {
    Free,
    Unlimited,
    Nothing,
    /// These steps, which were asked or only looked at; whether their limit came with the descriptor; and whom they are
    /// counted for, if anybody counts.
    Limited {
        steps: Range<usize>,
        asked: bool,
        own: bool,
        subject: Option<SubjectId>,
    },
}

/// A call that could not be decided.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DescriptorError {
    /// They do not fit into one operation.
    #[error("these descriptors need more than {MAX_STEPS} steps as one; send fewer in a call")]
    TooMany,
    /// A limit that came with a descriptor cannot be represented.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What a descriptor is asked of.
enum Found<'a> {
    None,
    Rule(&'a Rule),
    Own(OwnLimit),
}

impl<S: Store, C: Clock, L: Ledger> Engine<S, C, L> {
    /// Charges all of `descriptors` to the limits of `domain` that they find, or none of them if one is refused: one atomic
    /// operation.
    ///
    /// # Errors
    ///
    /// If the store could make no decision, or there are too many.
    pub async fn rate_limit(
        &self,
        domain: &str,
        descriptors: &[Descriptor<'_>],
    ) -> Result<DescriptorDecision, DescriptorError> {
        let mut decision = DescriptorDecision::default();
        if !self.rate_limit_at_once(domain, descriptors, &mut decision)? {
            self.finish_rate_limit(&mut decision).await?;
        }
        Ok(decision)
    }

    /// [`rate_limit`](Self::rate_limit) as far as it needs no waiting, for who has a place for the decision, which is large:
    /// what it was before does not matter. False if it is to be [finished](Self::finish_rate_limit).
    ///
    /// # Errors
    ///
    /// If there are too many.
    pub fn rate_limit_at_once(
        &self,
        domain: &str,
        descriptors: &[Descriptor<'_>],
        decision: &mut DescriptorDecision,
    ) -> Result<bool, DescriptorError> {
        self.plan_descriptors(domain, descriptors, None, decision)?;
        let DescriptorDecision { asked, looked, refused, judged, .. } = decision;
        if asked.plan.steps.is_empty() {
            *judged = true;
        } else if !*refused && let Some(outcome) = self.store.apply_at_once(&asked.plan.batch) {
            asked.outcome = outcome;
            *judged = true;
        }
        let done = *judged && looked.is_none() && (asked.outcome.admitted() || asked.close().is_none());
        if done {
            self.count_decided(decision);
        }
        Ok(done)
    }

    /// Does what a decision still waits for.
    ///
    /// # Errors
    ///
    /// If the store could make no decision.
    pub async fn finish_rate_limit(&self, decision: &mut DescriptorDecision) -> Result<(), DescriptorError> {
        let DescriptorDecision { asked, looked, refused, judged, .. } = decision;
        if !*judged {
            asked.outcome = match refused {
                // Nothing is charged, whatever else there is.
                true => self.store.peek(&asked.plan.batch).await?,
                false => self.store.apply(&asked.plan.batch).await?,
            };
            *judged = true;
        }
        if !*refused
            && !asked.outcome.admitted()
            && let Some(gates) = asked.close()
        {
            self.store.apply(&gates).await?;
        }
        if let Some(looked) = looked {
            looked.outcome = self.store.peek(&looked.plan.batch).await?;
        }
        self.count_decided(decision);
        Ok(())
    }

    /// Charges a run of like calls as one, as far as it needs no waiting, if all of them pass and there is nothing else to be
    /// said or done about them. What is left is then what is left after all of them.
    ///
    /// # Errors
    ///
    /// If there are too many descriptors.
    pub fn rate_limit_run_at_once(
        &self,
        domain: &str,
        descriptors: &[Descriptor<'_>],
        times: NonZeroU64,
        decision: &mut DescriptorDecision,
    ) -> Result<DescriptorRun, DescriptorError> {
        self.plan_descriptors(domain, descriptors, Some(times), decision)?;
        let DescriptorDecision { asked, looked, refused, .. } = decision;
        if *refused || looked.is_some() || !asked.plan.may_run() {
            return Ok(DescriptorRun::Apart);
        }
        if !asked.plan.steps.is_empty() {
            match self.store.apply_at_once(&asked.plan.batch) {
                Some(outcome) => asked.outcome = outcome,
                None => return Ok(DescriptorRun::Waits),
            }
        }
        Ok(if self.end_run(decision) { DescriptorRun::Passed } else { DescriptorRun::Apart })
    }

    /// Does what a run still waits for. False if its calls have to be asked about one by one.
    ///
    /// # Errors
    ///
    /// If the store could make no decision.
    pub async fn finish_rate_limit_run(
        &self,
        decision: &mut DescriptorDecision,
    ) -> Result<bool, DescriptorError> {
        decision.asked.outcome = self.store.apply(&decision.asked.plan.batch).await?;
        Ok(self.end_run(decision))
    }

    fn end_run(&self, decision: &mut DescriptorDecision) -> bool {
        decision.judged = true;
        let passed = decision.allowed();
        if passed {
            self.count_decided(decision);
        }
        passed
    }

    /// Counts what was decided, if anybody counts.
    #[inline]
    fn count_decided(&self, decision: &DescriptorDecision) {
        let (allowed, times) = (decision.allowed(), decision.times.map_or(1, NonZeroU64::get));
        self.count_charge(allowed, decision.source(), || decision.asked.layers(), times);
        if self.counts() {
            let named = decision.met.iter().filter_map(Met::counted);
            self.count_named((&decision.asked, allowed, times), named);
        }
    }

    fn plan_descriptors(
        &self,
        domain: &str,
        descriptors: &[Descriptor<'_>],
        times: Option<NonZeroU64>,
        decision: &mut DescriptorDecision,
    ) -> Result<(), DescriptorError> {
        let state = self.state.load();
        let found: SmallVec<[Found<'_>; 4]> =
            descriptors.iter().map(|descriptor| find(&state, domain, descriptor)).collect();
        let replaced = replaced(&found);
        decision.clear();
        decision.times = times;
        let now = self.edge.now();
        for (descriptor, found) in descriptors.iter().zip(&found) {
            let met = match found {
                Found::Rule(rule) if replaced.contains(&rule.name) => Met::Free,
                Found::Rule(rule) if rule.enforce == Enforce::Off => Met::Unlimited,
                Found::Rule(rule) if rule.refuses() => {
                    decision.refuse(rule.enforce == Enforce::On && descriptor.hits.is_some())
                }
                Found::Own(OwnLimit::Nothing) => decision.refuse(descriptor.hits.is_some()),
                Found::None => Met::Free,
                Found::Rule(rule) => {
                    let of = || self.described(rule, domain, descriptor);
                    let add = |plan: &mut Plan, hits| {
                        plan_rule((&state, rule), (domain, descriptor), (hits, now), plan)
                    };
                    decision.plan(descriptor, add)?.of(self.counts().then(of))
                }
                Found::Own(OwnLimit::Rate(rate, kind)) => decision.plan(descriptor, |plan, hits| {
                    let subject = descriptor_subject(domain, descriptor);
                    plan_adhoc(&self.secrets, (*rate, *kind), (&subject, hits), plan).map_err(Into::into)
                })?,
            };
            decision.met.push(met);
        }
        Ok(())
    }
}

impl<S: Store, C: Clock, L: Ledger> Engine<S, C, L> {
    /// Whom `descriptor` is counted for.
    fn described(&self, rule: &Rule, domain: &str, descriptor: &Descriptor<'_>) -> SubjectId {
        let key = self.subject_keys.current();
        descriptor_id(key, domain, descriptor.entries, rule.descriptor.as_deref())
    }
}

impl Met {
    /// The same, counted for `whom`.
    fn of(self, whom: Option<SubjectId>) -> Self {
        match self {
            Self::Limited { steps, asked, own, .. } => Self::Limited { steps, asked, own, subject: whom },
            other => other,
        }
    }

    /// Which steps are counted, and for whom.
    fn counted(&self) -> Option<(Range<usize>, SubjectId)> {
        match self {
            Self::Limited { steps, asked: true, subject, .. } => Some((steps.clone(), (*subject)?)),
            _ => None,
        }
    }
}

/// What `descriptor` is asked of.
fn find<'a>(state: &'a State, domain: &str, descriptor: &Descriptor<'_>) -> Found<'a> {
    match descriptor.own {
        Some(own) => Found::Own(own),
        None => state.rules.descriptors.find(domain, descriptor.entries).map_or(Found::None, Found::Rule),
    }
}

/// The limits that others stand for, by name.
fn replaced(found: &[Found<'_>]) -> SmallVec<[&'static str; 4]> {
    let rules = found.iter().filter_map(|found| match found {
        Found::Rule(rule) => rule.descriptor.as_ref(),
        _ => None,
    });
    rules.flat_map(|descriptor| descriptor.replaces.iter().copied()).collect()
}

fn descriptor_subject(domain: &str, of: &Descriptor<'_>) -> threshold_core::Subject {
    let mut subject = threshold_core::Subject::default();
    descriptor(domain, of.entries, None, &mut subject);
    subject
}

/// Plans the limit that a descriptor found, and what it was before a reload.
fn plan_rule(
    (state, rule): (&State, &Rule),
    (domain, descriptor): (&str, &Descriptor<'_>),
    (hits, now): (NonZeroU64, Timestamp),
    plan: &mut Plan,
) -> Result<(), DescriptorError> {
    let facts = super::named::facts();
    let asking = Asking::nobody(&facts);
    let charge = |rule: &Rule, overrides, plan: &mut Plan| {
        let mut request = Request::nobody(&state.rules.frame, &asking, now);
        request.asker.described(domain, descriptor.entries, rule.descriptor.as_deref());
        let cost = if let Cost::Each(each) = rule.cost { each.saturating_mul(hits) } else { hits };
        (request.charge, request.varies) = (Some(cost), true);
        // It is not switched off, has a rate and a subject, and so has its part.
        let _ = Selecting::new(overrides, &request).try_add(rule, plan);
    };
    charge(rule, &state.overrides, plan);
    for (retiring, overrides) in state.rules.retiring.iter().zip(&state.retiring) {
        let former = &retiring.rule;
        let is_for = |own: &super::rules::DescriptorRule| own.is_for(domain, descriptor.entries);
        let same = former.name == rule.name && former.descriptor.as_deref().is_some_and(is_for);
        if same && now < retiring.until {
            let mut own = Plan::default();
            charge(former, overrides, &mut own);
            merge(&own, plan);
        }
    }
    Ok(())
}

impl DescriptorDecision {
    /// Makes room for another call.
    fn clear(&mut self) {
        self.asked.clear();
        self.looked = None;
        self.met.clear();
        (self.refused, self.judged) = (false, false);
    }

    fn refuse(&mut self, enforced: bool) -> Met {
        self.refused |= enforced;
        if enforced { Met::Nothing } else { Met::Free }
    }

    fn plan(
        &mut self,
        descriptor: &Descriptor<'_>,
        add: impl FnOnce(&mut Plan, NonZeroU64) -> Result<(), DescriptorError>,
    ) -> Result<Met, DescriptorError> {
        let asked = match descriptor.hits {
            Some(_) => &mut self.asked,
            None => self.looked.get_or_insert_default(),
        };
        let from = asked.plan.steps.len();
        // A step that does not fit would be left out in silence.
        if from + MOST_STEPS > MAX_STEPS {
            return Err(DescriptorError::TooMany);
        }
        let hits = descriptor.hits.unwrap_or(NonZeroU64::MIN);
        add(&mut asked.plan, self.times.map_or(hits, |times| hits.saturating_mul(times)))?;
        let steps = from..asked.plan.steps.len();
        if steps.end >= MAX_STEPS {
            return Err(DescriptorError::TooMany);
        }
        let (asked, own) = (descriptor.hits.is_some(), descriptor.own.is_some());
        Ok(Met::Limited { steps, asked, own, subject: None })
    }

    /// True if the call may go on.
    #[must_use]
    pub const fn allowed(&self) -> bool {
        !self.refused && self.asked.outcome.admitted()
    }

    /// The store's time of the decision.
    #[must_use]
    pub const fn at(&self) -> Timestamp {
        self.asked.outcome.at
    }

    /// Where the answer came from.
    #[must_use]
    pub const fn source(&self) -> Source {
        self.asked.outcome.source
    }

    /// What each descriptor came to, in their order.
    pub fn statuses(&self) -> impl Iterator<Item = DescriptorStatus> {
        let asked: SmallVec<[Part<'_>; 4]> = self.asked.parts().collect();
        let looked: Vec<Part<'_>> = self.looked.iter().flat_map(|looked| looked.parts()).collect();
        self.met.iter().map(move |met| match met {
            Met::Free => DescriptorStatus::Free,
            Met::Unlimited => DescriptorStatus::Unlimited,
            Met::Nothing => DescriptorStatus::Nothing,
            Met::Limited { steps, asked: true, own, .. } => status(&asked[steps.clone()], true, *own),
            Met::Limited { steps, asked: false, own, .. } => status(&looked[steps.clone()], false, *own),
        })
    }

    /// What is left of the tightest limit that shows itself: the first one that refuses, or else the one with the smallest
    /// share left; none if a limit refuses that counts nothing.
    #[must_use]
    pub fn quota(&self) -> Option<Quota> {
        if self.refused {
            // Whatever is left of others is of no use.
            return None;
        }
        self.asked.tightest(!self.allowed()).map(|part| part.quota())
    }

    /// When the same call passes; none if it did, and none if it never will or nobody knows.
    #[must_use]
    pub fn retry_after(&self) -> Option<Span> {
        match self.asked.outcome.retry {
            Retry::After(wait) if !self.refused => Some(wait),
            _ => None,
        }
    }
}

/// The most steps of one descriptor: a limit and its gate under two secrets, one more for an override, and the same for
/// what the limit was before.
const MOST_STEPS: usize = 20;

/// What one descriptor came to: `counts` if a refusal does.
fn status(parts: &[Part<'_>], counts: bool, own: bool) -> DescriptorStatus {
    let Some(first) = parts.first() else { return DescriptorStatus::Free };
    // The one that refuses, or else the limit itself, which comes first.
    let told = parts.iter().find(|part| counts && part.refuses());
    let retry = super::charge::wait(parts).filter(|_| counts).unwrap_or(Retry::Now);
    let mut quota = first.quota();
    if let Some(told) = told {
        quota.remaining = quota.remaining.min(told.verdict.remaining);
    }
    DescriptorStatus::Limited { quota, retry, own }
}

impl From<AdhocError> for DescriptorError {
    fn from(error: AdhocError) -> Self {
        match error {
            AdhocError::Rate(error) => Self::Limit(error),
            // The kinds of windows that callers may ask for are none of those.
            AdhocError::Concurrency => Self::TooMany,
        }
    }
}
