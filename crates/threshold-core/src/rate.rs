//! Rates as people write them: `"100/min"`, `"5 per 15min"`, `"50MB/day"`, `"100/day burst 10"`.
//!
//! ```text
//! rate   = amount ( "/" | "per" ) [ number ] period [ "burst" amount ]
//! amount = number [ "B" | "kB" | "MB" | "GB" | "TB" | "KiB" | "MiB" | "GiB" | "TiB" ]
//! period = "us" | "ms" | "s" | "min" | "hour" | "day" | "week"       (and their usual spellings)
//! number = digits, with "_" between them if you like
//! ```
//!
//! A month and a year have no one length: write `30 days` or `365 days`.

mod parse;

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

use crate::time::Span;

pub use parse::{RateError, RateErrorKind};

/// The largest count or burst a rate may have: 2⁵² − 1, exact in every store.
pub const MAX_COUNT: u64 = (1 << 52) - 1;

/// So many per period, with an optional burst (the total capacity, where the algorithm has one).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rate {
    count: NonZeroU64,
    period: Span,
    burst: Option<NonZeroU64>,
    unit: Unit,
}

/// What a rate counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Requests, messages, attempts: things.
    #[default]
    Requests,
    /// Bytes of content.
    Bytes,
}

impl Rate {
    /// `count` per `period`. The error says which of the two is out of range.
    pub fn new(count: u64, period: Span) -> Result<Self, RateErrorKind> {
        let count = in_range(count)?;
        if period.is_zero() || period > Span::MAX {
            return Err(RateErrorKind::PeriodOutOfRange);
        }
        Ok(Self { count, period, burst: None, unit: Unit::Requests })
    }

    /// The same rate with a total capacity of `burst`.
    pub fn with_burst(self, burst: u64) -> Result<Self, RateErrorKind> {
        Ok(Self { burst: Some(in_range(burst)?), ..self })
    }

    /// The same numbers, counting `unit`.
    #[must_use]
    pub const fn counting(self, unit: Unit) -> Self {
        Self { unit, ..self }
    }

    /// How many per period.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count.get()
    }

    /// The period.
    #[must_use]
    pub const fn period(&self) -> Span {
        self.period
    }

    /// The burst, if one was written.
    #[must_use]
    pub fn burst(&self) -> Option<u64> {
        self.burst.map(NonZeroU64::get)
    }

    /// What is counted.
    #[must_use]
    pub const fn unit(&self) -> Unit {
        self.unit
    }
}

fn in_range(count: u64) -> Result<NonZeroU64, RateErrorKind> {
    match NonZeroU64::new(count) {
        None => Err(RateErrorKind::Zero),
        Some(count) if count.get() > MAX_COUNT => Err(RateErrorKind::TooLarge),
        Some(count) => Ok(count),
    }
}

impl FromStr for Rate {
    type Err = RateError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse::rate(text)
    }
}

impl TryFrom<&str> for Rate {
    type Error = RateError;

    fn try_from(text: &str) -> Result<Self, Self::Error> {
        parse::rate(text)
    }
}

/// Prints the rate so that parsing it again gives the same rate.
impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.unit.write_amount(f, self.count())?;
        match self.period {
            Span::SECOND => f.write_str("/s"),
            Span::MINUTE => f.write_str("/min"),
            Span::HOUR => f.write_str("/hour"),
            Span::DAY => f.write_str("/day"),
            other => write!(f, " per {other}"),
        }?;
        if let Some(burst) = self.burst() {
            f.write_str(" burst ")?;
            self.unit.write_amount(f, burst)?;
        }
        Ok(())
    }
}

impl Unit {
    /// Its name, as a part of a limit's identity.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Bytes => "bytes",
        }
    }

    /// Writes `amount` in this unit; bytes in the largest decimal unit that divides them.
    pub(crate) fn write_amount(self, out: &mut impl fmt::Write, amount: u64) -> fmt::Result {
        match self {
            Self::Requests => write!(out, "{amount}"),
            Self::Bytes => {
                let (size, name) = parse::DECIMAL_BYTES
                    .into_iter()
                    .rev()
                    .find(|(size, _)| amount.is_multiple_of(*size))
                    .unwrap_or((1, "B"));
                write!(out, "{}{name}", amount / size)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(text: &str) -> Rate {
        text.parse().expect(text)
    }

    #[test]
    fn reads_what_people_write() {
        assert_eq!(rate("100/min"), Rate::new(100, Span::MINUTE).unwrap());
        assert_eq!(rate("10 / hour"), Rate::new(10, Span::HOUR).unwrap());
        assert_eq!(rate("5 per 15min"), Rate::new(5, Span::from_secs(900)).unwrap());
        assert_eq!(rate("5/15 minutes"), rate("5 per 15min"));
        assert_eq!(rate("1_000/s"), Rate::new(1000, Span::SECOND).unwrap());
        assert_eq!(rate("7 per week"), Rate::new(7, Span::from_secs(604_800)).unwrap());
        let uploads = Rate::new(50_000_000, Span::DAY).unwrap().counting(Unit::Bytes);
        assert_eq!(rate("50MB/day"), uploads);
        assert_eq!(rate("1KiB/s").count(), 1024);
        assert_eq!(rate("100/day burst 10").burst(), Some(10));
        assert_eq!(rate("50MB/day burst 10MB").burst(), Some(10_000_000));
    }

    #[test]
    fn prints_what_it_reads() {
        for text in [
            "100/min",
            "10/hour",
            "5 per 15min",
            "50MB/day",
            "100/day burst 10",
            "1/s",
            "3 per 2500ms",
            "7 per 7d",
            "1536B/s",
            "2kB/s burst 1MB",
        ] {
            assert_eq!(rate(text).to_string(), text);
        }
    }

    #[test]
    fn says_what_is_wrong_where_and_how_to_fix_it() {
        let says = |text: &str| text.parse::<Rate>().unwrap_err().to_string();
        for (text, at, part) in [
            ("", 1, "a number"),
            ("x/min", 1, "a number"),
            ("0/min", 1, "at least 1"),
            ("100", 4, "\"/\" or \"per\""),
            ("100/", 5, "a period"),
            ("100/fortnight", 5, "\"fortnight\""),
            ("100/month", 5, "30 days"),
            ("100/0s", 5, "period"),
            ("100/99999999 days", 5, "period"),
            ("99999999999999999999/s", 1, "at most"),
            ("50mb/day", 3, "MB"),
            ("100/min burst", 14, "a number"),
            ("100/min burst 0", 15, "at least 1"),
            ("50MB/day burst 10", 16, "bytes"),
            ("10/day burst 5MB", 14, "bytes"),
            ("100/min please", 9, "\"please\""),
            ("-5/min", 1, "a number"),
            ("1.5/s", 2, "whole"),
        ] {
            let message = says(text);
            assert!(message.contains(&format!("column {at}:")), "{text}: {message}");
            assert!(message.contains(part), "{text}: {message}");
        }
    }
}
