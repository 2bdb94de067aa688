//! The fixed window: at most `count` in each window.
//!
//! An anchored window starts with the first admission after the last one ended; a calendar window is aligned
//! to UTC. The state is the window's end and what was admitted in it.

use crate::algorithm::{AlgorithmKind, LimitError, plain_count};
use crate::batch::{Retry, Verdict};
use crate::rate::{MAX_COUNT, Rate};
use crate::state::Cell;
use crate::time::Span;

/// At most `count` in each window of `period`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedWindow {
    count: u64,
    period: u64,
    calendar: bool,
}

/// A window that is open: when it ends and what it has admitted.
struct Window {
    end: u64,
    used: u64,
}

impl FixedWindow {
    /// Windows that start with a key's first admission.
    pub fn anchored(rate: &Rate) -> Result<Self, LimitError> {
        let count = plain_count(AlgorithmKind::FixedWindow, rate, MAX_COUNT)?;
        Ok(Self { count, period: rate.period().as_micros(), calendar: false })
    }

    /// Windows aligned to UTC; the period must divide a day.
    pub fn calendar(rate: &Rate) -> Result<Self, LimitError> {
        let count = plain_count(AlgorithmKind::CalendarWindow, rate, MAX_COUNT)?;
        let period = rate.period().as_micros();
        if !Span::DAY.as_micros().is_multiple_of(period) {
            return Err(LimitError::NotCalendar(rate.period()));
        }
        Ok(Self { count, period, calendar: true })
    }

    /// The most a window admits.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The length of a window.
    #[must_use]
    pub const fn period(&self) -> Span {
        Span::from_micros(self.period)
    }

    /// True if the windows are aligned to UTC.
    #[must_use]
    pub const fn is_calendar(&self) -> bool {
        self.calendar
    }

    /// Judges `cost` at `now` and gives the state that an admission leaves behind.
    #[inline]
    pub(crate) fn judge(&self, cell: Cell, cost: u64, now: u64) -> (Verdict, Option<Cell>) {
        let window = self.window(cell, now);
        let free = self.count.saturating_sub(window.used);
        if cost > free {
            let retry = match cost > self.count {
                true => Retry::Never,
                false => Retry::After(Span::from_micros(window.end - now)),
            };
            return (self.verdict(&window, now, retry), None);
        }
        let window = Window { used: window.used + cost, ..window };
        (self.verdict(&window, now, Retry::Now), Some(Cell::pack_wide(window.end, window.used)))
    }

    /// Takes back a charge of `cost` made at `charged_at`, if its window is still open.
    pub(crate) fn refund(&self, cell: Cell, cost: u64, charged_at: u64, now: u64) -> Cell {
        let window = self.window(cell, now);
        if window.used == 0 || charged_at < window.end.saturating_sub(self.period) {
            return cell;
        }
        match window.used.saturating_sub(cost) {
            0 => Cell::EMPTY,
            used => Cell::pack_wide(window.end, used),
        }
    }

    /// The window that is open at `now`. Expired is only what ended before now, so that the end itself, the
    /// first instant of the next window, is told apart here.
    #[inline]
    fn window(&self, cell: Cell, now: u64) -> Window {
        if now < cell.at() {
            return Window { end: cell.at(), used: cell.wide() };
        }
        let start = if self.calendar { now - now % self.period } else { now };
        Window { end: start + self.period, used: 0 }
    }

    #[inline]
    fn verdict(&self, window: &Window, now: u64, retry: Retry) -> Verdict {
        let reset = if window.used == 0 { 0 } else { window.end - now };
        Verdict {
            retry,
            limit: self.count,
            remaining: self.count.saturating_sub(window.used),
            reset: Span::from_micros(reset),
            later: Span::ZERO,
        }
    }
}
