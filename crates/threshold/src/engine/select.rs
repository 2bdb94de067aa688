//! Select: identity and rules make a plan, the limits that apply to one request.

use std::num::NonZeroU64;

use smallvec::SmallVec;
use threshold_core::{Action, Algorithm, Batch, Key, Mode, PermitId, Step, Subject, Timestamp};

use super::names::About;
use super::overrides::Overrides;
use super::rules::{RouteFilter, Rule, Rules, Sized};
use super::subject::{Asker, gate};
use crate::policy::{Cost, Enforce, Per};
use crate::route::Matches;

/// What an undeclared body is charged ahead of what is seen of it.
pub const UNDECLARED_BYTES: u64 = 64 * 1024;

/// The steps of one request and what each is for.
#[derive(Default)]
pub(crate) struct Plan {
    pub(crate) batch: Batch,
    pub(crate) steps: SmallVec<[Planned; 4]>,
}

/// What a step of the batch is for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Planned {
    pub(crate) about: &'static About,
    pub(crate) role: Role,
}

/// What a step does for its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The limit itself.
    Limit,
    /// The limit for the client's larger network.
    Network(u8),
    /// The limit under the secret before.
    Previous,
    /// The gate that keeps out who was over.
    Gate,
}

/// What the limits are asked about.
pub(crate) struct Request<'a> {
    pub(crate) asker: Asker<'a>,
    /// The routes that match.
    pub(crate) routes: &'a Matches,
    pub(crate) bytes: Option<u64>,
    /// Names the permit for limits of how many at the same time; without it they are passed over.
    pub(crate) permit: Option<PermitId>,
    pub(crate) now: Timestamp,
}

/// Plans the edge: by address, before all else.
pub(crate) fn edge(rules: &Rules, overrides: &Overrides, request: &Request<'_>, plan: &mut Plan) {
    let mut selecting = Selecting::new(overrides, request);
    rules.at_edge(request.now).for_each(|rule| selecting.add(rule, plan));
}

/// Plans all other layers, charged as one.
pub(crate) fn inner(rules: &Rules, overrides: &Overrides, request: &Request<'_>, plan: &mut Plan) {
    let mut selecting = Selecting::new(overrides, request);
    rules.behind_edge(request.now).for_each(|rule| selecting.add(rule, plan));
}

/// A plan in the making.
pub(crate) struct Selecting<'a> {
    overrides: &'a Overrides,
    request: &'a Request<'a>,
    /// The last subject and whom it stands for: most limits in a row count by the same.
    last: Subject,
    last_per: Option<&'a [Per]>,
}

/// Why a limit has no part in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Skipped {
    /// It is switched off.
    Off,
    /// It is for other routes.
    Route,
    /// The tenant's tier has no rate for it.
    Tier,
    /// The request has no such subject.
    Subject,
    /// The request costs nothing here: no body, or nobody to hold a permit.
    Cost,
}

impl<'a> Selecting<'a> {
    pub(crate) fn new(overrides: &'a Overrides, request: &'a Request<'a>) -> Self {
        Self { overrides, request, last: Subject::default(), last_per: None }
    }

    #[inline]
    fn add(&mut self, rule: &'a Rule, plan: &mut Plan) {
        // Why not is asked for by `explain` alone.
        let _ = self.try_add(rule, plan);
    }

    /// Adds what `rule` asks of the request, or says why it asks nothing.
    pub(crate) fn try_add(&mut self, rule: &'a Rule, plan: &mut Plan) -> Result<(), Skipped> {
        let request = self.request;
        if rule.enforce == Enforce::Off {
            return Err(Skipped::Off);
        }
        if !rule.routes.matches(request.routes) {
            return Err(Skipped::Route);
        }
        let sized = rule.numbers.of(request.asker.tier).ok_or(Skipped::Tier)?;
        let overrides = self.overrides;
        self.find_subject(&rule.per).ok_or(Skipped::Subject)?;
        let subject = &self.last;
        let varied = if rule.varies { Some(rule.vary(sized, request).ok_or(Skipped::Cost)?) } else { None };
        let Some(step) = plan.push(&sized.step, Planned { about: sized.about, role: Role::Limit }) else {
            return Ok(());
        };
        step.key = sized.keys.current.key_of(subject);
        if let Some(action) = varied {
            step.action = action;
            step.mode = rule.mode(&step.key);
        }
        if let Some(found) = overrides.find(rule, &step.key, request.now) {
            step.algorithm = found.algorithm;
            step.key = found.key(step.key, subject);
        }
        if rule.has_more(sized) {
            let own = Step { algorithm: sized.step.algorithm, ..*step };
            let subject = subject.clone();
            self.add_rest((rule, sized), own, &subject, plan);
        }
        Ok(())
    }

    /// Makes the subject that `per` describes the last one.
    fn find_subject(&mut self, per: &'a [Per]) -> Option<()> {
        if self.last_per != Some(per) {
            self.last_per = self.request.asker.replace(per, &mut self.last).then_some(per);
        }
        self.last_per.map(|_| ())
    }

    /// What some limits have beside themselves: each a step like `own`.
    #[cold]
    fn add_rest(&self, (rule, sized): (&Rule, &Sized), own: Step, subject: &Subject, plan: &mut Plan) {
        if let Some(previous) = &sized.keys.previous {
            let about = Planned { about: sized.about, role: Role::Previous };
            plan.push(&Step { key: previous.key_of(subject), ..own }, about);
        }
        for (prefix, algorithm) in &sized.aggregates {
            let network = self.request.asker.network(*prefix);
            let network = network.and_then(|network| self.request.asker.subject_at(&rule.per, &network));
            let Some(network) = network else { continue };
            let about = Planned { about: sized.about, role: Role::Network(*prefix) };
            let key = sized.keys.current.key_of(&network);
            plan.push(&Step { key, algorithm: *algorithm, ..own }, about);
        }
        if let Some(block) = &rule.block {
            let about = Planned { about: sized.about, role: Role::Gate };
            let key = block.keys.current.key_of(&gate(subject));
            plan.push(&Step { key, algorithm: block.algorithm, action: Action::Check, ..own }, about);
        }
    }
}

impl Plan {
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.batch.clear();
        self.steps.clear();
    }

    /// Policies with more limits than fit are refused when they are read, and reloads that would keep too many, so none
    /// is left out here.
    #[inline(always)]
    fn push(&mut self, model: &Step, planned: Planned) -> Option<&mut Step> {
        let step = self.batch.push_like(model).ok()?;
        self.steps.push(planned);
        Some(step)
    }
}

impl RouteFilter {
    fn matches(&self, matched: &Matches) -> bool {
        match self {
            Self::Every => true,
            Self::Of(routes) => routes.iter().any(|route| matched.contains(*route)),
            Self::Unmatched(routes) => !routes.iter().any(|route| matched.contains(*route)),
        }
    }
}

impl Rule {
    /// True if the limit has more than one step.
    fn has_more(&self, sized: &Sized) -> bool {
        self.block.is_some() || sized.keys.previous.is_some() || !sized.aggregates.is_empty()
    }

    /// What the request asks of this limit; none if there is nothing to ask.
    fn vary(&self, sized: &Sized, request: &Request<'_>) -> Option<Action> {
        let cost = match self.cost {
            Cost::Each(each) => each,
            Cost::Bytes => NonZeroU64::new(request.bytes.unwrap_or(UNDECLARED_BYTES))?,
        };
        match sized.step.algorithm {
            Algorithm::Concurrency(_) => Some(Action::Acquire(request.permit?, cost)),
            _ => Some(Action::Consume(cost)),
        }
    }

    /// Whether a refusal counts for the subject of `key`: a canary takes the same subjects every time, and as it
    /// grows it keeps those it had.
    fn mode(&self, key: &Key) -> Mode {
        let [low, _] = key.halves();
        // The middle bits: the lowest choose the memory store's shard.
        let drawn = ((low >> 24 & 0xFFFF) * 100) >> 16;
        match self.enforce {
            Enforce::On => Mode::Enforce,
            Enforce::Percent(percent) if drawn < u64::from(percent) => Mode::Enforce,
            Enforce::Off | Enforce::Observe | Enforce::Percent(_) => Mode::Observe,
        }
    }
}
