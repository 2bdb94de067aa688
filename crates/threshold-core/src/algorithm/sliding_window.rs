//! The sliding window counter: two windows, the older one fading out as the newer one passes.
//!
//! A cost `c` is admitted while `previous × (1 − elapsed) + current + c ≤ count`. The elapsed share is counted
//! in at most 4,096 slices and rounded down, which is against the client, so that every product stays below
//! 2⁵³ and every store computes the same integers.
//!
//! The windows start with a key's first admission. The state is the instant at which nothing of it counts any
//! more (the end of the window after the current one) and the two counters.

use crate::algorithm::{AlgorithmKind, LimitError, plain_count};
use crate::batch::{Retry, Verdict};
use crate::rate::Rate;
use crate::state::{COUNTER_MAX, Cell};
use crate::time::Span;

const MAX_SLICES: u64 = 4_096;

/// About `count` in any window of `period`; the guarantee says exactly how far off it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlidingWindow {
    count: u64,
    period: u64,
    /// The length of a slice.
    slice: u64,
    /// Slices in a window: the period over the slice, rounded up.
    slices: u64,
}

/// Where the current window starts, and what both windows admitted.
#[derive(Clone, Copy)]
struct Windows {
    start: u64,
    previous: u64,
    current: u64,
}

impl SlidingWindow {
    /// Builds the window.
    pub fn new(rate: &Rate) -> Result<Self, LimitError> {
        let count = plain_count(AlgorithmKind::SlidingWindow, rate, COUNTER_MAX)?;
        let period = rate.period().as_micros();
        let slice = period.div_ceil(MAX_SLICES);
        Ok(Self { count, period, slice, slices: period.div_ceil(slice) })
    }

    /// The count.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The length of a window.
    #[must_use]
    pub const fn period(&self) -> Span {
        Span::from_micros(self.period)
    }

    /// The length of a slice, and how many a window has.
    pub(crate) const fn slicing(&self) -> (u64, u64) {
        (self.slice, self.slices)
    }

    /// Judges `cost` at `now` and gives the state that an admission leaves behind.
    #[inline]
    pub(crate) fn judge(&self, cell: Cell, cost: u64, now: u64) -> (Verdict, Option<Cell>) {
        let windows = self.windows(cell, now);
        if cost > self.count {
            return (self.verdict(&windows, now, Retry::Never), None);
        }
        if cost > self.remaining(&windows, now) {
            let at = self.passes_at(&windows, cost);
            return (self.verdict(&windows, now, Retry::After(Span::from_micros(at - now))), None);
        }
        let windows = Windows { current: windows.current + cost, ..windows };
        (self.verdict(&windows, now, Retry::Now), Some(self.pack(&windows)))
    }

    /// Takes back a charge of `cost` made at `charged_at`, from the window it was made in.
    pub(crate) fn refund(&self, cell: Cell, cost: u64, charged_at: u64, now: u64) -> Cell {
        let mut windows = self.windows(cell, now);
        if charged_at >= windows.start {
            windows.current = windows.current.saturating_sub(cost);
        } else if charged_at >= windows.start.saturating_sub(self.period) {
            windows.previous = windows.previous.saturating_sub(cost);
        }
        self.pack(&windows)
    }

    /// The two windows as they stand at `now`.
    #[inline]
    fn windows(&self, cell: Cell, now: u64) -> Windows {
        let ends = cell.at();
        if now >= ends {
            return Windows { start: now, previous: 0, current: 0 };
        }
        let start = ends.saturating_sub(2 * self.period);
        if now < start + self.period {
            return Windows { start, previous: cell.first(), current: cell.second() };
        }
        match cell.second() {
            // Nothing is left to fade out: the next admission starts afresh, as if the key were new.
            0 => Windows { start: now, previous: 0, current: 0 },
            previous => Windows { start: start + self.period, previous, current: 0 },
        }
    }

    #[inline]
    fn pack(&self, windows: &Windows) -> Cell {
        if windows.previous == 0 && windows.current == 0 {
            return Cell::EMPTY;
        }
        Cell::pack(windows.start + 2 * self.period, windows.previous, windows.current)
    }

    /// What both windows leave free at `now`.
    #[inline]
    fn remaining(&self, windows: &Windows, now: u64) -> u64 {
        let elapsed = now.saturating_sub(windows.start) / self.slice;
        let faded = match windows.previous {
            0 => 0,
            previous => (previous * (self.slices - elapsed)).div_ceil(self.slices),
        };
        self.count.saturating_sub(windows.current).saturating_sub(faded)
    }

    /// The first instant at which `cost`, refused now, is admitted if nothing else is.
    fn passes_at(&self, windows: &Windows, cost: u64) -> u64 {
        let next = windows.start + self.period;
        let free = self.count - cost;
        match free.checked_sub(windows.current) {
            Some(for_previous) => windows.start + self.fades_to(windows.previous, for_previous),
            None => next + self.fades_to(windows.current, free),
        }
    }

    /// How far into a window the `previous` one's share has faded to at most `allowed`.
    fn fades_to(&self, previous: u64, allowed: u64) -> u64 {
        let slices = self.slices - (allowed * self.slices / previous).min(self.slices);
        (slices * self.slice).min(self.period)
    }

    #[inline]
    fn verdict(&self, windows: &Windows, now: u64, retry: Retry) -> Verdict {
        let ends = match (windows.previous, windows.current) {
            (0, 0) => now,
            (_, 0) => windows.start + self.period,
            _ => windows.start + 2 * self.period,
        };
        Verdict {
            retry,
            limit: self.count,
            remaining: self.remaining(windows, now),
            reset: Span::from_micros(ends - now),
            later: Span::ZERO,
        }
    }
}
