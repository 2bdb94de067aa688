//! The engine: how one decision is made over all layers of a policy.
//!
//! [`Engine::decide`] is the whole path of a request: identify → select → evaluate → decide. The edge's limits are this
//! process's own and come first; those of the tenant, the user and the endpoint are charged as one, all or none, by
//! one operation of the store.

mod decide;
mod explain;
mod names;
mod overrides;
mod rules;
mod select;
mod subject;

use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use threshold_core::{Clock, Outcome, PermitId, Store, StoreError};
use threshold_store::{MemoryStore, SystemClock};

use crate::identify::{Facts, Identity};
use crate::route::Path;
use decide::{Asked, Refused};
use overrides::Overrides;
use rules::Frame;
use select::Request;

pub use decide::{Decision, Quota, Reason, Refusal, RefusedBy};
pub use explain::{Considered, Explanation, Source};
pub use overrides::{Override, OverrideError};
pub use rules::{BuildRulesError, ReloadError, Rule, Rules, Secrets};
pub use select::{Skipped, UNDECLARED_BYTES};

/// Makes decisions by a policy, over a store.
pub struct Engine<S = MemoryStore, C = SystemClock> {
    /// Where the limits of all nodes live.
    store: S,
    /// Where the edge's live, which are this process's own.
    edge: MemoryStore<C>,
    secrets: Secrets,
    /// What decisions are made by, swapped as a whole.
    state: ArcSwap<State>,
    /// All overrides, also those that are switched off; held while the state is swapped.
    overrides: Mutex<Vec<Override>>,
}

/// What one decision is made by: it never changes while the decision is made.
struct State {
    rules: Arc<Rules>,
    overrides: Overrides,
    /// The overrides of each retiring limit.
    retiring: Vec<Overrides>,
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

impl<S: Store, C: Clock> Engine<S, C> {
    /// An engine that decides by `rules` over `store`, with the edge's limits in `edge`.
    pub fn new(rules: Rules, secrets: Secrets, store: S, edge: MemoryStore<C>) -> Self {
        let state = State { rules: Arc::new(rules), overrides: Overrides::default(), retiring: Vec::new() };
        Self { store, edge, secrets, state: ArcSwap::from_pointee(state), overrides: Mutex::default() }
    }

    /// Decides about one request: identifies who asks, selects the limits, has them judged and charged, and says
    /// what came of it.
    ///
    /// # Errors
    ///
    /// If the store could make no decision.
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
            if let Some(gates) = decision.conclude() {
                self.store.apply(&gates).await?;
            }
        }
        Ok(decision)
    }

    /// Plans all layers and has the edge judge the request. True if there is something to ask of the store.
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
        let request = Request::new(&state.rules.frame, asking, (path, &matched), decision.at);
        let (edge, inner) = (&mut decision.edge.plan, &mut decision.inner.plan);
        select::edge(state, &request, edge);
        edge.batch.steps().iter().for_each(|step| self.edge.prefetch(&step.key));
        // Before the edge judges, so that the waits for memory overlap.
        select::inner(state, &request, inner);
        inner.batch.steps().iter().for_each(|step| self.store.prefetch(&step.key));
        self.pass_edge(decision) && !decision.inner.plan.steps.is_empty()
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

    /// Puts `rules` in force, between two decisions: what was consumed stays consumed, and limits that became other
    /// limits stay in force beside them for one of their windows.
    ///
    /// # Errors
    ///
    /// If too many limits would stay in force that way. Nothing has changed then.
    pub fn reload(&self, mut rules: Rules) -> Result<(), ReloadError> {
        let overrides = self.overrides.lock().unwrap_or_else(PoisonError::into_inner);
        rules.retire(&self.state.load().rules, self.edge.now())?;
        self.swap(Arc::new(rules), &overrides);
        Ok(())
    }

    /// Sets an override, or changes the one of the same id. It acts at once.
    ///
    /// # Errors
    ///
    /// If it names no limit or does not suit it.
    pub fn set_override(&self, change: Override) -> Result<(), OverrideError> {
        let mut overrides = self.overrides.lock().unwrap_or_else(PoisonError::into_inner);
        let rules = Arc::clone(&self.state.load().rules);
        change.check(&rules, &self.secrets)?;
        overrides.retain(|other| other.id != change.id);
        overrides.push(change);
        self.swap(rules, &overrides);
        Ok(())
    }

    /// Removes an override; false if there is none of that id.
    pub fn remove_override(&self, id: &str) -> bool {
        let mut overrides = self.overrides.lock().unwrap_or_else(PoisonError::into_inner);
        let before = overrides.len();
        overrides.retain(|other| other.id != id);
        self.swap(Arc::clone(&self.state.load().rules), &overrides);
        overrides.len() < before
    }

    /// The overrides, in the order in which they were set.
    pub fn overrides(&self) -> Vec<Override> {
        self.overrides.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The rules in force.
    pub fn rules(&self) -> Arc<Rules> {
        Arc::clone(&self.state.load().rules)
    }

    /// The store.
    pub const fn store(&self) -> &S {
        &self.store
    }

    fn swap(&self, rules: Arc<Rules>, overrides: &[Override]) {
        let ready = |rule: &Rule, frame: &Frame| Overrides::new(overrides, [rule], frame, &self.secrets);
        let retiring = rules.retiring.iter().map(|retiring| ready(&retiring.rule, &retiring.frame)).collect();
        let overrides = Overrides::new(overrides, rules.limits(), &rules.frame, &self.secrets);
        self.state.store(Arc::new(State { rules, overrides, retiring }));
    }
}

impl<C: Clock> Engine<MemoryStore<C>, C> {
    /// [`decide_for`](Self::decide_for) without a future: a store in memory never waits for anything but a lock. Both
    /// stores are asked at the edge's time.
    pub fn decide_now(&self, facts: &Facts<'_>, identity: &Identity<'_>, extras: Extras<'_>) -> Decision {
        let mut decision = Decision::default();
        self.decide_into(facts, identity, extras, &mut decision);
        decision
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
        decision.begin(self.edge.now(), identity);
        if self.arrive(&self.state.load(), &Asking { facts, identity, extras }, decision) {
            let Asked { plan, outcome } = &mut decision.inner;
            self.store.apply_into(&plan.batch, decision.at, outcome);
            let at = decision.at;
            if let Some(gates) = decision.conclude() {
                self.store.apply_into(&gates, at, &mut Outcome::default());
            }
        }
    }
}
