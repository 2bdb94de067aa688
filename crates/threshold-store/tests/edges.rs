//! What an adversary or an unlucky operator might try. Nothing of it may admit more than the limit.
#![cfg(not(feature = "loom"))]

#[path = "common/make.rs"]
mod make;

use std::num::NonZeroU64;
use std::ops::Range;

use make::{CELLS, NOON, acquire, admits, algorithm, batch, cost, drain, one, store};
use threshold_core::batch::MAX_STEPS;
use threshold_core::{
    Action, AlgorithmKind, Batch, Clock, Key, ManualClock, PermitId, Retry, Span, Step, Timestamp,
};
use threshold_store::MemoryStore;

/// The smallest cap.
const CAP: usize = 64 << 10;
/// A cap that leaves shared buckets for the limits under test besides those of the filler.
const ROOMY: usize = 512 << 10;

#[test]
fn a_key_named_twice_in_a_batch_is_charged_twice_or_not_at_all() {
    for (kind, full) in counting_kinds() {
        let (_, store) = if full { full_store() } else { store(CAP) };
        let (limit, other) = (algorithm(kind, "3/min"), algorithm(kind, "1/min"));
        let twice = [one(key(1), limit), one(key(1), limit)];
        let blocked = [twice[0], twice[1], Step::consume(key(9), other, cost(2))];
        assert!(!store.apply_now(&batch(blocked)).admitted(), "{kind}");
        assert!(store.apply_now(&batch(twice)).admitted(), "{kind}: a refusal left something behind");
        assert!(!store.apply_now(&batch(twice)).admitted(), "{kind}: four of three");
        assert_eq!(drain(&store, &twice[0]), 1, "{kind}");
    }
}

#[test]
fn a_holder_named_twice_in_a_batch_holds_one_permit_or_none() {
    let (_, store) = store(CAP);
    let limit = algorithm(AlgorithmKind::Concurrency, "2/min");
    let release = Step { action: Action::Release(PermitId::new(7)), ..one(key(1), limit) };
    let renew = Step { action: Action::Renew(PermitId::new(7)), ..one(key(1), limit) };
    let never = Step::consume(key(9), algorithm(AlgorithmKind::TokenBucket, "1/min"), cost(2));
    let in_and_out = [acquire(key(1), limit, 7), renew, acquire(key(1), limit, 7), release];
    assert!(!store.apply_now(&batch(in_and_out.into_iter().chain([never]))).admitted());
    assert!(!admits(&store, &renew), "the refused batch left a permit");
    assert!(store.apply_now(&batch(in_and_out)).admitted());
    assert!(!admits(&store, &renew), "it was given back at the end");
    assert!(store.apply_now(&batch(in_and_out.into_iter().take(3))).admitted());
    assert!(!store.apply_now(&batch([release, never])).admitted());
    assert!(admits(&store, &renew), "a refused batch released nothing");
    assert_eq!((0..4).filter(|holder| admits(&store, &acquire(key(1), limit, *holder))).count(), 1);
}

#[test]
fn a_batch_takes_a_thousand_and_twenty_four_steps_and_not_one_more() {
    let (_, store) = store(1 << 20);
    let limit = algorithm(AlgorithmKind::TokenBucket, "1/min");
    let steps = (0..MAX_STEPS as u128).map(|subject| one(key(subject), limit));
    let mut all = batch(steps.clone());
    assert!(all.push(one(key(5_000), limit)).is_err());
    let blocked = batch(steps.take(MAX_STEPS - 1).chain([Step::consume(key(5_000), limit, cost(2))]));
    let refused = store.apply_now(&blocked);
    assert_eq!((refused.retry, refused.verdicts.len()), (Retry::Never, MAX_STEPS));
    assert!(store.apply_now(&all).admitted(), "the refused batch charged nothing");
    assert!(all.steps().iter().all(|step| !admits(&store, step)), "and this one everything");
}

#[test]
fn an_empty_batch_is_admitted_and_changes_nothing() {
    let (_, store) = store(CAP);
    assert!(store.apply_now(&Batch::default()).admitted());
    assert_eq!(store.stats().keys, 0);
}

#[test]
fn a_clock_that_goes_back_admits_nothing_extra() {
    for kind in CELLS.into_iter().chain([AlgorithmKind::SlidingLog]) {
        let (clock, store) = store(CAP);
        let step = one(key(1), algorithm(kind, "3/min"));
        assert_eq!(drain(&store, &step), 3, "{kind}");
        for back in [Span::TICK, Span::SECOND, Span::HOUR] {
            clock.set(NOON.minus(back));
            assert!(!admits(&store, &step), "{kind}, {back} back");
            clock.set(Timestamp::default());
            assert!(!admits(&store, &step), "{kind}, at the epoch");
        }
        clock.set(NOON.plus(Span::from_secs(59)));
        let due = if kind == AlgorithmKind::TokenBucket { 2 } else { 0 };
        let early = drain(&store, &step);
        assert!(early <= due, "{kind}: {early} within the minute");
    }
}

#[test]
fn at_the_end_of_time_limits_still_hold() {
    for kind in AlgorithmKind::ALL {
        let (clock, store) = store(CAP);
        let step = |holder| match kind {
            AlgorithmKind::Concurrency => acquire(key(1), algorithm(kind, "3/min"), holder),
            _ => one(key(1), algorithm(kind, "3/min")),
        };
        let taken = |from: u64| (from..from + 9).filter(|holder| admits(&store, &step(*holder))).count();
        assert_eq!(taken(0), 3, "{kind}");
        clock.set(Timestamp::MAX);
        assert_eq!(taken(10), 3, "{kind}, at the end of time");
        let _ = store.sweep_now(usize::MAX);
        clock.advance(Span::DAY);
        assert_eq!(taken(20), 0, "{kind}: time has stopped");
        assert!(matches!(store.apply_one_now(&step(30)).1.retry, Retry::After(_)), "{kind}");
    }
}

#[test]
fn a_key_that_expired_and_comes_back_is_new_whether_it_was_swept_or_not() {
    for kind in CELLS.into_iter().chain([AlgorithmKind::SlidingLog]) {
        for swept in [false, true] {
            let (clock, store) = store(CAP);
            let step = one(key(1), algorithm(kind, "3/min"));
            for _ in 0..5 {
                assert_eq!(drain(&store, &step), 3, "{kind}");
                clock.advance(Span::from_secs(121));
                if swept {
                    assert_eq!(store.sweep_now(usize::MAX).dropped, 1, "{kind}");
                }
            }
        }
    }
}

#[test]
fn a_sweep_drops_the_expired_and_nothing_else_whatever_its_budget() {
    let (clock, store) = store(1 << 20);
    let [short, long] = ["1/min", "1/hour"].map(|rate| algorithm(AlgorithmKind::TokenBucket, rate));
    for subject in 0..1_000 {
        assert!(admits(&store, &one(key(subject), short)));
        assert!(admits(&store, &one(key(10_000 + subject), long)));
    }
    assert_eq!(store.sweep_now(usize::MAX).dropped, 0, "nothing has expired");
    clock.advance(Span::from_secs(61));
    assert_eq!(store.sweep_now(0), Default::default(), "no budget, no work");
    let swept = store.sweep_now(usize::MAX);
    assert_eq!((swept.seen, swept.dropped), (2_000, 1_000));
    assert_eq!(store.stats().keys, 1_000);
    let refused = (0..1_000).filter(|subject| !admits(&store, &one(key(10_000 + subject), long)));
    assert_eq!(refused.count(), 1_000);
}

#[test]
fn small_sweeps_add_up_to_a_whole_one() {
    let (clock, store) = store(1 << 20);
    let limit = algorithm(AlgorithmKind::TokenBucket, "1/min");
    (0..1_000).for_each(|subject| assert!(admits(&store, &one(key(subject), limit))));
    clock.advance(Span::from_secs(61));
    let dropped: usize = (0..64).map(|_| store.sweep_now(1).dropped).sum();
    assert_eq!(dropped, 1_000, "one shard each time, and there are fewer than 64");
}

/// A peek at the cap must not spend what it looks at, nor what others share.
#[test]
fn a_peek_charges_nothing_with_or_without_room() {
    for (kind, full) in counting_kinds() {
        let (_, store) = if full { full_store() } else { store(CAP) };
        let step = one(key(1), algorithm(kind, "3/min"));
        for _ in 0..100 {
            assert!(store.peek_now(&Batch::from(step)).admitted(), "{kind}");
        }
        assert_eq!(drain(&store, &step), 3, "{kind}");
    }
}

/// J shares a bucket because there was no room. K had a slot of its own, which a reset took away. K's refund
/// must not be paid out of J's bucket.
#[test]
fn a_refund_is_never_paid_from_a_bucket_that_others_share() {
    for kind in CELLS.into_iter().chain([AlgorithmKind::SlidingLog]) {
        let (clock, store) = store(ROOMY);
        let limit = algorithm(kind, "3/min");
        let (j, k) = (one(beside(1), limit), one(beside(2), limit));
        let of_k = store.apply_now(&Batch::from(k));
        fill(&clock, &store);
        assert!(admits(&store, &j), "{kind}");
        store.reset_now(&[k.key]);
        store.refund_now(&Batch::from(k), &of_k);
        assert_eq!(drain(&store, &j), 2, "{kind}: J was paid K's refund");
    }
}

/// The charge was made in a window of K's own that has ended; the shared window that is open now also covers
/// that instant.
#[test]
fn a_late_refund_does_not_reach_into_a_shared_window() {
    let (clock, store) = store(ROOMY);
    let limit = algorithm(AlgorithmKind::FixedWindow, "3/min");
    let (j, k) = (one(beside(1), limit), one(beside(2), limit));
    assert!(admits(&store, &k));
    fill(&clock, &store);
    clock.advance(Span::from_secs(30));
    assert_eq!(drain(&store, &j), 3);
    clock.advance(Span::from_secs(10));
    let of_k = store.apply_now(&Batch::from(k));
    clock.advance(Span::from_secs(21));
    let _ = store.sweep_now(usize::MAX);
    store.refund_now(&Batch::from(k), &of_k);
    assert!(!admits(&store, &j));
}

#[test]
fn a_key_that_finds_a_slot_later_brings_what_it_was_charged_before() {
    for kind in CELLS.into_iter().chain([AlgorithmKind::SlidingLog]) {
        let (clock, store) = full_store();
        let step = one(key(1), algorithm(kind, "3/hour"));
        assert!(admits(&store, &step) && admits(&store, &step), "{kind}");
        let shared = store.stats().shared_charges;
        clock.advance(Span::from_secs(125));
        let _ = store.sweep_now(usize::MAX);
        assert_eq!(drain(&store, &step), 1, "{kind}");
        assert_eq!(store.stats().shared_charges, shared, "{kind}: it has a slot of its own by now");
    }
}

/// Whoever was judged at a later time is not judged at an earlier one again.
#[test]
fn a_clock_that_went_ahead_and_back_is_held_at_its_highest_reading() {
    for kind in CELLS.into_iter().chain([AlgorithmKind::SlidingLog]) {
        let (clock, store) = full_store();
        let step = one(key(1), algorithm(kind, "3/hour"));
        assert_eq!(drain(&store, &step), 3, "{kind}");
        (0..4_000).for_each(|subject| store.reset_now(&[filler(subject, 101)]));
        clock.advance(Span::from_secs(2 * 3_600 + 1));
        assert!(!admits(&store, &Step::consume(step.key, step.algorithm, cost(4))), "{kind}");
        clock.set(NOON.plus(Span::MINUTE));
        assert_eq!(drain(&store, &step), 3, "{kind}: as two hours later");
        clock.set(NOON);
        assert_eq!(drain(&store, &step), 0, "{kind}");
    }
}

/// At the cap a log is folded into one entry: it may forget later than it should, never earlier.
#[test]
fn a_log_that_is_merged_at_the_cap_and_taken_back_still_counts_right() {
    let (clock, store) = store(ROOMY);
    let limit = algorithm(AlgorithmKind::SlidingLog, "100/min");
    let step = one(key(1), limit);
    for _ in 0..4 {
        assert!(admits(&store, &step));
        clock.advance(Span::SECOND);
    }
    fill(&clock, &store);
    let merged = store.stats().merged_logs;
    let never = Step::consume(key(9), algorithm(AlgorithmKind::TokenBucket, "1/min"), cost(2));
    assert!(!store.apply_now(&batch([step, step, never])).admitted());
    assert_eq!(store.stats().merged_logs, merged + 1);
    assert_eq!(drain(&store, &step), 96, "four are spent, and the refused two are not");
    clock.advance(Span::from_secs(59));
    assert!(!admits(&store, &step), "none has left the window of the last");
    // A little more than a second: filling the store took some ticks, and a shard's time does not go back.
    clock.advance(Span::from_millis(1_001));
    assert_eq!(drain(&store, &step), 100);
}

#[test]
fn a_permit_is_renewed_and_released_even_where_there_is_no_room() {
    let (clock, store) = store(ROOMY);
    let limit = algorithm(AlgorithmKind::Concurrency, "4/hour");
    (0..4).for_each(|holder| assert!(admits(&store, &acquire(key(1), limit, holder))));
    fill(&clock, &store);
    let act = |action| Step { action, ..one(key(1), limit) };
    for holder in 0..4 {
        assert!(admits(&store, &act(Action::Renew(PermitId::new(holder)))));
    }
    assert!(admits(&store, &act(Action::Release(PermitId::new(0)))));
    assert!(admits(&store, &acquire(key(1), limit, 9)), "the place that was released");
    assert!(!admits(&store, &acquire(key(1), limit, 10)));
    assert!(!admits(&store, &acquire(key(2), limit, 1)), "a new key has no room, and permits are not shared");
}

#[test]
fn an_action_that_an_algorithm_does_not_have_is_refused_for_good() {
    let (_, store) = store(CAP);
    for kind in AlgorithmKind::ALL {
        let limit = algorithm(kind, "3/min");
        let id = PermitId::new(1);
        let actions = match kind {
            AlgorithmKind::Concurrency => vec![Action::Consume(NonZeroU64::MIN), Action::Renew(id)],
            _ => vec![Action::Acquire(id, NonZeroU64::MIN), Action::Renew(id), Action::Release(id)],
        };
        for action in actions {
            let verdict = store.apply_one_now(&Step { action, ..one(key(1), limit) }).1;
            assert_eq!(verdict.retry, Retry::Never, "{kind} {action:?}");
        }
    }
}

/// A limit's numbers may change while its keys live; what was consumed stays consumed.
#[test]
fn a_limit_that_is_lowered_or_raised_keeps_what_was_consumed() {
    for kind in CELLS.into_iter().chain([AlgorithmKind::SlidingLog]) {
        let (clock, store) = store(CAP);
        let [high, low] = ["40/min", "8/min"].map(|rate| one(key(1), algorithm(kind, rate)));
        for _ in 0..20 {
            assert!(admits(&store, &high), "{kind}");
            clock.advance(Span::TICK);
        }
        assert!(!admits(&store, &low), "{kind}: 20 are more than 8");
        assert_eq!(drain(&store, &high), 20, "{kind}");
        clock.advance(Span::from_secs(121));
        assert_eq!(drain(&store, &low), 8, "{kind}");
    }
    let (clock, store) = store(CAP);
    let limit = |rate| algorithm(AlgorithmKind::Concurrency, rate);
    let taken = |from, rate| {
        let steps = (from..from + 30).map(|holder| acquire(key(1), limit(rate), holder));
        steps.filter(|step| admits(&store, step)).count()
    };
    assert_eq!((taken(0, "20/min"), taken(100, "8/min"), taken(200, "25/min")), (20, 0, 5));
    clock.advance(Span::MINUTE);
    assert_eq!(taken(300, "8/min"), 8);
}

#[test]
fn a_cap_below_the_smallest_is_refused_with_the_smallest() {
    let error = MemoryStore::builder().max_bytes(CAP - 1).build().unwrap_err();
    assert_eq!(error.to_string(), "a memory store needs a cap of at least 65536 bytes, not 65535");
}

/// Every algorithm that counts, in a store with room and in one without.
fn counting_kinds() -> impl Iterator<Item = (AlgorithmKind, bool)> {
    let kinds = CELLS.into_iter().chain([AlgorithmKind::SlidingLog]);
    kinds.flat_map(|kind| [(kind, false), (kind, true)])
}

fn full_store() -> (ManualClock, MemoryStore<ManualClock>) {
    let (clock, store) = store(ROOMY);
    fill(&clock, &store);
    (clock, store)
}

/// Takes all the room there is for two minutes: memory first, with logs that grow into the smallest gaps, and
/// then the slots that tables have left.
fn fill(clock: &ManualClock, store: &MemoryStore<ManualClock>) {
    let cells = algorithm(AlgorithmKind::SlidingWindow, "1/min");
    let logs = algorithm(AlgorithmKind::SlidingLog, "100 per 2min");
    let permits = algorithm(AlgorithmKind::Concurrency, "1 per 2min");
    let start = clock.now();
    let fill_cells = |subjects: Range<u64>| {
        subjects.for_each(|subject| _ = admits(store, &one(filler(subject, 100), cells)));
    };
    fill_cells(0..6_000);
    for subject in 0..2_000 {
        let _ = admits(store, &acquire(filler(subject, 102), permits, 1));
    }
    for _ in 0..6 {
        for subject in 0..4_000 {
            let _ = admits(store, &one(filler(subject, 101), logs));
        }
        clock.advance(Span::TICK);
    }
    fill_cells(6_000..20_000);
    assert!(store.stats().merged_logs > 0 && store.stats().shared_charges > 1_000, "there was room left");
    clock.set(start);
}

fn filler(subject: u64, limit: u64) -> Key {
    let high = subject.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    Key::from_raw(u128::from(high) << 64 | u128::from(high >> 7), limit)
}

fn key(subject: u128) -> Key {
    Key::from_raw(subject.wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C834), 1)
}

/// Keys that share a shard and a bucket.
fn beside(subject: u128) -> Key {
    Key::from_raw(subject << 64, 1)
}
