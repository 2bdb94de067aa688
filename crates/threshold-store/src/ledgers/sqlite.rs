//! A ledger in a SQLite file: what it acknowledged is still there after the process was killed or the power failed.
//!
//! | module | holds |
//! | --- | --- |
//! | `writer` | the one thread that works on the file, and how it writes for many callers at once |
//! | `rows`, `read`, `sweep` | what is written, read and forgotten, as SQL |
//! | `codec` | values and records as columns keep them |
//!
//! What it has in common with the store in SQLite is in [`sqlite`](crate::sqlite).

mod codec;
mod read;
mod rows;
mod sweep;
mod writer;

use std::path::Path;

use threshold_core::ledger::{Entry, Ledger, Page, Query, Retention, Written};
use threshold_core::{Clock, Health, Secret, StoreError, Timestamp};

use crate::check::Check;
use crate::clock::SystemClock;
use crate::open::SecretPair;
use crate::sqlite::desk::Desk;
use crate::sqlite::file::{self, Format, Place};
use crate::sqlite::line::{Line, Terms};
use sweep::Sweep;
use writer::{Job, Write, Writer};

static FORMAT: Format = Format {
    noun: "ledger",
    open: "open the ledger",
    close: "close the ledger",
    application: i64::from_be_bytes(*b"\0\0\0\0thrL"),
    migrations: &[include_str!("sqlite/migrations/0001.sql")],
    about: "ledger",
    // What is forgotten is overwritten: of somebody who was erased, nothing is left in pages that are free.
    settings: &[("secure_delete", "ON")],
    exclusive: false,
};

/// What the file of a ledger is like, if it is there. Nothing is changed.
pub(crate) fn examine(path: &Path, secrets: Option<SecretPair<'_>>) -> Vec<Check> {
    file::examine(&FORMAT, path, secrets)
}

static TERMS: Terms = Terms { thread: "threshold-ledger", reach: "reach the ledger", queue: 4_096 };

/// A ledger in a SQLite file. Clones share it; when the last one is gone, so is its thread.
///
/// Another process may use the same file at the same time: writers wait for each other. A future that is dropped before
/// it is ready may or may not have written.
#[derive(Clone)]
pub struct SqliteLedger(Line<Job>);

impl SqliteLedger {
    /// Opens the ledger at `path`, and makes it if it is missing. Its subjects belong to `secret`; a ledger that was made
    /// with the `previous` secret is taken over. This waits for the disk, as nothing else here does.
    ///
    /// # Errors
    ///
    /// If the file is none of ours, was made with another secret or by a newer version, or cannot be read and written;
    /// the error says what to do.
    pub fn open(path: &Path, secret: &Secret, previous: Option<&Secret>) -> Result<Self, StoreError> {
        let desk = Desk::open(Place::new(&FORMAT, path, secret, previous))?;
        Line::start(&TERMS, move |waiting| Writer::work(desk, waiting)).map(Self)
    }
}

impl Ledger for SqliteLedger {
    async fn write(&self, entries: &[Entry]) -> Result<Vec<Written>, StoreError> {
        let entries = entries.to_vec();
        self.0.ask(|answer| Job::Write(Write { entries, answer })).await
    }

    async fn read(&self, query: &Query) -> Result<Page, StoreError> {
        self.0.ask(|answer| Job::Read(query.clone(), answer)).await
    }

    async fn sweep(&self, now: Timestamp, retention: &Retention) -> Result<usize, StoreError> {
        self.0.ask(|answer| Job::Sweep(Sweep::new(now, retention), answer)).await
    }

    async fn health(&self) -> Health {
        let clock = SystemClock::new();
        let asked = clock.now();
        match self.0.ask(Job::Look).await {
            Ok(()) => Health::Up { latency: clock.now().since(asked) },
            Err(error) => Health::Down { reason: error.to_string() },
        }
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.0.close().await
    }
}
