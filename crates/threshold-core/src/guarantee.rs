//! What a limit promises: the largest number it admits in any interval, as a value and as a sentence.

use std::fmt;

use crate::algorithm::Algorithm;
use crate::rate::Unit;
use crate::time::Span;

/// The bound of one limit. It holds for every key by itself, on one store, whatever the order and timing of
/// the requests; refunded charges are not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guarantee {
    algorithm: Algorithm,
    unit: Unit,
}

impl Guarantee {
    pub(crate) const fn of(algorithm: Algorithm) -> Self {
        Self { algorithm, unit: Unit::Requests }
    }

    /// The same bound, said in `unit`.
    #[must_use]
    pub const fn counting(self, unit: Unit) -> Self {
        Self { unit, ..self }
    }

    /// The most that is admitted in any half-open interval `[t, t + length)`; for concurrency, the most that is
    /// out at any instant. Nothing is admitted in an empty interval.
    #[must_use]
    pub fn most_in(&self, length: Span) -> u64 {
        let length = length.as_micros();
        if length == 0 {
            return 0;
        }
        match &self.algorithm {
            // The capacity, and what flows in between the first and the last tick.
            Algorithm::TokenBucket(bucket) => {
                let (interval, per) = bucket.interval();
                scaled(bucket.capacity(), length - 1, per, interval)
            }
            // One window full at the interval's first tick, the next ones each a period after the other.
            Algorithm::FixedWindow(window) => {
                let windows = match length.checked_sub(2) {
                    Some(rest) => 2 + rest / window.period().as_micros(),
                    None => 1,
                };
                window.count().saturating_mul(windows)
            }
            // The older window's part of the interval fades from the newer's at most as fast as it passes.
            Algorithm::SlidingWindow(window) => {
                let count = window.count();
                scaled(count, length.saturating_sub(2), count, window.period().as_micros())
            }
            Algorithm::SlidingLog(log) => {
                log.count().saturating_mul(length.div_ceil(log.period().as_micros()))
            }
            Algorithm::Concurrency(permits) => permits.count(),
        }
    }
}

/// `base + length × count / period`, rounded down and held at the largest number.
fn scaled(base: u64, length: u64, count: u64, period: u64) -> u64 {
    let flow = u128::from(length) * u128::from(count) / u128::from(period);
    base.saturating_add(u64::try_from(flow).unwrap_or(u64::MAX))
}

impl fmt::Display for Guarantee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let period = self.algorithm.period();
        let most = Amount(self.unit, self.most_in(period));
        let at_once = Amount(self.unit, self.algorithm.capacity());
        match &self.algorithm {
            Algorithm::TokenBucket(bucket) => {
                let (interval, per) = bucket.interval();
                let flow = Amount(self.unit, scaled(0, period.as_micros(), per, interval));
                write!(f, "at most {most} in any {period}: {at_once} at once, then {flow} per {period}")
            }
            Algorithm::FixedWindow(window) if window.is_calendar() => {
                write!(f, "at most {at_once} in each {period} of UTC, so at most {most} in any {period}")
            }
            Algorithm::FixedWindow(_) => {
                write!(f, "at most {at_once} in each window of {period}, so at most {most} in any {period}")
            }
            Algorithm::SlidingWindow(_) => {
                write!(f, "at most {most} in any {period}, and {at_once} in any one window of it")
            }
            Algorithm::SlidingLog(_) => write!(f, "at most {most} in any {period}"),
            Algorithm::Concurrency(_) => {
                write!(f, "at most {at_once} at the same time, each for {period} unless renewed")
            }
        }
    }
}

struct Amount(Unit, u64);

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.write_amount(f, self.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::AlgorithmKind;

    fn guarantee(kind: AlgorithmKind, rate: &str) -> Guarantee {
        Algorithm::new(kind, &rate.parse().unwrap()).unwrap().guarantee()
    }

    #[test]
    fn says_what_a_limit_admits() {
        for (kind, rate, sentence) in [
            (
                AlgorithmKind::TokenBucket,
                "100/min",
                "at most 199 in any 1min: 100 at once, then 100 per 1min",
            ),
            (
                AlgorithmKind::TokenBucket,
                "100/day burst 10",
                "at most 109 in any 1d: 10 at once, then 100 per 1d",
            ),
            (
                AlgorithmKind::FixedWindow,
                "100/min",
                "at most 100 in each window of 1min, so at most 200 in any 1min",
            ),
            (
                AlgorithmKind::CalendarWindow,
                "100/day",
                "at most 100 in each 1d of UTC, so at most 200 in any 1d",
            ),
            (
                AlgorithmKind::SlidingWindow,
                "100/min",
                "at most 199 in any 1min, and 100 in any one window of it",
            ),
            (AlgorithmKind::SlidingLog, "100/min", "at most 100 in any 1min"),
            (
                AlgorithmKind::Concurrency,
                "10/min",
                "at most 10 at the same time, each for 1min unless renewed",
            ),
        ] {
            assert_eq!(guarantee(kind, rate).to_string(), sentence);
        }
    }

    #[test]
    fn speaks_in_bytes_where_bytes_are_counted() {
        let uploads = guarantee(AlgorithmKind::SlidingLog, "5kB/day").counting(Unit::Bytes);
        assert_eq!(uploads.to_string(), "at most 5kB in any 1d");
    }

    #[test]
    fn bounds_any_interval() {
        let bucket = guarantee(AlgorithmKind::TokenBucket, "100/min");
        assert_eq!(bucket.most_in(Span::ZERO), 0);
        assert_eq!(bucket.most_in(Span::TICK), 100);
        assert_eq!(bucket.most_in(Span::MINUTE), 199);
        assert_eq!(bucket.most_in(Span::from_micros(60_000_001)), 200);
        let window = guarantee(AlgorithmKind::FixedWindow, "100/min");
        assert_eq!(window.most_in(Span::TICK), 100);
        assert_eq!(window.most_in(Span::from_micros(2)), 200);
        assert_eq!(window.most_in(Span::from_micros(60_000_001)), 200);
        assert_eq!(window.most_in(Span::from_micros(60_000_002)), 300);
        let sliding = guarantee(AlgorithmKind::SlidingWindow, "100/min");
        assert_eq!(sliding.most_in(Span::SECOND), 101);
        assert_eq!(sliding.most_in(Span::MINUTE), 199);
        let log = guarantee(AlgorithmKind::SlidingLog, "100/min");
        assert_eq!(log.most_in(Span::MINUTE), 100);
        assert_eq!(log.most_in(Span::from_micros(60_000_001)), 200);
    }
}
