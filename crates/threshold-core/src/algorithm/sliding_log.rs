//! The sliding log: every admission remembered for one period, so no window ever holds more than the count.
//!
//! Exact, and paid for in memory: up to one entry per admitted unit. The count is bounded for that reason.

use crate::algorithm::{AlgorithmKind, LimitError, plain_count};
use crate::batch::{Retry, Verdict};
use crate::rate::Rate;
use crate::state::{Entry, Log, LogUndo};
use crate::time::Span;

/// The largest count a sliding log takes.
pub const MAX_LOG: u64 = 10_000;

/// At most `count` in any window of `period`, exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlidingLog {
    count: u64,
    period: u64,
}

impl SlidingLog {
    /// Builds the log's parameters.
    pub fn new(rate: &Rate) -> Result<Self, LimitError> {
        let count = plain_count(AlgorithmKind::SlidingLog, rate, MAX_LOG)?;
        Ok(Self { count, period: rate.period().as_micros() })
    }

    /// The count.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The window.
    #[must_use]
    pub const fn period(&self) -> Span {
        Span::from_micros(self.period)
    }

    /// Forgets what has left the window by `now`.
    pub fn forget_expired(&self, log: &mut Log, now_micros: u64) {
        if let Some(last_gone) = now_micros.checked_sub(self.period) {
            log.forget(last_gone);
        }
    }

    /// Judges `cost` at `now`; if it is admitted, writes it down and says how to undo that.
    pub(crate) fn consume(&self, log: &mut Log, cost: u64, now: u64) -> (Verdict, Option<LogUndo>) {
        self.forget_expired(log, now);
        let used = log.cost();
        if cost > self.count {
            return (self.verdict(log, now, Retry::Never), None);
        }
        if used + cost > self.count {
            let at = self.passes_at(log, used + cost - self.count);
            return (self.verdict(log, now, Retry::After(Span::from_micros(at - now))), None);
        }
        // A clock that went back must not make an entry older than the one before it.
        let at = log.entries().back().map_or(now, |last| last.at.max(now));
        let undo = log.push(Entry { at, cost }, at + self.period);
        (self.verdict(log, now, Retry::Now), Some(undo))
    }

    /// When entries worth `needed` have left the window.
    fn passes_at(&self, log: &Log, needed: u64) -> u64 {
        let mut freed = 0;
        let last_needed = log.entries().iter().find(|entry| {
            freed += entry.cost;
            freed >= needed
        });
        last_needed.map_or(0, |entry| entry.at + self.period)
    }

    fn verdict(&self, log: &Log, now: u64, retry: Retry) -> Verdict {
        let reset = log.entries().back().map_or(0, |last| last.at + self.period - now);
        let remaining = self.count.saturating_sub(log.cost());
        Verdict { retry, limit: self.count, remaining, reset: Span::from_micros(reset) }
    }
}
