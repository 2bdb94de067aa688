//! Decisions without a future, where nothing waits for anything but a lock.

use threshold_core::Clock;
use threshold_store::MemoryStore;

use super::decide::Asked;
use super::named::Asking;
use super::{Decision, Engine, Extras, operate};
use crate::figures::Stage;
use crate::identify::{Facts, Identity};

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

    /// [`sweep`](Self::sweep) and [`sweep_counters`](Self::sweep_counters) without a future.
    pub fn sweep_now(&self, budget: usize) {
        operate::at_once(self.sweep());
        operate::at_once(self.sweep_counters(budget));
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
        let began = self.edge.now();
        decision.begin(began, identity);
        if self.arrive(&state, &asking, decision) {
            let Asked { plan, outcome } = &mut decision.inner;
            self.store.apply_into(&plan.batch, decision.at, outcome);
            if decision.conclude() {
                operate::at_once(self.escalate(&state, &asking, decision));
                self.mind_edge(decision);
            } else if !decision.inner.plan.scaled.is_empty() {
                self.try_base(&decision.inner.plan);
            }
            if decision.inner.plan.observes_gates {
                operate::at_once(self.observe_gates(decision));
            }
        } else if let Some(until) = decision.sanctioned_until() {
            operate::at_once(self.foresee(&state, &asking, until, decision));
        } else if decision.refused_at_edge() {
            operate::at_once(self.mind_inner(decision));
        }
        if let Some(figures) = self.figures.as_deref().filter(|figures| figures.samples()) {
            figures.latencies().add(Stage::Decide, self.edge.now().since(began));
        }
        self.record(&state, &asking, decision);
    }
}
