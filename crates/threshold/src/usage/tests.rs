//! What is counted, and where it goes when there is no room.

use super::*;
use threshold_core::SubjectKind;

fn subject(number: u64) -> SubjectId {
    let hash = number.wrapping_mul(0x2545_f491_4f6c_dd1d);
    SubjectId::from_raw(SubjectKind::Address, [hash, !hash])
}

fn api(period: Span) -> Met {
    Met { limit: Limit::new("api", Some(Layer::User), Span::MINUTE), who: 0, period, cost: 2 }
}

fn seconds(at: u64) -> Timestamp {
    Timestamp::from_micros(at * 1_000_000)
}

fn mets(met: &[Met]) -> Mets {
    met.iter().collect()
}

/// A decision of `number` at so many seconds that met `met`, and was not counted by itself.
fn count(usage: &Usage, (number, at): (u64, u64), allowed: bool, met: &[Met]) {
    let (at, whose) = (seconds(at), Whose::Ids(&[subject(number)]));
    usage.count(&Noted { at, allowed, times: 1, whole: None, whose, met: &mets(met) });
}

fn requests(drained: &Drained) -> u64 {
    drained.rows.iter().map(|row| row.requests).sum()
}

#[test]
fn requests_of_one_window_are_one_row() {
    let usage = Usage::new(100);
    for (number, at, allowed) in
        [(1, 60, true), (1, 119, true), (1, 90, false), (1, 120, true), (2, 60, true)]
    {
        count(&usage, (number, at), allowed, &[api(Span::MINUTE)]);
    }
    assert!(usage.is_empty(), "nobody has added up yet");
    usage.gather();
    assert_eq!(usage.len(), 3);
    let mut drained = usage.drain();
    assert!(usage.is_empty() && drained.dropped == 0);
    drained.rows.sort_by_key(|row| (row.subject != subject(1), row.window_start));
    let told = |row: &Row| {
        let times = [row.window_start, row.first, row.last].map(|at| at.as_micros() / 1_000_000);
        (times, row.requests, row.refused, row.cost)
    };
    let told: Vec<_> = drained.rows.iter().map(told).collect();
    assert_eq!(told, [([60, 60, 119], 3, 1, 4), ([120, 120, 120], 1, 0, 2), ([60, 60, 60], 1, 0, 2)]);
    assert!(drained.rows.iter().all(|row| (row.limit, row.layer) == ("api", Some(Layer::User))));
}

#[test]
fn what_was_counted_of_somebody_is_forgotten_and_nothing_else() {
    let usage = Usage::new(100);
    let met = [api(Span::MINUTE), api(Span::HOUR)];
    count(&usage, (1, 60), true, &met);
    usage.gather();
    count(&usage, (1, 120), true, &met);
    count(&usage, (2, 60), true, &met);
    assert_eq!((usage.forget(&subject(1)), usage.len()), (3, 2));
    assert_eq!(usage.forget(&subject(1)), 0);
    assert!(usage.drain().rows.iter().all(|row| row.subject == subject(2)));
}

#[test]
fn windows_are_between_a_second_and_an_hour() {
    let usage = Usage::new(100);
    count(&usage, (1, 7_300), true, &[api(Span::DAY)]);
    count(&usage, (2, 7_300), true, &[api(Span::TICK)]);
    let mut rows = usage.drain().rows;
    rows.sort_by_key(|row| row.subject != subject(1));
    assert_eq!((rows[0].window, rows[0].window_start), (Span::HOUR, seconds(7_200)));
    assert_eq!((rows[1].window, rows[1].window_start), (Span::SECOND, seconds(7_300)));
}

#[test]
fn a_request_counts_once_for_the_first_subject_and_for_each_limit_for_its_own() {
    let usage = Usage::new(100);
    let tenant = SubjectId::from_raw(SubjectKind::Tenant, [7, 7]);
    let of_tenant =
        Met { limit: Limit::new("tenants", Some(Layer::Tenant), Span::MINUTE), who: 1, ..api(Span::MINUTE) };
    let (whose, met) = (Whose::Ids(&[subject(1), tenant]), &mets(&[of_tenant, api(Span::MINUTE)]));
    usage.count(&Noted { at: seconds(60), allowed: true, times: 5, whole: Some(3), whose, met });
    let mut rows: Vec<_> = usage
        .drain()
        .rows
        .iter()
        .map(|row| (row.limit, row.layer, row.subject, row.requests, row.cost))
        .collect();
    rows.sort_unstable_by_key(|(limit, ..)| *limit);
    let wanted = [
        (EVERY_REQUEST, None, subject(1), 5, 3),
        ("api", Some(Layer::User), subject(1), 5, 2),
        ("tenants", Some(Layer::Tenant), tenant, 5, 2),
    ];
    assert_eq!(rows, wanted);
}

#[test]
fn rows_are_found_again_among_many_that_are_over() {
    let usage = Usage::new(1 << 12);
    for second in 0..1_000 {
        let (whose, met) = (Whose::Ids(&[subject(1)]), &mets(&[api(Span::SECOND), api(Span::MINUTE)]));
        let at = seconds(36_000 + second);
        usage.count(&Noted { at, allowed: true, times: 1, whole: Some(1), whose, met });
    }
    let Drained { rows, dropped } = usage.drain();
    let requests = |window: Span| -> Vec<u64> {
        rows.iter().filter(|row| row.window == window).map(|row| row.requests).collect()
    };
    assert_eq!((requests(Span::HOUR), requests(Span::SECOND)), (vec![1_000], vec![1; 1_000]));
    assert_eq!((requests(Span::MINUTE).len(), requests(Span::MINUTE).iter().sum::<u64>()), (17, 1_000));
    assert_eq!(dropped, 0);
}

#[test]
fn what_finds_no_room_among_the_rows_is_counted_as_dropped() {
    let usage = Usage::new(64);
    (0..10_000).for_each(|number| count(&usage, (number, 60), true, &[api(Span::MINUTE)]));
    usage.gather();
    assert_eq!(usage.len(), usage.room());
    let drained = usage.drain();
    assert_eq!((requests(&drained), drained.dropped), (64, 10_000 - 64));
    assert_eq!(usage.drain().dropped, 0, "told once");
}

#[test]
fn what_finds_no_room_in_a_ring_is_counted_as_dropped() {
    let usage = Usage::new(1 << 12);
    let met = [api(Span::MINUTE), api(Span::HOUR)];
    (0..40_000).for_each(|number| count(&usage, (number % 100, 60), true, &met));
    let drained = usage.drain();
    assert_eq!(requests(&drained) + drained.dropped, 80_000);
    assert!(requests(&drained) > 20_000 && drained.dropped > 20_000, "{}", drained.dropped);
    count(&usage, (1, 60), true, &met);
    let drained = usage.drain();
    assert_eq!((requests(&drained), drained.dropped), (2, 0), "there is room again");
}

#[test]
fn what_is_handed_over_is_what_is_counted_however_large() {
    let usage = Usage::new(1 << 12);
    for cost in [0, 1, 2, 0xfffe, 0xffff, 0x1_0000, 1 << 40] {
        for (whole, period) in [(None, Span::HOUR), (Some(cost), Span::MINUTE), (Some(1), Span::DAY)] {
            for kind in SubjectKind::ALL {
                let subjects: Vec<SubjectId> =
                    (0..40).map(|n| SubjectId::from_raw(kind, [cost ^ n, u64::MAX - n])).collect();
                let met: Vec<Met> = (0..40).map(|who| Met { who, cost, ..api(period) }).collect();
                let met = mets(&met);
                let at = Timestamp::from_micros(1_700_000_000_000_000);
                let whose = Whose::Ids(&subjects);
                usage.count(&Noted { at, allowed: true, times: 1, whole, whose, met: &met });
                let Drained { mut rows, dropped } = usage.drain();
                assert_eq!((rows.len(), dropped), (40 + usize::from(whole.is_some()), 0));
                if let Some(whole) = whole {
                    let place = rows.iter().position(|row| row.layer.is_none()).unwrap();
                    let row = rows.swap_remove(place);
                    assert_eq!((row.cost, row.subject), (whole, subjects[0]));
                }
                assert!(rows.iter().all(|row| row.cost == cost && subjects.contains(&row.subject)));
                assert!(rows.iter().all(|row| row.window == period.min(Span::HOUR)));
            }
        }
    }
}

#[test]
fn what_cannot_be_handed_over_is_dropped_and_harms_nothing_else() {
    let usage = Usage::new(1 << 12);
    let many = vec![subject(1); threshold_core::MAX_STEPS + 1];
    let met = vec![api(Span::MINUTE); threshold_core::MAX_STEPS + 1];
    let at = seconds(60);
    for (ids, met) in [(&many[..0], &met[..2]), (&many[..], &met[..3]), (&many[..1], &met[..])] {
        usage.count(&Noted {
            at,
            allowed: true,
            times: 1,
            whole: None,
            whose: Whose::Ids(ids),
            met: &mets(met),
        });
        count(&usage, (1, 60), true, &[api(Span::MINUTE)]);
    }
    let drained = usage.drain();
    assert_eq!((requests(&drained), drained.dropped), (3, 5 + met.len() as u64));
}

#[test]
fn threads_without_a_ring_of_their_own_share_one() {
    let usage = Usage::new(1 << 12);
    let (ready, threads) = (std::sync::Barrier::new(RINGS + 9), RINGS + 9);
    std::thread::scope(|scope| {
        for thread in 0..threads as u64 {
            let (usage, ready) = (&usage, &ready);
            scope.spawn(move || {
                count(usage, (thread, 60), true, &[api(Span::MINUTE)]);
                // So that all of them are there at once.
                ready.wait();
                (0..99).for_each(|_| count(usage, (thread, 60), true, &[api(Span::MINUTE)]));
            });
        }
    });
    let drained = usage.drain();
    assert_eq!((drained.rows.len(), requests(&drained), drained.dropped), (threads, threads as u64 * 100, 0));
    // Those that ended have left theirs to others.
    std::thread::scope(|scope| {
        scope.spawn(|| count(&usage, (1, 60), true, &[api(Span::MINUTE)]));
    });
    assert_eq!((requests(&usage.drain()), lock(&usage.rings).len()), (1, RINGS));
}

#[test]
fn many_limits_of_one_decision_fit() {
    let usage = Usage::new(1 << 12);
    let met = vec![api(Span::MINUTE); threshold_core::MAX_STEPS];
    (0..10).for_each(|number| count(&usage, (number, 60), true, &met));
    let drained = usage.drain();
    assert_eq!((requests(&drained), drained.dropped), (10 * met.len() as u64, 0));
}

#[test]
fn nothing_is_lost_or_counted_twice_whoever_adds_up_while_others_count() {
    let (usage, sum) = (Usage::new(100), Mutex::new([0, 0]));
    let take = || {
        let drained = usage.drain();
        let mut sum = sum.lock().unwrap();
        *sum = [sum[0] + requests(&drained), sum[1] + drained.dropped];
    };
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let usage = &usage;
            scope.spawn(move || {
                for n in 0..20_000 {
                    count(usage, (thread * 100 + n % 77, n % 300), true, &[api(Span::MINUTE)]);
                }
            });
        }
        scope.spawn(|| (0..200).for_each(|_| usage.gather()));
        scope.spawn(|| (0..200).for_each(|_| take()));
    });
    take();
    assert_eq!(sum.lock().unwrap().iter().sum::<u64>(), 80_000);
}

#[test]
fn decisions_that_met_the_same_and_others_are_told_apart_whoever_wrote_before() {
    let usage = Usage::new(1 << 16);
    let periods = [Span::SECOND, Span::MINUTE, Span::HOUR];
    // Of no limit to more than are kept, by costs and periods of their own and of their limit.
    let shape = |number: u64| -> Vec<Met> {
        (0..number % 11)
            .map(|n| Met {
                who: (n % 3) as u16,
                cost: if number.is_multiple_of(5) { 70_000 + number } else { number + n },
                ..api(periods[((number / 7 + n) % 3) as usize])
            })
            .collect()
    };
    let mut wanted = std::collections::BTreeMap::new();
    let ids: Vec<SubjectId> = (0..3).map(subject).collect();
    for writer in 0..5 {
        // Each is another thread, which finds the ring that the one before has left.
        let written: Vec<u64> = (0..2_000).map(|n: u64| (n * n + writer) % 97 % (3 + n % 60)).collect();
        for (met, times) in written.iter().flat_map(|number| shape(*number)).zip(std::iter::repeat(2)) {
            let period = met.period.max(SHORTEST_WINDOW).min(LONGEST_WINDOW);
            let row: &mut (u64, u64) = wanted.entry((ids[usize::from(met.who)], period)).or_default();
            (row.0, row.1) = (row.0 + times, row.1 + met.cost);
        }
        std::thread::scope(|scope| {
            let (usage, ids) = (&usage, &ids);
            let thread = scope.spawn(move || {
                for (n, number) in written.iter().enumerate() {
                    let (whose, met) = (Whose::Ids(ids), &mets(&shape(*number)));
                    usage.count(&Noted { at: seconds(0), allowed: true, times: 2, whole: None, whose, met });
                    if n.is_multiple_of(71) {
                        usage.gather();
                    }
                }
            });
            // A thread has left its ring once it has ended altogether.
            thread.join().unwrap();
        });
    }
    let Drained { rows, dropped } = usage.drain();
    assert_eq!((dropped, lock(&usage.rings).len()), (0, 1));
    let found = rows.iter().map(|row| ((row.subject, row.window), (row.requests, row.cost))).collect();
    assert_eq!(wanted, found);
}
