//! What waits to be sent: bounded, and taken in groups.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use threshold_core::{Batch, Outcome, StoreError, StoreErrorKind, Timestamp};
use tokio::sync::{Notify, oneshot};

/// The most batches that wait; more are turned away, so that a slow server does not fill the memory.
const ROOM: usize = 16_384;

/// The steps of one group. More of them share one wait for the disk, and keep each other waiting.
const GROUP: usize = 512;

/// What a caller waits for.
pub(super) enum Job {
    /// A batch that is to be judged and charged.
    Apply(Batch, Answer<Outcome>),
    /// A batch that gives permits back, for which nobody waits.
    Release(Batch),
    /// A batch that is to be taken back, and when it was charged.
    Refund(Batch, Timestamp, Answer<()>),
}

pub(super) type Answer<T> = oneshot::Sender<Result<T, StoreError>>;

impl Job {
    /// True if nobody waits for it any more: then it is not sent.
    fn is_abandoned(&self) -> bool {
        match self {
            Self::Apply(_, answer) => answer.is_closed(),
            Self::Release(_) => false,
            Self::Refund(_, _, answer) => answer.is_closed(),
        }
    }

    fn steps(&self) -> usize {
        match self {
            Self::Apply(batch, _) | Self::Release(batch) | Self::Refund(batch, ..) => batch.steps().len(),
        }
    }

    /// Ends it with an error.
    pub(super) fn fail(self, error: StoreError) {
        // Whoever asked may be gone.
        match self {
            Self::Apply(_, answer) => drop(answer.send(Err(error))),
            Self::Release(_) => {}
            Self::Refund(_, _, answer) => drop(answer.send(Err(error))),
        }
    }
}

/// The jobs, and who is told of them.
#[derive(Default)]
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    came: Notify,
    ended: Notify,
}

#[derive(Default)]
struct Waiting {
    jobs: VecDeque<Job>,
    /// Connections that can take jobs.
    live: usize,
    /// Why there is none, as the last that was lost said.
    why: String,
    closed: bool,
}

impl Queue {
    /// Adds a job.
    ///
    /// # Errors
    ///
    /// If there is no connection that could take it, no room, or the store is closed.
    pub(super) fn push(&self, job: Job, operation: &'static str) -> Result<(), StoreError> {
        let mut waiting = self.lock();
        if waiting.closed || waiting.live == 0 || waiting.jobs.len() >= ROOM {
            return Err(waiting.refusal(operation));
        }
        waiting.jobs.push_back(job);
        drop(waiting);
        self.came.notify_one();
        Ok(())
    }

    /// Why nothing can be asked.
    pub(super) fn refusal(&self, operation: &'static str) -> StoreError {
        self.lock().refusal(operation)
    }

    /// The jobs of the next group, all of one kind; none once the store is closed and nothing waits.
    pub(super) async fn take(&self) -> Option<Vec<Job>> {
        loop {
            let came = self.came.notified();
            {
                let mut waiting = self.lock();
                let group = waiting.group();
                if !group.is_empty() {
                    let more = !waiting.jobs.is_empty();
                    drop(waiting);
                    if more {
                        self.came.notify_one();
                    }
                    return Some(group);
                }
                if waiting.closed {
                    return None;
                }
            }
            came.await;
        }
    }

    /// A connection can take jobs.
    pub(super) fn joined(&self) {
        self.lock().live += 1;
    }

    /// A connection cannot any more. If it was the last, whoever waits is told at once.
    pub(super) fn left(&self, why: &str) {
        let mut waiting = self.lock();
        waiting.live -= 1;
        why.clone_into(&mut waiting.why);
        if waiting.live == 0 {
            let stranded = std::mem::take(&mut waiting.jobs);
            drop(waiting);
            for job in stranded {
                job.fail(StoreError::new(StoreErrorKind::Unavailable, "reach Postgres", why));
            }
        }
    }

    /// Lets nothing more in.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.came.notify_waiters();
        self.ended.notify_waiters();
    }

    /// Waits until the store is closed.
    pub(super) async fn closed(&self) {
        loop {
            let ended = self.ended.notified();
            if self.lock().closed {
                return;
            }
            ended.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn refusal(&self, operation: &'static str) -> StoreError {
        let detail = if self.closed {
            "the store is closed; open it again".to_owned()
        } else if self.live == 0 {
            format!("there is no connection: {}", self.why)
        } else {
            format!("{ROOM} batches wait already; see why Postgres is slow, or ask less of it")
        };
        StoreError::new(StoreErrorKind::Unavailable, operation, detail)
    }

    fn group(&mut self) -> Vec<Job> {
        let (mut group, mut steps): (Vec<Job>, usize) = (Vec::new(), 0);
        while let Some(job) = self.jobs.front() {
            let fits = match group.first() {
                Some(first) => {
                    std::mem::discriminant(first) == std::mem::discriminant(job)
                        && steps + job.steps() <= GROUP
                }
                None => true,
            };
            if !fits {
                break;
            }
            let Some(job) = self.jobs.pop_front() else { break };
            if !job.is_abandoned() {
                steps += job.steps();
                group.push(job);
            }
        }
        group
    }
}
