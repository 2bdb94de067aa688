//! Every law on the pure transition, for every algorithm it binds.

use threshold_core::AlgorithmKind;
use threshold_testkit::figures::{Claim, size};
use threshold_testkit::laws::{LAWS, Law, check};
use threshold_testkit::timed::Pure;

fn law(name: &str) -> &'static Law {
    LAWS.iter().find(|law| law.name == name).expect("a law of that name")
}

fn holds(name: &str, cases: u32) -> u32 {
    let bound: Vec<_> = AlgorithmKind::ALL.into_iter().filter(|kind| law(name).binds(*kind)).collect();
    bound.iter().for_each(|kind| check(law(name), *kind, &Pure::default(), cases));
    cases * u32::try_from(bound.len()).expect("few algorithms")
}

macro_rules! laws {
    ($($name:ident)+) => {
        $(#[test]
        fn $name() {
            holds(stringify!($name), size(1_000, 20_000));
        })+

        #[test]
        fn every_law_is_tried() {
            let tried = [$(stringify!($name)),+, "agrees_with_the_model"];
            assert!(LAWS.iter().all(|law| tried.contains(&law.name)));
        }
    };
}

laws! {
    bounded
    retry_is_exact
    remaining_is_exact
    nothing_is_lost_to_rounding
    refusal_changes_nothing
    all_or_nothing
    peek_predicts_apply
    observing_never_refuses
    refunds_stay_within_the_bound
    clock_going_back_admits_nothing
    clock_jumping_ahead_admits_one_capacity
    time_shift_changes_nothing
    sweeping_is_lossless
    changed_limits_keep_consumption
    bounded_through_changes
}

#[test]
fn agrees_with_the_model() {
    let claim = Claim::of("every verdict equals that of the rational model");
    let sequences = holds("agrees_with_the_model", size(17_000, 170_000));
    claim.show(
        "agrees-with-the-model",
        &format!("{sequences} random sequences, 0 differences"),
        "at least 100,000",
        sequences >= 100_000,
    );
}
