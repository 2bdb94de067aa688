//! A store that lets requests pass while it fails, as the document behind this example asks: better some abuse than no
//! weather. Whoever guards logins or money wants the opposite.

use serde_json::json;
use threshold::{Batch, Clock, Health, Key, Outcome, Store, StoreError, Swept};

use crate::Log;

/// The store `S`, and what is done when it fails: the request passes, uncounted, and the log says so.
#[derive(Clone)]
pub struct FailOpen<S, C> {
    store: S,
    clock: C,
    log: Log,
}

impl<S, C> FailOpen<S, C> {
    /// Lets pass what `store` cannot decide, at the time of `clock`.
    pub fn new(store: S, clock: C, log: Log) -> Self {
        Self { store, clock, log }
    }
}

impl<S, C: Clock> FailOpen<S, C> {
    /// An outcome without verdicts: nothing was asked, so nothing refuses, and no header claims to know what is left.
    fn open(&self, error: &StoreError) -> Outcome {
        (self.log)(&json!({ "event": "store_failed", "error": error.to_string() }).to_string());
        Outcome { at: self.clock.now(), ..Outcome::default() }
    }
}

impl<S: Store, C: Clock> Store for FailOpen<S, C> {
    async fn apply(&self, batch: &Batch) -> Result<Outcome, StoreError> {
        Ok(self.store.apply(batch).await.unwrap_or_else(|error| self.open(&error)))
    }

    async fn peek(&self, batch: &Batch) -> Result<Outcome, StoreError> {
        Ok(self.store.peek(batch).await.unwrap_or_else(|error| self.open(&error)))
    }

    async fn refund(&self, batch: &Batch, outcome: &Outcome) -> Result<(), StoreError> {
        self.store.refund(batch, outcome).await
    }

    async fn reset(&self, keys: &[Key]) -> Result<(), StoreError> {
        self.store.reset(keys).await
    }

    async fn sweep(&self, budget: usize) -> Result<Swept, StoreError> {
        self.store.sweep(budget).await
    }

    fn prefetch(&self, key: &Key) {
        self.store.prefetch(key);
    }

    async fn health(&self) -> Health {
        self.store.health().await
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.store.close().await
    }
}
