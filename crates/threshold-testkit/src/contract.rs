//! What every store must do, case by case.
//!
//! A backend implements [`Backend`]: how to open a store whose time is a [`ManualClock`]. [`contract_tests!`]
//! turns every case into a test of its own; a backend that cannot be opened fails them all. Every case uses
//! keys of its own, so all of them may run against one store at once.
//!
//! [`contract_tests!`]: crate::contract_tests

mod algorithms;
mod batches;
mod concurrent;
mod lifecycle;
mod permits;
mod random;

use std::future::Future;
use std::num::NonZeroU64;

use threshold_core::{
    Action, Algorithm, AlgorithmKind, Batch, Key, LimitId, LimitKey, ManualClock, Outcome, Partition, Parts,
    PermitId, Secret, SharedStore, Span, Step, Store, Timestamp, Unit, Verdict,
};

use crate::strategies::start;

/// How to reach a store of one kind.
pub trait Backend {
    /// The store.
    type Store: Store + 'static;

    /// Opens a store whose time is `clock`'s. The error says what is missing and how to get it.
    fn open(&self, clock: ManualClock) -> impl Future<Output = Result<Self::Store, String>> + Send;
}

/// One case: its name and what it does with an open store.
pub struct Case {
    /// The name, which is the test's.
    pub name: &'static str,
    run: fn(Bench) -> BoxedCase,
}

type BoxedCase = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

/// An open store on the bench: its clock, and keys that no other case uses.
pub(crate) struct Bench {
    store: SharedStore,
    clock: ManualClock,
    secret: Secret,
    case: &'static str,
    /// Where this case's keys belong: cases are spread over a store that has several places.
    partition: Partition,
}

macro_rules! cases {
    ($($module:ident :: $name:ident),+ $(,)?) => {
        /// All cases.
        pub const CASES: &[Case] = &[
            $(Case { name: stringify!($name), run: |bench| Box::pin($module::$name(bench)) }),+
        ];

        /// Turns every case of the contract into a test against the backend that the expression gives.
        #[macro_export]
        macro_rules! contract_tests {
            ($backend:expr) => {
                $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    $crate::contract::run(stringify!($name), &$backend).await;
                })+
            };
        }
    };
}

cases! {
    algorithms::the_first_request_of_a_key_counts,
    algorithms::admits_up_to_the_limit_and_no_further,
    algorithms::refills_without_loss_at_any_phase,
    algorithms::charges_what_a_request_costs,
    algorithms::a_cost_above_the_capacity_never_fits,
    algorithms::retry_is_exact_to_the_tick,
    algorithms::an_expired_state_is_as_new,
    algorithms::a_clock_that_goes_back_admits_nothing,
    algorithms::calendar_windows_start_at_midnight,
    algorithms::keys_stay_apart,
    algorithms::limits_stay_apart,
    algorithms::changed_limits_keep_consumption,
    batches::a_refused_batch_charges_nobody,
    batches::the_longest_wait_is_reported,
    batches::a_key_named_twice_is_charged_twice_or_not_at_all,
    batches::a_check_refuses_and_charges_nobody,
    batches::observed_steps_never_refuse,
    batches::verdicts_keep_the_order_of_the_steps,
    batches::the_largest_batch_is_atomic,
    batches::peek_charges_nothing,
    batches::a_refund_gives_back_what_is_still_felt,
    batches::a_refund_passes_over_what_was_not_charged,
    batches::a_key_named_twice_and_taken_back_forgets_nothing,
    batches::random_batches_match_the_transition,
    random::random_changes_and_clocks_match_the_transition,
    permits::permits_bound_what_runs_at_once,
    permits::a_permit_lapses_unless_it_is_renewed,
    permits::a_permit_taken_again_is_renewed,
    permits::a_place_that_was_given_away_is_not_renewed,
    permits::a_release_that_is_taken_back_keeps_the_permit,
    concurrent::concurrent_requests_are_admitted_exactly,
    concurrent::concurrent_batches_share_a_key_exactly,
    lifecycle::reset_forgets_one_key,
    lifecycle::sweeping_loses_nothing,
    lifecycle::reports_its_health_and_closes,
}

/// Runs the case called `name` against `backend`.
///
/// # Panics
///
/// If the case fails, if there is no such case, or if the backend cannot be opened.
pub async fn run<B: Backend>(name: &str, backend: &B) {
    let case = CASES.iter().find(|case| case.name == name).expect("a case of that name");
    let clock = ManualClock::starting_at(start());
    let store = backend.open(clock.clone()).await.unwrap_or_else(|missing| panic!("no backend: {missing}"));
    let secret = threshold_store::random_secret();
    let partition = Partition((secret.fingerprint() >> 100) as u16);
    (case.run)(Bench { store: std::sync::Arc::new(store), clock, secret, case: case.name, partition }).await;
}

/// A limit on the bench: its algorithm and its keys.
#[derive(Clone)]
pub(crate) struct Limited {
    algorithm: Algorithm,
    keys: LimitKey,
    partition: Partition,
}

impl Bench {
    /// The limit called `id` of this case.
    fn limit(&self, id: &str, kind: AlgorithmKind, rate: &str) -> Limited {
        let algorithm = Algorithm::new(kind, &rate.parse().expect("a rate")).expect("a limit");
        let id = LimitId::new(&format!("{:.40}.{id}", self.case)).expect("a name");
        let keys = self.secret.limit_key(&id, &algorithm, Unit::Requests);
        Limited { algorithm, keys, partition: self.partition }
    }

    async fn apply(&self, steps: &[Step]) -> Outcome {
        self.store.apply(&batch(steps)).await.expect("the store answers")
    }

    async fn peek(&self, steps: &[Step]) -> Outcome {
        self.store.peek(&batch(steps)).await.expect("the store answers")
    }

    async fn refund(&self, steps: &[Step], outcome: &Outcome) {
        self.store.refund(&batch(steps), outcome).await.expect("the store answers");
    }

    /// Charges one step and gives its verdict.
    async fn one(&self, step: Step) -> Verdict {
        self.apply(&[step]).await.verdicts[0]
    }

    /// How many of cost 1 are admitted right now, up to `tries`.
    async fn drain(&self, limit: &Limited, key: &str, tries: u64) -> u64 {
        let mut admitted = 0;
        for _ in 0..tries {
            admitted += u64::from(self.one(limit.step(key, 1)).await.admitted());
        }
        admitted
    }

    fn advance(&self, span: Span) -> Timestamp {
        self.clock.advance(span)
    }
}

impl Limited {
    fn key(&self, key: impl Parts) -> Key {
        self.keys.key(key).within(self.partition)
    }

    fn step(&self, key: &str, cost: u64) -> Step {
        Step::consume(self.key(key), self.algorithm, NonZeroU64::new(cost).expect("a cost"))
    }

    fn permit(&self, key: &str, action: fn(PermitId) -> Action, id: u128) -> Step {
        Step { action: action(PermitId::new(id)), ..self.step(key, 1) }
    }
}

/// The algorithms that charge, as opposed to concurrency.
const CHARGING: [AlgorithmKind; 5] = [
    AlgorithmKind::TokenBucket,
    AlgorithmKind::FixedWindow,
    AlgorithmKind::CalendarWindow,
    AlgorithmKind::SlidingWindow,
    AlgorithmKind::SlidingLog,
];

fn batch(steps: &[Step]) -> Batch {
    let mut batch = Batch::default();
    steps.iter().for_each(|step| batch.push(*step).expect("few enough steps"));
    batch
}
