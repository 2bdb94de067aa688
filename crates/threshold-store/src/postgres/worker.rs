//! One connection: it takes whatever waits as a group, sends it in one call, and answers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use threshold_core::{Batch, Clock, ManualClock, Outcome, StoreError, StoreErrorKind, Timestamp};
use tokio::sync::oneshot;
use tokio::task::{AbortHandle, JoinHandle};
use tokio_postgres::{Client, Statement};

use super::error::{again, failed};
use super::group::Group;
use super::queue::{Answer, Job, Queue};
use super::settings::Settings;

/// The first wait before a lost connection is tried again; it doubles up to [`LONGEST`].
const FIRST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(1);

/// How long one try may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// A connection that is ready, with its statements. Dropped, it is cut.
pub(super) struct Ready {
    pub(super) client: Client,
    pub(super) apply: Statement,
    pub(super) look: Statement,
    pub(super) tidy: Statement,
    pub(super) refund: Statement,
    pub(super) forget: Statement,
    pub(super) sweep: Statement,
    wire: AbortHandle,
}

/// A connection, and what ends when it does.
pub(super) type Connected = (Ready, JoinHandle<()>);

/// The same, once it can be used.
pub(super) type Joined = (Arc<Ready>, JoinHandle<()>);

impl Ready {
    /// Connects and prepares.
    pub(super) async fn connect(settings: &Settings) -> Result<Connected, StoreError> {
        const PREPARE: &str = "prepare a connection to Postgres";
        let (client, wire) = settings.address.connect().await?;
        // How it ended is told by whatever was asked last.
        let end = tokio::spawn(async move { drop(wire.run().await) });
        client.batch_execute(&settings.session()).await.map_err(failed(PREPARE))?;
        let prepare = async |sql| client.prepare(sql).await.map_err(failed(PREPARE));
        let [apply, look, tidy, refund, forget, sweep] = [
            prepare("SELECT * FROM apply($1, $2, $3, $4, $5)").await?,
            prepare("SELECT * FROM look($1, $2, $3, $4)").await?,
            prepare("SELECT FROM tidy($1, $2)").await?,
            prepare("SELECT FROM refund($1, $2, $3)").await?,
            prepare("SELECT FROM forget($1)").await?,
            prepare("SELECT seen, dropped, last::text FROM sweep($1, $2, $3)").await?,
        ];
        let wire = end.abort_handle();
        Ok((Self { client, apply, look, tidy, refund, forget, sweep, wire }, end))
    }
}

impl Drop for Ready {
    fn drop(&mut self) {
        self.wire.abort();
    }
}

/// What the connections of a store share.
pub(super) struct Shared {
    pub(super) settings: Settings,
    pub(super) queue: Queue,
    /// The time of tests, which is sent along; else the server's clock is read.
    pub(super) clock: Option<ManualClock>,
    /// The connections that are up, for what is not queued.
    ready: Mutex<Vec<Arc<Ready>>>,
    pub(super) decisions: AtomicU64,
    pub(super) round_trips: AtomicU64,
}

impl Shared {
    pub(super) fn new(settings: Settings, clock: Option<ManualClock>) -> Self {
        Self {
            settings,
            queue: Queue::default(),
            clock,
            ready: Mutex::default(),
            decisions: AtomicU64::new(0),
            round_trips: AtomicU64::new(0),
        }
    }

    /// The time to be sent along.
    pub(super) fn moment(&self) -> Option<i64> {
        let micros = self.clock.as_ref()?.now().as_micros();
        i64::try_from(micros).ok()
    }

    /// A connection that is up: another one each time.
    pub(super) fn any(&self) -> Option<Arc<Ready>> {
        let turn = self.round_trips.fetch_add(1, Ordering::Relaxed);
        let ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        let place = usize::try_from(turn).unwrap_or_default().checked_rem(ready.len())?;
        ready.get(place).map(Arc::clone)
    }

    /// Lets a connection be used.
    pub(super) fn join(&self, (ready, end): Connected) -> Joined {
        let ready = Arc::new(ready);
        self.ready.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&ready));
        self.queue.joined();
        (ready, end)
    }

    fn leave(&self, ready: &Arc<Ready>, why: &str) {
        let mut all = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|one| !Arc::ptr_eq(one, ready));
        drop(all);
        self.queue.left(why);
    }

    /// Works with a connection, and with others after it, until the store is closed and nothing waits.
    pub(super) async fn work(self: Arc<Self>, first: Joined) {
        let mut next = Some(first);
        while let Some((ready, mut end)) = next {
            let lost = self.serve(&ready, &mut end).await;
            let why = lost.as_ref().map_or_else(|| "the store is closed".to_owned(), ToString::to_string);
            self.leave(&ready, &why);
            if lost.is_none() {
                return;
            }
            // Whoever looks through it still is told at once.
            ready.wire.abort();
            next = self.reconnect().await.map(|connected| self.join(connected));
        }
    }

    /// Tries until there is a connection; none once the store is closed.
    async fn reconnect(&self) -> Option<Connected> {
        let mut wait = FIRST;
        let connected = async {
            loop {
                let connected = tokio::time::timeout(PATIENCE, Ready::connect(&self.settings)).await;
                if let Ok(Ok(connected)) = connected {
                    return connected;
                }
                tokio::time::sleep(wait).await;
                wait = LONGEST.min(2 * wait);
            }
        };
        tokio::select! {
            connected = connected => Some(connected),
            () = self.queue.closed() => None,
        }
    }

    /// Sends group after group. Ends with why the connection is of no more use, or without if the store is closed.
    async fn serve(&self, ready: &Ready, end: &mut JoinHandle<()>) -> Option<StoreError> {
        loop {
            let jobs = tokio::select! {
                jobs = self.queue.take() => jobs?,
                // Nobody asked, and it ended: the server is gone.
                _ = &mut *end => {
                    let why = "the server ended the connection; see whether it runs";
                    return Some(StoreError::new(StoreErrorKind::Unavailable, "reach Postgres", why));
                }
            };
            self.round_trips.fetch_add(1, Ordering::Relaxed);
            let sent = self.send(ready, jobs);
            // The server gives up by itself in time; if it does not even say so, it is gone.
            let sent = tokio::time::timeout(2 * self.settings.timeout, sent).await;
            match sent {
                // Whoever was answered may ask again at once: they go together.
                Ok(Ok(())) => tokio::task::yield_now().await,
                Ok(Err(error))
                    if !ready.client.is_closed() && error.kind() != StoreErrorKind::Unavailable => {}
                Ok(Err(error)) => return Some(error),
                Err(_) => return Some(late("reach Postgres", self.settings.timeout)),
            }
        }
    }

    /// Sends a group and gives everybody an answer.
    async fn send(&self, ready: &Ready, jobs: Vec<Job>) -> Result<(), StoreError> {
        let (mut applies, mut refunds) = (Vec::new(), Vec::new());
        for job in jobs {
            match job {
                Job::Apply(batch, answer) => applies.push((batch, answer)),
                Job::Release(batch) => applies.push((batch, oneshot::channel().0)),
                Job::Refund(batch, at, answer) => refunds.push((batch, at, answer)),
            }
        }
        if !applies.is_empty() {
            self.send_batches(ready, applies).await?;
        }
        if !refunds.is_empty() {
            self.send_refunds(ready, refunds).await?;
        }
        Ok(())
    }

    async fn send_batches(
        &self,
        ready: &Ready,
        applies: Vec<(Batch, Answer<Outcome>)>,
    ) -> Result<(), StoreError> {
        const APPLY: &str = "judge batches in Postgres";
        let batches = || applies.iter().map(|(batch, _)| batch.steps());
        let group = Group::of(batches());
        let (keys, steps) = (group.keys.as_slice(), group.steps.as_slice());
        let (lists, ids) = (group.lists.as_slice(), group.ids.as_slice());
        let row = ready.client.query_one(&ready.apply, &[&self.moment(), &keys, &steps, &lists, &ids]).await;
        self.decisions.fetch_add(applies.len() as u64, Ordering::Relaxed);
        let judged = row.map_err(failed(APPLY)).and_then(|row| group.outcomes(&row, batches()));
        match judged {
            Ok(outcomes) => {
                for ((batch, answer), outcome) in applies.into_iter().zip(outcomes) {
                    let charged = outcome.as_ref().is_ok_and(|outcome| outcome.charged);
                    if answer.send(outcome).is_err() && charged {
                        self.release(&batch);
                    }
                }
                Ok(())
            }
            Err(error) => {
                // Nobody knows whether they were charged, and nobody will use them.
                applies.iter().for_each(|(batch, _)| self.release(batch));
                Err(fail_all(applies.into_iter().map(|(_, answer)| answer), error, APPLY))
            }
        }
    }

    /// Has permits given back that nobody will use. If that cannot be asked either, they end by themselves.
    fn release(&self, batch: &Batch) {
        if let Some(released) = batch.released() {
            let _ = self.queue.push(Job::Release(released), "give permits back in Postgres");
        }
    }

    async fn send_refunds(
        &self,
        ready: &Ready,
        refunds: Vec<(Batch, Timestamp, Answer<()>)>,
    ) -> Result<(), StoreError> {
        const REFUND: &str = "refund in Postgres";
        let steps = refunds.iter().flat_map(|(batch, at, _)| batch.steps().iter().map(|step| (step, *at)));
        let group = Group::of_refunds(steps);
        let (keys, steps) = (group.keys.as_slice(), group.steps.as_slice());
        let done = ready.client.execute(&ready.refund, &[&self.moment(), &keys, &steps]).await;
        let mut answers = refunds.into_iter().map(|(.., answer)| answer);
        match done {
            Ok(_) => {
                answers.for_each(|answer| drop(answer.send(Ok(()))));
                Ok(())
            }
            Err(error) => Err(fail_all(&mut answers, failed(REFUND)(error), REFUND)),
        }
    }
}

/// Tells everybody of an error, and gives it back.
///
/// What was sent and not answered may have been charged: it is told as one that took too long, whatever broke.
fn fail_all<T>(
    answers: impl Iterator<Item = Answer<T>>,
    error: StoreError,
    operation: &'static str,
) -> StoreError {
    for answer in answers {
        let told = match error.kind() {
            StoreErrorKind::Unavailable => StoreError::new(
                StoreErrorKind::Timeout,
                operation,
                format!(
                    "the connection was lost before the answer came; what was asked may have been charged: {error}"
                ),
            ),
            _ => again(&error, operation),
        };
        drop(answer.send(Err(told)));
    }
    error
}

/// The error of an answer that did not come in time.
pub(super) fn late(operation: &'static str, timeout: Duration) -> StoreError {
    let detail = format!(
        "no answer within {} ms; what was asked may have been charged. See why Postgres is slow, or raise `timeout` in \
         its URL",
        timeout.as_millis()
    );
    StoreError::new(StoreErrorKind::Timeout, operation, detail)
}
