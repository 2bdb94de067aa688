//! Callers that keep a log of what they were told.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use threshold_core::{
    Action, AlgorithmKind, Batch, LimitId, Partition, PermitId, Secret, Step, Store as _, StoreError, Unit,
};
use threshold_store::UniqueIds;
use tokio::task::JoinSet;

use crate::make::{algorithm, batch, one};
use crate::traffic::{COUNTED, Tested};

pub(crate) fn secret() -> Secret {
    Secret::new([7; 16])
}

/// A step of cost 1 under a limit of `count`, for a subject in a partition.
pub(crate) fn step(kind: AlgorithmKind, count: u64, (subject, partition): (&str, u16)) -> Step {
    let limit = algorithm(kind, &format!("{count} per 3000d"));
    let id = LimitId::new(kind.name()).unwrap();
    let key = secret().limit_key(&id, &limit, Unit::Requests).key(subject);
    one(key.within(Partition(partition)), limit)
}

pub(crate) async fn admits(store: &Tested, step: Step) -> bool {
    store.apply(&Batch::from(step)).await.unwrap().admitted()
}

/// Takes all that is left of a limit at once; says how much that was.
pub(crate) async fn drain(store: &Tested, step: Step) -> u64 {
    let left = store.peek(&Batch::from(step)).await.unwrap().verdicts[0].remaining;
    if let Some(cost) = NonZeroU64::new(left) {
        assert!(admits(store, Step { action: Action::Consume(cost), ..step }).await, "{left} are left");
    }
    assert!(!admits(store, step).await, "nothing is left");
    left
}

/// Charges and refunds batches of three partitions, each of which has a time of its own: all of it is there again.
pub(crate) async fn refund_three_partitions(store: &Tested) {
    for kind in COUNTED.into_iter().chain([AlgorithmKind::SlidingLog]) {
        for round in 0..20 {
            let subject = format!("refunded {round}");
            let steps = [1, 2, 3].map(|partition| step(kind, 5, (&subject, partition)));
            let outcome = store.apply(&batch(steps)).await.unwrap();
            assert!(outcome.charged, "{kind}");
            store.refund(&batch(steps), &outcome).await.unwrap();
            let left = store.peek(&batch(steps)).await.unwrap();
            assert!(left.verdicts.iter().all(|verdict| verdict.remaining == 5), "{kind}: {left:?}");
        }
    }
}

/// What callers were told.
#[derive(Default)]
pub(crate) struct Told {
    pub(crate) admitted: u64,
    pub(crate) refused: u64,
    pub(crate) errors: Vec<StoreError>,
}

/// Callers who ask again and again until they are told to stop.
pub(crate) struct Traffic {
    stop: Arc<AtomicBool>,
    callers: JoinSet<Told>,
}

impl Traffic {
    /// So many callers, all for this step.
    pub(crate) fn start(store: &Arc<Tested>, callers: usize, step: Step) -> Self {
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
            all.refused += told.refused;
            all.errors.extend(told.errors);
        }
        all
    }
}

async fn ask(store: Arc<Tested>, stop: Arc<AtomicBool>, step: Step) -> Told {
    let (mut told, permits) = (Told::default(), UniqueIds::new());
    while !stop.load(Ordering::Relaxed) {
        let action = match step.algorithm.kind() {
            AlgorithmKind::Concurrency => Action::Acquire(PermitId::new(permits.next()), NonZeroU64::MIN),
            _ => step.action,
        };
        match store.apply(&Batch::from(Step { action, ..step })).await {
            Ok(outcome) if outcome.admitted() => told.admitted += 1,
            Ok(_) => told.refused += 1,
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
pub(crate) async fn answers_again(store: &Tested, step: Step) {
    while let Err(error) = store.apply(&Batch::from(step)).await {
        assert!(error.is_transient(), "{error}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Lets the callers work for a while.
pub(crate) async fn for_a_while() {
    tokio::time::sleep(Duration::from_millis(150)).await;
}

/// One caller's log: how many of its batches were admitted.
async fn ask_across(store: Arc<Tested>, steps: [Step; 2], times: u64) -> u64 {
    let mut admitted = 0;
    for _ in 0..times {
        admitted += u64::from(store.apply(&batch(steps)).await.unwrap().admitted());
        tokio::task::yield_now().await;
    }
    admitted
}

/// So many pairs of callers, each pair with a limit of `own` and all with one of three times as many as there are pairs, in
/// another partition: they stay within every limit, and what one of them refuses is charged to none.
pub(crate) async fn stay_within_limits_of_two_partitions(store: &Arc<Tested>, pairs: u16, own: u64) {
    let all = u64::from(pairs) * 3;
    for kind in COUNTED {
        let everyone = step(kind, all, ("everyone", 7));
        let mut callers = JoinSet::new();
        for caller in 0..2 * pairs {
            let of_pair = step(kind, own, (&format!("user {}", caller / 2), 1_000 + caller / 2));
            // Every other pair of callers names the keys in the other order.
            let steps = if caller / 2 % 2 == 0 { [everyone, of_pair] } else { [of_pair, everyone] };
            let store = Arc::clone(store);
            callers.spawn(async move { (caller / 2, ask_across(store, steps, own).await) });
        }
        let mut of_user = vec![0; usize::from(pairs)];
        for (user, admitted) in callers.join_all().await {
            of_user[usize::from(user)] += admitted;
        }
        assert!(of_user.iter().all(|admitted| *admitted <= own), "{kind}: {of_user:?}");
        let admitted: u64 = of_user.iter().sum();
        let left = drain(store, everyone).await;
        assert!(admitted <= all, "{kind}: {admitted} were admitted");
        // A bucket that is given something back does not get the time back that has passed meanwhile.
        let most_lost = u64::from(kind == AlgorithmKind::TokenBucket);
        assert!((all - most_lost..=all).contains(&(admitted + left)), "{kind}: {admitted} + {left}");
    }
}
