//! A ledger that fails when it is told to: before it writes, or after it has written and before it says so.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use threshold_core::ledger::{Entry, Page, Query, Retention, Written};
use threshold_core::{Health, Ledger, Span, StoreError, StoreErrorKind, Timestamp};
use threshold_store::MemoryLedger;

/// A ledger in memory with a fault in front of it. Clones share both.
#[derive(Clone, Default)]
pub struct FlakyLedger {
    ledger: MemoryLedger,
    fault: Arc<AtomicU8>,
    written_to: Arc<AtomicU64>,
}

/// What is wrong with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None = 0,
    /// It refuses everything.
    Refuses = 1,
    /// It writes, and the answer is lost; it cannot be read either.
    LosesAnswers = 2,
}

impl FlakyLedger {
    /// Sets what is wrong from now on.
    pub fn set(&self, fault: Fault) {
        self.fault.store(fault as u8, Ordering::Release);
    }

    /// How often it was asked to write.
    #[must_use]
    pub fn written_to(&self) -> u64 {
        self.written_to.load(Ordering::Relaxed)
    }

    /// What is really written down.
    #[must_use]
    pub const fn truth(&self) -> &MemoryLedger {
        &self.ledger
    }

    fn is(&self, fault: Fault) -> bool {
        self.fault.load(Ordering::Acquire) == fault as u8
    }

    fn failed(operation: &'static str) -> StoreError {
        StoreError::new(StoreErrorKind::Unavailable, operation, "told to fail")
    }
}

impl Ledger for FlakyLedger {
    async fn write(&self, entries: &[Entry]) -> Result<Vec<Written>, StoreError> {
        self.written_to.fetch_add(1, Ordering::Relaxed);
        if self.is(Fault::Refuses) {
            return Err(Self::failed("write"));
        }
        let written = self.ledger.write_now(entries)?;
        if self.is(Fault::LosesAnswers) { Err(Self::failed("write")) } else { Ok(written) }
    }

    async fn read(&self, query: &Query) -> Result<Page, StoreError> {
        if self.is(Fault::None) { Ok(self.ledger.read_now(query)) } else { Err(Self::failed("read")) }
    }

    async fn sweep(&self, now: Timestamp, retention: &Retention) -> Result<usize, StoreError> {
        if self.is(Fault::None) {
            self.ledger.sweep(now, retention).await
        } else {
            Err(Self::failed("sweep"))
        }
    }

    async fn health(&self) -> Health {
        match self.is(Fault::None) {
            true => Health::Up { latency: Span::ZERO },
            false => Health::Down { reason: "told to fail".to_owned() },
        }
    }

    async fn close(&self) -> Result<(), StoreError> {
        Ok(())
    }
}
