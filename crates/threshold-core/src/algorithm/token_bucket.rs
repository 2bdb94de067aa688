//! The token bucket, as the generic cell rate algorithm (GCRA).
//!
//! The state is one instant, `tat`: when the bucket will be full again. A cost of `c` moves it `c` intervals
//! ahead and is admitted while it stays within the bucket's depth of now.
//!
//! The interval between two tokens is the fraction `period / count`. Rounding it down would admit too much,
//! rounding it up too little, so instants and depths are kept as whole microseconds plus a remainder over the
//! reduced denominator: additions and comparisons of integers, exact in 64 bits and in doubles.
//!
//! Beside the instant a state carries the count of the rate it was charged under. If the rate has changed since,
//! what is owed is worked out in tokens and carried over (`changed`).

mod changed;

use crate::algorithm::LimitError;
use crate::batch::{Retry, Verdict};
use crate::rate::Rate;
use crate::state::{COUNTER_MAX, Cell};
use crate::time::Span;

/// A token bucket: `capacity` at once, then `count` per `period`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenBucket {
    capacity: u64,
    /// The interval between two tokens is `interval / per` microseconds, reduced.
    interval: u64,
    per: u64,
    /// What it was reduced by: the period is `interval * divisor`, the count `per * divisor`.
    divisor: u64,
    /// The count, as a state carries it.
    mark: u64,
    /// What one token costs.
    one: Fine,
    /// What a full bucket is worth: `capacity` intervals.
    depth: Fine,
}

/// Microseconds and a remainder in `1 / per` of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Fine {
    micros: u64,
    rest: u64,
}

/// A judgement: when the bucket is full again, by this rate and in truth, and whether the cost was admitted.
pub(crate) struct Judged {
    tat: Fine,
    reset: u64,
    retry: Retry,
}

impl TokenBucket {
    /// Builds the bucket; without a burst, the count is the capacity.
    pub fn new(rate: &Rate) -> Result<Self, LimitError> {
        let capacity = rate.burst().unwrap_or(rate.count());
        let divisor = gcd(rate.period().as_micros(), rate.count());
        let interval = rate.period().as_micros() / divisor;
        let per = rate.count() / divisor;
        if per > COUNTER_MAX {
            return Err(LimitError::NotRepresentable(rate.to_string()));
        }
        let depth = u128::from(capacity) * u128::from(interval);
        if depth / u128::from(per) >= u128::from(Span::MAX.as_micros()) {
            let rate = rate.to_string();
            return Err(LimitError::BucketTooDeep { rate, burst: capacity });
        }
        let (mark, blank) = (changed::mark(rate.count()), Fine { micros: 0, rest: 0 });
        let mut bucket = Self { capacity, interval, per, divisor, mark, one: blank, depth: blank };
        bucket.one = bucket.divide(1);
        bucket.depth = bucket.divide(capacity);
        Ok(bucket)
    }

    /// The most it holds.
    #[must_use]
    pub const fn capacity(&self) -> u64 {
        self.capacity
    }

    /// The count of its rate.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.per * self.divisor
    }

    /// The period of its rate.
    #[must_use]
    pub const fn period(&self) -> Span {
        Span::from_micros(self.interval * self.divisor)
    }

    /// How long an empty bucket takes to fill.
    #[must_use]
    pub const fn refill(&self) -> Span {
        Span::from_micros(self.depth.micros + 1)
    }

    /// The interval between two tokens as a reduced fraction of microseconds.
    #[must_use]
    pub const fn interval(&self) -> (u64, u64) {
        (self.interval, self.per)
    }

    /// What `cost`, which the capacity covers, adds to an instant and to its rest.
    pub(crate) fn price_parts(&self, cost: u64) -> [u64; 2] {
        let price = self.price(cost);
        [price.micros, price.rest]
    }

    /// What a full bucket is worth, likewise.
    pub(crate) const fn depth_parts(&self) -> [u64; 2] {
        [self.depth.micros, self.depth.rest]
    }

    /// The mark of its states, and what the rate was reduced by.
    pub(crate) const fn mark_and_divisor(&self) -> (u64, u64) {
        (self.mark, self.divisor)
    }

    /// Judges `cost` at `now`.
    #[inline(always)]
    pub(crate) fn judge(&self, cell: Cell, cost: u64, now: u64) -> Judged {
        if cell.second() != self.mark && cell.at() >= now {
            return self.judge_changed(cell, cost, now);
        }
        let start = start(cell, now);
        if cost > self.capacity {
            return Judged::new(start, Retry::Never, now);
        }
        let next = self.add(start, self.price(cost));
        let end = self.end(now);
        if next <= end {
            return Judged::new(next, Retry::Now, now);
        }
        let over = next.micros - end.micros + u64::from(next.rest > end.rest);
        Judged::new(start, Retry::After(Span::from_micros(over)), now)
    }

    /// The state that an admission leaves behind.
    #[inline]
    pub(crate) fn after(&self, judged: &Judged) -> Option<Cell> {
        let admitted = judged.retry == Retry::Now;
        admitted.then(|| Cell::pack(judged.tat.micros, judged.tat.rest, self.mark))
    }

    /// Works out the numbers of what was judged at `now`: the one division, left until nobody waits for it.
    #[inline]
    pub(crate) fn verdict(&self, Judged { tat, reset, retry }: Judged, now: u64) -> Verdict {
        let remaining = self.tokens_between(tat, self.end(now));
        Verdict { retry, limit: self.capacity, remaining, reset: Span::from_micros(reset), later: Span::ZERO }
    }

    /// Takes back what is left of a charge of `cost` made at `charged_at`.
    ///
    /// Since then the bucket may have refilled the charge in part and given those tokens to others, so only
    /// what cannot have come back yet is returned: the price less the time gone by. That never leaves more
    /// than if the charge had not been made.
    pub(crate) fn refund(&self, cell: Cell, cost: u64, charged_at: u64, now: u64) -> Cell {
        let gone = now.saturating_sub(charged_at);
        if cell.second() != self.mark {
            return self.refund_changed(cell, cost.min(self.capacity), gone, now);
        }
        let start = start(cell, now);
        let price = self.price(cost.min(self.capacity));
        let Some(micros) = price.micros.checked_sub(gone) else { return cell };
        let (tat, credit) = (self.wide(start), self.wide(Fine { micros, rest: price.rest }));
        let left = self.fine(tat - credit.min(tat));
        if left <= (Fine { micros: now, rest: 0 }) {
            return Cell::EMPTY;
        }
        Cell::pack(left.micros, left.rest, self.mark)
    }

    /// As far ahead of `now` as an admission may reach.
    #[inline]
    fn end(&self, now: u64) -> Fine {
        Fine { micros: now + self.depth.micros, rest: self.depth.rest }
    }

    /// How many whole tokens fit between two instants.
    #[inline]
    fn tokens_between(&self, from: Fine, to: Fine) -> u64 {
        if from >= to {
            return 0;
        }
        let (micros, rest) = match to.rest.checked_sub(from.rest) {
            Some(rest) => (to.micros - from.micros, rest),
            None => (to.micros - from.micros - 1, to.rest + self.per - from.rest),
        };
        // A division of 64 bits is several times cheaper than one of 128, and almost always enough.
        match micros.checked_mul(self.per).and_then(|scaled| scaled.checked_add(rest)) {
            Some(scaled) => scaled / self.interval,
            None => narrow(self.wide(Fine { micros, rest }) / u128::from(self.interval)),
        }
    }

    #[inline]
    fn price(&self, cost: u64) -> Fine {
        if cost == 1 { self.one } else { self.divide(cost) }
    }

    /// `cost` intervals. The capacity bounds the cost, and its depth bounds the result.
    fn divide(&self, cost: u64) -> Fine {
        match cost.checked_mul(self.interval) {
            Some(scaled) => Fine { micros: scaled / self.per, rest: scaled % self.per },
            None => self.fine(u128::from(cost) * u128::from(self.interval)),
        }
    }

    #[inline]
    fn add(&self, a: Fine, b: Fine) -> Fine {
        let rest = a.rest + b.rest;
        let carry = rest >= self.per;
        Fine {
            micros: a.micros + b.micros + u64::from(carry),
            rest: if carry { rest - self.per } else { rest },
        }
    }

    fn wide(&self, fine: Fine) -> u128 {
        u128::from(fine.micros) * u128::from(self.per) + u128::from(fine.rest)
    }

    fn fine(&self, wide: u128) -> Fine {
        let per = u128::from(self.per);
        Fine { micros: narrow(wide / per), rest: narrow(wide % per) }
    }
}

impl Judged {
    #[inline]
    fn new(tat: Fine, retry: Retry, now: u64) -> Self {
        Self { tat, reset: tat.micros - now + u64::from(tat.rest > 0), retry }
    }
}

/// When the bucket is full again: the stored instant, or now if that is later.
#[inline]
fn start(cell: Cell, now: u64) -> Fine {
    Fine { micros: cell.at(), rest: cell.first() }.max(Fine { micros: now, rest: 0 })
}

/// For quotients that the bounds checked in [`TokenBucket::new`] keep within 64 bits.
#[expect(clippy::cast_possible_truncation, reason = "bounded by construction, see above")]
const fn narrow(wide: u128) -> u64 {
    wide as u64
}

const fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
