//! Where batches are gathered: whatever waits for one shard goes to it together, as one request.
//!
//! A batch that comes alone goes at once. While some of its shard are on their way, others gather, so the more there are
//! the less each costs. Different shards go beside each other.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use threshold_core::{Batch, Clock as _, ManualClock, Outcome, StoreError, Timestamp};
use tokio::sync::{mpsc, oneshot};

use super::error::Trouble;
use super::line::Line;
use super::wire::{self, Group};
use crate::across::Op;

/// The most batches and steps of one request: others on the same object wait no longer than for so many.
const GROUP: (usize, usize) = (256, 1_024);
/// Requests on their way at the same time: to one shard, so that the object need not wait for the next, and in all.
const CALLS: (usize, usize) = (2, 64);
/// The most batches that wait; more are turned away.
pub(super) const QUEUE: usize = 16_384;

pub(super) const DECIDE: &str = "decide in a Durable Object";
pub(super) const REFUND: &str = "refund in a Durable Object";

/// What a caller wants of a shard.
pub(super) struct Job {
    pub(super) shard: u16,
    pub(super) wish: Wish,
}

pub(super) enum Wish {
    Judge(Judged),
    Refund(Refunded),
}

/// A batch that is judged, and who waits for it: nobody for what gives permits back.
pub(super) struct Judged {
    pub(super) op: Op,
    pub(super) batch: Batch,
    pub(super) answer: Option<oneshot::Sender<Result<Outcome, StoreError>>>,
}

/// A batch that is taken back, when it was charged, and who waits for that.
pub(super) struct Refunded {
    pub(super) batch: Batch,
    pub(super) at: Timestamp,
    pub(super) answer: oneshot::Sender<Result<(), StoreError>>,
}

impl Job {
    fn steps(&self) -> usize {
        let (Wish::Judge(Judged { batch, .. }) | Wish::Refund(Refunded { batch, .. })) = &self.wish;
        batch.steps().len()
    }

    /// True if who waited for it has given up: charging it would help nobody.
    fn is_abandoned(&self) -> bool {
        match &self.wish {
            Wish::Judge(judged) => judged.answer.as_ref().is_some_and(oneshot::Sender::is_closed),
            Wish::Refund(_) => false,
        }
    }
}

impl Judged {
    /// Gives the answer to who waits for it. If nobody does any more, what gives the permits back is to be done next.
    fn end(self, shard: u16, outcome: Result<Outcome, StoreError>) -> Option<Job> {
        let charged = self.op == Op::Apply && outcome.as_ref().is_ok_and(|outcome| outcome.charged);
        let told = self.answer?.send(outcome);
        if charged && told.is_err() { release(shard, &self.batch) } else { None }
    }

    /// Tells who waits of an error. Nobody knows whether it was charged, and nobody will use it.
    fn fail(self, shard: u16, trouble: &Trouble) -> Option<Job> {
        // What gives permits back is tried once: they lapse by themselves.
        let _ = self.answer?.send(Err(trouble.during(DECIDE)));
        if self.op == Op::Apply { release(shard, &self.batch) } else { None }
    }
}

fn release(shard: u16, batch: &Batch) -> Option<Job> {
    let judged = Judged { op: Op::Apply, batch: batch.released()?, answer: None };
    Some(Job { shard, wish: Wish::Judge(judged) })
}

/// What the desk has done.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) batches: AtomicU64,
    pub(super) calls: AtomicU64,
}

/// What every request needs.
#[derive(Clone)]
pub(super) struct Desk {
    pub(super) line: Line,
    /// How many shards there are.
    pub(super) shards: u16,
    /// For tests: the time.
    pub(super) clock: Option<ManualClock>,
    pub(super) counts: Arc<Counts>,
}

/// What waits for one shard.
#[derive(Default)]
struct Lane {
    waiting: VecDeque<Job>,
    calls: usize,
    /// True if it stands in the row of those whose turn comes.
    in_row: bool,
}

/// What waits for all shards.
struct Lanes {
    lanes: Vec<Lane>,
    row: VecDeque<u16>,
    waiting: usize,
}

impl Lanes {
    fn push(&mut self, job: Job) {
        let shard = job.shard;
        self.lanes[usize::from(shard)].waiting.push_back(job);
        self.waiting += 1;
        self.line_up(shard);
    }

    fn line_up(&mut self, shard: u16) {
        let lane = &mut self.lanes[usize::from(shard)];
        if !lane.in_row && !lane.waiting.is_empty() && lane.calls < CALLS.0 {
            lane.in_row = true;
            self.row.push_back(shard);
        }
    }

    fn came_back(&mut self, shard: u16) {
        self.lanes[usize::from(shard)].calls -= 1;
        self.line_up(shard);
    }

    /// What goes next: what waits for a shard, up to the most of one request.
    fn next(&mut self) -> Option<(u16, Vec<Job>)> {
        let shard = self.row.pop_front()?;
        let lane = &mut self.lanes[usize::from(shard)];
        let (mut jobs, mut steps) = (Vec::new(), 0);
        while let Some(next) = lane.waiting.front() {
            steps += next.steps();
            if !jobs.is_empty() && (jobs.len() >= GROUP.0 || steps > GROUP.1) {
                break;
            }
            jobs.extend(lane.waiting.pop_front());
            self.waiting -= 1;
        }
        lane.calls += 1;
        lane.in_row = false;
        self.line_up(shard);
        Some((shard, jobs))
    }
}

impl Desk {
    /// Works until nobody can ask any more and all have their answers.
    pub(super) async fn work(self, mut asked: mpsc::Receiver<Job>) {
        let lanes = (0..self.shards).map(|_| Lane::default()).collect();
        let mut lanes = Lanes { lanes, row: VecDeque::new(), waiting: 0 };
        let (mut on_their_way, mut open) = (FuturesUnordered::new(), true);
        while open || lanes.waiting > 0 || !on_their_way.is_empty() {
            while on_their_way.len() < CALLS.1 {
                // Whatever came meanwhile goes with it.
                while lanes.waiting < QUEUE {
                    let Ok(job) = asked.try_recv() else { break };
                    lanes.push(job);
                }
                let Some((shard, jobs)) = lanes.next() else { break };
                on_their_way.push(self.clone().call(shard, jobs));
            }
            tokio::select! {
                biased;
                Some((shard, next)) = on_their_way.next() => {
                    lanes.came_back(shard);
                    next.into_iter().for_each(|job| lanes.push(job));
                }
                job = asked.recv(), if open && lanes.waiting < QUEUE => match job {
                    Some(job) => lanes.push(job),
                    None => open = false,
                },
            }
        }
    }

    /// Has jobs done by a shard, and answers. Gives what is to be done next.
    async fn call(self, shard: u16, jobs: Vec<Job>) -> (u16, Vec<Job>) {
        let (mut judged, mut refunds) = (Vec::new(), Vec::new());
        for job in jobs.into_iter().filter(|job| !job.is_abandoned()) {
            match job.wish {
                Wish::Judge(one) => judged.push(one),
                Wish::Refund(one) => refunds.push(one),
            }
        }
        let (next, ()) = tokio::join!(self.judge(shard, judged), self.refund(shard, refunds));
        (shard, next)
    }

    async fn judge(&self, shard: u16, judged: Vec<Judged>) -> Vec<Job> {
        if judged.is_empty() {
            return Vec::new();
        }
        self.counts.calls.fetch_add(1, Ordering::Relaxed);
        self.counts.batches.fetch_add(judged.len() as u64, Ordering::Relaxed);
        let mut group = Group::judged(judged.iter().map(|one| (one.op, &one.batch)), self.now());
        let answer = self.line.ask(&self.target("judge", shard), group.body()).await;
        let outcomes =
            answer.and_then(|answer| group.outcomes(&answer, judged.iter().map(|one| (one.op, &one.batch))));
        match outcomes {
            Ok(outcomes) => judged
                .into_iter()
                .zip(outcomes)
                .filter_map(|(one, outcome)| one.end(shard, outcome))
                .collect(),
            Err(trouble) => judged.into_iter().filter_map(|one| one.fail(shard, &trouble)).collect(),
        }
    }

    async fn refund(&self, shard: u16, refunds: Vec<Refunded>) {
        if refunds.is_empty() {
            return;
        }
        let body = wire::refunds(refunds.iter().map(|one| (one.at, &one.batch)), self.now());
        let done = self.line.ask(&self.target("refund", shard), body).await;
        for one in refunds {
            let done = done.as_ref().map(drop).map_err(|trouble| trouble.during(REFUND));
            // Who gave up waiting need not know.
            let _ = one.answer.send(done);
        }
    }

    fn now(&self) -> Option<Timestamp> {
        self.clock.as_ref().map(|clock| clock.now())
    }

    /// The address of a verb at a shard.
    pub(super) fn target(&self, verb: &str, shard: u16) -> String {
        let (prefix, shards) = (&self.line.place().prefix, self.shards);
        format!("/v1/{verb}?prefix={prefix}&shards={shards}&shard={shard}")
    }
}
