//! A bucket whose rate has changed since it was charged: what is owed stays owed, in tokens.
//!
//! The period is part of a limit's identity, so all rates of a key share it, and a state needs to carry no more
//! than the count. What is owed goes on draining at the rate it was charged under until the next admission
//! takes it over. So over any number of changes no more is admitted than the largest capacity and the fastest
//! rate allow together; and a client that spent a high limit waits no longer for a lowered one than it would have
//! waited without the change.

use super::{Fine, Judged, TokenBucket, gcd};
use crate::batch::Retry;
use crate::state::Cell;
use crate::time::Span;

/// The bits of a mark that hold a count; those above say how often it is to be doubled.
const COUNT_BITS: u32 = 33;

/// A count in 38 bits. From 2³³ on it is rounded up, against the client, by less than a billionth.
pub(super) const fn mark(count: u64) -> u64 {
    let (mut short, mut doubled) = (count, 0);
    while short >> COUNT_BITS != 0 {
        short = short.div_ceil(2);
        doubled += 1;
    }
    doubled << COUNT_BITS | short
}

/// The count that [`mark`] stood for, and whether it is the very one. At least 1, also for what no rate has
/// written.
fn count(mark: u64) -> (u64, bool) {
    let (short, doubled) = (mark & ((1 << COUNT_BITS) - 1), mark >> COUNT_BITS);
    ((short << doubled).max(1), doubled == 0)
}

impl TokenBucket {
    /// [`TokenBucket::judge`] for a state of another rate.
    ///
    /// Everything here is in tokens times the period, which are whole numbers: so many come back each microsecond
    /// as the rate's count says.
    #[cold]
    pub(super) fn judge_changed(&self, cell: Cell, cost: u64, now: u64) -> Judged {
        let owed = self.owed(cell, now);
        let reset = cell.at() - now + u64::from(cell.first() > 0);
        let (capacity, wanted) = (self.whole(self.capacity), self.whole(cost));
        let tat = match owed < capacity {
            true => {
                self.add(Fine { micros: now, rest: 0 }, self.fine(owed.div_ceil(u128::from(self.divisor))))
            }
            false => self.end(now),
        };
        match capacity.checked_sub(wanted) {
            None => Judged { tat, reset, retry: Retry::Never },
            Some(spare) if owed <= spare => Judged::new(self.add(tat, self.price(cost)), Retry::Now, now),
            Some(spare) => {
                let (drain, _) = count(cell.second());
                let wait = Span::from_micros(micros(owed - spare, drain));
                Judged { tat, reset, retry: Retry::After(wait) }
            }
        }
    }

    /// [`TokenBucket::refund`] for a state of another rate, which it keeps. What was charged may have come back at
    /// either rate, so as much is taken for gone as the faster one brings.
    pub(super) fn refund_changed(&self, cell: Cell, cost: u64, gone: u64, now: u64) -> Cell {
        let (drain, _) = count(cell.second());
        if cell.at() < now {
            return cell;
        }
        let fastest = drain.max(self.per * self.divisor);
        let back = self.whole(cost).saturating_sub(u128::from(gone) * u128::from(fastest));
        match micros(self.owed(cell, now).saturating_sub(back), drain) {
            0 => Cell::EMPTY,
            left => Cell::pack(now.saturating_add(left).min(cell.at()), 0, cell.second()),
        }
    }

    /// What is owed at `now`, which is not after the cell's instant.
    fn owed(&self, cell: Cell, now: u64) -> u128 {
        let (count, exact) = count(cell.second());
        let rest = match exact {
            true => u128::from(cell.first()) * u128::from(gcd(self.interval * self.divisor, count)),
            false => u128::from(count) * u128::from(cell.first() > 0),
        };
        u128::from(cell.at() - now) * u128::from(count) + rest
    }

    /// So many tokens times the period.
    fn whole(&self, tokens: u64) -> u128 {
        u128::from(tokens) * u128::from(self.interval) * u128::from(self.divisor)
    }
}

/// How long it takes to drain, in microseconds.
fn micros(owed: u128, drain: u64) -> u64 {
    u64::try_from(owed.div_ceil(u128::from(drain))).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_exact_below_a_limit_and_rounds_up_above() {
        for exact in [1, 7, 60_000_000, (1 << 33) - 1] {
            assert_eq!(count(mark(exact)), (exact, true));
        }
        for large in [1 << 33, (1 << 33) + 1, 1_000_000_000_000, (1 << 52) - 1] {
            let (rounded, exact) = count(mark(large));
            assert!(!exact && rounded >= large && rounded - large <= large >> 32, "{large}: {rounded}");
            assert!(mark(large) < 1 << 38);
        }
    }
}
