//! An exact reference: every algorithm written once more, from its definition, in rational arithmetic and over
//! the whole history. Slow and obvious; it shares no arithmetic with the product.

mod bucket;
mod lists;
mod windows;

use std::collections::HashMap;

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::ToPrimitive;

use threshold_core::{Action, Algorithm, Key, Mode, Outcome, Retry, Span, Step, Timestamp, Verdict};

use bucket::Bucket;
use lists::{History, Holders};
use windows::{Fading, Fixed};

/// The reference store.
#[derive(Clone, Debug, Default)]
pub struct Model {
    keys: HashMap<Key, Memory>,
}

/// What the model remembers of one key.
#[derive(Clone, Debug)]
enum Memory {
    Bucket(Bucket),
    Fixed(Fixed),
    Fading(Fading),
    History(History),
    Holders(Holders),
}

/// What one algorithm of the model says: admitted or when, what is left, and when all is forgotten.
struct Said {
    retry: Retry,
    remaining: u64,
    reset: u64,
}

impl Model {
    /// Judges and charges the steps: on a copy that is kept only if every enforce step was admitted.
    pub fn apply(&mut self, steps: &[Step], now: Timestamp) -> Outcome {
        let mut after = self.clone();
        let mut outcome = Outcome { at: now, ..Outcome::default() };
        for step in steps {
            let verdict = after.charge(step, now);
            if step.mode == Mode::Enforce {
                outcome.retry = outcome.retry.max(verdict.retry);
            }
            outcome.verdicts.push(verdict);
        }
        if outcome.admitted() {
            *self = after;
            outcome.charged = true;
            return outcome;
        }
        for (step, verdict) in steps.iter().zip(&mut outcome.verdicts) {
            if verdict.admitted() {
                let real = self.clone().look(step, now);
                (verdict.remaining, verdict.reset) = (real.remaining, real.reset);
            }
        }
        outcome
    }

    fn charge(&mut self, step: &Step, now: Timestamp) -> Verdict {
        let capacity = step.algorithm.capacity();
        let said = match (self.memory(step), step.action) {
            (Memory::Holders(holders), Action::Consume(_) | Action::Check) => return unfit(holders.count),
            (Memory::History(_), Action::Check) => return unfit(capacity),
            (memory, Action::Check) => {
                let mut memory = memory.clone();
                let left = memory.consume(u64::MAX, now.as_micros());
                Said { retry: memory.consume(1, now.as_micros()).retry, ..left }
            }
            (Memory::Holders(holders), action) => holders.act(action, now.as_micros()),
            (memory, Action::Consume(cost)) => memory.consume(cost.get(), now.as_micros()),
            _ => return unfit(capacity),
        };
        said.verdict(capacity)
    }

    /// The verdict with what is left, charging nothing.
    fn look(&mut self, step: &Step, now: Timestamp) -> Verdict {
        let said = match self.memory(step) {
            Memory::Holders(holders) => holders.look(now.as_micros()),
            memory => memory.consume(u64::MAX, now.as_micros()),
        };
        said.verdict(step.algorithm.capacity())
    }

    fn memory(&mut self, step: &Step) -> &mut Memory {
        let memory = self.keys.entry(step.key).or_insert_with(|| Memory::new(&step.algorithm));
        memory.set_limit(&step.algorithm);
        memory
    }
}

impl Memory {
    fn new(algorithm: &Algorithm) -> Self {
        match algorithm {
            Algorithm::TokenBucket(_) => Self::Bucket(Bucket::default()),
            Algorithm::FixedWindow(_) => Self::Fixed(Fixed::default()),
            Algorithm::SlidingWindow(_) => Self::Fading(Fading::default()),
            Algorithm::SlidingLog(_) => Self::History(History::default()),
            Algorithm::Concurrency(_) => Self::Holders(Holders::default()),
        }
    }

    fn set_limit(&mut self, algorithm: &Algorithm) {
        let (count, period) = (algorithm.capacity(), algorithm.period().as_micros());
        match (self, algorithm) {
            (Self::Bucket(bucket), Algorithm::TokenBucket(limit)) => {
                bucket.set_limit(count, limit.interval());
            }
            (Self::Fixed(fixed), Algorithm::FixedWindow(limit)) => {
                (fixed.count, fixed.period, fixed.calendar) = (count, period, limit.is_calendar());
            }
            (Self::Fading(fading), _) => (fading.count, fading.period) = (count, period),
            (Self::History(history), _) => (history.count, history.period) = (count, period),
            (Self::Holders(holders), _) => (holders.count, holders.lifetime) = (count, period),
            _ => unreachable!("a key belongs to one algorithm"),
        }
    }

    fn consume(&mut self, cost: u64, now: u64) -> Said {
        match self {
            Self::Bucket(bucket) => bucket.consume(cost, now),
            Self::Fixed(fixed) => fixed.consume(cost, now),
            Self::Fading(fading) => fading.consume(cost, now),
            Self::History(history) => history.consume(cost, now),
            Self::Holders(_) => unreachable!("permits are not consumed"),
        }
    }
}

impl Said {
    fn verdict(&self, limit: u64) -> Verdict {
        Verdict {
            retry: self.retry,
            limit,
            remaining: self.remaining,
            reset: Span::from_micros(self.reset),
            later: Span::ZERO,
        }
    }
}

fn unfit(limit: u64) -> Verdict {
    Verdict { retry: Retry::Never, limit, remaining: 0, reset: Span::ZERO, later: Span::ZERO }
}

fn rational(number: u64) -> BigRational {
    BigRational::from_integer(BigInt::from(number))
}

fn floor(number: &BigRational) -> u64 {
    number.floor().to_integer().to_u64().unwrap_or(0)
}

fn ceil(number: &BigRational) -> u64 {
    number.ceil().to_integer().to_u64().unwrap_or(0)
}

fn after(micros: u64) -> Retry {
    Retry::After(Span::from_micros(micros))
}
