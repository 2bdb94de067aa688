//! The engine: how one decision is made over all layers of a policy.
//!
//! [`Engine::decide`] is the whole path of a request: identify → select → evaluate → decide. Lists and sanctions come
//! first. The edge's limits are this process's own and come next; those of the tenant, the user and the endpoint are
//! charged as one, all or none, by one operation of the store. A refusal may be a strike, which goes to the ledger.

mod decide;
mod escalate;
mod explain;
mod names;
mod operate;
mod overrides;
mod rules;
mod select;
mod standings;
mod subject;

use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arc_swap::ArcSwap;
use threshold_core::ledger::SanctionKind;
use threshold_core::{
    Clock, Ledger, Outcome, PermitId, Retry, Store, StoreError, SubjectId, SubjectKey, Timestamp,
};
use threshold_store::{MemoryLedger, MemoryStore, SystemClock};

use crate::event::Event;
use crate::identify::{Facts, Identity};
use crate::route::Path;
use decide::{Asked, Refused};
use operate::Settings;
use overrides::Overrides;
use rules::{Listed, Lists};
use select::{Plan, Request, Risks};
use standings::Standings;
use subject::{Asker, SubjectKeys};

pub use decide::{Decision, Quota, Reason, Refusal, RefusedBy};
pub use explain::{Considered, Explanation, Source};
pub use overrides::{Override, OverrideError};
pub(crate) use rules::Keys;
pub use rules::{BuildRulesError, ReloadError, Rule, Rules, Secrets};
pub use select::{Skipped, UNDECLARED_BYTES};
pub use standings::Held;
pub use subject::{Origin, Subjects};

/// Makes decisions by a policy, over a store and a ledger.
pub struct Engine<S = MemoryStore, C = SystemClock, L = MemoryLedger> {
    /// Where the limits of all nodes live.
    store: S,
    /// Where the edge's live, which are this process's own.
    edge: MemoryStore<C>,
    /// Where what must not be lost lives.
    ledger: L,
    secrets: Secrets,
    subject_keys: SubjectKeys,
    /// What decisions are made by, swapped as a whole.
    state: ArcSwap<State>,
    /// What the ledger says of sanctions, strikes and reputation.
    standings: Standings,
    /// What the ledger says of overrides and tenants; held while the state is swapped.
    settings: Mutex<Settings>,
    /// The last change of the ledger that was taken over.
    version: AtomicU64,
    /// True while the ledger fails.
    failing: AtomicBool,
    listener: Option<Listener>,
}

/// Whoever is told of events.
type Listener = Box<dyn Fn(&Event) + Send + Sync>;

/// What one decision is made by: it never changes while the decision is made.
struct State {
    rules: Arc<Rules>,
    overrides: Overrides,
    /// The overrides of each retiring limit.
    retiring: Vec<Overrides>,
    /// True if some override is for one subject only.
    names_subjects: bool,
    /// The tiers of tenants that the ledger knows.
    tenants: std::collections::HashMap<SubjectId, String>,
}

/// What is asked about one request, beside its facts.
#[derive(Clone, Copy, Default)]
pub struct Extras<'a> {
    /// The account that a login names.
    pub account: Option<&'a str>,
    /// Names the permit that limits of how many at the same time give out; who cannot say when a request ends
    /// leaves it out, and those limits are passed over.
    pub permit: Option<PermitId>,
}

/// A request and who sent it.
#[derive(Clone, Copy)]
struct Asking<'a> {
    facts: &'a Facts<'a>,
    identity: &'a Identity<'a>,
    extras: Extras<'a>,
}

/// What an answer that is held back takes at least, and at most that much more.
const DELAY: Duration = Duration::from_secs(1);
const JITTER_MICROS: u64 = 2_000_000;

impl<S: Store, C: Clock> Engine<S, C> {
    /// An engine that decides by `rules` over `store`, with the edge's limits in `edge`. What follows abuse is kept in
    /// memory: see [`with_ledger`](Self::with_ledger).
    pub fn new(rules: Rules, secrets: Secrets, store: S, edge: MemoryStore<C>) -> Self {
        Engine::with_ledger((rules, secrets), store, edge, MemoryLedger::new())
    }
}

impl<S: Store, C: Clock, L: Ledger> Engine<S, C, L> {
    /// An engine that keeps what must not be lost in `ledger`. Call [`refresh`](Self::refresh) before the first
    /// decision and about every second from then on.
    pub fn with_ledger(
        (rules, secrets): (Rules, Secrets),
        store: S,
        edge: MemoryStore<C>,
        ledger: L,
    ) -> Self {
        let state = State {
            rules: Arc::new(rules),
            overrides: Overrides::default(),
            retiring: Vec::new(),
            names_subjects: false,
            tenants: Default::default(),
        };
        Self {
            store,
            edge,
            ledger,
            subject_keys: SubjectKeys::new(&secrets),
            secrets,
            state: ArcSwap::from_pointee(state),
            standings: Standings::new(standings::MOST),
            settings: Mutex::default(),
            version: AtomicU64::new(0),
            failing: AtomicBool::new(false),
            listener: None,
        }
    }

    /// The same engine, telling `listener` what happens. It is called while a decision is made, so it should not take
    /// long.
    #[must_use]
    pub fn telling(self, listener: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        Self { listener: Some(Box::new(listener)), ..self }
    }

    /// The same engine with room in memory for `subjects` that something is held against; 2¹⁹ unless told. Where more
    /// are, sanctions are kept before all else, and what is not kept is still in the ledger.
    #[must_use]
    pub fn remembering(self, subjects: usize) -> Self {
        Self { standings: Standings::new(subjects), ..self }
    }

    /// Decides about one request: identifies who asks, selects the limits, has them judged and charged, and says
    /// what came of it.
    ///
    /// # Errors
    ///
    /// If the store could make no decision. A ledger that fails keeps nothing from being decided.
    pub async fn decide(&self, facts: &Facts<'_>, extras: Extras<'_>) -> Result<Decision, StoreError> {
        let state = self.state.load();
        let identity = state.rules.identify(facts, self.edge.now());
        self.judge(&state, Asking { facts, identity: &identity, extras }).await
    }

    /// [`decide`](Self::decide) for somebody who was identified before.
    ///
    /// # Errors
    ///
    /// If the store could make no decision.
    pub async fn decide_for(
        &self,
        facts: &Facts<'_>,
        identity: &Identity<'_>,
        extras: Extras<'_>,
    ) -> Result<Decision, StoreError> {
        self.judge(&self.state.load(), Asking { facts, identity, extras }).await
    }

    async fn judge(&self, state: &State, asking: Asking<'_>) -> Result<Decision, StoreError> {
        let mut decision = Decision::default();
        decision.begin(self.edge.now(), asking.identity);
        if self.arrive(state, &asking, &mut decision) {
            decision.inner.outcome = self.store.apply(&decision.inner.plan.batch).await?;
            if decision.conclude() {
                self.escalate(state, &asking, &mut decision).await?;
            } else if !decision.inner.plan.scaled.is_empty() {
                self.try_base(&decision.inner.plan);
            }
        } else if let Some(until) = decision.sanctioned_until() {
            self.foresee(state, &asking, until, &mut decision).await?;
        }
        Ok(decision)
    }

    /// Plans all layers and has lists, sanctions and the edge judge the request. True if there is something to ask of the
    /// store.
    #[inline]
    fn arrive(&self, state: &State, asking: &Asking<'_>, decision: &mut Decision) -> bool {
        // Not moved out of its result: a path may be large.
        let path = Path::read(asking.facts.path);
        let path = match &path {
            Ok(path) => path,
            Err(error) => {
                decision.refused = Some(Refused::Path(*error));
                return false;
            }
        };
        let matched = state.rules.frame.routes.matches(asking.facts.method, asking.facts.host, path);
        let ids;
        let mut request = Request::new(&state.rules.frame, asking, (path, &matched), decision.at);
        if !state.tenants.is_empty() {
            self.believe(state, &mut request);
        }
        if let Some(lists) = &state.rules.lists
            && !obey(lists, &request, decision)
        {
            return false;
        }
        if state.names_subjects {
            ids = request.asker.ids(&self.subject_keys);
            request.ids = &ids;
        }
        self.plan(state, &request, decision);
        // After the limits are planned, so that the waits for memory overlap.
        if self.may_be_held(&request.asker) && !self.reconsider(state, &mut request, decision) {
            return false;
        }
        self.pass_edge(decision) && !decision.inner.plan.steps.is_empty()
    }

    /// Plans all layers, and has the stores get at what they will need.
    #[inline]
    fn plan(&self, state: &State, request: &Request<'_>, decision: &mut Decision) {
        let (edge, inner) = (&mut decision.edge.plan, &mut decision.inner.plan);
        select::edge(state, request, edge);
        edge.batch.steps().iter().for_each(|step| self.edge.prefetch(&step.key));
        // Before the edge judges, so that the waits for memory overlap.
        select::inner(state, request, inner);
        inner.batch.steps().iter().for_each(|step| self.store.prefetch(&step.key));
    }

    /// Plans anew for somebody that something is held against; false if it is refused for that.
    #[cold]
    fn reconsider(&self, state: &State, request: &mut Request<'_>, decision: &mut Decision) -> bool {
        let risks = self.weigh(state, &request.asker, decision);
        if risks != Some(Risks::LOW) {
            decision.edge.plan.clear();
            decision.inner.plan.clear();
        }
        let Some(risks) = risks else { return false };
        if risks != Risks::LOW {
            request.risks = risks;
            self.plan(state, request, decision);
        }
        true
    }

    /// Believes the tenant if the ledger knows it, and the policy does not list it itself.
    #[cold]
    fn believe<'a>(&self, state: &'a State, request: &mut Request<'a>) {
        request.ledger_tier = self.ledger_tier(state, request.asking);
        if let (Some(tier), Some(tenant)) = (request.ledger_tier, request.asking.identity.tenant.as_deref()) {
            request.asker.believe(tenant, state.rules.frame.tier(tier));
        }
    }

    /// Who asks.
    fn asker<'a>(&self, state: &State, asking: &Asking<'a>) -> Asker<'a> {
        let mut asker = Asker::new(&state.rules.frame, asking.identity, asking.extras.account);
        if let (Some(tier), Some(tenant)) =
            (self.ledger_tier(state, asking), asking.identity.tenant.as_deref())
        {
            asker.believe(tenant, state.rules.frame.tier(tier));
        }
        asker
    }

    /// The tier that the ledger has for the tenant, unless the policy lists the tenant itself.
    fn ledger_tier<'a>(&self, state: &'a State, asking: &Asking<'_>) -> Option<&'a str> {
        let tenant = asking.identity.tenant.as_deref()?;
        if state.rules.frame.tenants.contains_key(tenant) {
            return None;
        }
        let mut subjects = self.subject_keys.subjects(state.rules.frame.ipv6_prefix);
        subjects.find_map(|subjects| state.tenants.get(&subjects.tenant(tenant))).map(String::as_str)
    }

    /// Applies lists and sanctions: how much who asks is trusted; none if there is nothing more to ask.
    fn meet(&self, state: &State, request: &Request<'_>, decision: &mut Decision) -> Option<Risks> {
        match &state.rules.lists {
            Some(lists) if !obey(lists, request, decision) => None,
            _ => self.weigh(state, &request.asker, decision),
        }
    }

    /// False if nothing is held against who asks: the common case, answered without a lock.
    #[inline]
    fn may_be_held(&self, asker: &Asker<'_>) -> bool {
        if self.standings.is_empty() {
            return false;
        }
        let may_hold = |key: &SubjectKey| {
            let user = asker.naming_user(key);
            // Both are asked, not one after the other: neither waits for the other's memory.
            self.standings.may_hold(asker.naming_address(key).low())
                | user.is_some_and(|user| self.standings.may_hold(user.low()))
        };
        may_hold(self.subject_keys.current()) || self.subject_keys.previous().is_some_and(may_hold)
    }

    /// What follows from what is held against the user and the address.
    #[cold]
    fn weigh(&self, state: &State, asker: &Asker<'_>, decision: &mut Decision) -> Option<Risks> {
        let now = decision.at;
        let (mut user, mut address) = (None, None);
        for key in self.subject_keys.all() {
            address = together(address, self.standings.find(&asker.address_id(key)));
            user = together(user, asker.user_id(key).and_then(|id| self.standings.find(&id)));
        }
        if user.is_none() && address.is_none() {
            return Some(Risks::LOW);
        }
        let (of_user, of_address) = (user.unwrap_or_default(), address.unwrap_or_default());
        let all = of_user.and(&of_address);
        let [cooldown, shadow, ban] = SanctionKind::ALL.map(|kind| all.until(kind));
        if now < ban || now < cooldown {
            decision.refused =
                Some(if now < ban { Refused::Banned(ban) } else { Refused::Cooldown(cooldown) });
            decision.floor = Retry::After(ban.max(cooldown).since(now));
            return None;
        }
        if now < shadow {
            let subject = asker.address_id(self.subject_keys.current());
            decision.delay = self.delay(&subject, now.as_micros());
        }
        let reputation = state.rules.response.reputation.as_ref();
        let risk = |held: &Held| {
            reputation.map_or(threshold_core::standing::Risk::Low, |reputation| {
                reputation.risk(held.score.points(reputation, now))
            })
        };
        let proven = asker.user().map(|(_, proven)| proven);
        Some(Risks {
            user: proven.filter(|proven| *proven).map(|_| risk(&of_user)),
            address: risk(&of_address),
            claimed: proven == Some(false),
        })
    }

    /// When a request that a sanction refused passes, as far as limits have a say in it: whoever waits as long as told must
    /// not be refused again.
    #[cold]
    async fn foresee(
        &self,
        state: &State,
        asking: &Asking<'_>,
        until: Timestamp,
        decision: &mut Decision,
    ) -> Result<(), StoreError> {
        // No limit makes anybody wait for longer than that.
        if until.since(decision.at) >= state.rules.longest {
            return Ok(());
        }
        if let Some((edge, inner)) = self.plan_anyway(state, asking, decision.at) {
            let inner = self.store.peek(&inner.batch).await?.retry;
            let wait = inner.max(self.edge.peek_now(&edge.batch).retry);
            // A cost that never fits is none of the sanction's business.
            decision.floor = if wait == Retry::Never { decision.floor } else { decision.floor.max(wait) };
        }
        Ok(())
    }

    /// The plans of the edge and the other layers for who is sanctioned.
    fn plan_anyway(&self, state: &State, asking: &Asking<'_>, now: Timestamp) -> Option<(Plan, Plan)> {
        let path = Path::read(asking.facts.path).ok()?;
        let matched = state.rules.frame.routes.matches(asking.facts.method, asking.facts.host, &path);
        let mut request = Request::new(&state.rules.frame, asking, (&path, &matched), now);
        self.believe(state, &mut request);
        let ids = request.asker.ids(&self.subject_keys);
        request.ids = &ids;
        let mut plans = (Plan::default(), Plan::default());
        select::edge(state, &request, &mut plans.0);
        select::inner(state, &request, &mut plans.1);
        Some(plans)
    }

    /// A delay that nobody can foretell, of one to three seconds.
    fn delay(&self, subject: &SubjectId, salt: u64) -> Duration {
        let jitter = self.subject_keys.draw(subject, salt) % (JITTER_MICROS + 1);
        DELAY + Duration::from_micros(jitter)
    }

    /// Whether the edge lets the request pass.
    #[inline]
    fn pass_edge(&self, decision: &mut Decision) -> bool {
        let Asked { plan, outcome } = &mut decision.edge;
        if plan.steps.is_empty() {
            return true;
        }
        self.edge.apply_into(&plan.batch, decision.at, outcome);
        let at = decision.at;
        if let Some(gates) = decision.conclude_edge() {
            self.edge.apply_into(&gates, at, &mut Outcome::default());
        }
        decision.allowed()
    }

    /// Gives back what `decision` charged for more bytes than were `seen`.
    ///
    /// # Errors
    ///
    /// If the store could not be told.
    pub async fn refund_bytes(&self, decision: &mut Decision, seen: u64) -> Result<(), StoreError> {
        match decision.inner.unused_bytes(seen) {
            Some((batch, outcome)) => self.store.refund(&batch, &outcome).await,
            None => Ok(()),
        }
    }

    /// Gives back the permits that `decision` took: the request has ended.
    ///
    /// # Errors
    ///
    /// If the store could not be told; the permits lapse by themselves then.
    pub async fn release(&self, decision: &Decision) -> Result<(), StoreError> {
        let batch = decision.inner.permits();
        if !batch.steps().is_empty() {
            self.store.apply(&batch).await?;
        }
        Ok(())
    }

    /// The rules in force.
    pub fn rules(&self) -> Arc<Rules> {
        Arc::clone(&self.state.load().rules)
    }

    /// The store.
    pub const fn store(&self) -> &S {
        &self.store
    }

    /// The ledger.
    pub const fn ledger(&self) -> &L {
        &self.ledger
    }
}

/// Does what the lists say; false if there is nothing more to ask.
#[cold]
fn obey(lists: &Lists, request: &Request<'_>, decision: &mut Decision) -> bool {
    let listed = lists.judge(&request.asker, request.asking.identity.tenant.as_deref());
    if listed == Listed::Denied {
        decision.refused = Some(Refused::Listed);
    }
    listed == Listed::No
}

/// What is held against one that is known by two ids.
#[inline]
fn together(one: Option<Held>, other: Option<Held>) -> Option<Held> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.and(&other)),
        (one, other) => one.or(other),
    }
}

impl<C: Clock> Engine<MemoryStore<C>, C> {
    /// [`decide_for`](Self::decide_for) without a future: a store and a ledger in memory never wait for anything but a
    /// lock. Both stores are asked at the edge's time.
    pub fn decide_now(&self, facts: &Facts<'_>, identity: &Identity<'_>, extras: Extras<'_>) -> Decision {
        let mut decision = Decision::default();
        self.decide_into(facts, identity, extras, &mut decision);
        decision
    }

    /// [`refresh`](Self::refresh) without a future.
    pub fn refresh_now(&self) {
        operate::at_once(self.refresh());
    }

    /// [`decide_now`](Self::decide_now) for who has a place for the decision, which is large. What it was before does
    /// not matter.
    pub fn decide_into(
        &self,
        facts: &Facts<'_>,
        identity: &Identity<'_>,
        extras: Extras<'_>,
        decision: &mut Decision,
    ) {
        let (state, asking) = (self.state.load(), Asking { facts, identity, extras });
        decision.begin(self.edge.now(), identity);
        if self.arrive(&state, &asking, decision) {
            let Asked { plan, outcome } = &mut decision.inner;
            self.store.apply_into(&plan.batch, decision.at, outcome);
            if decision.conclude() {
                operate::at_once(self.escalate(&state, &asking, decision));
            } else if !decision.inner.plan.scaled.is_empty() {
                self.try_base(&decision.inner.plan);
            }
        } else if let Some(until) = decision.sanctioned_until() {
            operate::at_once(self.foresee(&state, &asking, until, decision));
        }
    }
}
