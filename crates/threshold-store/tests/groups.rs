//! Batches that reach Postgres or a Durable Object as one group are judged as the transition judges them one after the other.
#![cfg(not(feature = "loom"))]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::num::NonZeroU64;

use futures_util::future::join_all;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use threshold_core::{
    Action, AlgorithmKind, Batch, ManualClock, Mode, Outcome, PermitId, Secret, Span, Step, Store, Timestamp,
    Unit,
};
use threshold_store::{DurableObjectsStore, PostgresStore, random_secret};
use threshold_testkit::figures::size;
use threshold_testkit::servers::{fresh_database, fresh_prefix, workerd};
use threshold_testkit::strategies::{Limit, changed, cost, limit, start, wait};
use threshold_testkit::timed::{Pure, Timed};

/// What a caller asks for.
#[derive(Clone, Debug)]
enum Ask {
    Apply(Vec<Step>),
    /// Takes back what the last charged batch but so many was charged.
    Refund(usize),
    Peek(Vec<Step>),
}

/// What is asked at one time.
#[derive(Clone, Debug)]
struct Moment {
    wait: Span,
    /// Whether the clock goes back by that long instead.
    back: bool,
    asks: Vec<Ask>,
}

/// One step to one of three keys, by the limit or by the same with another count.
fn step(limits: [Limit; 2]) -> impl Strategy<Value = Step> + use<> {
    let keys = random_secret();
    let fields = (0..3_u8, 0..2_usize, cost(&limits[0]), 0..10_u8, 0..8_u128, prop::bool::weighted(0.2));
    fields.prop_map(move |(key, which, cost, act, id, observed)| {
        let (algorithm, id) = (limits[which].algorithm, PermitId::new(id));
        let name = threshold_core::LimitId::new("random").unwrap();
        let key = keys.limit_key(&name, &algorithm, Unit::Requests).key([key].as_slice());
        let action = match (algorithm.kind(), act) {
            (AlgorithmKind::Concurrency, 0..=4) => Action::Acquire(id, cost),
            (AlgorithmKind::Concurrency, 5..=6) => Action::Renew(id),
            (AlgorithmKind::Concurrency, 7..=8) => Action::Release(id),
            (_, 9) => Action::Check,
            _ => Action::Consume(cost),
        };
        let mode = if observed { Mode::Observe } else { Mode::Enforce };
        Step { action, mode, ..Step::consume(key, algorithm, NonZeroU64::MIN) }
    })
}

/// Either many callers at a time, or one at a time and a clock that goes back.
///
/// Lists are not given both: a store may remember of them for longer than the transition does, and only a clock that goes
/// back shows it.
fn moments(limits: [Limit; 2], many: bool) -> impl Strategy<Value = Vec<Moment>> + use<> {
    let steps = || prop::collection::vec(step(limits), 1..4);
    let ask = prop_oneof![
        8 => steps().prop_map(Ask::Apply),
        2 => (0..3_usize).prop_map(Ask::Refund),
        1 => steps().prop_map(Ask::Peek),
    ];
    let (callers, back) = if many { (12, 0.0) } else { (1, 0.2) };
    let moment = (wait(&limits[0]), prop::bool::weighted(back), prop::collection::vec(ask, 1..=callers))
        .prop_map(|(wait, back, asks)| Moment { wait, back, asks });
    prop::collection::vec(moment, 1..if many { 8 } else { 30 })
}

fn batch(steps: &[Step]) -> Batch {
    let mut batch = Batch::default();
    steps.iter().for_each(|step| batch.push(*step).unwrap());
    batch
}

/// What was charged, and by what outcome.
type Charged = Vec<(Vec<Step>, Outcome)>;

/// Asks everything of one moment at once, in order. One connection takes it in that order, in as few groups as it can.
async fn ask(store: &impl Store, asks: &[Ask], charged: &Charged) -> Vec<Option<Outcome>> {
    join_all(asks.iter().map(|ask| async move {
        match ask {
            Ask::Apply(steps) => Some(store.apply(&batch(steps)).await.unwrap()),
            Ask::Refund(age) => {
                if let Some((steps, outcome)) = charged.iter().rev().nth(*age) {
                    store.refund(&batch(steps), outcome).await.unwrap();
                }
                None
            }
            Ask::Peek(_) => None,
        }
    }))
    .await
}

fn ask_pure(pure: &mut Pure, asks: &[Ask], charged: &Charged, now: Timestamp) -> Vec<Option<Outcome>> {
    let one = |ask: &Ask| match ask {
        Ask::Apply(steps) => Some(pure.apply(steps, now)),
        Ask::Refund(age) => {
            let old = charged.iter().rev().nth(*age);
            old.into_iter().for_each(|(steps, outcome)| pure.refund(steps, outcome, now));
            None
        }
        Ask::Peek(_) => None,
    };
    asks.iter().map(one).collect()
}

async fn matches_the_transition(store: &impl Store, clock: &ManualClock, moments: &[Moment]) {
    let (mut pure, mut charged) = (Pure::default(), Charged::new());
    for moment in moments {
        let now = match moment.back {
            true => clock.advance(Span::ZERO).minus(moment.wait),
            false => clock.advance(moment.wait),
        };
        clock.set(now);
        let (got, wanted) =
            (ask(store, &moment.asks, &charged).await, ask_pure(&mut pure, &moment.asks, &charged, now));
        assert_eq!(got, wanted, "{moment:?} of {moments:?}");
        for (ask, outcome) in moment.asks.iter().zip(got) {
            match (ask, outcome) {
                (Ask::Apply(steps), Some(outcome)) => charged.push((steps.clone(), outcome)),
                (Ask::Peek(steps), _) => {
                    let seen = store.peek(&batch(steps)).await.unwrap();
                    assert_eq!(seen, pure.peek(steps, now), "{moment:?} of {moments:?}");
                }
                _ => {}
            }
        }
    }
}

/// Whether refunds go together with batches, and how many rounds there are.
async fn groups_match(
    store: &impl Store,
    clock: &ManualClock,
    kind: AlgorithmKind,
    (mixed, rounds): (bool, u32),
) {
    let mut runner = TestRunner::deterministic();
    for round in 0..rounds {
        let scenario = (limit(kind), 1..2_000_u64)
            .prop_filter_map("two limits", |(limit, count)| Some([limit, changed(&limit, count)?]))
            .prop_flat_map(|limits| moments(limits, round % 2 == 0));
        let mut moments = scenario.new_tree(&mut runner).unwrap().current();
        if !mixed {
            moments.iter_mut().for_each(sort_out);
        }
        clock.set(start());
        matches_the_transition(store, clock, &moments).await;
    }
}

/// Leaves either batches or one refund: an object is sent them beside each other, in no order.
fn sort_out(moment: &mut Moment) {
    match moment.asks.first() {
        Some(Ask::Refund(_)) => moment.asks.truncate(1),
        _ => moment.asks.retain(|ask| !matches!(ask, Ask::Refund(_))),
    }
}

async fn of_postgres(kind: AlgorithmKind) {
    let database = fresh_database();
    let url = format!("{}?timeout=60000&pool=1", database.url());
    let clock = ManualClock::starting_at(start());
    let store = PostgresStore::open_with(&url, &Secret::new([7; 16]), None, clock.clone()).await.unwrap();
    groups_match(&store, &clock, kind, (true, size(200, 5_000))).await;
}

async fn of_durable_objects(kind: AlgorithmKind) {
    let url = format!("{}?prefix={}&timeout=60000", workerd(), fresh_prefix());
    let clock = ManualClock::starting_at(start());
    let store =
        DurableObjectsStore::open_with_clock(&url, &Secret::new([7; 16]), clock.clone()).await.unwrap();
    groups_match(&store, &clock, kind, (false, size(100, 2_000))).await;
}

macro_rules! groups {
    ($($module:ident: $of:ident),+) => {
        $(mod $module {
            use threshold_core::AlgorithmKind;

            #[tokio::test]
            async fn buckets_in_groups_match_the_transition() {
                super::$of(AlgorithmKind::TokenBucket).await;
            }

            #[tokio::test]
            async fn fixed_windows_in_groups_match_the_transition() {
                super::$of(AlgorithmKind::FixedWindow).await;
            }

            #[tokio::test]
            async fn calendar_windows_in_groups_match_the_transition() {
                super::$of(AlgorithmKind::CalendarWindow).await;
            }

            #[tokio::test]
            async fn sliding_windows_in_groups_match_the_transition() {
                super::$of(AlgorithmKind::SlidingWindow).await;
            }

            #[tokio::test]
            async fn logs_in_groups_match_the_transition() {
                super::$of(AlgorithmKind::SlidingLog).await;
            }

            #[tokio::test]
            async fn permits_in_groups_match_the_transition() {
                super::$of(AlgorithmKind::Concurrency).await;
            }
        })+
    };
}

groups! { postgres: of_postgres, durable_objects: of_durable_objects }
