//! Random stories of charges, looks, refunds, changed limits and clocks that go back, compared with the transition.

use std::num::NonZeroU64;

use proptest::prelude::Rng;
use proptest::test_runner::{RngAlgorithm, TestRng};
use threshold_core::{Action, Algorithm, AlgorithmKind, Mode, Outcome, PermitId, Rate, Span, Step, Store};

use super::{Bench, Limited, batch};
use crate::figures::size;
use crate::timed::{Pure, Timed};

/// The numbers that limits are made of: small and large, with and without a common divisor with the period.
const COUNTS: [u64; 8] = [1, 2, 3, 7, 10, 97, 600, 1_000_003];
const PERIODS: [u64; 5] = [1_000_000, 7_000_000, 60_000_000, 3_600_000_000, 999_983];

pub(super) async fn random_changes_and_clocks_match_the_transition(bench: Bench) {
    let mut random = Dice(TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    for kind in AlgorithmKind::ALL {
        for scenario in 0..size(12, 400) {
            let mut story = Story::new(&bench, kind, scenario, &mut random);
            for _ in 0..40 {
                story.go_on(&mut random).await;
            }
        }
    }
}

/// One limit with three sets of numbers, and three keys.
struct Story<'b> {
    bench: &'b Bench,
    limits: [Limited; 3],
    period: u64,
    pure: Pure,
    /// What was charged, to be refunded.
    charged: Vec<(Vec<Step>, Outcome)>,
    told: Vec<String>,
}

impl<'b> Story<'b> {
    fn new(bench: &'b Bench, kind: AlgorithmKind, scenario: usize, random: &mut Dice) -> Self {
        let period = match kind {
            AlgorithmKind::CalendarWindow => 60_000_000,
            _ => random.pick(&PERIODS),
        };
        let limits = [(); 3].map(|()| {
            let algorithm = random.algorithm(kind, Span::from_micros(period));
            Limited { algorithm, ..bench.limit(&format!("{kind}.{scenario}"), kind, "1/min") }
        });
        // All three are one limit: the period is part of its identity, the numbers are not.
        let keys = limits[0].keys.clone();
        let limits = limits.map(|limit| Limited { keys: keys.clone(), ..limit });
        Self { bench, limits, period, pure: Pure::default(), charged: Vec::new(), told: Vec::new() }
    }

    async fn go_on(&mut self, random: &mut Dice) {
        match random.below(10) {
            0 => {
                let back = random.below(Span::HOUR.as_micros());
                let now = self.bench.advance(Span::ZERO);
                self.bench.clock.set(now.minus(Span::from_micros(back)));
                self.told.push(format!("back {back}"));
            }
            1 | 2 => {
                let on = random.below(2 * self.period);
                self.bench.advance(Span::from_micros(on));
                self.told.push(format!("on {on}"));
            }
            3 => self.refund(random).await,
            _ => {
                self.bench.advance(Span::from_micros(random.below(self.period / 8 + 1)));
                self.charge(random).await;
            }
        }
    }

    async fn charge(&mut self, random: &mut Dice) {
        let steps: Vec<Step> = (0..=random.below(2)).map(|_| self.step(random)).collect();
        let outcome = self.bench.apply(&steps).await;
        self.told.push(format!("{steps:?} at {}", outcome.at.as_micros()));
        let expected = self.pure.apply(&steps, outcome.at);
        assert_eq!(outcome, expected, "{:#?}", self.told);
        let seen = self.bench.peek(&steps).await;
        assert_eq!(seen, self.pure.peek(&steps, seen.at), "a look, {:#?}", self.told);
        if outcome.charged {
            self.charged.push((steps, outcome));
        }
    }

    async fn refund(&mut self, random: &mut Dice) {
        if self.charged.is_empty() {
            return;
        }
        let at = usize::try_from(random.below(self.charged.len() as u64)).expect("small");
        let (mut steps, outcome) = self.charged.swap_remove(at);
        for step in &mut steps {
            if let Action::Consume(cost) = &mut step.action {
                *cost = NonZeroU64::new(1 + random.below(cost.get())).expect("above zero");
            }
            // The limit may have changed since.
            if random.below(3) == 0 {
                step.algorithm = random.pick(&self.limits.each_ref().map(|limit| limit.algorithm));
            }
        }
        self.bench.store.refund(&batch(&steps), &outcome).await.expect("the store answers");
        let seen = self.bench.peek(&steps).await;
        self.told.push(format!("refund {steps:?} of {} at {}", outcome.at.as_micros(), seen.at.as_micros()));
        self.pure.refund(&steps, &outcome, seen.at);
        assert_eq!(seen, self.pure.peek(&steps, seen.at), "after a refund, {:#?}", self.told);
    }

    fn step(&self, random: &mut Dice) -> Step {
        let limit = &self.limits[usize::try_from(random.below(3)).expect("small")];
        let capacity = limit.algorithm.capacity();
        let cost = match random.below(8) {
            0 => 1 + random.below(capacity + 2),
            1 => u64::MAX - random.below(3),
            _ => 1 + random.below(capacity.min(3)),
        };
        let step = limit.step(["a", "b", "c"][usize::try_from(random.below(3)).expect("small")], cost);
        let permit = PermitId::new(u128::from(random.below(6)));
        let action = match (limit.algorithm.kind(), random.below(10)) {
            (AlgorithmKind::Concurrency, 0) => Action::Renew(permit),
            (AlgorithmKind::Concurrency, 1 | 2) => Action::Release(permit),
            (AlgorithmKind::Concurrency, 3) => step.action,
            (AlgorithmKind::Concurrency, _) => {
                Action::Acquire(permit, NonZeroU64::new(cost).expect("above zero"))
            }
            (_, 0) => Action::Check,
            _ => step.action,
        };
        let mode = if random.below(4) == 0 { Mode::Observe } else { Mode::Enforce };
        Step { action, mode, ..step }
    }
}

/// Draws numbers.
struct Dice(TestRng);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0.next_u64() % end.max(1)
    }

    /// Some limit that can be built.
    fn algorithm(&mut self, kind: AlgorithmKind, period: Span) -> Algorithm {
        let most = if kind == AlgorithmKind::TokenBucket { u64::MAX } else { 10_000 };
        loop {
            let rate = Rate::new(self.pick(&COUNTS).min(most), period).expect("a rate");
            let rate = match kind {
                AlgorithmKind::TokenBucket => rate.with_burst(self.pick(&COUNTS)).expect("a burst"),
                _ => rate,
            };
            if let Ok(algorithm) = Algorithm::new(kind, &rate) {
                return algorithm;
            }
        }
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[usize::try_from(self.below(from.len() as u64)).expect("few")]
    }
}
