//! Gates: what keeps a subject out for a while after it was over (ADR 17). One that is only observed keeps nobody out, and
//! counts whom it would have.

use std::num::NonZeroU64;
use std::ops::Range;

use smallvec::SmallVec;
use threshold_core::{Action, Batch, Clock, Ledger, Mode, Outcome, Retry, Step, Store, StoreError};

use super::Engine;
use super::decide::{Asked, Decision};
use super::select::Role;

/// What has to be done so that gates which are only observed count as those in force do.
struct Observed {
    /// Gates to be closed.
    close: Batch,
    /// What would not have been charged, and how it was.
    uncharge: Batch,
    charged: Outcome,
}

impl<S: Store, C: Clock, L: Ledger> Engine<S, C, L> {
    /// Closes the gates in force of limits that refused.
    pub(super) async fn close_gates(&self, decision: &mut Decision) -> Result<(), StoreError> {
        match decision.inner.close() {
            Some(gates) => self.store.apply(&gates).await.map(|_| ()),
            None => Ok(()),
        }
    }

    /// Does for gates that are only observed what follows from a decision. Whatever comes of it, the decision stands: a dry
    /// run harms nobody.
    #[cold]
    pub(super) async fn observe_gates(&self, decision: &mut Decision) -> Result<(), StoreError> {
        let Observed { close, uncharge, charged } = decision.inner.observed_gates();
        if !close.steps().is_empty() {
            self.store.apply(&close).await?;
        }
        if !uncharge.steps().is_empty() {
            self.store.refund(&uncharge, &charged).await?;
        }
        Ok(())
    }

    /// The same for those at the edge.
    #[cold]
    pub(super) fn observe_edge_gates(&self, decision: &mut Decision) {
        let Observed { close, uncharge, charged } = decision.edge.observed_gates();
        if !close.steps().is_empty() {
            self.edge.apply_into(&close, decision.at, &mut Outcome::default());
        }
        if !uncharge.steps().is_empty() {
            self.edge.refund_now(&uncharge, &charged);
        }
    }
}

impl Asked {
    /// The gates of the limits that refuse, to be closed; the request passes only when they are open again. One that is
    /// closed already stays as it is.
    #[cold]
    pub(crate) fn close(&mut self) -> Option<Batch> {
        let batch = self.over(Mode::Enforce);
        let longest = batch.steps().iter().map(|gate| Retry::After(gate.algorithm.period())).max()?;
        self.outcome.retry = self.outcome.retry.max(longest);
        Some(batch)
    }

    /// What closes the open gates of `mode` whose limits are over.
    fn over(&self, mode: Mode) -> Batch {
        let mut batch = Batch::default();
        let mut over = false;
        for part in self.parts() {
            match part.planned.role {
                // The steps of a limit stand together, the limit itself first and its gate last.
                Role::Limit => over = part.is_over(),
                Role::Previous => over |= part.is_over(),
                Role::Gate if over && part.step.mode == mode && part.verdict.admitted() => {
                    // Observed, so that one gate never takes back another. It fits: there are fewer gates than steps.
                    let _ = batch
                        .push(Step { action: Action::Consume(NonZeroU64::MIN), ..*part.step }.observed());
                }
                Role::Gate | Role::Network(_) | Role::PreviousGate | Role::Base | Role::Graced => {}
            }
        }
        batch
    }

    /// What follows for gates that are only observed. A limit whose gate is closed says from now on that it would refuse:
    /// in force it would have, and it would have charged nothing.
    fn observed_gates(&mut self) -> Observed {
        let charged = Outcome { verdicts: SmallVec::new(), ..self.outcome.clone() };
        // Before any limit says more than it was over by itself.
        let close = self.over(Mode::Observe);
        let mut observed = Observed { close, uncharge: Batch::default(), charged };
        for (steps, wait) in self.shut_out() {
            for place in steps {
                self.uncharge(place, wait, &mut observed);
            }
        }
        observed
    }

    /// The steps of limits whose observed gates are closed, and for how long those are.
    fn shut_out(&self) -> Vec<(Range<usize>, Retry)> {
        let (mut first, mut wait, mut found) = (0, Retry::Now, Vec::new());
        for (place, part) in self.parts().enumerate() {
            let observed = part.step.mode == Mode::Observe;
            match part.planned.role {
                Role::Limit => (first, wait) = (place, Retry::Now),
                Role::PreviousGate if observed => wait = part.verdict.retry,
                Role::Gate if observed => {
                    wait = wait.max(part.verdict.retry);
                    found.extend((wait > Retry::Now).then_some((first..place, wait)));
                }
                _ => {}
            }
        }
        found
    }

    /// Has the step at `place` say that it would be admitted after `wait`, and notes what has to be given back for that.
    fn uncharge(&mut self, place: usize, wait: Retry, observed: &mut Observed) {
        let (step, verdict) = (self.plan.batch.steps()[place], &mut self.outcome.verdicts[place]);
        let charges = matches!(step.action, Action::Consume(_)) && verdict.admitted();
        if charges && self.outcome.charged && observed.uncharge.push(step).is_ok() {
            observed.charged.verdicts.push(*verdict);
        }
        verdict.retry = verdict.retry.max(wait);
    }
}
