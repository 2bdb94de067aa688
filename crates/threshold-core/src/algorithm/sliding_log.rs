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

    /// Forgets what had left the window when the last entry was made. Later is too late to forget: nobody knows
    /// yet whether the time that a refused or peeked step came at will really be.
    pub fn forget_expired(&self, log: &mut Log) {
        let last = log.entries().back().map(|last| last.at);
        if let Some(last_gone) = last.and_then(|last| self.last_gone(last)) {
            log.forget(last_gone);
        }
    }

    /// Judges `cost` at `now`; if it is admitted, writes it down and says how to undo that.
    pub(crate) fn consume(&self, log: &mut Log, cost: u64, now: u64) -> (Verdict, Option<LogUndo>) {
        let at = log.not_before(now);
        let used = self.used(log, at);
        if cost > self.count {
            return (self.verdict(log, now, Retry::Never), None);
        }
        if used + cost > self.count {
            let wait = self.passes_at(log, at, used + cost - self.count) - now;
            return (self.verdict(log, now, Retry::After(Span::from_micros(wait))), None);
        }
        let undo = log.push(Entry { at, cost }, self.last_gone(at), at + self.period);
        (self.verdict(log, now, Retry::Now), Some(undo))
    }

    /// What the window that ends at `at` holds.
    fn used(&self, log: &Log, at: u64) -> u64 {
        self.last_gone(at).map_or(log.cost(), |last_gone| log.cost_after(last_gone))
    }

    /// The latest instant that is outside of the window that ends at `at`.
    fn last_gone(&self, at: u64) -> Option<u64> {
        at.checked_sub(self.period)
    }

    /// When entries worth `needed` have left the window that ends at `at`.
    fn passes_at(&self, log: &Log, at: u64, needed: u64) -> u64 {
        let mut freed = 0;
        let inside = log.entries().iter().filter(|entry| entry.at + self.period > at);
        let last_needed = inside.into_iter().find(|entry| {
            freed += entry.cost;
            freed >= needed
        });
        last_needed.map_or(at, |entry| entry.at + self.period)
    }

    fn verdict(&self, log: &Log, now: u64, retry: Retry) -> Verdict {
        let last = log.entries().back().map_or(0, |last| last.at + self.period);
        Verdict {
            retry,
            limit: self.count,
            remaining: self.count.saturating_sub(self.used(log, log.not_before(now))),
            reset: Span::from_micros(last.saturating_sub(now)),
            later: Span::ZERO,
        }
    }
}
