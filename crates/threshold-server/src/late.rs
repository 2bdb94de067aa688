//! A second store that is not there yet when the server starts: it is opened when it is asked, and until then it fails, which
//! a node does not mind.

use std::time::Duration;

use threshold::engine::Secrets;
use threshold::{
    Batch, Health, Key, Outcome, SharedStore, Span, Store, StoreError, StoreErrorKind, Swept, Timestamp,
    is_partitioned, open_store,
};
use tokio::sync::OnceCell;

/// How long a decision waits for it to be opened.
const PATIENCE: Duration = Duration::from_millis(250);

/// A store that is opened late.
pub(crate) struct LateStore {
    url: String,
    secrets: Secrets,
    store: OnceCell<SharedStore>,
}

impl LateStore {
    pub(crate) fn new(url: &str, secrets: &Secrets) -> Self {
        Self { url: url.to_owned(), secrets: secrets.clone(), store: OnceCell::new() }
    }

    async fn store(&self) -> Result<&SharedStore, StoreError> {
        if let Some(store) = self.store.get() {
            return Ok(store);
        }
        let secrets = (&self.secrets.current, self.secrets.previous.as_ref());
        let opening = self.store.get_or_try_init(|| open_store(&self.url, secrets));
        let late =
            |_| StoreError::new(StoreErrorKind::Timeout, "open the second store", "it does not answer yet");
        tokio::time::timeout(PATIENCE, opening).await.map_err(late)?
    }
}

impl Store for LateStore {
    async fn apply(&self, batch: &Batch) -> Result<Outcome, StoreError> {
        self.store().await?.apply(batch).await
    }

    async fn peek(&self, batch: &Batch) -> Result<Outcome, StoreError> {
        self.store().await?.peek(batch).await
    }

    async fn refund(&self, batch: &Batch, outcome: &Outcome) -> Result<(), StoreError> {
        self.store().await?.refund(batch, outcome).await
    }

    async fn reset(&self, keys: &[Key]) -> Result<(), StoreError> {
        self.store().await?.reset(keys).await
    }

    async fn sweep(&self, budget: usize) -> Result<Swept, StoreError> {
        self.store().await?.sweep(budget).await
    }

    fn is_partitioned(&self) -> bool {
        is_partitioned(&self.url)
    }

    fn lost_at(&self) -> Option<Timestamp> {
        self.store.get()?.lost_at()
    }

    fn lost_ago(&self) -> Span {
        self.store.get().map_or(Span::ZERO, Store::lost_ago)
    }

    fn patience(&self) -> Option<Span> {
        self.store.get()?.patience()
    }

    async fn health(&self) -> Health {
        match self.store().await {
            Ok(store) => store.health().await,
            Err(error) => Health::Down { reason: error.to_string() },
        }
    }

    async fn close(&self) -> Result<(), StoreError> {
        match self.store.get() {
            Some(store) => store.close().await,
            None => Ok(()),
        }
    }
}
