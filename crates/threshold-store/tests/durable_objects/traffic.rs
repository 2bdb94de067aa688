//! Callers that keep a log of what they were told.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use threshold_core::{
    Action, AlgorithmKind, Batch, LimitId, Partition, Secret, Step, Store as _, StoreError, Unit,
};
use threshold_store::DurableObjectsStore;
use tokio::task::JoinSet;

use crate::make::{algorithm, one};

/// Every algorithm that counts; nothing of a limit comes back while a test lasts.
pub(crate) const COUNTED: [AlgorithmKind; 4] = [
    AlgorithmKind::TokenBucket,
    AlgorithmKind::FixedWindow,
    AlgorithmKind::SlidingWindow,
    AlgorithmKind::SlidingLog,
];

/// More than any test asks for before it drains it.
pub(crate) const LIMIT: u64 = 10_000;

pub(crate) fn secret() -> Secret {
    Secret::new([7; 16])
}

pub(crate) async fn open(url: &str) -> Arc<DurableObjectsStore> {
    Arc::new(DurableObjectsStore::open(url, &secret(), None).await.unwrap())
}

/// A step of cost 1 under a limit of `count`, for a subject in a partition.
pub(crate) fn step(kind: AlgorithmKind, count: u64, (subject, partition): (&str, u16)) -> Step {
    let limit = algorithm(kind, &format!("{count} per 3000d"));
    let id = LimitId::new(kind.name()).unwrap();
    let key = secret().limit_key(&id, &limit, Unit::Requests).key(subject);
    one(key.within(Partition(partition)), limit)
}

pub(crate) async fn admits(store: &DurableObjectsStore, step: Step) -> bool {
    store.apply(&Batch::from(step)).await.unwrap().admitted()
}

/// Takes all that is left of a limit at once; says how much that was.
pub(crate) async fn drain(store: &DurableObjectsStore, step: Step) -> u64 {
    let left = store.peek(&Batch::from(step)).await.unwrap().verdicts[0].remaining;
    if let Some(cost) = NonZeroU64::new(left) {
        assert!(admits(store, Step { action: Action::Consume(cost), ..step }).await, "{left} are left");
    }
    assert!(!admits(store, step).await, "nothing is left");
    left
}

/// What callers were told.
#[derive(Default)]
pub(crate) struct Told {
    pub(crate) admitted: u64,
    pub(crate) errors: Vec<StoreError>,
}

/// Callers who ask again and again until they are told to stop.
pub(crate) struct Traffic {
    stop: Arc<AtomicBool>,
    callers: JoinSet<Told>,
}

impl Traffic {
    /// So many callers, all for this step.
    pub(crate) fn start(store: &Arc<DurableObjectsStore>, callers: usize, step: Step) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let mut working = JoinSet::new();
        for _ in 0..callers {
            working.spawn(ask(Arc::clone(store), Arc::clone(&stop), step));
        }
        Self { stop, callers: working }
    }

    pub(crate) async fn stop(self) -> Told {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = Told::default();
        for told in self.callers.join_all().await {
            all.admitted += told.admitted;
            all.errors.extend(told.errors);
        }
        all
    }
}

async fn ask(store: Arc<DurableObjectsStore>, stop: Arc<AtomicBool>, step: Step) -> Told {
    let mut told = Told::default();
    while !stop.load(Ordering::Relaxed) {
        match store.apply(&Batch::from(step)).await {
            Ok(outcome) => told.admitted += u64::from(outcome.admitted()),
            Err(error) => {
                told.errors.push(error);
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        }
        tokio::task::yield_now().await;
    }
    told
}

/// Asks until the store answers again; every error until then is one that goes away.
pub(crate) async fn answers_again(store: &DurableObjectsStore, step: Step) {
    while let Err(error) = store.apply(&Batch::from(step)).await {
        assert!(error.is_transient(), "{error}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Lets the callers work for a while.
pub(crate) async fn for_a_while() {
    tokio::time::sleep(Duration::from_millis(150)).await;
}
