//! Where batches are gathered: whatever waits goes to Redis together, as one call of the script.
//!
//! A batch that comes alone goes at once. While some are on their way, others gather, so the more there are the less
//! each costs. In a cluster only those of one partition can go together; the others go beside each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use redis::{ErrorKind, RedisResult, ServerErrorKind, Value};
use threshold_core::{
    Batch, Clock, Key, ManualClock, Partition, Secret, StoreError, StoreErrorKind, Timestamp,
};
use tokio::sync::{mpsc, oneshot};

use super::error;
use super::kept::{self, Kept, Known};
use super::line::Line;
use super::losses::Losses;
use super::script::{Script, Text, Told};
use super::wire::{self, Answer, Judged, Keys};
use crate::across::Op;
use crate::clock::SystemClock;

/// The most batches and steps of one call: others on the same server wait no longer than for so many.
const GROUP: (usize, usize) = (64, 256);
/// Calls on their way at the same time: so many that the server need not wait for the next.
const CALLS: usize = 4;
/// The same in a cluster, where calls go to several servers and hold few batches.
const CALLS_OF_CLUSTER: usize = 256;
/// The most batches that wait; more are turned away.
pub(super) const QUEUE: usize = 16_384;

/// One caller's batch.
pub(super) struct Job {
    pub(super) op: Op,
    pub(super) batch: Batch,
    pub(super) answer: oneshot::Sender<Result<Answer, StoreError>>,
}

impl Job {
    /// Gives the answer to who waits for it. If nobody does any more, what gives the permits back is to be done next.
    fn end(self, answer: Answer) -> Option<Self> {
        let Self { op, batch, answer: waiting } = self;
        let charged = op == Op::Apply && answer.charged;
        let told = waiting.send(Ok(answer));
        if charged && told.is_err() { Self::release(&batch) } else { None }
    }

    /// Tells who waits for a closed limit that what was charged before may be lost; what is not closed is to be done next.
    fn doubt(self) -> Option<Self> {
        if !wire::is_closed(&self.batch) {
            return Some(self);
        }
        let _ = self.answer.send(Err(in_doubt()));
        None
    }

    /// Tells who waits of an error. Nobody knows whether it was charged, and nobody will use it.
    fn fail(self, error: &StoreError) -> Option<Self> {
        let _ = self.answer.send(Err(error::again(error)));
        if self.op == Op::Apply { Self::release(&self.batch) } else { None }
    }

    fn release(batch: &Batch) -> Option<Self> {
        let (answer, _) = oneshot::channel();
        Some(Self { op: Op::Apply, batch: batch.released()?, answer })
    }
}

/// What the desk has done.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) batches: AtomicU64,
    pub(super) calls: AtomicU64,
}

/// What every call needs.
#[derive(Clone)]
pub(super) struct Desk {
    pub(super) line: Line,
    pub(super) script: Arc<Script>,
    /// For tests: the time.
    pub(super) clock: Option<ManualClock>,
    pub(super) counts: Arc<Counts>,
    pub(super) losses: Arc<Losses>,
    /// Its fingerprint is kept there, since then.
    pub(super) secret: Secret,
    pub(super) since: Timestamp,
}

impl Desk {
    /// Works until nobody can ask any more and all have their answers.
    pub(super) async fn work(self, mut waiting: mpsc::Receiver<Job>) {
        let calls = if self.line.is_cluster() { CALLS_OF_CLUSTER } else { CALLS };
        let (mut on_their_way, mut open, mut held) = (FuturesUnordered::new(), true, None);
        while open || held.is_some() || !on_their_way.is_empty() {
            let free = on_their_way.len() < calls;
            if let Some(first) = held.take_if(|_| free) {
                let jobs = gather(first, &mut waiting, &mut held);
                self.split(jobs).for_each(|group| on_their_way.push(self.call(group)));
                continue;
            }
            tokio::select! {
                biased;
                Some(()) = on_their_way.next() => {}
                job = waiting.recv(), if open && held.is_none() => match job {
                    Some(job) => held = Some(job),
                    None => open = false,
                },
            }
        }
    }

    /// Those that can go together.
    fn split(&self, jobs: Vec<Job>) -> impl Iterator<Item = Vec<Job>> + use<> {
        let partition = |job: &Job| match (self.line.is_cluster(), job.batch.steps().first()) {
            (true, Some(step)) => step.key.partition(),
            _ => Partition::default(),
        };
        let mut groups: Vec<(Partition, Vec<Job>)> = Vec::new();
        for job in jobs {
            let of = partition(&job);
            match groups.iter_mut().find(|(partition, _)| *partition == of) {
                Some((_, group)) => group.push(job),
                None => groups.push((of, vec![job])),
            }
        }
        groups.into_iter().map(|(_, group)| group)
    }

    /// Has a group judged, and answers.
    fn call(&self, group: Vec<Job>) -> impl Future<Output = ()> + use<> {
        let desk = self.clone();
        async move {
            desk.counts.calls.fetch_add(1, Ordering::Relaxed);
            desk.counts.batches.fetch_add(group.len() as u64, Ordering::Relaxed);
            let mut keys = Keys::default();
            let blob = wire::judged(group.iter().map(|job| (job.op, &job.batch)), &mut keys);
            let closed = group.iter().any(|job| job.op == Op::Apply && wire::is_closed(&job.batch));
            let reply =
                desk.judge(keys.as_slice(), &blob, closed).await.map_err(error::failed("decide in Redis"));
            let judged = reply.and_then(|reply| wire::answers(reply, group.iter().map(|job| &job.batch)));
            let next: Vec<Job> = match judged {
                Ok(Judged::All(answers)) => {
                    group.into_iter().zip(answers).filter_map(|(job, answer)| job.end(answer)).collect()
                }
                Ok(Judged::Stranger(now, server)) => {
                    // If that cannot be said, whoever starts next finds a server that nobody told of.
                    let kept = desk.keep(&server).await.ok();
                    let lost = desk.losses.met(&server, now, kept.as_ref());
                    group.into_iter().filter_map(|job| if lost { job.doubt() } else { Some(job) }).collect()
                }
                Err(error) => group.into_iter().filter_map(|job| job.fail(&error)).collect(),
            };
            if !next.is_empty() {
                Box::pin(desk.call(next)).await;
            }
        }
    }

    /// Brings what is kept of the store as a whole up to date, where `server` was met.
    pub(super) async fn keep(&self, server: &str) -> Result<Kept, StoreError> {
        let known = Known { since: self.since, durable: self.losses.durable, servers: self.named(server) };
        kept::keep(&self.line, (&self.secret, None), known).await
    }

    /// Where one server has all of it, it is the one that is asked, and knows its own name best.
    fn named<'s>(&self, server: &'s str) -> &'s str {
        if self.line.is_cluster() { server } else { "" }
    }

    /// Has them judged: by a server that is known only, if some of them are `closed`.
    async fn judge(&self, keys: &[Key], blob: &[u8], closed: bool) -> RedisResult<Value> {
        let known = closed.then(|| self.losses.known());
        self.run(&self.script.judge, keys, (blob, known.as_deref())).await
    }

    /// Takes back what was charged.
    pub(super) async fn refund(&self, keys: &[Key], blob: &[u8]) -> RedisResult<Value> {
        self.run(&self.script.refund, keys, (blob, None)).await
    }

    /// Runs a script by its name, or, where the server has forgotten it, by its text: once.
    async fn run(
        &self,
        script: &Text,
        keys: &[Key],
        (blob, known): (&[u8], Option<&str>),
    ) -> RedisResult<Value> {
        let test = self.clock.as_ref().map(|clock| {
            let lives = SystemClock::new().now().as_micros() / 1_000 + LIVES_IN_TESTS;
            (clock.now().as_micros(), lives)
        });
        let (prefix, told) = (&self.line.place().prefix, Told { blob, test, known });
        let asked = self.line.ask(script.by_name(prefix, keys, told)).await;
        match asked {
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                self.line.ask(script.by_text(prefix, keys, told)).await
            }
            asked => asked,
        }
    }
}

/// What was judged by a server that may not know what another had promised.
fn in_doubt() -> StoreError {
    let detail = "another server answers, or the same one after a start: what was charged before may be lost, and closed \
                  limits start with nothing left";
    StoreError::new(StoreErrorKind::Unavailable, "decide in Redis", detail)
}

/// Tests may set their clock far from the server's: states live for an hour by the server's.
const LIVES_IN_TESTS: u64 = 3_600_000;

/// What waits, up to the most of one call; what does not fit any more is held for the next.
fn gather(first: Job, waiting: &mut mpsc::Receiver<Job>, held: &mut Option<Job>) -> Vec<Job> {
    let (most, most_steps) = GROUP;
    let mut steps = first.batch.steps().len();
    let mut jobs = vec![first];
    while jobs.len() < most {
        let Ok(next) = waiting.try_recv() else { break };
        steps += next.batch.steps().len();
        if steps > most_steps {
            *held = Some(next);
            break;
        }
        jobs.push(next);
    }
    jobs
}
