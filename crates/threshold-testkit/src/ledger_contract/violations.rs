//! Violations: what is written down of each, and when one is worse than it first seemed.

use threshold_core::Span;
use threshold_core::ledger::{Entry, Evidence, Strike, ViolationRecord, Worse, Written};
use threshold_core::standing::{Looks, Violation};

use super::{Bench, minute, second};

pub(super) async fn a_violation_is_read_back_as_it_was(bench: Bench) {
    let alice = bench.user("alice");
    let full = Evidence {
        kind: Violation::BurstAttack,
        count: u64::MAX,
        allowed: u64::MAX - 1,
        looks: Looks { country: Some(*b"NZ"), agent: Some(u32::MAX) },
        fingerprint: Some("f'\"\t\u{1F980}".to_owned()),
        user_agent: Some(String::new()),
        details: "line\nbreak; % _ ?".to_owned(),
    };
    let strike = Strike { evidence: full.clone(), window: Span::MAX, ..bench.strike(alice, second(0)) };
    let answered = bench.struck(strike.clone()).await;
    let plain = Strike { limit: format!("{}-plain", bench.name), ..bench.strike(alice, second(5)) };
    bench.struck(plain.clone()).await;
    let [first, second]: [ViolationRecord; 2] =
        bench.violations(alice).await.try_into().expect("two violations, oldest first");
    let expected = ViolationRecord {
        id: first.id,
        subject: alice,
        kind: Violation::BurstAttack,
        at: strike.at,
        limit: bench.name.clone(),
        count: full.count,
        allowed: full.allowed,
        window: Span::MAX,
        fingerprint: full.fingerprint,
        user_agent: full.user_agent,
        country: Some(*b"NZ"),
        details: full.details,
    };
    assert_eq!(first, expected);
    assert_eq!(answered.standing.habits.agent, Some(u32::MAX));
    assert!(first.id < second.id);
    assert_eq!((second.fingerprint, second.user_agent, second.country), (None, None, None));
    assert_eq!((second.count, second.allowed, second.window), (101, 100, plain.window));
}

pub(super) async fn a_worse_one_replaces_the_last_and_only_upwards(bench: Bench) {
    let (alice, bob) = (bench.user("alice"), bench.user("bob"));
    for (subject, at) in [(alice, minute(0)), (alice, minute(1)), (bob, minute(1))] {
        bench.struck(bench.strike(subject, at)).await;
    }
    let worse = |kind, count, at| {
        let (limit, window) = (bench.name.clone(), Span::MINUTE);
        Entry::Worse(Worse { subject: alice, limit, window, at, kind, count })
    };
    use Violation::{BurstAttack, RateExceeded, SuspiciousPattern};
    let steps = [
        (worse(RateExceeded, 900, second(70)), false),
        (worse(SuspiciousPattern, 50, second(71)), true),
        (worse(BurstAttack, 400, minute(2)), true),
        (worse(SuspiciousPattern, 999, second(72)), false),
        (worse(BurstAttack, 999, second(73)), false),
        (worse(BurstAttack, 999, minute(2).plus(Span::TICK)), false),
    ];
    for (step, (entry, found)) in steps.into_iter().enumerate() {
        assert_eq!(bench.one(entry).await, Written::Worse(found), "step {step}");
        let kinds: Vec<_> = bench.violations(alice).await.iter().map(|one| (one.kind, one.count)).collect();
        let last = [(RateExceeded, 101), (SuspiciousPattern, 101), (BurstAttack, 400)][step.min(2)];
        assert_eq!(kinds, [(RateExceeded, 101), last], "the last one, upwards only, after step {step}");
    }
    assert_eq!(bench.violations(bob).await[0].kind, RateExceeded, "nobody else's");
}

pub(super) async fn odd_habits_make_it_suspicious(bench: Bench) {
    let alice = bench.user("alice");
    let from = |country: &[u8; 2], at| {
        let mut strike = bench.strike(alice, at);
        strike.evidence.looks.country = Some(*country);
        strike.evidence.details = "seen".to_owned();
        strike
    };
    assert_eq!(bench.struck(from(b"DE", minute(0))).await.kind, Violation::RateExceeded);
    assert_eq!(bench.struck(from(b"DE", minute(10))).await.kind, Violation::RateExceeded);
    let moved = bench.struck(from(b"US", minute(20))).await;
    assert_eq!(moved.kind, Violation::SuspiciousPattern);
    assert_eq!(moved.standing.habits.country, Some(*b"US"));
    let closer = bench.struck(bench.strike(alice, minute(21))).await;
    assert_eq!(closer.kind, Violation::SuspiciousPattern);
    let written: Vec<_> =
        bench.violations(alice).await.into_iter().map(|one| (one.kind, one.details)).collect();
    let expected = [
        (Violation::RateExceeded, "seen".to_owned()),
        (Violation::RateExceeded, "seen".to_owned()),
        (Violation::SuspiciousPattern, "seen; change of country".to_owned()),
        (Violation::SuspiciousPattern, "jump in frequency".to_owned()),
    ];
    assert_eq!(written, expected);
}
