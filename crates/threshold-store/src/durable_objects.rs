//! The store in Durable Objects: a Worker whose objects judge and charge, each by its own time.
//!
//! | module | holds |
//! | --- | --- |
//! | `url` | what a URL says |
//! | `line` | the connections to the Worker; made again when they are lost |
//! | `desk` | where batches gather and go to their shards together |
//! | `wire` | batches as the Worker reads them, and its answers |
//! | `opening` | what is looked at before the first batch |
//!
//! Keys are spread over objects by their [partition](threshold_core::Partition); the Worker is in
//! `workers/durable-object`. It says only whether a batch was charged and what was found; the outcome is worked out from
//! that by core's own transition ([`threshold_core::mirror`]). An object answers when what it wrote is durable, so nothing
//! that was acknowledged is lost. A batch that was sent is never sent again unless it certainly did not arrive: one that
//! timed out counts as charged.

mod desk;
mod error;
mod line;
mod opening;
mod url;
mod wire;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use threshold_core::{
    Batch, Clock, Health, Key, ManualClock, Outcome, Secret, Span, Store, StoreError, StoreErrorKind, Swept,
};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::across::{self, Charged, Op, Parted};
use crate::check::Check;
use crate::clock::{SystemClock, span};
use crate::open::SecretPair;
use desk::{Counts, DECIDE, Desk, Job, Judged, QUEUE, REFUND, Refunded, Wish};
use error::Trouble;
use line::Line;
use url::Place;

/// What the Worker at `url` is like, whether or not it can be used.
pub(crate) async fn examine(url: &str, secrets: Option<SecretPair<'_>>) -> Vec<Check> {
    let line = match Place::read(url) {
        Ok(place) => Line::open(place).await,
        Err(error) => Err(error),
    };
    match line {
        Ok(line) => opening::checks(&line, secrets).await,
        Err(error) => vec![Check::bad("connection", error.to_string())],
    }
}

/// A store in Durable Objects.
///
/// Its keys need a secret that is [partitioning](Secret::partitioning), or all of them are in one object.
///
/// Dropping a future of [`Store::apply`] takes nothing back.
pub struct DurableObjectsStore {
    desk: Desk,
    /// None once it is closed.
    jobs: Mutex<Option<mpsc::Sender<Job>>>,
    worker: Mutex<Option<JoinHandle<()>>>,
    timeout: Duration,
}

/// What a store has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DurableObjectsStats {
    /// Batches that were judged.
    pub batches: u64,
    /// Requests that carried them, each one round trip.
    pub calls: u64,
}

impl DurableObjectsStore {
    /// Connects to the Worker that `url` names, sees that it is fit, and keeps the fingerprint of `secret` there. A store
    /// that was made with the `previous` secret is taken over. Needs tokio.
    ///
    /// # Errors
    ///
    /// If the URL makes no sense, if nothing answers there, or if what answers cannot keep limits; the error says what to
    /// do.
    pub async fn open(url: &str, secret: &Secret, previous: Option<&Secret>) -> Result<Self, StoreError> {
        Self::open_at(url, (secret, previous), None).await
    }

    /// [`DurableObjectsStore::open`] with the time of `clock` instead of the objects' own: for tests, and for Workers that
    /// were started for tests. Any other refuses it.
    ///
    /// # Errors
    ///
    /// As for [`DurableObjectsStore::open`].
    pub async fn open_with_clock(url: &str, secret: &Secret, clock: ManualClock) -> Result<Self, StoreError> {
        Self::open_at(url, (secret, None), Some(clock)).await
    }

    async fn open_at(
        url: &str,
        secrets: SecretPair<'_>,
        clock: Option<ManualClock>,
    ) -> Result<Self, StoreError> {
        let place = Place::read(url)?;
        let timeout = place.timeout;
        let line = Line::open(place).await?;
        let shards = opening::look(&line, secrets).await?;
        let desk = Desk { line, shards, clock, counts: Arc::new(Counts::default()) };
        let (jobs, asked) = mpsc::channel(QUEUE);
        let worker = tokio::spawn(desk.clone().work(asked));
        Ok(Self { desk, jobs: Mutex::new(Some(jobs)), worker: Mutex::new(Some(worker)), timeout })
    }

    /// What it has done so far.
    #[must_use]
    pub fn stats(&self) -> DurableObjectsStats {
        let Counts { batches, calls } = &*self.desk.counts;
        DurableObjectsStats { batches: batches.load(Ordering::Relaxed), calls: calls.load(Ordering::Relaxed) }
    }

    /// Has a job done and waits for it, but not for long.
    async fn done<T>(
        &self,
        operation: &'static str,
        job: Job,
        answered: oneshot::Receiver<Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        self.hand_over(job)?;
        match tokio::time::timeout(self.timeout, answered).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(unavailable("it is closed")),
            Err(_) => {
                let detail = format!("no answer within {} ms", self.timeout.as_millis());
                Err(StoreError::new(StoreErrorKind::Timeout, operation, detail))
            }
        }
    }

    fn hand_over(&self, job: Job) -> Result<(), StoreError> {
        let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(jobs) = &*jobs else { return Err(unavailable("it is closed")) };
        jobs.try_send(job).map_err(|refused| match refused {
            mpsc::error::TrySendError::Full(_) => {
                unavailable(&format!("{QUEUE} callers wait for it already; try again later"))
            }
            mpsc::error::TrySendError::Closed(_) => unavailable("its worker has ended; open it again"),
        })
    }
}

impl Parted for DurableObjectsStore {
    fn place(&self, key: &Key) -> u16 {
        key.partition().0 % self.desk.shards
    }

    async fn judge(&self, op: Op, batch: Batch) -> Result<Outcome, StoreError> {
        let shard = batch.steps().first().map_or(0, |step| self.place(&step.key));
        let (answer, answered) = oneshot::channel();
        let wish = Wish::Judge(Judged { op, batch, answer: Some(answer) });
        self.done(DECIDE, Job { shard, wish }, answered).await
    }
}

impl Store for DurableObjectsStore {
    async fn apply(&self, batch: &Batch) -> Result<Outcome, StoreError> {
        across::apply(self, batch).await
    }

    async fn peek(&self, batch: &Batch) -> Result<Outcome, StoreError> {
        across::peek(self, batch).await
    }

    async fn refund(&self, batch: &Batch, outcome: &Outcome) -> Result<(), StoreError> {
        for Charged { place, at, steps } in across::charged(self, batch, outcome) {
            let mut batch = Batch::default();
            for (step, _) in steps {
                // A part is never longer than the whole.
                let _ = batch.push(*step);
            }
            let (answer, answered) = oneshot::channel();
            let wish = Wish::Refund(Refunded { batch, at, answer });
            self.done(REFUND, Job { shard: place, wish }, answered).await?;
        }
        Ok(())
    }

    async fn reset(&self, keys: &[Key]) -> Result<(), StoreError> {
        let mut keys = keys.to_vec();
        keys.sort_unstable_by_key(|key| self.place(key));
        for keys in keys.chunk_by(|one, other| self.place(one) == self.place(other)) {
            // As many as the Worker takes.
            for keys in keys.chunks(4_096) {
                let target = self.desk.target("reset", self.place(&keys[0]));
                let done = self.desk.line.ask(&target, wire::resets(keys.iter())).await;
                done.map_err(|trouble: Trouble| trouble.during("reset keys in a Durable Object"))?;
            }
        }
        Ok(())
    }

    /// Nothing to do: every object sweeps itself once an hour.
    async fn sweep(&self, _: usize) -> Result<Swept, StoreError> {
        Ok(Swept::default())
    }

    fn is_partitioned(&self) -> bool {
        true
    }

    fn patience(&self) -> Option<Span> {
        Some(span(self.timeout))
    }

    async fn health(&self) -> Health {
        let clock = SystemClock::new();
        let asked = clock.now();
        let target = format!("/v1/health?prefix={}", self.desk.line.place().prefix);
        match self.desk.line.ask(&target, "{}".to_owned()).await {
            Ok(_) => Health::Up { latency: clock.now().since(asked) },
            Err(trouble) => Health::Down { reason: trouble.during("reach the Worker").to_string() },
        }
    }

    async fn close(&self) -> Result<(), StoreError> {
        drop(self.jobs.lock().unwrap_or_else(PoisonError::into_inner).take());
        let worker = self.worker.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(worker) = worker {
            // It ends when all who wait have their answers; what it says at the end does not matter.
            let _ = worker.await;
        }
        self.desk.line.close();
        Ok(())
    }
}

fn unavailable(detail: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, "reach the Worker", detail)
}
