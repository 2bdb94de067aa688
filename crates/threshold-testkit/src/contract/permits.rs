//! What concurrency limits must do.

use std::num::NonZeroU64;

use threshold_core::{Action, AlgorithmKind, Retry, Span};

use super::Bench;

const TAKE: fn(threshold_core::PermitId) -> Action = |id| Action::Acquire(id, NonZeroU64::MIN);

pub(super) async fn permits_bound_what_runs_at_once(bench: Bench) {
    let limit = bench.limit("jobs", AlgorithmKind::Concurrency, "2/min");
    assert_eq!(bench.one(limit.permit("alice", TAKE, 1)).await.remaining, 1);
    assert_eq!(bench.one(limit.permit("alice", TAKE, 2)).await.remaining, 0);
    assert_eq!(bench.one(limit.permit("alice", TAKE, 3)).await.retry, Retry::After(Span::MINUTE));
    assert!(bench.one(limit.permit("bob", TAKE, 3)).await.admitted());
    assert!(bench.one(limit.permit("alice", Action::Release, 1)).await.admitted());
    assert!(bench.one(limit.permit("alice", TAKE, 3)).await.admitted());
    assert_eq!(
        bench.one(limit.step("carol", 1)).await.retry,
        Retry::Never,
        "permits are taken, not consumed"
    );
}

pub(super) async fn a_permit_lapses_unless_it_is_renewed(bench: Bench) {
    let limit = bench.limit("jobs", AlgorithmKind::Concurrency, "2/min");
    bench.one(limit.permit("alice", TAKE, 1)).await;
    bench.one(limit.permit("alice", TAKE, 2)).await;
    bench.advance(Span::from_secs(40));
    assert!(bench.one(limit.permit("alice", Action::Renew, 1)).await.admitted());
    bench.advance(Span::from_secs(20));
    assert_eq!(bench.one(limit.permit("alice", Action::Renew, 2)).await.retry, Retry::Never, "it has lapsed");
    assert!(bench.one(limit.permit("alice", TAKE, 3)).await.admitted(), "its place is free");
    assert_eq!(bench.one(limit.permit("alice", TAKE, 4)).await.retry, Retry::After(Span::from_secs(40)));
}

pub(super) async fn a_permit_taken_again_is_renewed(bench: Bench) {
    let limit = bench.limit("jobs", AlgorithmKind::Concurrency, "1/min");
    assert!(bench.one(limit.permit("alice", TAKE, 1)).await.admitted());
    bench.advance(Span::from_secs(30));
    assert!(bench.one(limit.permit("alice", TAKE, 1)).await.admitted());
    assert_eq!(bench.one(limit.permit("alice", TAKE, 2)).await.retry, Retry::After(Span::MINUTE));
    let refused = [limit.permit("alice", Action::Release, 1), limit.permit("alice", Action::Renew, 9)];
    assert!(!bench.apply(&refused).await.admitted());
    assert!(!bench.one(limit.permit("alice", TAKE, 2)).await.admitted(), "the release was taken back");
}
