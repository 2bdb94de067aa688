//! The five algorithms: how much is admitted, in whole microseconds and whole units.
//!
//! Every algorithm is built once, when its limit is; whatever it could not represent exactly is refused there
//! with a reason. After that no arithmetic can overflow: spans are below 2⁴⁸, instants below 2⁵², counters
//! below 2³⁸ or 2⁵², and every product fits its type by those bounds.
//!
//! Common to all: intervals are half-open `[t, t + T)`; a state never moves back in time, so a clock that does
//! admits nothing extra; an expired state equals no state.

pub mod concurrency;
pub mod fixed_window;
pub mod sliding_log;
pub mod sliding_window;
pub mod token_bucket;

use std::fmt;

use crate::batch::Verdict;
use crate::guarantee::Guarantee;
use crate::rate::Rate;
use crate::time::Span;

pub use concurrency::Concurrency;
pub use fixed_window::FixedWindow;
pub use sliding_log::SlidingLog;
pub use sliding_window::SlidingWindow;
pub use token_bucket::TokenBucket;

/// An algorithm with its numbers: everything a step needs to be judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// So many at once, then a steady rate. The default.
    TokenBucket(TokenBucket),
    /// So many per window.
    FixedWindow(FixedWindow),
    /// Two counters, the older one fading out.
    SlidingWindow(SlidingWindow),
    /// Every admission remembered: exact in any window.
    SlidingLog(SlidingLog),
    /// So many at the same time.
    Concurrency(Concurrency),
}

/// Which algorithm, without its numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AlgorithmKind {
    /// [`TokenBucket`].
    #[default]
    TokenBucket,
    /// [`FixedWindow`] that starts with a key's first admission.
    FixedWindow,
    /// [`FixedWindow`] aligned to UTC: minutes, hours, days.
    CalendarWindow,
    /// [`SlidingWindow`].
    SlidingWindow,
    /// [`SlidingLog`].
    SlidingLog,
    /// [`Concurrency`].
    Concurrency,
}

/// A limit that cannot be built, with the reason and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LimitError {
    /// The time it takes an empty bucket to fill is too long.
    #[error(
        "{rate}: a bucket of {burst} takes more than 3257 days to fill; lower the burst or raise the rate"
    )]
    BucketTooDeep {
        /// The rate.
        rate: String,
        /// The capacity asked for.
        burst: u64,
    },
    /// The interval between two tokens is no fraction with a small enough denominator.
    #[error("{0} cannot be represented exactly; use a rounder number, or a count of at most 274877906943")]
    NotRepresentable(String),
    /// The count is too large for this algorithm.
    #[error(
        "{algorithm} takes a count of at most {max}, not {count}; use a smaller one, or another algorithm"
    )]
    CountTooLarge {
        /// The algorithm's name.
        algorithm: AlgorithmKind,
        /// The count asked for.
        count: u64,
        /// The largest it takes.
        max: u64,
    },
    /// Only a bucket has a burst.
    #[error("{0} has no burst; drop \"burst\", or use token-bucket")]
    NoBurst(AlgorithmKind),
    /// A calendar window must tile the UTC day.
    #[error("a calendar window of {0} does not divide a UTC day; use a minute, an hour, a day or a divisor")]
    NotCalendar(Span),
}

impl Algorithm {
    /// Builds `kind` from `rate`. For [`AlgorithmKind::Concurrency`] the count is the number of permits and the
    /// period their lifetime.
    pub fn new(kind: AlgorithmKind, rate: &Rate) -> Result<Self, LimitError> {
        match kind {
            AlgorithmKind::TokenBucket => TokenBucket::new(rate).map(Self::TokenBucket),
            AlgorithmKind::FixedWindow => FixedWindow::anchored(rate).map(Self::FixedWindow),
            AlgorithmKind::CalendarWindow => FixedWindow::calendar(rate).map(Self::FixedWindow),
            AlgorithmKind::SlidingWindow => SlidingWindow::new(rate).map(Self::SlidingWindow),
            AlgorithmKind::SlidingLog => SlidingLog::new(rate).map(Self::SlidingLog),
            AlgorithmKind::Concurrency => Concurrency::new(rate).map(Self::Concurrency),
        }
    }

    /// A token bucket: the algorithm of a limit that names none.
    pub fn token_bucket(rate: &Rate) -> Result<Self, LimitError> {
        Self::new(AlgorithmKind::TokenBucket, rate)
    }

    /// Which algorithm this is.
    #[must_use]
    pub const fn kind(&self) -> AlgorithmKind {
        match self {
            Self::TokenBucket(_) => AlgorithmKind::TokenBucket,
            Self::FixedWindow(window) if window.is_calendar() => AlgorithmKind::CalendarWindow,
            Self::FixedWindow(_) => AlgorithmKind::FixedWindow,
            Self::SlidingWindow(_) => AlgorithmKind::SlidingWindow,
            Self::SlidingLog(_) => AlgorithmKind::SlidingLog,
            Self::Concurrency(_) => AlgorithmKind::Concurrency,
        }
    }

    /// How long after `verdict`, if nothing else is charged, one more would be admitted than it says; none where that is
    /// not known without the state. Zero if nothing is missing.
    #[must_use]
    pub fn next_unit(&self, verdict: &Verdict) -> Option<Span> {
        let missing = verdict.limit.saturating_sub(verdict.remaining);
        match self {
            _ if missing == 0 => Some(Span::ZERO),
            Self::TokenBucket(bucket) => {
                let (interval, per) = bucket.interval();
                let later = u128::from(missing - 1) * u128::from(interval) / u128::from(per);
                let later = u64::try_from(later).unwrap_or(u64::MAX);
                Some(Span::from_micros(verdict.reset.as_micros().saturating_sub(later)))
            }
            Self::FixedWindow(_) => Some(verdict.reset),
            Self::SlidingWindow(_) | Self::SlidingLog(_) | Self::Concurrency(_) => None,
        }
    }

    /// How long it takes to allow `capacity` once more; none for places that come back when they are given back.
    #[must_use]
    pub fn window(&self, capacity: u64) -> Option<Span> {
        match self {
            Self::TokenBucket(bucket) => {
                let (interval, per) = bucket.interval();
                let depth = (u128::from(capacity) * u128::from(interval)).div_ceil(u128::from(per));
                Some(Span::from_micros(u64::try_from(depth).unwrap_or(u64::MAX)))
            }
            Self::Concurrency(_) => None,
            Self::FixedWindow(_) | Self::SlidingWindow(_) | Self::SlidingLog(_) => Some(self.period()),
        }
    }

    /// The period of the rate it was built from; part of the limit's identity.
    #[must_use]
    pub const fn period(&self) -> Span {
        match self {
            Self::TokenBucket(bucket) => bucket.period(),
            Self::FixedWindow(window) => window.period(),
            Self::SlidingWindow(window) => window.period(),
            Self::SlidingLog(log) => log.period(),
            Self::Concurrency(permits) => permits.lifetime(),
        }
    }

    /// The most that a fresh key can be charged at once: a larger cost never fits.
    #[must_use]
    #[inline]
    pub const fn capacity(&self) -> u64 {
        match self {
            Self::TokenBucket(bucket) => bucket.capacity(),
            Self::FixedWindow(window) => window.count(),
            Self::SlidingWindow(window) => window.count(),
            Self::SlidingLog(log) => log.count(),
            Self::Concurrency(permits) => permits.count(),
        }
    }

    /// The same limit with `extra` more capacity, over the same states; none if that cannot be represented.
    #[must_use]
    pub fn raised(&self, extra: u64) -> Option<Self> {
        let capacity = self.capacity().checked_add(extra)?;
        let rate = match self {
            Self::TokenBucket(bucket) => {
                Rate::new(bucket.count(), bucket.period()).ok()?.with_burst(capacity)
            }
            _ => Rate::new(capacity, self.period()),
        };
        Self::new(self.kind(), &rate.ok()?).ok()
    }

    /// True if its state is a [`Cell`](crate::state::Cell), false if it is a list.
    pub(crate) const fn keeps_cell(&self) -> bool {
        matches!(self, Self::TokenBucket(_) | Self::FixedWindow(_) | Self::SlidingWindow(_))
    }

    /// True if it is charged, false if it gives out permits.
    pub(crate) const fn charges(&self) -> bool {
        !matches!(self, Self::Concurrency(_))
    }

    /// How long a charge may be felt.
    #[must_use]
    pub const fn memory(&self) -> Span {
        match self {
            Self::TokenBucket(bucket) => bucket.refill(),
            Self::SlidingWindow(window) => Span::from_micros(2 * window.period().as_micros()),
            Self::FixedWindow(_) | Self::SlidingLog(_) | Self::Concurrency(_) => self.period(),
        }
    }

    /// What the algorithm promises.
    #[must_use]
    pub const fn guarantee(&self) -> Guarantee {
        Guarantee::of(*self)
    }
}

impl AlgorithmKind {
    /// All of them, in the order of the documentation.
    pub const ALL: [Self; 6] = [
        Self::TokenBucket,
        Self::FixedWindow,
        Self::CalendarWindow,
        Self::SlidingWindow,
        Self::SlidingLog,
        Self::Concurrency,
    ];

    /// The name in policies and keys.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TokenBucket => "token-bucket",
            Self::FixedWindow => "fixed-window",
            Self::CalendarWindow => "calendar-window",
            Self::SlidingWindow => "sliding-window",
            Self::SlidingLog => "sliding-log",
            Self::Concurrency => "concurrency",
        }
    }
}

impl fmt::Display for AlgorithmKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The count of a rate for an algorithm without a burst that takes at most `max`.
fn plain_count(kind: AlgorithmKind, rate: &Rate, max: u64) -> Result<u64, LimitError> {
    match rate {
        _ if rate.burst().is_some() => Err(LimitError::NoBurst(kind)),
        _ if rate.count() > max => {
            Err(LimitError::CountTooLarge { algorithm: kind, count: rate.count(), max })
        }
        _ => Ok(rate.count()),
    }
}
