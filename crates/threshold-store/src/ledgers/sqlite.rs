//! A ledger in a SQLite file: what it acknowledged is still there after the process was killed or the power failed.
//!
//! | module | holds |
//! | --- | --- |
//! | `writer` | the one thread that works on the file, and how it writes for many callers at once |
//! | `file` | opening: made, brought up to date, or refused |
//! | `rows`, `read`, `sweep` | what is written, read and forgotten, as SQL |
//! | `codec` | values and records as columns keep them |
//! | `oneshot` | one answer from the thread to a future |

mod codec;
mod error;
mod file;
mod oneshot;
mod read;
mod rows;
mod sweep;
mod writer;

use std::path::Path;
use std::sync::mpsc::TrySendError;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use threshold_core::ledger::{Entry, Ledger, Page, Query, Retention, Written};
use threshold_core::{Clock, Health, Secret, StoreError, StoreErrorKind, Timestamp};

use crate::clock::SystemClock;
use file::Place;
use oneshot::oneshot;
use sweep::Sweep;
use writer::{Answer, Job, QUEUE, Write, Writer};

/// A ledger in a SQLite file. Clones share it; when the last one is gone, so is its thread.
///
/// Another process may use the same file at the same time: writers wait for each other. A future that is dropped before
/// it is ready may or may not have written.
#[derive(Clone)]
pub struct SqliteLedger(Arc<Mutex<Option<Writer>>>);

impl SqliteLedger {
    /// Opens the ledger at `path`, and makes it if it is missing. Its subjects belong to `secret`; a ledger that was made
    /// with the `previous` secret is taken over. This waits for the disk, as nothing else here does.
    ///
    /// # Errors
    ///
    /// If the file is none of ours, was made with another secret or by a newer version, or cannot be read and written;
    /// the error says what to do.
    pub fn open(path: &Path, secret: &Secret, previous: Option<&Secret>) -> Result<Self, StoreError> {
        let writer = Writer::start(Place::new(path, secret, previous))?;
        Ok(Self(Arc::new(Mutex::new(Some(writer)))))
    }

    /// Hands a job to the writer and waits for its answer.
    async fn ask<T>(&self, job: impl FnOnce(Answer<T>) -> Job) -> Result<T, StoreError> {
        let (answer, answered) = oneshot();
        self.hand_over(job(answer))?;
        answered.await.unwrap_or_else(|| Err(unavailable("its thread has ended; open it again")))
    }

    /// Never waits: an executor's thread may be the one that calls.
    fn hand_over(&self, job: Job) -> Result<(), StoreError> {
        let writer = self.lock();
        let Some(writer) = &*writer else { return Err(unavailable("it is closed")) };
        writer.jobs.try_send(job).map_err(|refused| match refused {
            TrySendError::Full(_) => {
                unavailable(&format!("{QUEUE} callers wait for its disk already; try again later"))
            }
            TrySendError::Disconnected(_) => unavailable("its thread has ended; open it again"),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Option<Writer>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ledger for SqliteLedger {
    async fn write(&self, entries: &[Entry]) -> Result<Vec<Written>, StoreError> {
        let entries = entries.to_vec();
        self.ask(|answer| Job::Write(Write { entries, answer })).await
    }

    async fn read(&self, query: &Query) -> Result<Page, StoreError> {
        self.ask(|answer| Job::Read(query.clone(), answer)).await
    }

    async fn sweep(&self, now: Timestamp, retention: &Retention) -> Result<usize, StoreError> {
        self.ask(|answer| Job::Sweep(Sweep::new(now, retention), answer)).await
    }

    async fn health(&self) -> Health {
        let clock = SystemClock::new();
        let asked = clock.now();
        match self.ask(Job::Look).await {
            Ok(()) => Health::Up { latency: clock.now().since(asked) },
            Err(error) => Health::Down { reason: error.to_string() },
        }
    }

    async fn close(&self) -> Result<(), StoreError> {
        let Some(writer) = self.lock().take() else { return Ok(()) };
        drop(writer.jobs);
        writer.ended.await.unwrap_or_else(|| Err(unavailable("its thread had ended before")))
    }
}

fn unavailable(detail: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, "reach the ledger", detail)
}
