//! Select: identity and rules make a plan, the limits that apply to one request.

use std::num::NonZeroU64;

use smallvec::SmallVec;
use threshold_core::standing::Risk;
use threshold_core::{
    Action, Algorithm, Batch, Consistency, Key, Mode, Sharing, Step, Subject, SubjectId, Timestamp,
};

use super::names::{About, Blames};
use super::overrides::Overrides;
use super::rules::{Frame, Keys, MessageRule, Retiring, RouteFilter, Rule, Sized};
use super::subject::{Asker, gate};
use super::{Asking, Message, State};
use crate::policy::{Cost, Enforce, Per};
use crate::route::{Matches, Path};

/// What an undeclared body is charged ahead of what is seen of it.
pub const UNDECLARED_BYTES: u64 = 64 * 1024;

/// The steps of one request and what each is for.
#[derive(Default)]
pub(crate) struct Plan {
    pub(crate) batch: Batch,
    pub(crate) steps: SmallVec<[Planned; 4]>,
    /// The steps that a bad name has made smaller, and what they would be without it.
    pub(crate) scaled: Vec<(usize, Algorithm)>,
    /// True if a gate among them is only observed.
    pub(crate) observes_gates: bool,
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
    /// The same under the secret before; closed before it changed, or never.
    PreviousGate,
    /// The limit itself where an override of another period stands for it: it counts on, and refuses nobody.
    Base,
    /// The limit itself, which grace has raised.
    Graced,
}

/// What the limits are asked about.
pub(crate) struct Request<'a> {
    pub(crate) asking: &'a Asking<'a>,
    pub(crate) path: &'a Path<'a>,
    /// Who asks.
    pub(crate) asker: Asker<'a>,
    /// The name of its tier, if the ledger says so.
    pub(crate) ledger_tier: Option<&'a str>,
    /// The same, as overrides name them; empty if none does.
    pub(crate) ids: &'a [SubjectId],
    /// How much they are trusted.
    pub(crate) risks: Risks,
    /// The routes that match.
    pub(crate) routes: &'a Matches,
    pub(crate) now: Timestamp,
    /// What is charged, if the caller names that and the limit itself.
    pub(crate) charge: Option<NonZeroU64>,
    /// True if what is asked of a limit depends on this request.
    pub(crate) varies: bool,
}

/// How much who asks is trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Risks {
    pub(crate) user: Option<Risk>,
    pub(crate) address: Risk,
    /// True if somebody claims to be a user and has not proven it.
    pub(crate) claimed: bool,
}

impl Risks {
    /// Nothing is held against anybody.
    pub(crate) const LOW: Self = Self { user: None, address: Risk::Low, claimed: false };

    /// That of whom a limit blames.
    fn of(&self, blames: Blames) -> Risk {
        match blames {
            Blames::Nobody => Risk::Low,
            Blames::Address => self.address,
            // What is counted by a mere name is counted for whoever writes it.
            Blames::User if self.claimed => Risk::Low,
            Blames::User | Blames::UserAtAddress => self.user.unwrap_or(self.address),
        }
    }
}

impl<'a> Request<'a> {
    /// What is asked, in the terms of `frame`.
    #[inline]
    pub(crate) fn new(
        frame: &Frame,
        asking: &'a Asking<'a>,
        (path, routes): (&'a Path<'a>, &'a Matches),
        now: Timestamp,
    ) -> Self {
        let asker = Asker::new(frame, asking.identity, &asking.extras);
        let varies = asking.extras.cost.is_some() || asking.extras.message.is_some();
        let (ids, risks) = (&[][..], Risks::LOW);
        Self { asking, path, asker, ledger_tier: None, ids, risks, routes, now, charge: None, varies }
    }
}

/// Plans the edge: by address, before all else.
pub(crate) fn edge(state: &State, request: &Request<'_>, plan: &mut Plan) {
    if request.asker.message().is_some() {
        return;
    }
    let mut selecting = Selecting::new(&state.overrides, request);
    state.rules.edge.iter().for_each(|rule| selecting.add(rule, plan));
    retiring(state, request, |rule| rule.at_edge(), plan);
}

/// Plans all other layers, charged as one.
pub(crate) fn inner(state: &State, request: &Request<'_>, plan: &mut Plan) {
    let mut selecting = Selecting::new(&state.overrides, request);
    let message = request.asker.message().is_some();
    let rules = if message { &state.rules.messages } else { &state.rules.inner };
    rules.iter().for_each(|rule| selecting.add(rule, plan));
    retiring(state, request, |rule| !rule.at_edge(), plan);
}

/// Plans those limits of policies before that are `wanted`, each as its own policy read requests and with the overrides
/// made for it.
#[inline]
fn retiring(state: &State, request: &Request<'_>, wanted: fn(&Rule) -> bool, plan: &mut Plan) {
    for (retiring, overrides) in state.rules.retiring.iter().zip(&state.retiring) {
        let message = request.asker.message().is_some();
        let wanted = wanted(&retiring.rule)
            && retiring.rule.messages.is_some() == message
            && retiring.rule.descriptor.is_none();
        if wanted && request.now < retiring.until {
            retire(retiring, overrides, request, plan);
        }
    }
}

#[cold]
fn retire(retiring: &Retiring, overrides: &Overrides, request: &Request<'_>, plan: &mut Plan) {
    let Request { asking, path, ledger_tier, ids, risks, now, .. } = *request;
    let matched = retiring.frame.routes.matches(asking.facts.method, asking.facts.host, path);
    let tenant = request.asker.tenant();
    let mut request = Request::new(&retiring.frame, asking, (path, &matched), now);
    (request.ids, request.risks) = (ids, risks);
    if let (Some(tier), Some(tenant)) = (ledger_tier, tenant) {
        request.asker.believe(tenant, retiring.frame.tier(tier));
    }
    let mut own = Plan::default();
    Selecting::new(overrides, &request).add(&retiring.rule, &mut own);
    merge(&own, plan);
}

/// Adds the steps of a limit that is on its way out.
#[cold]
pub(crate) fn merge(own: &Plan, plan: &mut Plan) {
    plan.observes_gates |= own.observes_gates;
    for (place, (step, planned)) in own.batch.steps().iter().zip(&own.steps).enumerate() {
        // What its successor counts as well is charged once.
        if !plan.batch.steps().iter().any(|other| other.key == step.key) {
            let base = own.scaled.iter().find(|(scaled, _)| *scaled == place);
            plan.scaled.extend(base.map(|(_, base)| (plan.steps.len(), *base)));
            plan.push(step, *planned);
        }
    }
}

/// A plan in the making.
pub(crate) struct Selecting<'a> {
    overrides: &'a Overrides,
    request: &'a Request<'a>,
    /// True if there are no overrides, and nobody with a bad name asks.
    ordinary: bool,
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
    /// It is for messages, or for others.
    Message,
    /// It is for descriptors.
    Descriptor,
    /// The tenant's tier has no rate for it.
    Tier,
    /// The request has no such subject.
    Subject,
    /// The request costs nothing here: no body, or nobody to hold a permit.
    Cost,
}

impl Skipped {
    /// A word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Route => "route",
            Self::Message => "message",
            Self::Descriptor => "descriptor",
            Self::Tier => "tier",
            Self::Subject => "subject",
            Self::Cost => "cost",
        }
    }
}

impl<'a> Selecting<'a> {
    pub(crate) fn new(overrides: &'a Overrides, request: &'a Request<'a>) -> Self {
        let ordinary = overrides.is_empty() && request.risks == Risks::LOW;
        Self { overrides, request, ordinary, last: Subject::default(), last_per: None }
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
        if request.charge.is_none() {
            if rule.descriptor.is_some() {
                return Err(Skipped::Descriptor);
            }
            if !rule.routes.matches(request.routes) {
                return Err(Skipped::Route);
            }
            if !rule.is_for(request.asker.message()) {
                return Err(Skipped::Message);
            }
        }
        let sized = rule.numbers.of(request.asker.tier).ok_or(Skipped::Tier)?;
        self.find_subject(&rule.per).ok_or(Skipped::Subject)?;
        let subject = &self.last;
        let varied = if rule.varies || request.varies {
            Some(rule.vary(sized, request).ok_or(Skipped::Cost)?)
        } else {
            None
        };
        let Some(step) = plan.push(&sized.step, Planned { about: sized.about, role: Role::Limit }) else {
            return Ok(());
        };
        step.key = sized.keys.current.key_of(subject);
        if let Some(action) = varied {
            step.action = action;
            step.mode = rule.mode(&step.key);
        }
        let keys = if self.ordinary { &sized.keys } else { self.adjust((rule, sized), plan) };
        if rule.has_more(sized) {
            let subject = subject.clone();
            self.add_rest((rule, sized), keys, &subject, plan);
        }
        Ok(())
    }

    /// Gives the limit that was added last the numbers that an override or a bad name makes of them; says by whose keys it
    /// counts.
    #[cold]
    fn adjust(&self, (rule, sized): (&'a Rule, &'a Sized), plan: &mut Plan) -> &'a Keys {
        let (request, mut keys) = (self.request, &sized.keys);
        let found = self.overrides.find(rule, request.ids, request.now);
        let risk = request.risks.of(sized.about.blames);
        let scaled = found.map_or_else(|| sized.scaled(risk), |found| found.scaled(risk));
        if let (Some(found), Some(step)) = (found, plan.batch.steps_mut().last_mut()) {
            let base = step.observed();
            step.algorithm = found.algorithm;
            keys = found.keys(sized);
            step.key = keys.current.key_of(&self.last);
            if step.key != base.key {
                plan.push(&base, Planned { about: sized.about, role: Role::Base });
            }
        }
        if let Some(scaled) = scaled {
            plan.scale_last(scaled);
        }
        if let Some(step) = plan.last_limit_mut().filter(|step| rule.too_small_for(&step.algorithm).is_some())
        {
            // Slices of it would be nothing, and nothing would be admitted. The store itself can still decide: what nodes
            // hold of the limit is charged there already.
            step.sharing.consistency = step.sharing.consistency.together();
        }
        keys
    }

    /// Makes the subject that `per` describes the last one.
    fn find_subject(&mut self, per: &'a [Per]) -> Option<()> {
        if self.last_per != Some(per) {
            self.last_per = self.request.asker.replace(per, &mut self.last).then_some(per);
        }
        self.last_per.map(|_| ())
    }

    /// What some limits have beside themselves: each a step like `own`, under the secret before as well if there is one.
    #[cold]
    fn add_rest(&self, (rule, sized): (&Rule, &Sized), keys: &Keys, subject: &Subject, plan: &mut Plan) {
        let Some(own) = plan.last_limit() else { return };
        let mut push = |role, key, step: Step| {
            plan.push(&Step { key, ..step }, Planned { about: sized.about, role });
        };
        if let Some(previous) = &keys.previous {
            push(Role::Previous, previous.key_of(subject), own);
        }
        if keys.previous.is_some() {
            plan.scale_previous();
        }
        let mut push = |role, key, step: Step| {
            plan.push(&Step { key, ..step }, Planned { about: sized.about, role });
        };
        for (prefix, algorithm) in &sized.aggregates {
            let network = self.request.asker.network(*prefix);
            let network = network.and_then(|network| self.request.asker.subject_at(&rule.per, &network));
            let Some(network) = network else { continue };
            for keys in sized.keys.all() {
                push(Role::Network(*prefix), keys.key_of(&network), Step { algorithm: *algorithm, ..own });
            }
        }
        if let Some(block) = &rule.block {
            // Closed by one decision and looked at by all: no node may be alone with it.
            let sharing = Sharing { consistency: own.sharing.consistency.together(), ..own.sharing };
            let step = Step { algorithm: block.algorithm, action: Action::Check, sharing, ..own };
            let gate = gate(subject);
            if let Some(previous) = &block.keys.previous {
                push(Role::PreviousGate, previous.key_of(&gate), step);
            }
            push(Role::Gate, block.keys.current.key_of(&gate), step);
            plan.observes_gates |= step.mode == Mode::Observe;
        }
    }
}

impl Plan {
    /// True if like requests can be charged as one. What is only observed is counted up to its limit and no further, which takes
    /// one at a time; and a lease would fetch enough for all of them, and lose it where another limit refuses.
    pub(super) fn may_run(&self) -> bool {
        let steps = self.batch.steps();
        let leased = |step: &Step| step.sharing.consistency == Consistency::Leased;
        steps.iter().all(|step| step.mode == Mode::Enforce) && (steps.len() == 1 || !steps.iter().any(leased))
    }

    /// The step of the limit that was added last.
    fn last_limit(&self) -> Option<Step> {
        let place = self.steps.iter().rposition(|planned| planned.role == Role::Limit)?;
        self.batch.steps().get(place).copied()
    }

    fn last_limit_mut(&mut self) -> Option<&mut Step> {
        let place = self.steps.iter().rposition(|planned| planned.role == Role::Limit)?;
        self.batch.steps_mut().get_mut(place)
    }

    #[inline]
    pub(crate) fn clear(&mut self) {
        self.batch.clear();
        self.steps.clear();
        self.scaled.clear();
        self.observes_gates = false;
    }

    /// Remembers of the step under the secret before what it would be without a bad name: the same as the limit's.
    fn scale_previous(&mut self) {
        let Some(limit) = self.steps.iter().rposition(|planned| planned.role == Role::Limit) else { return };
        if let Some((_, base)) = self.scaled.iter().find(|(place, _)| *place == limit).copied() {
            self.scaled.push((self.steps.len() - 1, base));
        }
    }

    /// Gives the limit that was added last a smaller algorithm.
    #[cold]
    fn scale_last(&mut self, scaled: Algorithm) {
        let Some(place) = self.steps.iter().rposition(|planned| planned.role == Role::Limit) else { return };
        if let Some(step) = self.batch.steps_mut().get_mut(place) {
            self.scaled.push((place, step.algorithm));
            step.algorithm = scaled;
        }
    }

    /// Policies with more limits than fit are refused when they are read, and reloads that would keep too many, so none
    /// is left out here.
    #[inline(always)]
    pub(crate) fn push(&mut self, model: &Step, planned: Planned) -> Option<&mut Step> {
        let step = self.batch.push_like(model).ok()?;
        self.steps.push(planned);
        Some(step)
    }
}

impl RouteFilter {
    pub(crate) fn matches(&self, matched: &Matches) -> bool {
        match self {
            Self::Every => true,
            Self::Of(routes) => routes.iter().any(|route| matched.contains(*route)),
            Self::Unmatched(routes) => !routes.iter().any(|route| matched.contains(*route)),
        }
    }
}

impl Rule {
    /// True if it is for `message`, or for requests if there is none.
    fn is_for(&self, message: Option<&Message<'_>>) -> bool {
        match (&self.messages, message) {
            (None, None) => true,
            (Some(MessageRule { types: None, .. }), Some(_)) => true,
            (Some(MessageRule { types: Some(types), .. }), Some(message)) => {
                message.kind.is_some_and(|kind| types.contains(&kind))
            }
            _ => false,
        }
    }

    /// What a message costs; `each` if its type has no price of its own.
    fn cost_of(&self, message: &Message<'_>, each: NonZeroU64) -> NonZeroU64 {
        let costs = self.messages.iter().flat_map(|messages| &messages.costs);
        costs.copied().find(|(kind, _)| message.kind == Some(*kind)).map_or(each, |(_, cost)| cost)
    }

    /// True if the limit has more than one step.
    fn has_more(&self, sized: &Sized) -> bool {
        self.block.is_some() || sized.keys.previous.is_some() || !sized.aggregates.is_empty()
    }

    /// What the request asks of this limit; none if there is nothing to ask.
    fn vary(&self, sized: &Sized, request: &Request<'_>) -> Option<Action> {
        let extras = &request.asking.extras;
        let cost = match (request.charge, request.asker.message(), self.cost) {
            (Some(charge), ..) => charge,
            (None, Some(message), Cost::Each(each)) => {
                let cost = message.cost.unwrap_or(self.cost_of(message, each));
                message.count.map_or(cost, |count| cost.saturating_mul(count))
            }
            (None, Some(message), Cost::Bytes) => NonZeroU64::new(message.bytes)?,
            (None, None, Cost::Each(each)) => extras.cost.map_or(each, |cost| each.saturating_mul(cost)),
            (None, None, Cost::Bytes) => {
                // No more ahead than would ever fit.
                let ahead = || UNDECLARED_BYTES.min(sized.step.algorithm.capacity());
                NonZeroU64::new(request.asking.facts.bytes.unwrap_or_else(ahead))?
            }
        };
        match sized.step.algorithm {
            Algorithm::Concurrency(_) => Some(Action::Acquire(extras.permit?, cost)),
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
