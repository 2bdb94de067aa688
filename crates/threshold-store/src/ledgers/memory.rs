//! A ledger in memory: the same answers as the others give, and nothing left after the process.

mod rows;

use std::future::{Future, ready};
use std::sync::{Arc, Mutex, PoisonError};

use threshold_core::ledger::{Entry, Ledger, Page, Query, Retention, Written, apply};
use threshold_core::{Health, Span, StoreError, Timestamp};

use rows::Tables;

/// A ledger in memory. Clones share it.
#[derive(Clone, Default)]
pub struct MemoryLedger(Arc<Mutex<Tables>>);

impl MemoryLedger {
    /// An empty ledger.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// [`Ledger::write`] without a future.
    ///
    /// # Errors
    ///
    /// If an entry makes no sense. Nothing is written then.
    pub fn write_now(&self, entries: &[Entry]) -> Result<Vec<Written>, StoreError> {
        let mut tables = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Entries that make no sense are rare, and a copy of everything is how to take back the ones before.
        let before = (entries.len() > 1).then(|| tables.clone());
        let written = entries.iter().map(|entry| apply(&mut *tables, entry)).collect();
        if let (Err(_), Some(before)) = (&written, before) {
            *tables = before;
        }
        written
    }

    /// [`Ledger::read`] without a future.
    #[must_use]
    pub fn read_now(&self, query: &Query) -> Page {
        Page::of(self.0.lock().unwrap_or_else(PoisonError::into_inner).read(query), query)
    }
}

impl Ledger for MemoryLedger {
    fn write(&self, entries: &[Entry]) -> impl Future<Output = Result<Vec<Written>, StoreError>> + Send {
        ready(self.write_now(entries))
    }

    fn read(&self, query: &Query) -> impl Future<Output = Result<Page, StoreError>> + Send {
        ready(Ok(self.read_now(query)))
    }

    fn sweep(
        &self,
        now: Timestamp,
        retention: &Retention,
    ) -> impl Future<Output = Result<usize, StoreError>> + Send {
        ready(Ok(self.0.lock().unwrap_or_else(PoisonError::into_inner).sweep(now, retention)))
    }

    fn health(&self) -> impl Future<Output = Health> + Send {
        ready(Health::Up { latency: Span::ZERO })
    }

    fn close(&self) -> impl Future<Output = Result<(), StoreError>> + Send {
        ready(Ok(()))
    }
}
