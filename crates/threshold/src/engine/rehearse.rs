//! Rehearse: another engine that is like this one, for trying things out.

use std::sync::{Arc, PoisonError};

use threshold_core::{Clock, Ledger, Store};
use threshold_store::{MemoryLedger, MemoryStore};

use super::{BuildRulesError, Engine, Rules};
use crate::policy::Policy;

impl<S: Store, C: Clock, L: Ledger> Engine<S, C, L> {
    /// Makes `policy` ready for [`rehearsal`](Self::rehearsal), under the secrets of this engine.
    ///
    /// # Errors
    ///
    /// As [`Rules::new`].
    pub fn prepare(
        &self,
        policy: &Policy,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Rules, BuildRulesError> {
        Rules::new(policy, &self.secrets, environment)
    }

    /// An engine of its own that decides by `rules` over `store`, with the overrides and tenants of this one. Nothing counts
    /// there yet, nothing is held against anybody, and nothing that it does is felt here.
    pub fn rehearsal<T: Store, D: Clock>(
        &self,
        rules: Rules,
        store: T,
        edge: MemoryStore<D>,
    ) -> Engine<T, D, MemoryLedger> {
        let settings = self.settings.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let engine = Engine::new(rules, self.secrets.clone(), store, edge);
        engine.swap(Arc::clone(&engine.state.load().rules), &settings);
        *engine.settings.lock().unwrap_or_else(PoisonError::into_inner) = settings;
        engine
    }
}
