//! Time as whole microseconds, and the one way to ask for it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// An instant: whole microseconds since the Unix epoch.
///
/// At most [`Timestamp::MAX`] (the year 2094), so that a timestamp plus two of the longest spans still fits
/// into the 52 bits that a stored state has for it, and into the integers a double represents exactly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

/// A length of time in whole microseconds, the tick of every algorithm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(u64);

/// Where time comes from. Stores hold one; nothing else asks for the time.
pub trait Clock: Send + Sync {
    /// The current time.
    fn now(&self) -> Timestamp;
}

/// A clock that stands still until it is told otherwise. Clones share one hand.
#[derive(Clone, Debug, Default)]
pub struct ManualClock(Arc<AtomicU64>);

impl Timestamp {
    /// The latest representable instant.
    pub const MAX: Self = Self((1 << 52) - (1 << 49) - 1);

    /// The instant `micros` after the Unix epoch, held at [`Timestamp::MAX`].
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        if micros > Self::MAX.0 { Self::MAX } else { Self(micros) }
    }

    /// Microseconds since the Unix epoch.
    #[must_use]
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// The span from `earlier` to this instant; zero if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }

    /// This instant moved forward by `span`, held at [`Timestamp::MAX`].
    #[must_use]
    pub const fn plus(self, span: Span) -> Self {
        Self::from_micros(self.0.saturating_add(span.0))
    }

    /// This instant moved back by `span`, held at the epoch.
    #[must_use]
    pub const fn minus(self, span: Span) -> Self {
        Self(self.0.saturating_sub(span.0))
    }
}

impl Span {
    /// No time at all.
    pub const ZERO: Self = Self(0);
    /// The smallest step of time.
    pub const TICK: Self = Self(1);
    /// The longest span a limit may use: 2⁴⁸ − 1 µs, almost nine years.
    pub const MAX: Self = Self((1 << 48) - 1);
    /// One second.
    pub const SECOND: Self = Self(1_000_000);
    /// One minute.
    pub const MINUTE: Self = Self(60 * Self::SECOND.0);
    /// One hour.
    pub const HOUR: Self = Self(60 * Self::MINUTE.0);
    /// One day of 24 hours.
    pub const DAY: Self = Self(24 * Self::HOUR.0);

    /// A span of `micros` microseconds.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// A span of `millis` milliseconds.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000))
    }

    /// A span of `secs` seconds.
    #[must_use]
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000))
    }

    /// Whole microseconds.
    #[must_use]
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// Milliseconds, rounded up, so that a client that waits them out has waited long enough.
    #[must_use]
    pub const fn as_millis_ceil(self) -> u64 {
        self.0.div_ceil(1_000)
    }

    /// Seconds, rounded up.
    #[must_use]
    pub const fn as_secs_ceil(self) -> u64 {
        self.0.div_ceil(1_000_000)
    }

    /// True for the empty span.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl From<Span> for Duration {
    fn from(span: Span) -> Self {
        Self::from_micros(span.0)
    }
}

/// Rounds up to the next tick and holds at `u64::MAX` microseconds.
impl From<Duration> for Span {
    fn from(duration: Duration) -> Self {
        Self(u64::try_from(duration.as_nanos().div_ceil(1_000)).unwrap_or(u64::MAX))
    }
}

/// As ISO 8601 in UTC to the millisecond: `2026-01-31T12:00:00.000Z`.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, within) = (self.0 / Span::DAY.0, self.0 % Span::DAY.0 / 1_000);
        let (year, month, day) = civil(days);
        let (hour, minute) = (within / 3_600_000, within / 60_000 % 60);
        let (second, milli) = (within / 1_000 % 60, within % 1_000);
        // Every answer of the decision API has one: digit by digit, which costs a tenth of what formatting each number does.
        let mut text = *b"0000-00-00T00:00:00.000Z";
        let numbers = [(3, year), (6, month), (9, day), (12, hour), (15, minute), (18, second), (22, milli)];
        for (mut place, mut number) in numbers {
            while number > 0 {
                text[place] = b'0' + (number % 10) as u8;
                (place, number) = (place.saturating_sub(1), number / 10);
            }
        }
        f.write_str(std::str::from_utf8(&text).unwrap_or_default())
    }
}

/// Year, month and day so many days after the epoch. Years are counted from March on, so that the day which some years
/// have more is their last.
const fn civil(days: u64) -> (u64, u64, u64) {
    const OF_400_YEARS: u64 = 146_097;
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / OF_400_YEARS, shifted % OF_400_YEARS);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let months_since_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * months_since_march + 2) / 5 + 1;
    let month = if months_since_march < 10 { months_since_march + 3 } else { months_since_march - 9 };
    let year = era * 400 + year_of_era + if month <= 2 { 1 } else { 0 };
    (year, month, day)
}

/// Prints the span in the largest unit that divides it: `15min`, `1h`, `2500ms`.
impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 6] = [
            (Span::DAY.0, "d"),
            (Span::HOUR.0, "h"),
            (Span::MINUTE.0, "min"),
            (Span::SECOND.0, "s"),
            (1_000, "ms"),
            (1, "us"),
        ];
        let (size, name) = UNITS
            .into_iter()
            .find(|(size, _)| self.0 != 0 && self.0.is_multiple_of(*size))
            .unwrap_or((Self::SECOND.0, "s"));
        write!(f, "{}{name}", self.0 / size)
    }
}

impl ManualClock {
    /// A clock that shows `start`.
    #[must_use]
    pub fn starting_at(start: Timestamp) -> Self {
        Self(Arc::new(AtomicU64::new(start.0)))
    }

    /// Moves the hand to `to`, forwards or backwards.
    pub fn set(&self, to: Timestamp) {
        self.0.store(to.0, Ordering::Release);
    }

    /// Moves the hand forward by `span` and returns the new time.
    pub fn advance(&self, span: Span) -> Timestamp {
        let to = self.now().plus(span);
        self.set(to);
        to
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::Acquire))
    }
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    fn now(&self) -> Timestamp {
        (**self).now()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_print_in_the_largest_unit_that_divides_them() {
        let shown = |micros| Span::from_micros(micros).to_string();
        assert_eq!(shown(0), "0s");
        assert_eq!(shown(86_400_000_000), "1d");
        assert_eq!(shown(900_000_000), "15min");
        assert_eq!(shown(90_000_000), "90s");
        assert_eq!(shown(2_500_000), "2500ms");
        assert_eq!(shown(7), "7us");
    }

    #[test]
    fn waiting_times_round_up() {
        assert_eq!(Span::from_micros(1).as_millis_ceil(), 1);
        assert_eq!(Span::from_micros(1_000_001).as_secs_ceil(), 2);
        assert_eq!(Span::from(Duration::from_nanos(1)), Span::TICK);
    }

    #[test]
    fn timestamps_print_as_dates() {
        let shown = |seconds: u64| Timestamp::from_micros(seconds * 1_000_000 + 7_999).to_string();
        assert_eq!(shown(0), "1970-01-01T00:00:00.007Z");
        assert_eq!(shown(951_782_400 + 86_399), "2000-02-29T23:59:59.007Z");
    }

    #[test]
    fn every_day_follows_the_one_before() {
        let leap =
            |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
        let mut expected = (1970, 1, 1);
        for days in 0..46_000 {
            assert_eq!(civil(days), expected, "day {days}");
            let (year, month, day) = expected;
            let last = match month {
                2 => 28 + u64::from(leap(year)),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            expected = match (month, day) {
                (12, 31) => (year + 1, 1, 1),
                (_, day) if day == last => (year, month + 1, 1),
                _ => (year, month, day + 1),
            };
        }
    }

    #[test]
    fn timestamps_stay_inside_their_range() {
        assert_eq!(Timestamp::from_micros(u64::MAX), Timestamp::MAX);
        assert_eq!(Timestamp::MAX.plus(Span::DAY), Timestamp::MAX);
        assert_eq!(Timestamp::default().minus(Span::DAY), Timestamp::default());
    }
}
