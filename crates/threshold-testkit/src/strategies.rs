//! Random limits, times and batches, small enough to collide and odd enough to hurt.

use std::num::NonZeroU64;

use proptest::prelude::*;

use threshold_core::{
    Action, Algorithm, AlgorithmKind, Key, LimitId, PermitId, Rate, Secret, Span, Step, Timestamp, Unit,
};

/// A limit of one kind, with the rate it was built from.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// The rate.
    pub rate: Rate,
    /// The algorithm built from it.
    pub algorithm: Algorithm,
}

/// One request: so long after the one before, to one of a few keys, at a cost.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Time since the request before.
    pub wait: Span,
    /// Which of the keys.
    pub key: u8,
    /// What it costs.
    pub cost: NonZeroU64,
}

/// Where random times begin: far from the epoch, so that they can go back, and not at midnight.
#[must_use]
pub fn start() -> Timestamp {
    Timestamp::from_micros(1_700_000_123_456_789)
}

/// Counts and periods that share few factors, next to round ones: fractions are where arithmetic goes wrong.
pub fn limit(kind: AlgorithmKind) -> impl Strategy<Value = Limit> {
    let period = prop_oneof![
        3 => 1..5_000_u64,
        2 => prop::sample::select(vec![1_000_000, 60_000_000, 3_600_000_000, 86_400_000_000]),
        1 => 1..(1_u64 << 47),
    ];
    let count = prop_oneof![4 => 1..12_u64, 2 => 12..2_000_u64, 1 => 1..10_000_u64];
    let burst = prop::option::of(prop_oneof![1..5_u64, 5..200_u64]);
    (count, period, burst).prop_filter_map("a limit that can be built", move |(count, period, burst)| {
        build(kind, count, period, burst)
    })
}

fn build(kind: AlgorithmKind, count: u64, period: u64, burst: Option<u64>) -> Option<Limit> {
    let period = match kind {
        AlgorithmKind::CalendarWindow => DIVISORS[(period % DIVISORS.len() as u64) as usize],
        _ => period,
    };
    let rate = Rate::new(count, Span::from_micros(period)).ok()?;
    let rate = match (kind, burst) {
        (AlgorithmKind::TokenBucket, Some(burst)) => rate.with_burst(burst).ok()?,
        _ => rate,
    };
    Some(Limit { rate, algorithm: Algorithm::new(kind, &rate).ok()? })
}

/// Some divisors of a day, in microseconds.
const DIVISORS: [u64; 8] =
    [1, 27, 160, 250_000, 1_000_000, 60_000_000, Span::HOUR.as_micros(), Span::DAY.as_micros()];

/// The same limit with other numbers: what a changed policy asks for.
#[must_use]
pub fn changed(limit: &Limit, count: u64) -> Option<Limit> {
    let rate = Rate::new(count, limit.rate.period()).ok()?;
    let rate = limit.rate.burst().map_or(Some(rate), |burst| rate.with_burst(burst).ok())?;
    Some(Limit { rate, algorithm: Algorithm::new(limit.algorithm.kind(), &rate).ok()? })
}

/// Waits that matter for `limit`: none, a tick, about one unit's time, about a period, and anything.
pub fn wait(limit: &Limit) -> impl Strategy<Value = Span> + use<> {
    let period = limit.rate.period().as_micros();
    let unit = (period / limit.rate.count()).max(1);
    prop_oneof![
        3 => Just(0),
        2 => 0..3_u64,
        3 => unit.saturating_sub(2)..unit + 3,
        2 => 0..2 * unit + 2,
        2 => period.saturating_sub(2)..period + 3,
        1 => 0..3 * period,
    ]
    // Two dozen of them in a row stay within the range of time.
    .prop_map(|micros| Span::from_micros(micros.min(1 << 46)))
}

/// Costs around one and around the capacity.
pub fn cost(limit: &Limit) -> impl Strategy<Value = NonZeroU64> + use<> {
    let capacity = limit.algorithm.capacity();
    prop_oneof![5 => Just(1), 3 => 1..4_u64, 2 => 1..capacity + 2, 1 => Just(capacity)]
        .prop_map(|cost| NonZeroU64::new(cost).expect("at least one"))
}

/// Some requests to a few keys.
pub fn requests(limit: &Limit, many: usize) -> impl Strategy<Value = Vec<Request>> + use<> {
    let one = (wait(limit), 0..3_u8, cost(limit)).prop_map(|(wait, key, cost)| Request { wait, key, cost });
    prop::collection::vec(one, 1..=many)
}

/// The key of subject number `index` under `limit`.
#[must_use]
pub fn key(limit: &Limit, index: u8) -> Key {
    let id = LimitId::new("random").expect("a name");
    Secret::new([9; 16]).limit_key(&id, &limit.algorithm, Unit::Requests).key([index].as_slice())
}

/// The step that `request` asks of `limit`: a permit where it has permits, a charge elsewhere.
#[must_use]
pub fn step(limit: &Limit, request: &Request, permit: u128) -> Step {
    let action = match limit.algorithm.kind() {
        AlgorithmKind::Concurrency => Action::Acquire(PermitId::new(permit), request.cost),
        _ => Action::Consume(request.cost),
    };
    Step { action, ..Step::consume(key(limit, request.key), limit.algorithm, request.cost) }
}
