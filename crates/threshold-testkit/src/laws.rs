//! What must hold, for which algorithm, whatever the limit and whatever the requests.
//!
//! Each law is a property over any [`Timed`] store; [`LAWS`] says which algorithms it binds. [`check`] tries it
//! on random limits and requests and prints the smallest failure it finds.

mod batches;
mod clocks;
mod exactness;
mod references;

use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};

use threshold_core::{AlgorithmKind, Outcome, Step, Timestamp};

use crate::strategies::{Limit, Request, limit, requests, start, step};
use crate::timed::Timed;

/// What a law's check comes to.
pub type Checked = Result<(), TestCaseError>;

/// One law.
pub struct Law {
    /// A short name.
    pub name: &'static str,
    /// The law in a sentence.
    pub says: &'static str,
    /// The algorithms it does not bind, each with the reason.
    pub not_for: &'static [(AlgorithmKind, &'static str)],
    /// The property.
    check: fn(&dyn Timed, &Limit, &[Request]) -> Checked,
}

const PERMITS: AlgorithmKind = AlgorithmKind::Concurrency;
const HELD: &str = "permits are held, not used up";
const ALIGNED: &str = "windows that start late or end early lose what nobody asked for in time";

/// All laws.
pub const LAWS: &[Law] = &[
    Law {
        name: "bounded",
        says: "never above the guarantee in any interval",
        not_for: &[],
        check: exactness::bounded,
    },
    Law {
        name: "retry_is_exact",
        says: "admitted at now + retry, refused one tick earlier",
        not_for: &[],
        check: exactness::retry_is_exact,
    },
    Law {
        name: "remaining_is_exact",
        says: "exactly `remaining` more are admitted now",
        not_for: &[],
        check: exactness::remaining_is_exact,
    },
    Law {
        name: "nothing_is_lost_to_rounding",
        says: "at least ⌊rate × time⌋ admitted at any polling phase, from a capacity of two",
        not_for: &[
            (AlgorithmKind::FixedWindow, ALIGNED),
            (AlgorithmKind::CalendarWindow, ALIGNED),
            (AlgorithmKind::SlidingWindow, ALIGNED),
            (AlgorithmKind::SlidingLog, ALIGNED),
            (PERMITS, HELD),
        ],
        check: exactness::nothing_is_lost_to_rounding,
    },
    Law {
        name: "refusal_changes_nothing",
        says: "a refused batch leaves every state as it was",
        not_for: &[],
        check: batches::refusal_changes_nothing,
    },
    Law {
        name: "all_or_nothing",
        says: "a batch is admitted if every step alone would be, and charges all of them or none",
        not_for: &[],
        check: batches::all_or_nothing,
    },
    Law {
        name: "peek_predicts_apply",
        says: "a peek says what apply would and changes nothing",
        not_for: &[],
        check: batches::peek_predicts_apply,
    },
    Law {
        name: "observing_never_refuses",
        says: "an observe step is judged and counted and never refuses",
        not_for: &[],
        check: batches::observing_never_refuses,
    },
    Law {
        name: "refunds_stay_within_the_bound",
        says: "what was admitted and not refunded never exceeds the guarantee",
        not_for: &[(PERMITS, "a permit is released, not refunded")],
        check: batches::refunds_stay_within_the_bound,
    },
    Law {
        name: "clock_going_back_admits_nothing",
        says: "a clock that goes back and forth admits no more than its whole range would",
        not_for: &[(PERMITS, HELD)],
        check: clocks::going_back_admits_nothing,
    },
    Law {
        name: "clock_jumping_ahead_admits_one_capacity",
        says: "a clock that jumps ahead admits at most one capacity at once",
        not_for: &[],
        check: clocks::jumping_ahead_admits_one_capacity,
    },
    Law {
        name: "time_shift_changes_nothing",
        says: "the same requests at other times get the same verdicts",
        not_for: &[(AlgorithmKind::CalendarWindow, "its windows belong to the calendar")],
        check: clocks::shift_changes_nothing,
    },
    Law {
        name: "sweeping_is_lossless",
        says: "dropping what has expired changes no decision",
        not_for: &[],
        check: clocks::sweeping_is_lossless,
    },
    Law {
        name: "agrees_with_the_model",
        says: "every verdict equals that of the rational model",
        not_for: &[],
        check: references::agrees_with_the_model,
    },
    Law {
        name: "changed_limits_keep_consumption",
        says: "a limit whose numbers change goes on from what was consumed",
        not_for: &[],
        check: references::changed_limits_keep_consumption,
    },
    Law {
        name: "bounded_through_changes",
        says: "lowered and raised again at will, a limit admits no more than the highest alone",
        not_for: &[(AlgorithmKind::Concurrency, "what is out at once is not what an interval holds")],
        check: exactness::bounded_through_changes,
    },
];

impl Law {
    /// True if the law binds `kind`.
    #[must_use]
    pub fn binds(&self, kind: AlgorithmKind) -> bool {
        self.not_for.iter().all(|(free, _)| *free != kind)
    }
}

/// Tries `law` on `cases` random sequences of requests to limits of `kind`, on fresh stores like `store`.
///
/// # Panics
///
/// With the smallest failing limit and requests, if there are any.
pub fn check(law: &Law, kind: AlgorithmKind, store: &dyn Timed, cases: u32) {
    use proptest::strategy::Strategy as _;
    let config = Config {
        cases,
        max_global_rejects: cases.max(1_024),
        failure_persistence: None,
        ..Config::default()
    };
    let scenario = limit(kind).prop_flat_map(|limit| (proptest::strategy::Just(limit), requests(&limit, 24)));
    let outcome =
        TestRunner::new(config).run(&scenario, |(limit, requests)| (law.check)(store, &limit, &requests));
    if let Err(TestError::Fail(reason, (limit, requests))) = &outcome {
        panic!("{kind}: {}: {reason}\n  {limit:?}\n  {requests:#?}", law.says);
    }
    outcome.unwrap_or_else(|error| panic!("{kind}: {}: {error}", law.name));
}

/// Walks through requests, time going forward: each as a step with its instant and its number.
fn walk<'a>(
    limit: &'a Limit,
    requests: &'a [Request],
) -> impl Iterator<Item = (Step, Timestamp, &'a Request)> + 'a {
    let mut now = start();
    requests.iter().enumerate().map(move |(index, request)| {
        now = now.plus(request.wait);
        (step(limit, request, index as u128), now, request)
    })
}

/// Applies one step.
fn apply(store: &mut dyn Timed, step: &Step, now: Timestamp) -> Outcome {
    store.apply(std::slice::from_ref(step), now)
}

/// Whether one step would be admitted.
fn would_admit(store: &mut dyn Timed, step: &Step, now: Timestamp) -> bool {
    store.peek(std::slice::from_ref(step), now).admitted()
}
