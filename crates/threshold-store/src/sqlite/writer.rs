//! The one thread that works on a store's file.
//!
//! Whatever waits when it looks is judged by core's own transition, one after the other and at one time, and written in one
//! transaction, which costs one wait for the disk however much it holds. A group that changes nothing is not written at
//! all. Answers are given after the commit: what was acknowledged survives.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use rusqlite::Connection;
use threshold_core::{Batch, Clock, Key, Outcome, Step, StoreError, Swept, Timestamp, transition};

use super::desk::Desk;
use super::error::{self, failed};
use super::line::{Answer, next_turn};
use super::oneshot::oneshot;
use super::states::Known;
use super::stats::Counters;
use super::sweep::Sweep;

/// The most callers that one transaction judges: none waits for too many others.
const GROUP: usize = 1_024;

/// The most steps of all those callers together, about; a batch is never divided.
const STEPS: usize = 8_192;

const JUDGE: &str = "judge a batch";

/// What callers ask for.
pub(super) enum Job {
    Task(Task, Answer<Outcome>),
    Sweep(usize, Answer<Swept>),
    /// Whether the file can be read.
    Look(Answer<()>),
}

/// What is done with states. In boxes, so that a long queue is not a large one.
pub(super) enum Task {
    Apply(Box<Batch>),
    Peek(Box<Batch>),
    /// Answered by an outcome that says nothing, as a reset is.
    Refund(Box<(Batch, Outcome)>),
    Reset(Vec<Key>),
}

impl Task {
    fn steps(&self) -> &[Step] {
        match self {
            Self::Apply(batch) | Self::Peek(batch) => batch.steps(),
            Self::Refund(charged) => charged.0.steps(),
            Self::Reset(_) => &[],
        }
    }

    /// What gives back the permits of a batch that was charged and for which nobody waits any more.
    fn unused(&self, answer: &Answer<Outcome>, outcome: &Result<Outcome, StoreError>) -> Option<Self> {
        let Self::Apply(batch) = self else { return None };
        let charged = outcome.as_ref().is_ok_and(|outcome| outcome.charged);
        let unused = charged && answer.is_abandoned();
        batch.released().filter(|_| unused).map(|batch| Self::Apply(Box::new(batch)))
    }

    /// How much there is to do.
    fn size(&self) -> usize {
        match self {
            Self::Reset(keys) => keys.len(),
            _ => self.steps().len(),
        }
    }
}

/// Callers that are judged together.
type Group = Vec<(Task, Answer<Outcome>)>;

/// What came of each of them.
type Outcomes = Vec<Result<Outcome, StoreError>>;

/// The thread at its desk.
pub(super) struct Writer {
    desk: Desk,
    known: Known,
    clock: Box<dyn Clock>,
    /// The latest time at which something was charged or dropped. Nothing is judged at an earlier one.
    ///
    /// Every transaction that writes keeps it in the file, so that neither a clock that goes back nor a restart under a
    /// clock that is behind admits anything twice: time stands still until the clock has caught up.
    latest: Timestamp,
    /// Where the next sweep goes on.
    sweep_from: u128,
    counters: Arc<Counters>,
}

impl Writer {
    /// A desk whose file is open; the time is read from it.
    pub(super) fn new(
        mut desk: Desk,
        clock: Box<dyn Clock>,
        counters: Arc<Counters>,
    ) -> Result<Self, StoreError> {
        let latest = desk.on_file(|connection| last(connection))?;
        counters.set_ahead(latest.since(clock.now()));
        Ok(Self { desk, known: Known::default(), clock, latest, sweep_from: 0, counters })
    }

    /// Works until nobody can ask any more, and closes the file.
    pub(super) fn work(mut self, waiting: &Receiver<Job>) -> Result<(), StoreError> {
        let mut sweeps = VecDeque::new();
        // Between two chunks of a sweep, whoever came meanwhile has its turn.
        while let Some(jobs) = next_turn(waiting, GROUP, !sweeps.is_empty()) {
            self.take_turn(jobs, &mut sweeps);
            if let Some((mut sweep, answer)) = sweeps.pop_front() {
                match self.go_on(&mut sweep) {
                    Ok(None) => sweeps.push_front((sweep, answer)),
                    Ok(Some(swept)) => answer.send(Ok(swept)),
                    Err(error) => answer.send(Err(error)),
                }
            }
        }
        self.desk.close()
    }

    /// Judges everything first; sweeps take longer and are put aside.
    fn take_turn(&mut self, jobs: impl Iterator<Item = Job>, sweeps: &mut VecDeque<(Sweep, Answer<Swept>)>) {
        let (mut group, mut looks, mut steps) = (Group::new(), Vec::new(), 0);
        for job in jobs {
            match job {
                Job::Task(task, answer) => {
                    steps += task.size();
                    group.push((task, answer));
                }
                Job::Sweep(budget, answer) => sweeps.push_back((Sweep::new(budget, self.sweep_from), answer)),
                Job::Look(answer) => looks.push(answer),
            }
            if steps >= STEPS {
                break;
            }
        }
        if !group.is_empty() {
            self.serve(group);
        }
        for answer in looks {
            answer.send(self.desk.on_file(|connection| last(connection).map(drop)));
        }
    }

    fn serve(&mut self, group: Group) {
        self.desk.renew();
        // After everyone in the group has asked, and before anyone is answered: the time is within each one's call.
        let now = self.now();
        if group.iter().any(|(task, _)| !matches!(task, Task::Peek(_))) {
            self.latest = now;
        }
        let Self { desk, known, counters, .. } = self;
        let judged = desk.on_file(|connection| judge(connection, known, &group, now));
        counters.count(group.len());
        match judged {
            Ok((outcomes, written)) => {
                counters.count_commits(written);
                let mut unused = Group::new();
                for ((task, answer), outcome) in group.into_iter().zip(outcomes) {
                    unused.extend(task.unused(&answer, &outcome).map(|task| (task, oneshot().0)));
                    answer.send(outcome);
                }
                if !unused.is_empty() {
                    self.serve(unused);
                }
            }
            Err(error) => {
                known.forget_all();
                group.into_iter().for_each(|(_, answer)| answer.send(Err(error::again(&error, JUDGE))));
            }
        }
    }

    /// A chunk of a sweep.
    fn go_on(&mut self, sweep: &mut Sweep) -> Result<Option<Swept>, StoreError> {
        self.desk.renew();
        let now = self.now();
        self.latest = now;
        let chunk = self.desk.on_file(|connection| {
            let (dropped, from) = sweep.chunk(connection, now)?;
            if !dropped.is_empty() {
                keep_time(connection, now)?;
            }
            run(connection, "COMMIT")?;
            Ok((dropped, from))
        });
        let (dropped, from) = chunk.inspect_err(|_| self.known.forget_all())?;
        dropped.into_iter().for_each(|key| self.known.forget(key));
        self.sweep_from = from;
        Ok(sweep.is_over().then(|| sweep.swept()))
    }

    fn now(&self) -> Timestamp {
        let shown = self.clock.now();
        self.counters.set_ahead(self.latest.since(shown));
        shown.max(self.latest)
    }
}

/// Judges a group in one transaction: what came of each, once all of it is on the disk, and whether there was anything to
/// write. An error of the disk is everybody's, one of a state is its caller's.
fn judge(
    connection: &Connection,
    known: &mut Known,
    group: &Group,
    now: Timestamp,
) -> Result<(Outcomes, bool), StoreError> {
    run(connection, "BEGIN")?;
    known.begin();
    let mut outcomes = Vec::with_capacity(group.len());
    for (task, _) in group {
        outcomes.push(judge_one(connection, known, task, now)?);
    }
    let written = known.write(connection)? > 0;
    if written {
        keep_time(connection, now)?;
    }
    run(connection, "COMMIT")?;
    Ok((outcomes, written))
}

fn judge_one(
    connection: &Connection,
    known: &mut Known,
    task: &Task,
    now: Timestamp,
) -> Result<Result<Outcome, StoreError>, StoreError> {
    for step in task.steps() {
        if let Err(error) = known.load(connection, step)? {
            return Ok(Err(error));
        }
    }
    let mut outcome = Outcome::default();
    match task {
        Task::Apply(batch) => transition::apply_into(batch.steps(), now, known, &mut outcome),
        Task::Peek(batch) => outcome = transition::peek(batch.steps(), now, known),
        Task::Refund(charged) => transition::refund(charged.0.steps(), &charged.1, now, known),
        Task::Reset(keys) => {
            for key in keys {
                known.reset(connection, key)?;
            }
        }
    }
    Ok(Ok(outcome))
}

/// Has time go on from `now` after a restart.
fn keep_time(connection: &Connection, now: Timestamp) -> Result<(), StoreError> {
    let micros = now.as_micros().cast_signed();
    let keep = || connection.prepare_cached("UPDATE store SET last = ?")?.execute([micros]);
    keep().map(drop).map_err(failed("keep the store's time"))
}

fn last(connection: &Connection) -> Result<Timestamp, StoreError> {
    let read = || connection.prepare_cached("SELECT last FROM store")?.query_row([], |row| row.get(0));
    let micros: i64 = read().map_err(failed("read the store's time"))?;
    // Kept by `keep_time` from a timestamp; whatever else is there is held at the ends of time.
    Ok(Timestamp::from_micros(micros.max(0).cast_unsigned()))
}

pub(super) fn run(connection: &Connection, sql: &str) -> Result<(), StoreError> {
    let run = || connection.prepare_cached(sql)?.execute([]);
    run().map(drop).map_err(failed("commit to the store"))
}
