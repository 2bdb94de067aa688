//! The store in a SQLite file: exact, durable and for one process; what it acknowledged survives.
//!
//! | module | holds |
//! | --- | --- |
//! | `writer` | the one thread that works on the file, and how it judges many callers in one transaction |
//! | `states` | the states of such a group: read once, judged in memory, written once |
//! | `sweep` | dropping what has expired, a page at a time |
//! | `codec` | states as columns keep them |
//! | `stats` | what was counted |
//!
//! What every SQLite file of ours has in common, the ledger's too:
//!
//! | module | holds |
//! | --- | --- |
//! | `file` | opening: made, brought up to date, or refused |
//! | `desk` | one connection, and what becomes of it when the disk fails |
//! | `line` | the way from many callers to one thread |
//! | `oneshot` | one answer from the thread to a future |
//! | `error` | what SQLite says, in our words |

mod codec;
pub(crate) mod desk;
pub(crate) mod error;
pub(crate) mod file;
pub(crate) mod line;
mod oneshot;
mod states;
mod stats;
mod sweep;
mod writer;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use threshold_core::{Batch, Clock, Health, Key, Outcome, Secret, Store, StoreError, Swept};

use crate::check::Check;
use crate::clock::SystemClock;
use crate::open::SecretPair;
use desk::Desk;
use file::{Format, Place};
use line::{Line, Terms};
use stats::Counters;
use writer::{Job, Task, Writer};

pub use stats::SqliteStats;

static FORMAT: Format = Format {
    noun: "store",
    open: "open the store",
    close: "close the store",
    application: i64::from_be_bytes(*b"\0\0\0\0thrS"),
    migrations: &[include_str!("sqlite/migrations/0001.sql")],
    about: "store",
    settings: &[
        // A group touches keys all over the file, and a commit writes every page it touched: small ones are quicker.
        ("page_size", "1024"),
        // 32 MiB of pages: a page that is written often goes to the file once for many commits.
        ("wal_autocheckpoint", "32768"),
        // 64 MiB, in KiB.
        ("cache_size", "-65536"),
    ],
    exclusive: true,
};

/// What the file of a store is like, if it is there. Nothing is changed.
pub(crate) fn examine(path: &Path, secrets: Option<SecretPair<'_>>) -> Vec<Check> {
    file::examine(&FORMAT, path, secrets)
}

static TERMS: Terms = Terms { thread: "threshold-store", reach: "reach the store", queue: 8_192 };

/// A store in a SQLite file. Clones share it; when the last one is gone, so is its thread.
///
/// One process at a time has the file for itself; when that process ends, however it does, the file is free. A future
/// that is dropped before it is ready may or may not have charged. The store's time is its clock's, but never earlier
/// than what it last charged or dropped something at, even before a restart.
#[derive(Clone)]
pub struct SqliteStore {
    line: Line<Job>,
    counters: Arc<Counters>,
}

impl SqliteStore {
    /// Opens the store at `path`, and makes it if it is missing. Its keys belong to `secret`; a store that was made with
    /// the `previous` secret is taken over. This waits for the disk, as nothing else here does.
    ///
    /// # Errors
    ///
    /// If another process has it, if the file is none of ours, was made with another secret or by a newer version, or
    /// cannot be read and written; the error says what to do.
    pub fn open(path: &Path, secret: &Secret, previous: Option<&Secret>) -> Result<Self, StoreError> {
        Self::open_with(path, secret, previous, SystemClock::new())
    }

    /// [`open`](Self::open) with another clock.
    ///
    /// # Errors
    ///
    /// Those of [`open`](Self::open).
    pub fn open_with(
        path: &Path,
        secret: &Secret,
        previous: Option<&Secret>,
        clock: impl Clock + 'static,
    ) -> Result<Self, StoreError> {
        let desk = Desk::open(Place::new(&FORMAT, path, secret, previous))?;
        let counters = Arc::new(Counters::default());
        let writer = Writer::new(desk, Box::new(clock), Arc::clone(&counters))?;
        let line = Line::start(&TERMS, move |waiting| writer.work(waiting))?;
        Ok(Self { line, counters })
    }

    /// What it did since it was opened.
    #[must_use]
    pub fn stats(&self) -> SqliteStats {
        self.counters.read()
    }

    async fn ask(&self, task: Task) -> Result<Outcome, StoreError> {
        self.line.ask(|answer| Job::Task(task, answer)).await
    }
}

impl Store for SqliteStore {
    async fn apply(&self, batch: &Batch) -> Result<Outcome, StoreError> {
        self.ask(Task::Apply(Box::new(batch.clone()))).await
    }

    async fn peek(&self, batch: &Batch) -> Result<Outcome, StoreError> {
        self.ask(Task::Peek(Box::new(batch.clone()))).await
    }

    async fn refund(&self, batch: &Batch, outcome: &Outcome) -> Result<(), StoreError> {
        self.ask(Task::Refund(Box::new((batch.clone(), outcome.clone())))).await.map(drop)
    }

    async fn reset(&self, keys: &[Key]) -> Result<(), StoreError> {
        self.ask(Task::Reset(keys.to_vec())).await.map(drop)
    }

    async fn sweep(&self, budget: usize) -> Result<Swept, StoreError> {
        self.line.ask(|answer| Job::Sweep(budget, answer)).await
    }

    async fn health(&self) -> Health {
        let clock = SystemClock::new();
        let asked = clock.now();
        match self.line.ask(Job::Look).await {
            Ok(()) => Health::Up { latency: clock.now().since(asked) },
            Err(error) => Health::Down { reason: error.to_string() },
        }
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.line.close().await
    }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SqliteStore").field(&self.stats()).finish()
    }
}
