//! The one thread that works on a ledger's file.
//!
//! Whatever waits when it looks is written in one transaction, which costs one wait for the disk however much it holds.
//! Each caller's entries have a savepoint of their own, so that an entry which makes no sense takes back nobody else's.
//! Answers are given after the commit: what was acknowledged survives.

use std::collections::VecDeque;
use std::sync::mpsc::Receiver;

use rusqlite::Connection;
use threshold_core::StoreError;
use threshold_core::ledger::{Entry, Page, Query, Written, apply};

use super::rows::Tables;
use super::sweep::Sweep;
use crate::sqlite::desk::Desk;
use crate::sqlite::error::{self, failed};
use crate::sqlite::line::{Answer, next_turn};

/// The most callers that one transaction writes for: none waits for too many others.
const GROUP: usize = 256;

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

/// The thread at its desk.
pub(super) struct Writer(Desk);

impl Writer {
    /// Works until nobody can ask any more, and closes the file.
    pub(super) fn work(desk: Desk, waiting: &Receiver<Job>) -> Result<(), StoreError> {
        let mut writer = Self(desk);
        let mut sweeps = VecDeque::new();
        // Between two chunks of a sweep, whoever came meanwhile has its turn.
        while let Some(jobs) = next_turn(waiting, GROUP, !sweeps.is_empty()) {
            sweeps.extend(writer.take_turn(jobs));
            if let Some((mut sweep, answer)) = sweeps.pop_front() {
                writer.0.renew();
                match writer.0.on_file(|connection| sweep.go_on(connection)) {
                    Ok(None) => sweeps.push_front((sweep, answer)),
                    Ok(Some(dropped)) => answer.send(Ok(dropped)),
                    Err(error) => answer.send(Err(error)),
                }
            }
        }
        writer.0.close()
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
            answer.send(self.0.on_file(|connection| super::read::page(connection, &query)));
        }
        for answer in looks {
            answer.send(self.0.on_file(|connection| look(connection)));
        }
        sweeps
    }

    fn write(&mut self, writes: Vec<Write>) {
        self.0.renew();
        match self.0.on_file(|connection| commit(connection, &writes)) {
            Ok(results) => {
                writes.into_iter().zip(results).for_each(|(write, result)| write.answer.send(result));
            }
            Err(error) => {
                writes.into_iter().for_each(|write| write.answer.send(Err(error::again(&error, WRITE))));
            }
        }
    }
}

const WRITE: &str = "write to the ledger";

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
    run().map(drop).map_err(failed(WRITE))
}

/// Reads something that every ledger has.
fn look(connection: &Connection) -> Result<(), StoreError> {
    let read = || connection.prepare_cached("SELECT last FROM ledger")?.query_row([], |_| Ok(()));
    read().map_err(failed("read the ledger"))
}
