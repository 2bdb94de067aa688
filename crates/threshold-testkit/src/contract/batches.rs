//! What steps must do together.

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

use threshold_core::batch::MAX_STEPS;
use threshold_core::{Action, AlgorithmKind, Mode, Retry, Span, Step, Unit};

use super::{Bench, CHARGING, Limited};
use crate::figures::size;
use crate::strategies::{Request, limit, requests};
use crate::timed::{Pure, Timed};

pub(super) async fn a_refused_batch_charges_nobody(bench: Bench) {
    for kind in CHARGING {
        let tenant = bench.limit(&format!("tenant.{kind}"), kind, "100/min");
        let user = bench.limit(&format!("user.{kind}"), kind, "3/min");
        for _ in 0..50 {
            bench.apply(&[tenant.step("acme", 1), user.step("mallory", 1)]).await;
        }
        let outcome = bench.apply(&[tenant.step("acme", 1), user.step("mallory", 1)]).await;
        let [acme, mallory] = [outcome.verdicts[0], outcome.verdicts[1]];
        assert!(!outcome.admitted() && acme.admitted() && !mallory.admitted(), "{kind}");
        assert_eq!(acme.remaining, 97, "{kind}: a refused user drained the tenant");
        assert_eq!(bench.drain(&tenant, "acme", 200).await, 97, "{kind}");
    }
}

pub(super) async fn the_longest_wait_is_reported(bench: Bench) {
    let short = bench.limit("short", AlgorithmKind::TokenBucket, "1/s");
    let long = bench.limit("long", AlgorithmKind::TokenBucket, "1/min");
    let steps = [short.step("alice", 1), long.step("alice", 1)];
    assert!(bench.apply(&steps).await.admitted());
    assert_eq!(bench.apply(&steps).await.retry, Retry::After(Span::MINUTE));
    bench.advance(Span::MINUTE);
    assert!(bench.apply(&steps).await.admitted());
    let impossible = [long.step("alice", 1), short.step("alice", 2)];
    assert_eq!(bench.apply(&impossible).await.retry, Retry::Never);
}

pub(super) async fn a_key_named_twice_is_charged_twice_or_not_at_all(bench: Bench) {
    for kind in CHARGING {
        let limit = bench.limit(kind.name(), kind, "5/min");
        let twice = [limit.step("alice", 2), limit.step("alice", 2)];
        assert!(bench.apply(&twice).await.admitted(), "{kind}");
        assert!(!bench.apply(&[limit.step("alice", 1), limit.step("alice", 1)]).await.admitted(), "{kind}");
        assert_eq!(bench.drain(&limit, "alice", 5).await, 1, "{kind}");
    }
}

pub(super) async fn a_check_refuses_and_charges_nobody(bench: Bench) {
    for kind in CHARGING.into_iter().filter(|kind| *kind != AlgorithmKind::SlidingLog) {
        let gate = bench.limit(&format!("gate.{kind}"), kind, "1/min");
        let user = bench.limit(&format!("user.{kind}"), kind, "9/min");
        let check = Step { action: Action::Check, ..gate.step("alice", 1) };
        for _ in 0..3 {
            let outcome = bench.apply(&[check, user.step("alice", 1)]).await;
            assert!(outcome.admitted(), "{kind}: open");
            assert_eq!(outcome.verdicts[0].remaining, 1, "{kind}");
        }
        assert!(bench.one(gate.step("alice", 1)).await.admitted(), "{kind}: nothing was charged before");
        let outcome = bench.apply(&[check, user.step("alice", 1)]).await;
        assert!(!outcome.admitted() && outcome.verdicts[1].admitted(), "{kind}: closed");
        assert_eq!(bench.drain(&user, "alice", 20).await, 6, "{kind}");
    }
}

pub(super) async fn observed_steps_never_refuse(bench: Bench) {
    for kind in CHARGING {
        let dry = bench.limit(&format!("dry.{kind}"), kind, "2/min");
        let real = bench.limit(&format!("real.{kind}"), kind, "5/min");
        let steps = [dry.step("alice", 1).observed(), real.step("alice", 1)];
        let mut would_refuse = 0;
        for _ in 0..5 {
            let outcome = bench.apply(&steps).await;
            assert!(outcome.admitted(), "{kind}");
            would_refuse += u64::from(!outcome.verdicts[0].admitted());
        }
        assert_eq!(would_refuse, 3, "{kind}: judged and counted");
        let fresh = [dry.step("bob", 1).observed(), real.step("alice", 1)];
        assert!(!bench.apply(&fresh).await.admitted(), "{kind}");
        assert_eq!(bench.drain(&dry, "bob", 5).await, 2, "{kind}: a refused batch charges no observed step");
    }
}

pub(super) async fn verdicts_keep_the_order_of_the_steps(bench: Bench) {
    let limits: Vec<Limited> = (1..=4)
        .map(|n| bench.limit(&format!("n{n}"), AlgorithmKind::FixedWindow, &format!("{n}/min")))
        .collect();
    let steps: Vec<Step> = limits.iter().map(|limit| limit.step("alice", 1)).collect();
    let outcome = bench.apply(&steps).await;
    let seen: Vec<_> = outcome.verdicts.iter().map(|verdict| (verdict.limit, verdict.remaining)).collect();
    assert_eq!(seen, [(1, 0), (2, 1), (3, 2), (4, 3)]);
}

pub(super) async fn the_largest_batch_is_atomic(bench: Bench) {
    let limit = bench.limit("many", AlgorithmKind::TokenBucket, "2/min");
    let mut steps: Vec<Step> = (0..MAX_STEPS).map(|n| limit.step(&format!("user {n}"), 1)).collect();
    assert!(bench.apply(&steps).await.admitted());
    steps[MAX_STEPS - 1] = limit.step("user 0", 2);
    let outcome = bench.apply(&steps).await;
    assert!(!outcome.admitted() && outcome.verdicts.len() == MAX_STEPS);
    assert!(outcome.verdicts.iter().take(MAX_STEPS - 1).all(|verdict| verdict.remaining == 1));
}

pub(super) async fn peek_charges_nothing(bench: Bench) {
    for kind in CHARGING {
        let limit = bench.limit(kind.name(), kind, "5/min");
        bench.drain(&limit, "alice", 2).await;
        for _ in 0..20 {
            assert_eq!(bench.peek(&[limit.step("alice", 1)]).await.verdicts[0].remaining, 3, "{kind}");
        }
        assert!(!bench.peek(&[limit.step("alice", 4)]).await.admitted(), "{kind}");
        assert_eq!(bench.drain(&limit, "alice", 9).await, 3, "{kind}");
    }
}

pub(super) async fn a_refund_gives_back_what_is_still_felt(bench: Bench) {
    for kind in CHARGING {
        let limit = bench.limit(kind.name(), kind, "10/day");
        let steps = [limit.step("alice", 6)];
        let outcome = bench.apply(&steps).await;
        bench.refund(&[limit.step("alice", 4)], &outcome).await;
        assert_eq!(bench.drain(&limit, "alice", 20).await, 8, "{kind}: a part was refunded");
        bench.advance(Span::from_secs(3 * 86_400));
        assert_eq!(bench.drain(&limit, "alice", 20).await, 10, "{kind}");
        bench.refund(&steps, &outcome).await;
        assert_eq!(bench.drain(&limit, "alice", 20).await, 0, "{kind}: an old charge gives nothing back");
    }
}

pub(super) async fn a_refund_passes_over_what_was_not_charged(bench: Bench) {
    for kind in CHARGING {
        let limit = bench.limit(kind.name(), kind, "10/day");
        bench.drain(&limit, "alice", 10).await;
        let observed = [limit.step("alice", 5).observed()];
        let outcome = bench.apply(&observed).await;
        assert!(outcome.admitted() && !outcome.verdicts[0].admitted(), "{kind}");
        bench.refund(&observed, &outcome).await;
        let refused = [limit.step("alice", 5)];
        let outcome = bench.apply(&refused).await;
        bench.refund(&refused, &outcome).await;
        assert_eq!(bench.drain(&limit, "alice", 10).await, 0, "{kind}");
        let peeked = [limit.step("bob", 10)];
        let outcome = bench.peek(&peeked).await;
        assert_eq!(bench.drain(&limit, "bob", 10).await, 10, "{kind}");
        bench.refund(&peeked, &outcome).await;
        assert_eq!(bench.drain(&limit, "bob", 10).await, 0, "{kind}: a peek charges nothing to be refunded");
    }
}

/// The tentative second entry must not make the store forget what the first ones still mean.
pub(super) async fn a_key_named_twice_and_taken_back_forgets_nothing(bench: Bench) {
    let limit = bench.limit("log", AlgorithmKind::SlidingLog, "2 per 10s");
    assert_eq!(bench.drain(&limit, "alice", 3).await, 2);
    let early = bench.advance(Span::from_micros(9_999_999));
    bench.advance(Span::TICK);
    let twice = [limit.step("alice", 1), limit.step("alice", 1)];
    assert!(bench.peek(&twice).await.admitted());
    bench.clock.set(early);
    assert_eq!(bench.drain(&limit, "alice", 3).await, 0);
}

pub(super) async fn random_batches_match_the_transition(bench: Bench) {
    let mut runner = TestRunner::deterministic();
    for kind in AlgorithmKind::ALL {
        for _ in 0..size(40, 2_000) {
            let tree =
                limit(kind).prop_flat_map(|limit| (proptest::strategy::Just(limit), requests(&limit, 24)));
            let (limit, requests) = tree.new_tree(&mut runner).expect("a scenario").current();
            // Time only goes forward from one scenario to the next, and must not run out.
            let lasts: u64 = requests.iter().map(|request| request.wait.as_micros()).sum();
            if lasts < Span::from_secs(36_000).as_micros() {
                matches_the_transition(&bench, &limit, &requests).await;
            }
        }
    }
}

/// Runs the requests on the store and on the transition, in batches of varying shape, and compares outcomes.
async fn matches_the_transition(bench: &Bench, limit: &crate::strategies::Limit, requests: &[Request]) {
    // Keys of its own for each scenario.
    let secret = threshold_store::random_secret();
    let id = threshold_core::LimitId::new("random").expect("a name");
    let keys = secret.limit_key(&id, &limit.algorithm, Unit::Requests);
    let mut pure = Pure::default();
    for (index, request) in requests.iter().enumerate() {
        let now = bench.advance(request.wait);
        let step = crate::strategies::step(limit, request, index as u128);
        let on = |number: u8| Step { key: keys.key([number].as_slice()), ..step };
        let steps = match index % 3 {
            0 => vec![on(request.key)],
            1 => vec![on(request.key), on((request.key + 1) % 3)],
            _ => vec![on(request.key), Step { mode: Mode::Observe, ..on(0) }, on(request.key)],
        };
        assert_eq!(bench.apply(&steps).await, pure.apply(&steps, now), "{limit:?} {requests:?} at {index}");
        assert_eq!(bench.peek(&steps).await, pure.peek(&steps, now), "{limit:?} {requests:?} at {index}");
    }
}
