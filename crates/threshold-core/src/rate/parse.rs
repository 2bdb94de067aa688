//! The reader behind [`Rate`]'s `FromStr`: one pass, errors with a column and a remedy.

use crate::rate::{Rate, Unit};
use crate::time::Span;

/// Decimal byte units in rising order.
pub(crate) const DECIMAL_BYTES: [(u64, &str); 5] =
    [(1, "B"), (1_000, "kB"), (1_000_000, "MB"), (1_000_000_000, "GB"), (1_000_000_000_000, "TB")];

const BINARY_BYTES: [(u64, &str); 4] =
    [(1 << 10, "KiB"), (1 << 20, "MiB"), (1 << 30, "GiB"), (1 << 40, "TiB")];

const PERIODS: [(&[&str], Span); 7] = [
    (&["us", "microsecond", "microseconds"], Span::TICK),
    (&["ms", "millisecond", "milliseconds"], Span::from_millis(1)),
    (&["s", "sec", "secs", "second", "seconds"], Span::SECOND),
    (&["m", "min", "mins", "minute", "minutes"], Span::MINUTE),
    (&["h", "hr", "hour", "hours"], Span::HOUR),
    (&["d", "day", "days"], Span::DAY),
    (&["w", "week", "weeks"], Span::from_secs(7 * 86_400)),
];

/// A rate that could not be read: the text, the column (from 1) and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("rate {text:?}, column {column}: {kind}")]
pub struct RateError {
    /// What was to be read.
    pub text: String,
    /// The column, counted in characters from 1, at which reading stopped.
    pub column: usize,
    /// What is wrong there.
    pub kind: RateErrorKind,
}

/// What is wrong with a rate, with the remedy in its message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RateErrorKind {
    /// A number was expected.
    #[error("expected a number; write a rate such as \"100/min\" or \"5 per 15min\"")]
    ExpectedNumber,
    /// Fractions are not counted.
    #[error("only whole numbers; write a longer period instead, \"3 per 2s\" for 1.5/s")]
    Fraction,
    /// Zero admits nothing.
    #[error("the number must be at least 1; to refuse everything use a deny list")]
    Zero,
    /// Past the largest count.
    #[error("the number must be at most {}", crate::rate::MAX_COUNT)]
    TooLarge,
    /// The separator is missing.
    #[error("expected \"/\" or \"per\", then a period: \"100/min\"")]
    ExpectedPer,
    /// The period is missing.
    #[error("expected a period: one of us, ms, s, min, hour, day, week, with a number before it if you like")]
    ExpectedPeriod,
    /// No such unit of time.
    #[error("unknown period {0:?}; write one of us, ms, s, min, hour, day, week")]
    UnknownPeriod(String),
    /// Months and years vary.
    #[error("a {0} has no one length; write \"30 days\" or \"365 days\"")]
    VaryingPeriod(String),
    /// Zero or longer than [`Span::MAX`].
    #[error("the period must be at least 1us and at most 3257 days")]
    PeriodOutOfRange,
    /// No such unit of bytes.
    #[error("unknown unit {0:?}; for bytes write B, kB, MB, GB, TB or KiB, MiB, GiB, TiB")]
    UnknownUnit(String),
    /// One side counts bytes, the other does not.
    #[error("count and burst must both be in bytes or both not: \"50MB/day burst 10MB\"")]
    MixedUnits,
    /// Something follows the rate.
    #[error("unexpected {0:?} after the rate; only \"burst\" and an amount may follow")]
    Trailing(String),
}

/// Reads a whole rate.
pub(crate) fn rate(text: &str) -> Result<Rate, RateError> {
    let mut reader = Reader { text, at: 0 };
    reader.rate().map_err(|(at, kind)| RateError {
        text: text.to_owned(),
        column: text[..at].chars().count() + 1,
        kind,
    })
}

/// An error and the byte at which it was met.
type Met<T> = Result<T, (usize, RateErrorKind)>;

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn rate(&mut self) -> Met<Rate> {
        let start = self.skip_space();
        let (count, unit) = self.amount()?;
        self.separator()?;
        let period_at = self.skip_space();
        let period = self.period()?;
        let rate = Rate::new(count, period).map_err(|kind| match kind {
            RateErrorKind::PeriodOutOfRange => (period_at, kind),
            _ => (start, kind),
        })?;
        let rate = rate.counting(unit);
        match self.word() {
            (_, "") => self.end().map(|()| rate),
            (_, "burst") => self.burst(rate),
            (at, other) => Err((at, RateErrorKind::Trailing(other.to_owned()))),
        }
    }

    fn burst(&mut self, rate: Rate) -> Met<Rate> {
        let at = self.skip_space();
        let (burst, unit) = self.amount()?;
        if unit != rate.unit() {
            return Err((at, RateErrorKind::MixedUnits));
        }
        let rate = rate.with_burst(burst).map_err(|kind| (at, kind))?;
        self.end().map(|()| rate)
    }

    /// A number and, if letters that are not "per" follow it, a unit of bytes.
    fn amount(&mut self) -> Met<(u64, Unit)> {
        let start = self.skip_space();
        let number = self.number()?;
        let back = self.at;
        let (at, unit) = self.word();
        if unit.is_empty() || unit == "per" {
            self.at = back;
            return Ok((number, Unit::Requests));
        }
        let size = DECIMAL_BYTES.iter().chain(&BINARY_BYTES).find(|(_, name)| *name == unit);
        let (size, _) = size.ok_or_else(|| (at, RateErrorKind::UnknownUnit(unit.to_owned())))?;
        let bytes = number.checked_mul(*size).ok_or((start, RateErrorKind::TooLarge))?;
        Ok((bytes, Unit::Bytes))
    }

    fn number(&mut self) -> Met<u64> {
        let start = self.skip_space();
        let digits = self.take_while(|c| c.is_ascii_digit() || c == '_');
        if !digits.starts_with(|c: char| c.is_ascii_digit()) {
            return Err((start, RateErrorKind::ExpectedNumber));
        }
        if self.text[self.at..].starts_with('.') {
            return Err((self.at, RateErrorKind::Fraction));
        }
        digits.replace('_', "").parse().map_err(|_| (start, RateErrorKind::TooLarge))
    }

    fn separator(&mut self) -> Met<()> {
        let at = self.skip_space();
        if self.text[at..].starts_with('/') {
            self.at += 1;
            return Ok(());
        }
        match self.word() {
            (_, "per") => Ok(()),
            _ => Err((at, RateErrorKind::ExpectedPer)),
        }
    }

    fn period(&mut self) -> Met<Span> {
        let start = self.skip_space();
        let starts_with_digit = self.text[start..].starts_with(|c: char| c.is_ascii_digit());
        let many = if starts_with_digit { self.number()? } else { 1 };
        let (at, name) = self.word();
        if name.is_empty() {
            return Err((at, RateErrorKind::ExpectedPeriod));
        }
        let unit = PERIODS.iter().find(|(names, _)| names.contains(&name)).map(|(_, span)| *span);
        let unit = unit.ok_or_else(|| (at, unknown_period(name)))?;
        let micros = many.checked_mul(unit.as_micros()).ok_or((start, RateErrorKind::PeriodOutOfRange))?;
        Ok(Span::from_micros(micros))
    }

    fn end(&mut self) -> Met<()> {
        let at = self.skip_space();
        match &self.text[at..] {
            "" => Ok(()),
            rest => Err((at, RateErrorKind::Trailing(rest.to_owned()))),
        }
    }

    /// The letters that come next, and where they start.
    fn word(&mut self) -> (usize, &'a str) {
        let at = self.skip_space();
        (at, self.take_while(char::is_alphabetic))
    }

    fn skip_space(&mut self) -> usize {
        self.take_while(char::is_whitespace);
        self.at
    }

    fn take_while(&mut self, accept: impl Fn(char) -> bool) -> &'a str {
        let rest = &self.text[self.at..];
        let length = rest.find(|c| !accept(c)).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }
}

fn unknown_period(name: &str) -> RateErrorKind {
    match name {
        "month" | "months" | "mo" | "year" | "years" | "y" => RateErrorKind::VaryingPeriod(name.to_owned()),
        _ => RateErrorKind::UnknownPeriod(name.to_owned()),
    }
}
