//! The border between a decision and the place where what must not be lost lives.
//!
//! What is written is data, as with a store: an [`Entry`] says what happened, and [`apply`] is the one function that
//! says what follows from it, over [`Rows`] that each ledger keeps in its own way. A ledger is a place where entries are
//! applied atomically and survive: what it acknowledged is still there after the process was killed.
//!
//! Nothing in a ledger names anybody: subjects are keyed hashes ([`SubjectId`]).

mod apply;
mod entry;
mod erase;
mod records;
mod subject;

use std::future::Future;
use std::sync::Arc;

use crate::store::{BoxFuture, Health, StoreError};
use crate::time::{Span, Timestamp};

pub use apply::{MAX_SANCTION, Rows, apply};
pub use entry::{Change, Entry, Evidence, LoginFailed, LoginSucceeded, Strike, Struck, Worse, Written};
pub use erase::{ERASING, Erased, Erasure, RecordClass};
pub use records::{
    Audit, Author, Device, Failures, Lifted, Override, Page, Query, Record, Sanction, SanctionKind, Standing,
    Tenant, ViolationRecord,
};
pub use subject::{Naming, SubjectId, SubjectIdError, SubjectKey, SubjectKind};

/// The most records of one page.
pub const PAGE: usize = 1_000;

/// A place where entries are applied atomically and survive.
///
/// `Err` means that nothing is acknowledged: it may or may not have been written.
pub trait Ledger: Send + Sync {
    /// Applies the entries in order, all or none, and answers when they will survive.
    fn write(&self, entries: &[Entry]) -> impl Future<Output = Result<Vec<Written>, StoreError>> + Send;

    /// What is written down, a page at a time.
    fn read(&self, query: &Query) -> impl Future<Output = Result<Page, StoreError>> + Send;

    /// Forgets what need not be kept any longer, and says how much that was.
    fn sweep(
        &self,
        now: Timestamp,
        retention: &Retention,
    ) -> impl Future<Output = Result<usize, StoreError>> + Send;

    /// Completes when something may have been written since the last call: a hint to read, which can come too often
    /// and, when connections break, too late. Where nobody tells of what others write it never completes.
    fn changed(&self) -> impl Future<Output = ()> + Send {
        std::future::pending()
    }

    /// Says whether the ledger answers.
    fn health(&self) -> impl Future<Output = Health> + Send;

    /// Finishes what is under way and lets go of files and connections.
    fn close(&self) -> impl Future<Output = Result<(), StoreError>> + Send;
}

/// How long each class of records is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Violations, after they happened.
    pub violations: Span,
    /// Sanctions, after they ended.
    pub sanctions: Span,
    /// Standings, after the last violation; long enough for strikes to lapse and scores to recover.
    pub standings: Span,
    /// Failed logins, after the last; at least as long as they count.
    pub failures: Span,
    /// Known devices, after they were last used.
    pub devices: Span,
    /// The operators' changes.
    pub audit: Span,
    /// Overrides and tenants, after they were removed.
    pub removed: Span,
}

impl Default for Retention {
    fn default() -> Self {
        let days = |days: u64| Span::from_micros(days * Span::DAY.as_micros());
        Self {
            violations: days(7),
            sanctions: days(30),
            standings: days(30),
            failures: days(7),
            devices: days(90),
            audit: days(365),
            removed: days(1),
        }
    }
}

/// [`Ledger`] for `dyn`: the same verbs behind boxed futures.
pub trait DynLedger: Send + Sync {
    /// [`Ledger::write`].
    fn write_boxed<'a>(&'a self, entries: &'a [Entry]) -> BoxFuture<'a, Result<Vec<Written>, StoreError>>;
    /// [`Ledger::read`].
    fn read_boxed<'a>(&'a self, query: &'a Query) -> BoxFuture<'a, Result<Page, StoreError>>;
    /// [`Ledger::sweep`].
    fn sweep_boxed<'a>(
        &'a self,
        now: Timestamp,
        retention: &'a Retention,
    ) -> BoxFuture<'a, Result<usize, StoreError>>;
    /// [`Ledger::changed`].
    fn changed_boxed(&self) -> BoxFuture<'_, ()>;
    /// [`Ledger::health`].
    fn health_boxed(&self) -> BoxFuture<'_, Health>;
    /// [`Ledger::close`].
    fn close_boxed(&self) -> BoxFuture<'_, Result<(), StoreError>>;
}

impl<L: Ledger> DynLedger for L {
    fn write_boxed<'a>(&'a self, entries: &'a [Entry]) -> BoxFuture<'a, Result<Vec<Written>, StoreError>> {
        Box::pin(Ledger::write(self, entries))
    }

    fn read_boxed<'a>(&'a self, query: &'a Query) -> BoxFuture<'a, Result<Page, StoreError>> {
        Box::pin(Ledger::read(self, query))
    }

    fn sweep_boxed<'a>(
        &'a self,
        now: Timestamp,
        retention: &'a Retention,
    ) -> BoxFuture<'a, Result<usize, StoreError>> {
        Box::pin(Ledger::sweep(self, now, retention))
    }

    fn changed_boxed(&self) -> BoxFuture<'_, ()> {
        Box::pin(Ledger::changed(self))
    }

    fn health_boxed(&self) -> BoxFuture<'_, Health> {
        Box::pin(Ledger::health(self))
    }

    fn close_boxed(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(Ledger::close(self))
    }
}

/// A ledger of any kind, chosen at run time.
pub type SharedLedger = Arc<dyn DynLedger>;

impl Ledger for SharedLedger {
    async fn write(&self, entries: &[Entry]) -> Result<Vec<Written>, StoreError> {
        (**self).write_boxed(entries).await
    }

    async fn read(&self, query: &Query) -> Result<Page, StoreError> {
        (**self).read_boxed(query).await
    }

    async fn sweep(&self, now: Timestamp, retention: &Retention) -> Result<usize, StoreError> {
        (**self).sweep_boxed(now, retention).await
    }

    async fn changed(&self) {
        (**self).changed_boxed().await;
    }

    async fn health(&self) -> Health {
        (**self).health_boxed().await
    }

    async fn close(&self) -> Result<(), StoreError> {
        (**self).close_boxed().await
    }
}
