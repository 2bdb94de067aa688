//! The way to a thread that works on a file, for many callers at once.

use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use threshold_core::{StoreError, StoreErrorKind};

use super::oneshot::{self, oneshot};

/// Where the answer to a job goes.
pub(crate) type Answer<T> = oneshot::Sender<Result<T, StoreError>>;

/// Jobs go in, answers come back. Clones share the thread; without the last one it finishes what waits and closes the file.
pub(crate) struct Line<J> {
    end: Arc<Mutex<Option<End<J>>>>,
    terms: &'static Terms,
}

/// How a line is kept.
pub(crate) struct Terms {
    /// The name of the thread.
    pub(crate) thread: &'static str,
    /// What using the line is called where it fails.
    pub(crate) reach: &'static str,
    /// The most callers that wait; more are turned away, so that a slow disk does not fill the memory.
    pub(crate) queue: usize,
}

/// The callers' end.
struct End<J> {
    jobs: SyncSender<J>,
    ended: oneshot::Receiver<Result<(), StoreError>>,
}

impl<J: Send + 'static> Line<J> {
    /// Starts a thread that does `work` until nobody can ask any more, and says how closing the file went.
    pub(crate) fn start(
        terms: &'static Terms,
        work: impl FnOnce(&Receiver<J>) -> Result<(), StoreError> + Send + 'static,
    ) -> Result<Self, StoreError> {
        let (jobs, waiting) = mpsc::sync_channel(terms.queue);
        let (end, ended) = oneshot();
        let thread = thread::Builder::new().name(terms.thread.to_owned());
        match thread.spawn(move || end.send(work(&waiting))) {
            Ok(_) => Ok(Self { end: Arc::new(Mutex::new(Some(End { jobs, ended }))), terms }),
            Err(error) => {
                let detail =
                    format!("no thread called {}: {error}; raise the limit of threads", terms.thread);
                Err(StoreError::new(StoreErrorKind::Unavailable, terms.reach, detail))
            }
        }
    }

    /// Hands a job to the thread and waits for its answer.
    pub(crate) async fn ask<T>(&self, job: impl FnOnce(Answer<T>) -> J) -> Result<T, StoreError> {
        let (answer, answered) = oneshot();
        self.hand_over(job(answer))?;
        answered.await.unwrap_or_else(|| Err(self.unavailable("its thread has ended; open it again")))
    }

    /// Never waits: an executor's thread may be the one that calls.
    fn hand_over(&self, job: J) -> Result<(), StoreError> {
        let end = self.lock();
        let Some(end) = &*end else { return Err(self.unavailable("it is closed")) };
        end.jobs.try_send(job).map_err(|refused| match refused {
            TrySendError::Full(_) => {
                let queue = self.terms.queue;
                self.unavailable(&format!("{queue} callers wait for its disk already; try again later"))
            }
            TrySendError::Disconnected(_) => self.unavailable("its thread has ended; open it again"),
        })
    }

    /// Has the thread finish what waits and close the file, and waits for that.
    pub(crate) async fn close(&self) -> Result<(), StoreError> {
        let Some(end) = self.lock().take() else { return Ok(()) };
        drop(end.jobs);
        end.ended.await.unwrap_or_else(|| Err(self.unavailable("its thread had ended before")))
    }

    fn lock(&self) -> MutexGuard<'_, Option<End<J>>> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unavailable(&self, detail: &str) -> StoreError {
        StoreError::new(StoreErrorKind::Unavailable, self.terms.reach, detail)
    }
}

impl<J> Clone for Line<J> {
    fn clone(&self) -> Self {
        Self { end: Arc::clone(&self.end), terms: self.terms }
    }
}

/// Who has a turn next: up to `most` of those that wait. Waits for the first, unless there is something else to do; none
/// if nobody can ask any more.
pub(crate) fn next_turn<J>(
    waiting: &Receiver<J>,
    most: usize,
    busy: bool,
) -> Option<impl Iterator<Item = J>> {
    let first = if busy { waiting.try_recv().ok() } else { Some(waiting.recv().ok()?) };
    Some(first.into_iter().chain(waiting.try_iter()).take(most))
}
