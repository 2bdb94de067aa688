//! Messages: what is sent on a connection that a request opened, one by one or many of a kind at once.

use std::num::NonZeroU64;

use threshold_core::{Clock, Ledger, Store, StoreError};

use super::rules::MessageAsks;
use super::{Asking, Decision, Engine, Extras};
use crate::identify::{Facts, Identity};

/// A message on a connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct Message<'a> {
    /// Its type. All that the policy does not know are one.
    pub kind: Option<&'a str>,
    /// The room that it is for.
    pub room: Option<&'a str>,
    /// The connection, by a number that no other has.
    pub connection: u128,
    /// Its size.
    pub bytes: u64,
    /// What it costs; as the limits say unless told.
    pub cost: Option<NonZeroU64>,
    /// How many of its kind there are, of `bytes` together; one unless told.
    pub count: Option<NonZeroU64>,
}

impl<S: Store, C: Clock, L: Ledger> Engine<S, C, L> {
    /// What the limits in force ask of messages beside their type.
    pub fn message_asks(&self) -> MessageAsks {
        self.state.load().rules.message_asks()
    }

    /// Charges a run of like messages as one, if all of them pass and there is nothing else to be said or done about them.
    /// False if they have to be asked about one by one; nothing is charged then.
    ///
    /// # Errors
    ///
    /// If the store could make no decision.
    pub async fn pass_run(
        &self,
        facts: &Facts<'_>,
        identity: &Identity<'_>,
        extras: Extras<'_>,
        decision: &mut Decision,
    ) -> Result<bool, StoreError> {
        let (state, asking) = (self.state.load(), Asking { facts, identity, extras });
        decision.begin(self.edge.now(), identity);
        if !self.arrive(&state, &asking, decision) {
            let passed = decision.allowed() && decision.delay().is_zero();
            if passed {
                self.count_run((&state, &asking), decision);
            }
            return Ok(passed);
        }
        let plan = &decision.inner.plan;
        if !plan.may_run() || !plan.scaled.is_empty() || !decision.delay().is_zero() {
            return Ok(false);
        }
        decision.inner.outcome = self.store.apply(&plan.batch).await?;
        let passed = decision.inner.outcome.admitted();
        if passed {
            decision.at = decision.inner.outcome.at;
            self.count_run((&state, &asking), decision);
        }
        Ok(passed)
    }
}
