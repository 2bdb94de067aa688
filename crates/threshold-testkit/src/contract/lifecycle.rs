//! What a store must do besides deciding.

use threshold_core::{AlgorithmKind, Health, Span, Store};

use super::{Bench, CHARGING};

pub(super) async fn reset_forgets_one_key(bench: Bench) {
    for kind in CHARGING {
        let limit = bench.limit(kind.name(), kind, "5/min");
        bench.drain(&limit, "alice", 5).await;
        bench.drain(&limit, "bob", 5).await;
        bench.store.reset(&[limit.key("alice")]).await.expect("the store answers");
        assert_eq!(bench.drain(&limit, "alice", 9).await, 5, "{kind}");
        assert_eq!(bench.drain(&limit, "bob", 9).await, 0, "{kind}");
    }
}

pub(super) async fn sweeping_loses_nothing(bench: Bench) {
    let limits = CHARGING.map(|kind| bench.limit(kind.name(), kind, "10/min"));
    for limit in &limits {
        bench.drain(limit, "alice", 7).await;
    }
    for _ in 0..7 {
        bench.advance(Span::from_secs(5));
        bench.store.sweep(usize::MAX).await.expect("the store answers");
        for limit in &limits {
            let kept = bench.peek(&[limit.step("alice", 1)]).await;
            bench.drain(limit, &format!("{:?}", kept.at), 10).await;
            assert_eq!(bench.peek(&[limit.step("alice", 1)]).await, kept);
        }
    }
    let log = bench.limit("log", AlgorithmKind::SlidingLog, "10/min");
    bench.drain(&log, "alice", 10).await;
    bench.store.sweep(usize::MAX).await.expect("the store answers");
    assert_eq!(bench.drain(&log, "alice", 10).await, 0);
}

pub(super) async fn reports_its_health_and_closes(bench: Bench) {
    assert!(matches!(bench.store.health().await, Health::Up { .. }));
    bench.store.close().await.expect("the store closes");
}
