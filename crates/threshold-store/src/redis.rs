//! The store in Redis or Valkey: one script that judges and charges, by the server's own time.
//!
//! | module | holds |
//! | --- | --- |
//! | `url` | what a URL says |
//! | `line` | the connection to a server, a master that Sentinels know, or a cluster; made again when it is lost |
//! | `desk` | where batches gather and go to the server together |
//! | `script` | the scripts in Lua, beside it in files of their own |
//! | `wire` | batches as the scripts read them, and their answers |
//! | `losses` | whether what was acknowledged may have been lost |
//! | `kept` | what is kept beside the counters for nodes that start later |
//! | `opening` | what is looked at before the first batch |
//!
//! The scripts say only whether a batch was charged and what they found; the outcome is worked out from that by core's
//! own transition ([`threshold_core::mirror`]). Keys vanish by themselves, never before their state is over. A batch that
//! was sent is never sent again unless the server says that it did nothing: one that timed out counts as charged.

mod desk;
pub(crate) mod error;
pub(crate) mod kept;
pub(crate) mod line;
mod losses;
pub(crate) mod opening;
mod script;
mod url;
mod wire;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redis::Cmd;
use smallvec::SmallVec;
use threshold_core::{
    Batch, Clock, Health, Key, ManualClock, Outcome, Secret, Span, Store, StoreError, StoreErrorKind, Swept,
    Timestamp,
};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::across::{self, Charged, Op, Parted};
use crate::check::Check;
use crate::clock::{SystemClock, span};
use crate::open::SecretPair;
use desk::{Counts, Desk, Job, QUEUE};
use kept::Known;
use line::Line;
use losses::Losses;
use script::Script;

pub(crate) use url::Place;

/// What the server at `url` is like, whether or not it can be used.
pub(crate) async fn examine(url: &str, secrets: Option<SecretPair<'_>>) -> Vec<Check> {
    let line = match Place::read(url) {
        Ok(place) => Line::open(place).await,
        Err(error) => Err(error),
    };
    let line = match line {
        Ok(line) => line,
        Err(error) => return vec![Check::bad("connection", error.to_string())],
    };
    let mut checks = opening::checks(&line).await;
    if let Some(secrets) = secrets {
        checks.push(kept::secret(&line, secrets).await);
    }
    checks
}

/// A store in Redis or Valkey: a single server, a master that Sentinels know, or a cluster.
///
/// Dropping a future of [`Store::apply`] takes nothing back.
pub struct RedisStore {
    desk: Desk,
    /// None once it is closed.
    jobs: Mutex<Option<mpsc::Sender<Job>>>,
    worker: Mutex<Option<JoinHandle<()>>>,
    timeout: Duration,
}

/// What a store has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RedisStats {
    /// Batches that were judged.
    pub batches: u64,
    /// Calls of the script, each one round trip.
    pub calls: u64,
}

impl RedisStore {
    /// Connects to what `url` names, sees that it is fit, and keeps the fingerprint of `secret` there. A store that was
    /// made with the `previous` secret is taken over. Needs tokio.
    ///
    /// # Errors
    ///
    /// If the URL makes no sense, if nothing answers there, or if what answers cannot keep limits; the error says what to
    /// do.
    pub async fn open(url: &str, secret: &Secret, previous: Option<&Secret>) -> Result<Self, StoreError> {
        Self::open_at(url, (secret, previous), None, None).await
    }

    /// [`RedisStore::open`] by a node that was there before and remembers since when the store had been kept: one that is
    /// younger has lost all that it had.
    ///
    /// # Errors
    ///
    /// As for [`RedisStore::open`].
    pub async fn open_again(
        url: &str,
        (secret, previous): (&Secret, Option<&Secret>),
        since: Timestamp,
    ) -> Result<Self, StoreError> {
        Self::open_at(url, (secret, previous), None, Some(since)).await
    }

    /// Since when it has been kept there, by the server's time: for [`RedisStore::open_again`].
    #[must_use]
    pub const fn since(&self) -> Timestamp {
        self.desk.since
    }

    /// [`RedisStore::open`] with the time of `clock` instead of the server's: for tests.
    ///
    /// # Errors
    ///
    /// As for [`RedisStore::open`].
    pub async fn open_with_clock(url: &str, secret: &Secret, clock: ManualClock) -> Result<Self, StoreError> {
        Self::open_at(url, (secret, None), Some(clock), None).await
    }

    async fn open_at(
        url: &str,
        secrets: (&Secret, Option<&Secret>),
        clock: Option<ManualClock>,
        since: Option<Timestamp>,
    ) -> Result<Self, StoreError> {
        let place = Place::read(url)?;
        let timeout = place.timeout;
        let line = Line::open(place).await?;
        opening::look(&line).await?;
        let (servers, durable) = opening::servers(&line).await;
        let answering = if line.is_cluster() { servers.join(" ") } else { String::new() };
        let known = Known { since: since.unwrap_or_default(), durable, servers: &answering };
        let kept = kept::keep(&line, secrets, known).await?;
        let losses = Arc::new(Losses::new(&servers, &kept, (durable, line.is_cluster())));
        let (script, counts) = (Arc::new(Script::new()), Arc::new(Counts::default()));
        let (secret, since) = (secrets.0.clone(), kept.since);
        let desk = Desk { line, script, clock, counts, losses, secret, since };
        let (jobs, waiting) = mpsc::channel(QUEUE);
        let worker = tokio::spawn(desk.clone().work(waiting));
        Ok(Self { desk, jobs: Mutex::new(Some(jobs)), worker: Mutex::new(Some(worker)), timeout })
    }

    /// What it has done so far.
    #[must_use]
    pub fn stats(&self) -> RedisStats {
        let Counts { batches, calls } = &*self.desk.counts;
        RedisStats { batches: batches.load(Ordering::Relaxed), calls: calls.load(Ordering::Relaxed) }
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

    /// Takes back what `steps`, which are in one place, were charged.
    async fn give_back(&self, charged: &Charged<'_>) -> Result<(), StoreError> {
        let keys: SmallVec<[Key; 4]> = charged.steps.iter().map(|(step, _)| step.key).collect();
        let blob = wire::refunded(&charged.steps, charged.at);
        self.desk.refund(&keys, &blob).await.map(drop).map_err(error::failed("refund in Redis"))
    }

    fn is_split(&self) -> bool {
        self.desk.line.is_cluster()
    }
}

impl Parted for RedisStore {
    fn place(&self, key: &Key) -> u16 {
        if self.is_split() { key.partition().0 } else { 0 }
    }

    async fn judge(&self, op: Op, batch: Batch) -> Result<Outcome, StoreError> {
        let (answer, answered) = oneshot::channel();
        self.hand_over(Job { op, batch: batch.clone(), answer })?;
        match tokio::time::timeout(self.timeout, answered).await {
            Ok(Ok(answer)) => answer?.outcome(op, &batch),
            Ok(Err(_)) => Err(unavailable("it is closed")),
            Err(_) => {
                let detail = format!("no answer within {} ms", self.timeout.as_millis());
                Err(StoreError::new(StoreErrorKind::Timeout, "decide in Redis", detail))
            }
        }
    }
}

impl Store for RedisStore {
    async fn apply(&self, batch: &Batch) -> Result<Outcome, StoreError> {
        across::apply(self, batch).await
    }

    async fn peek(&self, batch: &Batch) -> Result<Outcome, StoreError> {
        across::peek(self, batch).await
    }

    async fn refund(&self, batch: &Batch, outcome: &Outcome) -> Result<(), StoreError> {
        for charged in across::charged(self, batch, outcome) {
            self.give_back(&charged).await?;
        }
        Ok(())
    }

    async fn reset(&self, keys: &[Key]) -> Result<(), StoreError> {
        for key in keys {
            let name = script::name(&self.desk.line.place().prefix, key);
            let mut cmd = Cmd::new();
            cmd.arg("UNLINK").arg(name);
            self.desk.line.ask(cmd).await.map_err(error::failed("reset a key in Redis"))?;
        }
        Ok(())
    }

    /// Keys vanish by themselves. A server that lost its data has lost what is kept of the store as a whole too: it is kept
    /// again, so that a node with another secret stays out; and what other nodes noticed is heard of.
    async fn sweep(&self, _: usize) -> Result<Swept, StoreError> {
        self.desk.losses.told(&self.desk.keep("").await?);
        Ok(Swept::default())
    }

    fn is_partitioned(&self) -> bool {
        self.is_split()
    }

    fn lost_at(&self) -> Option<Timestamp> {
        self.desk.losses.lost_at()
    }

    fn lost_ago(&self) -> Span {
        self.desk.losses.ago()
    }

    fn patience(&self) -> Option<Span> {
        Some(span(self.timeout))
    }

    async fn health(&self) -> Health {
        let clock = SystemClock::new();
        let asked = clock.now();
        let mut cmd = Cmd::new();
        cmd.arg("PING");
        match self.desk.line.ask(cmd).await {
            Ok(_) => Health::Up { latency: clock.now().since(asked) },
            Err(error) => Health::Down { reason: error::failed("reach Redis")(error).to_string() },
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
    StoreError::new(StoreErrorKind::Unavailable, "reach Redis", detail)
}
