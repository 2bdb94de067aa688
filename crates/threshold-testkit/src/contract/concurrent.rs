//! What must hold when everyone comes at once, judged by the callers' own counts.

use std::sync::Arc;

use tokio::task::JoinSet;

use threshold_core::{AlgorithmKind, Store};

use super::{Bench, CHARGING, batch};

const CALLERS: u64 = 50;
const CALLS: u64 = 20;

pub(super) async fn concurrent_requests_are_admitted_exactly(bench: Bench) {
    for kind in CHARGING {
        let limit = bench.limit(kind.name(), kind, "300/day");
        let mut callers = JoinSet::new();
        for _ in 0..CALLERS {
            let (store, step) = (Arc::clone(&bench.store), batch(&[limit.step("hot", 1)]));
            callers.spawn(async move {
                let mut admitted = 0;
                for _ in 0..CALLS {
                    let outcome = store.apply(&step).await.expect("the store answers");
                    admitted += u64::from(outcome.admitted());
                    tokio::task::yield_now().await;
                }
                admitted
            });
        }
        assert_eq!(callers.join_all().await.into_iter().sum::<u64>(), 300, "{kind}");
    }
}

pub(super) async fn concurrent_batches_share_a_key_exactly(bench: Bench) {
    let tenant = bench.limit("tenant", AlgorithmKind::TokenBucket, "300/day");
    let user = bench.limit("user", AlgorithmKind::TokenBucket, "10/day");
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let store = Arc::clone(&bench.store);
        let user_step = user.step(&format!("user {caller}"), 1);
        // Every other caller names the keys in the other order: no order may deadlock or leak.
        let mut steps = [tenant.step("acme", 1), user_step];
        steps.rotate_left(usize::from(caller % 2 == 0));
        callers.spawn(async move {
            let mut admitted = 0;
            for _ in 0..CALLS {
                admitted += u64::from(store.apply(&batch(&steps)).await.expect("it answers").admitted());
                tokio::task::yield_now().await;
            }
            admitted
        });
    }
    let admitted = callers.join_all().await;
    assert!(admitted.iter().all(|one| *one <= 10), "no user above its own limit");
    assert_eq!(admitted.into_iter().sum::<u64>(), 300, "the tenant's budget, no more and no less");
}
