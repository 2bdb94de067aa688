//! The one thread that works on a ledger's file.
//!
//! Whatever waits when it looks is written in one transaction, which costs one wait for the disk however much it holds.
//! Each caller's entries have a savepoint of their own, so that an entry which makes no sense takes back nobody else's.
//! Answers are given after the commit: what was acknowledged survives.

use std::collections::VecDeque;
use std::sync::mpsc::{self, SyncSender};
use std::thread;

use rusqlite::Connection;
use rusqlite::config::DbConfig;
use threshold_core::ledger::{Entry, Page, Query, Written, apply};
use threshold_core::{StoreError, StoreErrorKind};

use super::error::{self, failed};
use super::file::{self, Place};
use super::oneshot::{self, oneshot};
use super::rows::Tables;
use super::sweep::Sweep;

/// The most callers that one transaction writes for: none waits for too many others.
const GROUP: usize = 256;

/// The most callers that wait; more are turned away, so that a slow disk does not fill the memory.
pub(super) const QUEUE: usize = 4_096;

/// Where the answer to a job goes.
pub(super) type Answer<T> = oneshot::Sender<Result<T, StoreError>>;

/// What callers ask for.
pub(super) enum Job {
    Write(Write),
    Read(Query, Answer<Page>),
    Sweep(Sweep, Answer<usize>),
    /// Whether the file can be read.
    Look(Answer<()>),
}

/// One caller's entries.
pub(super) struct Write {
    pub(super) entries: Vec<Entry>,
    pub(super) answer: Answer<Vec<Written>>,
}

/// The way to the thread. Without it the thread finishes what waits, closes the file and says how that went.
pub(super) struct Writer {
    pub(super) jobs: SyncSender<Job>,
    pub(super) ended: oneshot::Receiver<Result<(), StoreError>>,
}

impl Writer {
    /// Opens the ledger and starts its thread.
    pub(super) fn start(place: Place) -> Result<Self, StoreError> {
        let connection = place.open()?;
        let (jobs, waiting) = mpsc::sync_channel(QUEUE);
        let (end, ended) = oneshot();
        let desk = Desk { place, connection, doubtful: false };
        let thread = thread::Builder::new().name("threshold-ledger".to_owned());
        let started = thread.spawn(move || end.send(desk.work(&waiting)));
        match started {
            Ok(_) => Ok(Self { jobs, ended }),
            Err(error) => {
                let detail = format!("no thread for the ledger: {error}; raise the limit of threads");
                Err(StoreError::new(StoreErrorKind::Unavailable, "open the ledger", detail))
            }
        }
    }
}

/// What the thread works on.
struct Desk {
    place: Place,
    connection: Connection,
    /// True if the disk failed under this connection: its files may never come back, even if the disk does.
    doubtful: bool,
}

impl Desk {
    /// Works until nobody can ask any more, and closes the file.
    fn work(mut self, waiting: &mpsc::Receiver<Job>) -> Result<(), StoreError> {
        let mut sweeps = VecDeque::new();
        loop {
            let first = if sweeps.is_empty() {
                let Ok(first) = waiting.recv() else { return self.close() };
                Some(first)
            } else {
                // Between two chunks of a sweep, whoever came meanwhile has its turn.
                waiting.try_recv().ok()
            };
            let jobs = first.into_iter().chain(waiting.try_iter()).take(GROUP);
            sweeps.extend(self.take_turn(jobs));
            if let Some((mut sweep, answer)) = sweeps.pop_front() {
                self.renew();
                match self.on_file(|connection| sweep.go_on(connection)) {
                    Ok(None) => sweeps.push_front((sweep, answer)),
                    Ok(Some(dropped)) => answer.send(Ok(dropped)),
                    Err(error) => answer.send(Err(error)),
                }
            }
        }
    }

    /// Writes everything first, then reads; gives back the sweeps, which take longer. All these callers wait at the same
    /// time, so none can tell in which order they were served.
    fn take_turn(&mut self, jobs: impl Iterator<Item = Job>) -> Vec<(Sweep, Answer<usize>)> {
        let (mut writes, mut reads, mut looks, mut sweeps) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for job in jobs {
            match job {
                Job::Write(write) => writes.push(write),
                Job::Read(query, answer) => reads.push((query, answer)),
                Job::Look(answer) => looks.push(answer),
                Job::Sweep(sweep, answer) => sweeps.push((sweep, answer)),
            }
        }
        if !writes.is_empty() {
            self.write(writes);
        }
        for (query, answer) in reads {
            answer.send(self.on_file(|connection| super::read::page(connection, &query)));
        }
        for answer in looks {
            answer.send(self.on_file(|connection| look(connection)));
        }
        sweeps
    }

    fn write(&mut self, writes: Vec<Write>) {
        self.renew();
        match self.on_file(|connection| commit(connection, &writes)) {
            Ok(results) => {
                writes.into_iter().zip(results).for_each(|(write, result)| write.answer.send(result));
            }
            Err(error) => {
                writes.into_iter().for_each(|write| write.answer.send(Err(error::again(&error))));
            }
        }
    }

    /// Does something with the file. If that fails, nothing of it is left.
    fn on_file<T>(
        &mut self,
        act: impl FnOnce(&mut Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let outcome = act(&mut self.connection);
        self.doubtful |= outcome.as_ref().is_err_and(error::is_of_the_disk);
        if !self.connection.is_autocommit() {
            self.doubtful |= self.connection.execute_batch("ROLLBACK").is_err();
        }
        outcome
    }

    /// Opens the file anew if the disk failed before. As long as that does not work either, the old connection stays:
    /// reading with it may still work.
    fn renew(&mut self) {
        if self.doubtful
            && let Ok(fresh) = self.place.reopen()
        {
            let old = std::mem::replace(&mut self.connection, fresh);
            self.doubtful = false;
            // What it remembers is written already. If this cannot be set, closing it looks once more than it need.
            let _ = old.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
        }
    }

    fn close(mut self) -> Result<(), StoreError> {
        self.renew();
        let Self { connection, .. } = self;
        let settled = file::settle(&connection).map_err(failed("close the ledger"));
        let closed = connection.close().map_err(|(_, error)| failed("close the ledger")(error));
        settled.and(closed)
    }
}

/// Writes for all in one transaction: what came of each, once all of it is on the disk. An error of the disk is
/// everybody's, one of the entries is its caller's.
fn commit(
    connection: &Connection,
    writes: &[Write],
) -> Result<Vec<Result<Vec<Written>, StoreError>>, StoreError> {
    run(connection, "BEGIN IMMEDIATE")?;
    let mut results = Vec::with_capacity(writes.len());
    for write in writes {
        results.push(write_one(connection, &write.entries)?);
    }
    run(connection, "COMMIT")?;
    Ok(results)
}

fn write_one(
    connection: &Connection,
    entries: &[Entry],
) -> Result<Result<Vec<Written>, StoreError>, StoreError> {
    run(connection, "SAVEPOINT caller")?;
    let written: Result<_, StoreError> =
        entries.iter().map(|entry| apply(&mut Tables(connection), entry)).collect();
    match written {
        // The disk is to blame, or SQLite has taken back everything: nobody's entries can be trusted to be there.
        Err(error) if error.is_transient() || connection.is_autocommit() => return Err(error),
        Err(_) => run(connection, "ROLLBACK TO caller")?,
        Ok(_) => {}
    }
    run(connection, "RELEASE caller")?;
    Ok(written)
}

fn run(connection: &Connection, sql: &str) -> Result<(), StoreError> {
    let run = || connection.prepare_cached(sql)?.execute([]);
    run().map(drop).map_err(failed("write to the ledger"))
}

/// Reads something that every ledger has.
fn look(connection: &Connection) -> Result<(), StoreError> {
    let read = || connection.prepare_cached("SELECT last FROM ledger")?.query_row([], |_| Ok(()));
    read().map_err(failed("read the ledger"))
}
