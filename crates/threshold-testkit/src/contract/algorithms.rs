//! What a single charge must do.

use threshold_core::{AlgorithmKind, Retry, Span, Timestamp};

use super::{Bench, CHARGING};

pub(super) async fn the_first_request_of_a_key_counts(bench: Bench) {
    for kind in CHARGING {
        let limit = bench.limit(kind.name(), kind, "1/day");
        assert!(bench.one(limit.step("new", 1)).await.admitted(), "{kind}");
        assert!(!bench.one(limit.step("new", 1)).await.admitted(), "{kind}: the first one was not counted");
    }
}

pub(super) async fn admits_up_to_the_limit_and_no_further(bench: Bench) {
    for kind in CHARGING {
        let limit = bench.limit(kind.name(), kind, "10/min");
        for left in (0..10).rev() {
            let verdict = bench.one(limit.step("alice", 1)).await;
            assert_eq!((verdict.retry, verdict.limit, verdict.remaining), (Retry::Now, 10, left), "{kind}");
        }
        assert_eq!(bench.drain(&limit, "alice", 100).await, 0, "{kind}");
    }
}

pub(super) async fn refills_without_loss_at_any_phase(bench: Bench) {
    for wait_us in [50_000, 49_999, 33_333, 100_000] {
        let limit = bench.limit("bucket", AlgorithmKind::TokenBucket, "10/s");
        let key = format!("every {wait_us}");
        let (mut admitted, began) = (0, bench.advance(Span::ZERO));
        let mut now = began;
        while now.since(began) < Span::from_secs(10) {
            admitted += u64::from(bench.one(limit.step(&key, 1)).await.admitted());
            now = bench.advance(Span::from_micros(wait_us));
        }
        let earned = 10 + now.since(began).as_micros() / 100_000;
        let asked = now.since(began).as_micros() / wait_us;
        assert!(admitted + 1 >= earned.min(asked), "{admitted} of {earned}, polling every {wait_us}us");
    }
}

pub(super) async fn charges_what_a_request_costs(bench: Bench) {
    for kind in CHARGING {
        let limit = bench.limit(kind.name(), kind, "10/min");
        assert_eq!(bench.one(limit.step("alice", 3)).await.remaining, 7, "{kind}");
        assert_eq!(bench.one(limit.step("alice", 7)).await.remaining, 0, "{kind}");
        let verdict = bench.one(limit.step("bob", 10)).await;
        assert!(verdict.admitted() && verdict.remaining == 0, "{kind}");
    }
}

pub(super) async fn a_cost_above_the_capacity_never_fits(bench: Bench) {
    for kind in CHARGING {
        let limit = bench.limit(kind.name(), kind, "10/min");
        let verdict = bench.one(limit.step("alice", 11)).await;
        assert_eq!((verdict.retry, verdict.remaining), (Retry::Never, 10), "{kind}");
        assert_eq!(bench.one(limit.step("alice", u64::MAX)).await.retry, Retry::Never, "{kind}");
        assert_eq!(bench.drain(&limit, "alice", 11).await, 10, "{kind}: nothing was charged");
    }
}

pub(super) async fn retry_is_exact_to_the_tick(bench: Bench) {
    for kind in CHARGING {
        let limit = bench.limit(kind.name(), kind, "7/min");
        for cost in [3, 2, 2, 1, 5, 7, 4] {
            bench.advance(Span::from_micros(7_654_321));
            let verdict = bench.one(limit.step("alice", cost)).await;
            let Retry::After(wait) = verdict.retry else { continue };
            let then = bench.advance(wait);
            bench.clock.set(then.minus(Span::TICK));
            assert!(!bench.peek(&[limit.step("alice", cost)]).await.admitted(), "{kind}: one tick early");
            bench.clock.set(then);
            assert!(bench.one(limit.step("alice", cost)).await.admitted(), "{kind}: at {wait}");
        }
    }
}

pub(super) async fn an_expired_state_is_as_new(bench: Bench) {
    for kind in CHARGING {
        let limit = bench.limit(kind.name(), kind, "10/min");
        bench.drain(&limit, "alice", 10).await;
        let verdict = bench.one(limit.step("alice", 1)).await;
        bench.advance(verdict.reset);
        assert_eq!(bench.peek(&[limit.step("alice", 1)]).await, bench.peek(&[limit.step("nobody", 1)]).await);
        assert_eq!(bench.drain(&limit, "alice", 20).await, 10, "{kind}");
    }
}

pub(super) async fn a_clock_that_goes_back_admits_nothing(bench: Bench) {
    for kind in CHARGING {
        let limit = bench.limit(kind.name(), kind, "100/day");
        let noon = bench.clock.advance(Span::from_secs(12 * 3_600));
        let mut admitted = bench.drain(&limit, "alice", 150).await;
        for _ in 0..10 {
            bench.clock.set(noon.minus(Span::HOUR));
            admitted += bench.drain(&limit, "alice", 20).await;
            bench.clock.set(noon);
            admitted += bench.drain(&limit, "alice", 20).await;
        }
        assert_eq!(admitted, 100, "{kind}");
    }
}

pub(super) async fn calendar_windows_start_at_midnight(bench: Bench) {
    let limit = bench.limit("daily", AlgorithmKind::CalendarWindow, "3/day");
    let day = Span::DAY.as_micros();
    let midnight = Timestamp::from_micros((bench.advance(Span::ZERO).as_micros() / day + 1) * day);
    bench.clock.set(midnight.minus(Span::TICK));
    assert_eq!(bench.drain(&limit, "alice", 5).await, 3);
    assert_eq!(bench.one(limit.step("alice", 1)).await.retry, Retry::After(Span::TICK));
    bench.clock.set(midnight);
    assert_eq!(bench.drain(&limit, "alice", 5).await, 3);
    assert_eq!(bench.one(limit.step("alice", 1)).await.retry, Retry::After(Span::DAY));
}

pub(super) async fn keys_stay_apart(bench: Bench) {
    for kind in CHARGING {
        let limit = bench.limit(kind.name(), kind, "5/min");
        assert_eq!(bench.drain(&limit, "alice", 10).await, 5, "{kind}");
        assert_eq!(bench.drain(&limit, "bob", 10).await, 5, "{kind}");
    }
}

pub(super) async fn limits_stay_apart(bench: Bench) {
    let cheap = bench.limit("cheap", AlgorithmKind::TokenBucket, "10/min");
    let dear = bench.limit("dear", AlgorithmKind::TokenBucket, "5/min");
    assert_eq!(bench.drain(&cheap, "alice", 20).await, 10);
    assert_eq!(bench.one(dear.step("alice", 1)).await.remaining, 4);
}

pub(super) async fn changed_limits_keep_consumption(bench: Bench) {
    for kind in CHARGING {
        let before = bench.limit(kind.name(), kind, "10/day");
        assert_eq!(bench.drain(&before, "alice", 6).await, 6);
        let raised = bench.limit(kind.name(), kind, "20/day");
        let verdict = bench.peek(&[raised.step("alice", 1)]).await.verdicts[0];
        assert_eq!(verdict.remaining, 20 - 6, "{kind}: raised");
        let lowered = bench.limit(kind.name(), kind, "3/day");
        assert!(!bench.one(lowered.step("alice", 1)).await.admitted(), "{kind}: lowered");
        assert_eq!(bench.drain(&before, "alice", 10).await, 4, "{kind}: and back");
    }
}
