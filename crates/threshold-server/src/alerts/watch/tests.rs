use super::*;
use proptest::prelude::*;

const REMIND: Span = Span::HOUR;

fn terms(warning: Option<u64>, critical: Option<u64>) -> AlertTerms {
    AlertTerms {
        id: "level".to_owned(),
        metric: AlertMetric::SingleIpBlocks,
        warning,
        critical,
        window: Span::MINUTE,
        hold: Span::ZERO,
        clear: 80,
        clear_for: Span::MINUTE,
    }
}

fn at(second: u64) -> Timestamp {
    Timestamp::from_micros(1_700_000_000_000_000 + second * 1_000_000)
}

fn level(second: u64, single_ip_blocks: u64) -> Readings {
    Readings { at: at(second), single_ip_blocks, ..Readings::default() }
}

/// What is told of a level, as severity, state and value.
fn told(watch: &mut Watch, second: u64, value: u64) -> Option<(&'static str, &'static str, u64)> {
    let mut alerts = watch.take(&level(second, value));
    assert!(alerts.len() <= 1);
    alerts.pop().map(|alert| (alert.severity.word(), alert.state.name(), alert.value))
}

#[test]
fn an_alarm_is_told_when_it_is_raised_gets_worse_or_better_and_is_over() {
    let mut watch = Watch::new(vec![terms(Some(50), Some(100))], REMIND);
    assert_eq!(told(&mut watch, 0, 49), None);
    assert_eq!(told(&mut watch, 5, 50), Some(("warning", "firing", 50)));
    assert_eq!(told(&mut watch, 10, 99), None);
    assert_eq!(told(&mut watch, 15, 100), Some(("critical", "firing", 100)));
    // Below 80 it is critical no more, a minute later.
    assert_eq!(told(&mut watch, 20, 79), None);
    assert_eq!(told(&mut watch, 79, 79), None);
    assert_eq!(told(&mut watch, 80, 79), Some(("warning", "firing", 79)));
    assert_eq!(told(&mut watch, 90, 0), None);
    assert_eq!(told(&mut watch, 149, 0), None);
    assert_eq!(told(&mut watch, 150, 0), Some(("warning", "resolved", 0)));
    assert_eq!(told(&mut watch, 155, 0), None);
}

#[test]
fn what_must_hold_is_raised_only_after_it_did() {
    let mut watch =
        Watch::new(vec![AlertTerms { hold: Span::from_secs(30), ..terms(None, Some(1)) }], REMIND);
    assert_eq!(told(&mut watch, 0, 1), None);
    assert_eq!(told(&mut watch, 29, 1), None);
    assert_eq!(told(&mut watch, 30, 0), None, "it begins again");
    assert_eq!(told(&mut watch, 31, 1), None);
    assert_eq!(told(&mut watch, 61, 1), Some(("critical", "firing", 1)));
}

#[test]
fn an_alarm_that_lasts_is_told_again_now_and_then() {
    let mut watch = Watch::new(vec![terms(Some(1), None)], REMIND);
    assert!(told(&mut watch, 0, 1).is_some());
    let mut again = 0;
    for second in 1..=3_600 * 3 {
        for alert in watch.take(&level(second, 5)) {
            assert!(alert.reminder && alert.state == State::Firing && alert.since == at(0));
            again += 1;
        }
    }
    assert_eq!(again, 3);
}

#[test]
fn counters_are_judged_by_what_came_within_the_window() {
    let mut watch = Watch::new(AlertTerms::ready_made(), REMIND);
    let blocks = |second, edge_blocks| Readings { at: at(second), edge_blocks, ..Readings::default() };
    assert_eq!(watch.take(&blocks(0, 5_000)), [], "what was before is not known");
    assert_eq!(watch.take(&blocks(30, 5_099)), []);
    let alert = watch.take(&blocks(31, 5_100)).pop().unwrap();
    assert_eq!((alert.id.as_str(), alert.value, alert.threshold), ("edge-blocks", 100, 100));
    assert_eq!(watch.take(&blocks(32, 6_000)).pop().unwrap().severity, AlertSeverity::Critical);
    assert_eq!(watch.take(&blocks(93, 6_000)), [], "below now, and not for long");
    let over = watch.take(&blocks(153, 6_000)).pop().unwrap();
    assert_eq!((over.state, over.severity), (State::Resolved, AlertSeverity::Critical));
}

#[test]
fn other_rules_keep_the_alarms_of_those_that_stay_and_end_the_rest() {
    let gone = AlertTerms { id: "gone".to_owned(), ..terms(Some(5), None) };
    let mut watch = Watch::new(vec![terms(Some(1), None), gone], REMIND);
    assert_eq!(watch.take(&level(0, 9)).len(), 2);
    let ended = watch.change(vec![terms(Some(1), None)], REMIND);
    assert_eq!(
        ended.iter().map(|alert| (&*alert.id, alert.state)).collect::<Vec<_>>(),
        [("gone", State::Resolved)]
    );
    assert_eq!(watch.take(&level(5, 9)), [], "it was told already");
    let changed = watch.change(vec![terms(Some(20), None)], REMIND);
    assert_eq!(changed.len(), 1, "a rule of other numbers is another");
}

/// Values around both thresholds of 50 and 100, and their bands.
fn values() -> impl Strategy<Value = Vec<(u64, u64)>> {
    prop::collection::vec((1_u64..40, prop_oneof![0_u64..30, 35_u64..55, 75_u64..105, 90_u64..200]), 1..400)
}

proptest! {
    #[test]
    fn no_state_is_told_twice_and_every_alarm_begins_before_it_ends(steps in values()) {
        let mut watch = Watch::new(vec![terms(Some(50), Some(100))], REMIND);
        let (mut now, mut state) = (0, None);
        for (seconds, value) in steps {
            now += seconds;
            for alert in watch.take(&level(now, value)) {
                if alert.reminder {
                    prop_assert_eq!(state, Some(alert.severity));
                    continue;
                }
                let next = (alert.state == State::Firing).then_some(alert.severity);
                prop_assert_ne!(state, next, "the same state twice");
                // It is raised by a value that reaches it, and is over by one below the band.
                match alert.state {
                    State::Firing if state < next => prop_assert!(alert.value >= alert.threshold),
                    State::Firing => prop_assert!(alert.value < 80),
                    State::Resolved => prop_assert!(alert.value < 40),
                }
                state = next;
            }
        }
    }

    #[test]
    fn within_the_band_nothing_changes(
        band in prop::collection::vec((1_u64..200, 40_u64..50), 1..200), begins_raised in any::<bool>(),
    ) {
        let mut watch = Watch::new(vec![terms(Some(50), None)], Span::DAY);
        prop_assert_eq!(told(&mut watch, 0, if begins_raised { 50 } else { 0 }).is_some(), begins_raised);
        let mut now = 0;
        for (seconds, value) in band {
            now += seconds;
            prop_assert_eq!(told(&mut watch, now, value), None);
        }
    }

    /// However it jumps, an alarm lasts a minute at least: no more than two messages in each.
    #[test]
    fn messages_are_bounded_by_time_whatever_happens(steps in values()) {
        let mut watch = Watch::new(vec![terms(Some(50), None)], Span::DAY);
        let (mut now, mut messages) = (0, 0);
        for (seconds, value) in steps {
            now += seconds;
            messages += watch.take(&level(now, value)).len() as u64;
        }
        prop_assert!(messages <= 2 * (now / 60 + 1), "{messages} in {now} s");
    }
}
