//! The thread that works for all callers of a node.
//!
//! Whatever waits when it looks is written together. It has a runtime of its own, so that a ledger can be asked from any
//! executor, and so that a slow decision elsewhere keeps nobody's connection waiting.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use threshold_core::ledger::{Entry, Page, Query, Retention, Written};
use threshold_core::{Clock as _, Health, StoreError, StoreErrorKind, Timestamp};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot, watch};

use super::draft::Answers;
use crate::clock::SystemClock;

/// The most callers that are written for at once: none waits for too many others.
const GROUP: usize = 256;

/// The most callers that wait; more are turned away, so that a slow server does not fill the memory.
const QUEUE: usize = 4_096;

/// How long the server may take for what it is asked; after that its connection is given up.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where the rows of a shared ledger are kept.
pub(crate) trait Keeper: 'static {
    /// Applies each caller's entries, all or none of them, and answers when they will survive.
    fn write(&self, callers: &[&[Entry]]) -> impl Future<Output = Result<Answers, StoreError>>;
    /// One page.
    fn read(&self, query: &Query) -> impl Future<Output = Result<Page, StoreError>>;
    /// Drops some rows that need not be kept: how many, and true if there may be more.
    fn sweep(
        &self,
        now: Timestamp,
        retention: &Retention,
    ) -> impl Future<Output = Result<(usize, bool), StoreError>>;
    /// Reads something that every ledger has.
    fn look(&self) -> impl Future<Output = Result<(), StoreError>>;
    /// Tells `news` each time that somebody may have written, and after it has not listened for a while.
    fn listen(&self, news: &News) -> impl Future<Output = ()>;
    /// Gives up its connections: an answer that was waited for did not come.
    fn give_up(&self);
    /// The same error for another caller whose entries went the same way.
    fn again(error: &StoreError) -> StoreError;
}

/// Counts how often something may have changed.
pub(crate) struct News(watch::Sender<u64>);

impl News {
    pub(crate) fn tell(&self) {
        self.0.send_modify(|count| *count += 1);
    }
}

type Answer<T> = oneshot::Sender<Result<T, StoreError>>;

enum Writing {
    Entries(Vec<Entry>, Answer<Vec<Written>>),
    Sweep(Sweeping),
}

struct Sweeping {
    now: Timestamp,
    retention: Retention,
    dropped: usize,
    answer: Answer<usize>,
}

enum Reading {
    Page(Query, Answer<Page>),
    Look(Answer<()>),
}

/// The ways to the thread. Without them it finishes what waits and ends.
struct Ways {
    writing: mpsc::Sender<Writing>,
    reading: mpsc::Sender<Reading>,
    ended: oneshot::Receiver<()>,
}

/// A ledger as its callers see it. Clones share the thread; when the last one is gone, so is the thread.
pub(crate) struct Desk {
    ways: Arc<Mutex<Option<Ways>>>,
    news: watch::Receiver<u64>,
    /// How much of the news this clone's callers have heard.
    heard: AtomicU64,
}

impl Clone for Desk {
    fn clone(&self) -> Self {
        let heard = AtomicU64::new(self.heard.load(Ordering::Acquire));
        Self { ways: Arc::clone(&self.ways), news: self.news.clone(), heard }
    }
}

impl Desk {
    /// Starts the thread, which opens the ledger; answers when it is open.
    pub(crate) async fn start<K: Keeper, F>(open: F) -> Result<Self, StoreError>
    where
        F: AsyncFnOnce() -> Result<K, StoreError> + Send + 'static,
    {
        let (writing, to_write) = mpsc::channel(QUEUE);
        let (reading, to_read) = mpsc::channel(QUEUE);
        let ((news, heard), (end, ended)) = (watch::channel(0), oneshot::channel());
        let (opened, is_open) = oneshot::channel();
        let work = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = match runtime {
                Ok(runtime) => runtime,
                Err(error) => return drop(opened.send(Err(no_thread(&error)))),
            };
            runtime.block_on(async {
                match open().await {
                    Err(error) => drop(opened.send(Err(error))),
                    Ok(keeper) => {
                        // Whoever opened it may have gone; then nobody can ask either.
                        let _ = opened.send(Ok(()));
                        serve(&keeper, to_write, to_read, &News(news)).await;
                    }
                }
            });
            // Connections are closed before it is said that they are.
            drop(runtime);
            let _ = end.send(());
        };
        let thread = thread::Builder::new().name("threshold-ledger".to_owned());
        thread.spawn(work).map_err(|error| no_thread(&error))?;
        is_open.await.unwrap_or_else(|_| Err(unavailable("its thread has ended; open it again")))?;
        let ways = Arc::new(Mutex::new(Some(Ways { writing, reading, ended })));
        Ok(Self { ways, news: heard, heard: AtomicU64::new(0) })
    }

    pub(crate) async fn write(&self, entries: &[Entry]) -> Result<Vec<Written>, StoreError> {
        let entries = entries.to_vec();
        self.ask(|ways, answer| hand_over(&ways.writing, Writing::Entries(entries, answer))).await
    }

    pub(crate) async fn read(&self, query: &Query) -> Result<Page, StoreError> {
        self.ask(|ways, answer| hand_over(&ways.reading, Reading::Page(query.clone(), answer))).await
    }

    pub(crate) async fn sweep(&self, now: Timestamp, retention: &Retention) -> Result<usize, StoreError> {
        self.ask(|ways, answer| {
            let sweeping = Sweeping { now, retention: *retention, dropped: 0, answer };
            hand_over(&ways.writing, Writing::Sweep(sweeping))
        })
        .await
    }

    pub(crate) async fn health(&self) -> Health {
        let clock = SystemClock::new();
        let asked = clock.now();
        match self.ask(|ways, answer| hand_over(&ways.reading, Reading::Look(answer))).await {
            Ok(()) => Health::Up { latency: clock.now().since(asked) },
            Err(error) => Health::Down { reason: error.to_string() },
        }
    }

    pub(crate) async fn close(&self) -> Result<(), StoreError> {
        let Some(ways) = self.lock().take() else { return Ok(()) };
        let Ways { writing, reading, ended } = ways;
        drop((writing, reading));
        ended.await.map_err(|_| unavailable("its thread had ended before"))
    }

    /// Completes when there is news that this clone has not heard.
    pub(crate) async fn changed(&self) {
        let mut news = self.news.clone();
        let heard =
            news.wait_for(|count| *count != self.heard.load(Ordering::Acquire)).await.map(|count| *count);
        match heard {
            Ok(count) => self.heard.store(count, Ordering::Release),
            // A closed ledger has no news.
            Err(_) => std::future::pending().await,
        }
    }

    /// Hands a job over and waits for its answer.
    async fn ask<T>(
        &self,
        hand: impl FnOnce(&Ways, Answer<T>) -> Result<(), StoreError>,
    ) -> Result<T, StoreError> {
        let (answer, answered) = oneshot::channel();
        {
            let ways = self.lock();
            let Some(ways) = &*ways else { return Err(unavailable("it is closed")) };
            hand(ways, answer)?;
        }
        answered.await.unwrap_or_else(|_| Err(unavailable("its thread has ended; open it again")))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Ways>> {
        self.ways.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Never waits: an executor's thread may be the one that calls.
fn hand_over<J>(way: &mpsc::Sender<J>, job: J) -> Result<(), StoreError> {
    way.try_send(job).map_err(|refused| match refused {
        TrySendError::Full(_) => {
            unavailable(&format!("{QUEUE} callers wait for its server already; try again later"))
        }
        TrySendError::Closed(_) => unavailable("its thread has ended; open it again"),
    })
}

/// Works until nobody can ask any more.
async fn serve<K: Keeper>(
    keeper: &K,
    to_write: mpsc::Receiver<Writing>,
    to_read: mpsc::Receiver<Reading>,
    news: &News,
) {
    let work = async { tokio::join!(write_all(keeper, to_write), read_all(keeper, to_read)) };
    tokio::select! {
        _ = work => {}
        () = keeper.listen(news) => {}
    }
}

async fn write_all<K: Keeper>(keeper: &K, mut waiting: mpsc::Receiver<Writing>) {
    let mut sweeps: VecDeque<Sweeping> = VecDeque::new();
    loop {
        let mut jobs = Vec::new();
        if sweeps.is_empty() && waiting.recv_many(&mut jobs, GROUP).await == 0 {
            return;
        }
        // Between two chunks of a sweep, whoever came meanwhile has its turn.
        while jobs.len() < GROUP
            && let Ok(job) = waiting.try_recv()
        {
            jobs.push(job);
        }
        let (mut entries, mut answers) = (Vec::new(), Vec::new());
        for job in jobs {
            match job {
                Writing::Entries(of_one, answer) => {
                    entries.push(of_one);
                    answers.push(answer);
                }
                Writing::Sweep(sweep) => sweeps.push_back(sweep),
            }
        }
        if !entries.is_empty() {
            write_group(keeper, &entries, answers).await;
        }
        if let Some(sweep) = sweeps.pop_front() {
            sweeps.extend(sweep_on(keeper, sweep).await);
        }
    }
}

async fn write_group<K: Keeper>(keeper: &K, entries: &[Vec<Entry>], answers: Vec<Answer<Vec<Written>>>) {
    let callers: Vec<&[Entry]> = entries.iter().map(Vec::as_slice).collect();
    match in_time(keeper, WRITE, keeper.write(&callers)).await {
        // A caller who has gone does not need to know.
        Ok(written) => {
            answers.into_iter().zip(written).for_each(|(answer, written)| drop(answer.send(written)));
        }
        Err(error) => answers.into_iter().for_each(|answer| drop(answer.send(Err(K::again(&error))))),
    }
}

/// Sweeps a chunk; gives the sweep back if there is more of it.
async fn sweep_on<K: Keeper>(keeper: &K, mut sweep: Sweeping) -> Option<Sweeping> {
    match in_time(keeper, "sweep the ledger", keeper.sweep(sweep.now, &sweep.retention)).await {
        Ok((dropped, more)) => {
            sweep.dropped += dropped;
            if more {
                return Some(sweep);
            }
            let _ = sweep.answer.send(Ok(sweep.dropped));
        }
        Err(error) => drop(sweep.answer.send(Err(error))),
    }
    None
}

/// Those who wait together are read for together, over one connection.
async fn read_all<K: Keeper>(keeper: &K, mut waiting: mpsc::Receiver<Reading>) {
    let mut jobs = Vec::new();
    while waiting.recv_many(&mut jobs, GROUP).await > 0 {
        futures_util::future::join_all(jobs.drain(..).map(|job| read_one(keeper, job))).await;
    }
}

async fn read_one<K: Keeper>(keeper: &K, job: Reading) {
    match job {
        Reading::Page(query, answer) => {
            let _ = answer.send(in_time(keeper, "read the ledger", keeper.read(&query)).await);
        }
        Reading::Look(answer) => {
            let _ = answer.send(in_time(keeper, "read the ledger", keeper.look()).await);
        }
    }
}

async fn in_time<K: Keeper, T>(
    keeper: &K,
    operation: &'static str,
    act: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    tokio::time::timeout(PATIENCE, act).await.unwrap_or_else(|_| {
        keeper.give_up();
        let detail = format!("no answer within {} s; see whether its server is well", PATIENCE.as_secs());
        Err(StoreError::new(StoreErrorKind::Timeout, operation, detail))
    })
}

pub(crate) const WRITE: &str = "write to the ledger";

fn unavailable(detail: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, "reach the ledger", detail)
}

fn no_thread(error: &std::io::Error) -> StoreError {
    let detail = format!("no thread for the ledger: {error}; raise the limit of threads");
    StoreError::new(StoreErrorKind::Unavailable, "open the ledger", detail)
}
