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

pub(super) async fn a_place_that_was_given_away_is_not_renewed(bench: Bench) {
    let limit = bench.limit("jobs", AlgorithmKind::Concurrency, "1 per 10s");
    assert!(bench.one(limit.permit("alice", TAKE, 1)).await.admitted());
    let early = bench.advance(Span::from_micros(9_999_999));
    bench.advance(Span::TICK);
    assert!(bench.one(limit.permit("alice", TAKE, 2)).await.admitted());
    bench.clock.set(early);
    assert!(!bench.one(limit.permit("alice", Action::Renew, 1)).await.admitted(), "two would be out");
}

/// However many keys come in between, in the same batch.
pub(super) async fn a_release_that_is_taken_back_keeps_the_permit(bench: Bench) {
    let limit = bench.limit("jobs", AlgorithmKind::Concurrency, "1/min");
    assert!(bench.one(limit.permit("alice", TAKE, 1)).await.admitted());
    for round in 0..200 {
        let others = (0..20).map(|other| limit.permit(&format!("{round}.{other}"), TAKE, 1));
        let steps: Vec<_> =
            std::iter::once(limit.permit("alice", Action::Release, 1)).chain(others).collect();
        assert!(bench.peek(&steps).await.admitted());
        assert!(!bench.one(limit.permit("alice", TAKE, 2)).await.admitted(), "the permit is still out");
    }
}
