//! A store of ours, and many who ask it at once.

use std::any::Any;
use std::num::NonZeroU64;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use threshold::{Algorithm, AlgorithmKind, Batch, LimitId, Secret, Sharing, Step, Store, Unit};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use super::{Contender, Flow, stirred};
use crate::Outcome;

/// So high that nobody is refused: every decision is a charge, and every charge is written.
pub(super) const RATE: u64 = 1_000_000;

/// The secret of all stores here.
pub(super) fn secret() -> Secret {
    Secret::new([7; 16])
}

/// A store and what it is asked.
pub(super) struct Ours<S> {
    store: Arc<S>,
    batches: Arc<[Batch]>,
    runtime: Rc<Runtime>,
    /// Round trips or waits for the disk so far.
    trips: fn(&S) -> u64,
    /// What lives as long as it is used.
    _server: Rc<dyn Any>,
}

/// How many keys there are, how many steps a batch has, and how nodes share the limit.
#[derive(Clone, Copy)]
pub(super) struct Load {
    pub(super) keys: usize,
    pub(super) steps: usize,
    pub(super) rate: u64,
    pub(super) sharing: Sharing,
}

impl Load {
    pub(super) fn of(keys: usize) -> Self {
        Self { keys, steps: 1, rate: RATE, sharing: Sharing::default() }
    }

    fn batches(&self) -> Outcome<Arc<[Batch]>> {
        let Self { keys, steps, rate, sharing } = *self;
        let algorithm = Algorithm::new(AlgorithmKind::TokenBucket, &format!("{rate}/s").parse()?)?;
        // Partitions are for stores that have several places; the others ignore them.
        let limit = secret().partitioning().limit_key(&LimitId::new("bench")?, &algorithm, Unit::Requests);
        let step = |key: usize| {
            let step = Step::consume(limit.key(format!("user:{key}")), algorithm, NonZeroU64::MIN);
            Step { sharing, ..step }
        };
        let batch = |first: usize| {
            let mut batch = Batch::default();
            (0..steps).try_for_each(|layer| batch.push(step((first + layer * keys / steps) % keys)))?;
            Ok(batch)
        };
        Ok((0..keys).map(batch).collect::<Outcome<Vec<Batch>>>()?.into())
    }
}

impl<S: Store + 'static> Ours<S> {
    pub(super) fn new(
        store: S,
        load: &Load,
        (runtime, server): (&Rc<Runtime>, Rc<dyn Any>),
        trips: fn(&S) -> u64,
    ) -> Outcome<Rc<Self>> {
        let batches = load.batches()?;
        Ok(Rc::new(Self {
            store: Arc::new(store),
            batches,
            runtime: Rc::clone(runtime),
            trips,
            _server: server,
        }))
    }

    /// Asks about every key once, so that all are known.
    pub(super) fn warm(&self) -> Outcome<()> {
        self.decide(1_000, Duration::MAX, self.batches.len().div_ceil(1_000)).map(drop)
    }

    pub(super) fn contender(self: &Rc<Self>, name: &str, callers: usize) -> Contender {
        let ours = Rc::clone(self);
        let run = Box::new(move |time| ours.decide(callers, time, usize::MAX));
        Contender { name: format!("{name}, {callers} callers"), run }
    }

    /// Lets so many callers ask one after the other, for so long and so often at most.
    fn decide(&self, callers: usize, time: Duration, most: usize) -> Outcome<Flow> {
        let (before, begun) = ((self.trips)(&self.store), Instant::now());
        let asked: usize = self.runtime.block_on(async {
            let mut all = JoinSet::new();
            for caller in 0..callers {
                let (store, batches) = (Arc::clone(&self.store), Arc::clone(&self.batches));
                all.spawn(async move {
                    let mut asked = 0;
                    while asked < most && begun.elapsed() < time {
                        let turn = caller + asked * callers;
                        // The first `most` rounds ask for all keys.
                        let turn = if most == usize::MAX { stirred(turn) } else { turn };
                        let outcome = store.apply(&batches[turn % batches.len()]).await;
                        if !outcome.map_err(|error| error.to_string())?.admitted() {
                            return Err("our store refused a decision".to_owned());
                        }
                        asked += 1;
                        // A store that never waits would keep the others from their turn.
                        if asked.is_multiple_of(64) {
                            tokio::task::yield_now().await;
                        }
                    }
                    Ok(asked)
                });
            }
            all.join_all().await.into_iter().sum::<Result<usize, String>>()
        })?;
        let seconds = begun.elapsed().as_secs_f64();
        let trips = ((self.trips)(&self.store) - before) as f64 / asked as f64;
        Ok(Flow { rate: asked as f64 / seconds, trips })
    }
}
