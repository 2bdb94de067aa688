//! The engine: how one decision is made over all layers of a policy.
//!
//! [`Engine::decide`] is the whole path of a request: identify → select → evaluate → decide. Lists and sanctions come
//! first. The edge's limits are this process's own and come next; those of the tenant, the user and the endpoint are
//! charged as one, all or none, by one operation of the store. A refusal may be a strike, which goes to the ledger.

mod charge;
mod decide;
mod descriptors;
mod erase;
mod escalate;
mod explain;
mod gates;
mod meet;
mod message;
mod named;
mod names;
mod now;
mod operate;
mod overrides;
mod record;
mod rehearse;
mod reset;
mod rules;
mod select;
mod standings;
mod subject;
mod uses;
mod watch;

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;
use threshold_core::{Clock, Ledger, Outcome, PermitId, Store, StoreError, SubjectId};
use threshold_store::node::{Breaker, BreakerSettings};
use threshold_store::{MemoryLedger, MemoryStore, SystemClock, UniqueIds};

use crate::event::Event;
use crate::figures::{Figures, Stage, Watcher};
use crate::identify::{Facts, Identity};
use crate::recent::Recent;
use crate::route::Path;
use crate::usage::Usage;
use decide::{Asked, Refused};
use meet::obey;
use named::Asking;
use operate::Settings;
use overrides::Overrides;
use select::Request;
use standings::Standings;
use subject::{Asker, SubjectKeys};

pub use charge::*;
pub use decide::{Decision, Permits, Quota, Reason, Refusal, RefusedBy};
pub use descriptors::{
    Descriptor, DescriptorDecision, DescriptorError, DescriptorRun, DescriptorStatus, OwnLimit,
};
pub use erase::{Forgetting, Forgotten, redacted};
pub use explain::{Considered, Explanation};
pub use message::Message;
pub use overrides::{Override, OverrideError};
pub use reset::{Client, Endpoint};
pub(crate) use rules::Keys;
pub use rules::{BuildRulesError, MessageAsks, ReloadError, Rule, Rules, Secrets};
pub use select::{Skipped, UNDECLARED_BYTES};
pub use standings::{Held, SanctionsInForce};
pub(crate) use subject::Names;
pub use subject::{Origin, Subjects};
pub use uses::Use;

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
    /// The last erasure that was, however often all changes are read.
    last_erasure: AtomicU64,
    /// True while the ledger fails.
    failing: AtomicBool,
    /// Whether decisions ask the ledger at all.
    ledger_breaker: Breaker,
    /// What tells one receipt from another.
    receipts: UniqueIds,
    listener: Option<Listener>,
    /// Who counts requests by subject.
    usage: Option<Arc<Usage>>,
    /// Who remembers what was asked.
    recent: Option<Arc<Recent>>,
    /// Who counts decisions by what they came to.
    figures: Option<Arc<Figures>>,
    /// Who watches them one by one.
    watcher: Option<Arc<dyn Watcher>>,
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
    /// How many requests it counts for; one unless told.
    pub cost: Option<NonZeroU64>,
    /// The message that is asked about, on the connection that the request opened: then the limits of messages are
    /// asked, and no others.
    pub message: Option<Message<'a>>,
}

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
            last_erasure: AtomicU64::new(0),
            failing: AtomicBool::new(false),
            ledger_breaker: Breaker::new(BreakerSettings::default()),
            receipts: UniqueIds::new(),
            listener: None,
            usage: None,
            recent: None,
            figures: None,
            watcher: None,
        }
    }

    /// The same engine, whose decisions leave a ledger alone that has failed so often: nobody waits for it each time.
    #[must_use]
    pub fn breaking(self, settings: BreakerSettings) -> Self {
        Self { ledger_breaker: Breaker::new(settings), ..self }
    }

    /// The same engine with room for `subjects` of each kind with a standing (2¹⁹ unless told): sanctions are kept first.
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
        let mut decision = Decision::default();
        self.identify_and_decide(facts, extras, &mut decision).await.map(|_| decision)
    }

    /// [`decide`](Self::decide) for who has a place for the decision, which is large, and wants to know who asked. What
    /// the decision was before does not matter.
    ///
    /// # Errors
    ///
    /// If the store could make no decision.
    pub async fn identify_and_decide<'a>(
        &self,
        facts: &Facts<'a>,
        extras: Extras<'_>,
        decision: &mut Decision,
    ) -> Result<Identity<'a>, StoreError> {
        let state = self.state.load();
        let identity = state.rules.identify(facts, self.edge.now());
        self.judge(&state, Asking { facts, identity: &identity, extras }, decision).await?;
        Ok(identity)
    }

    /// Who sent a request, by the rules in force.
    pub fn identify<'a>(&self, facts: &Facts<'a>) -> Identity<'a> {
        self.state.load().rules.identify(facts, self.edge.now())
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
        let mut decision = Decision::default();
        self.decide_for_into(facts, identity, extras, &mut decision).await.map(|()| decision)
    }

    /// [`decide_for`](Self::decide_for) for who has a place for the decision, which is large. What it was before does not
    /// matter.
    ///
    /// # Errors
    ///
    /// If the store could make no decision.
    pub async fn decide_for_into(
        &self,
        facts: &Facts<'_>,
        identity: &Identity<'_>,
        extras: Extras<'_>,
        decision: &mut Decision,
    ) -> Result<(), StoreError> {
        self.judge(&self.state.load(), Asking { facts, identity, extras }, decision).await
    }

    async fn judge(
        &self,
        state: &State,
        asking: Asking<'_>,
        decision: &mut Decision,
    ) -> Result<(), StoreError> {
        let began = self.edge.now();
        decision.begin(began, asking.identity);
        let timed = self.figures.as_deref().filter(|figures| figures.samples());
        if self.arrive(state, &asking, decision) {
            let asked = timed.map(|_| self.edge.now());
            decision.inner.outcome = self.store.apply(&decision.inner.plan.batch).await?;
            if let (Some(figures), Some(asked)) = (timed, asked) {
                figures.latencies().add(Stage::Store, self.edge.now().since(asked));
            }
            // Refusals are rare, and what they wait for is large: it is taken from the heap when it is needed.
            if decision.conclude() {
                Box::pin(self.escalate(state, &asking, decision)).await?;
                self.mind_edge(decision);
            } else if !decision.inner.plan.scaled.is_empty() {
                self.try_base(&decision.inner.plan);
            }
            if decision.inner.plan.observes_gates {
                let _ = Box::pin(self.observe_gates(decision)).await;
            }
        } else if let Some(until) = decision.sanctioned_until() {
            Box::pin(self.foresee(state, &asking, until, decision)).await?;
        } else if decision.refused_at_edge() {
            Box::pin(self.mind_inner(decision)).await?;
        }
        if let Some(figures) = timed {
            figures.latencies().add(Stage::Decide, self.edge.now().since(began));
        }
        self.record(state, &asking, decision);
        Ok(())
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
        decision.tenant_believed = Some(request.asker.tenant().is_some());
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

    /// Believes the tenant if the ledger knows it, and the policy does not list it itself.
    #[cold]
    fn believe<'a>(&self, state: &'a State, request: &mut Request<'a>) {
        request.ledger_tier = self.believe_tenant(state, request.asking, &mut request.asker);
    }

    /// Who asks.
    fn asker<'a>(&self, state: &State, asking: &Asking<'a>) -> Asker<'a> {
        let mut asker = Asker::new(&state.rules.frame, asking.identity, &asking.extras);
        self.believe_tenant(state, asking, &mut asker);
        asker
    }

    /// Gives `asker` the tenant and tier that the ledger has for it, and says the tier's name.
    fn believe_tenant<'a, 'r>(
        &self,
        state: &'a State,
        asking: &Asking<'r>,
        asker: &mut Asker<'r>,
    ) -> Option<&'a str> {
        let tier = self.ledger_tier(state, asking)?;
        asker.believe(asking.identity.tenant.as_deref()?, state.rules.frame.tier(tier));
        Some(tier)
    }

    /// The tier that the ledger has for the tenant, unless the policy lists the tenant itself.
    fn ledger_tier<'a>(&self, state: &'a State, asking: &Asking<'_>) -> Option<&'a str> {
        let tenant = asking.identity.tenant.as_deref()?;
        if state.tenants.is_empty() || state.rules.frame.tenants.contains_key(tenant) {
            return None;
        }
        let mut subjects = self.subject_keys.subjects(state.rules.frame.ipv6_prefix);
        subjects.find_map(|subjects| state.tenants.get(&subjects.tenant(tenant))).map(String::as_str)
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
        if decision.edge.plan.observes_gates {
            self.observe_edge_gates(decision);
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

    /// Charges `more` bytes to the limits that `decision` charged for bytes, of a body that turns out longer than it was
    /// charged for. False if they are refused; nothing is charged then. What [`refund_bytes`](Self::refund_bytes) gives
    /// back from now on is of these bytes alone.
    ///
    /// # Errors
    ///
    /// If the store could make no decision.
    pub async fn charge_bytes(&self, decision: &mut Decision, more: NonZeroU64) -> Result<bool, StoreError> {
        let batch = decision.inner.more_bytes(more);
        if batch.steps().is_empty() {
            return Ok(true);
        }
        let outcome = self.store.apply(&batch).await?;
        decision.at = outcome.at;
        if outcome.admitted() {
            decision.inner.charged_bytes(&batch, &outcome);
        }
        Ok(outcome.admitted())
    }

    /// What refuses a body of `bytes`, whose request `decision` allowed, and when all of it passes.
    ///
    /// # Errors
    ///
    /// If the store does not answer.
    pub async fn refuse_bytes(
        &self,
        decision: &Decision,
        bytes: NonZeroU64,
    ) -> Result<Option<Refusal>, StoreError> {
        let outcome = self.store.peek(&decision.inner.more_bytes(bytes)).await?;
        Ok(decision.inner.refused_bytes(&outcome))
    }

    /// Gives back the permits that `decision` took: the request has ended.
    ///
    /// # Errors
    ///
    /// If the store could not be told; the permits lapse by themselves then.
    pub async fn release(&self, decision: &Decision) -> Result<(), StoreError> {
        self.release_permits(&decision.permits()).await
    }

    /// Gives back permits that a decision took: the request has ended.
    ///
    /// # Errors
    ///
    /// If the store could not be told; the permits lapse by themselves then.
    pub async fn release_permits(&self, permits: &Permits) -> Result<(), StoreError> {
        if !permits.is_empty() {
            self.store.apply(&permits.0).await?;
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
