//! The token bucket, as the generic cell rate algorithm (GCRA).
//!
//! The state is one instant, `tat`: when the bucket will be full again. A cost of `c` moves it `c` intervals
//! ahead and is admitted while it stays within the bucket's depth of now.
//!
//! The interval between two tokens is the fraction `period / count`. Rounding it down would admit too much,
//! rounding it up too little, so instants and depths are kept as whole microseconds plus a remainder over the
//! reduced denominator: additions and comparisons of integers, exact in 64 bits and in doubles.

use crate::algorithm::LimitError;
use crate::batch::{Retry, Verdict};
use crate::rate::Rate;
use crate::state::{COUNTER_MAX, Cell};
use crate::time::Span;

/// A token bucket: `capacity` at once, then `count` per `period`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenBucket {
    capacity: u64,
    /// The period as written: part of the limit's identity, which the reduced fraction alone is not.
    period: u64,
    /// The interval between two tokens is `interval / per` microseconds, reduced.
    interval: u64,
    per: u64,
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

/// A judgement: when the bucket is full again, and whether the cost was admitted.
pub(crate) struct Judged {
    tat: Fine,
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
        let period = rate.period().as_micros();
        let blank = Fine { micros: 0, rest: 0 };
        let mut bucket = Self { capacity, period, interval, per, one: blank, depth: blank };
        bucket.one = bucket.divide(1);
        bucket.depth = bucket.divide(capacity);
        Ok(bucket)
    }

    /// The most it holds.
    #[must_use]
    pub const fn capacity(&self) -> u64 {
        self.capacity
    }

    /// The period of its rate.
    #[must_use]
    pub const fn period(&self) -> Span {
        Span::from_micros(self.period)
    }

    /// The interval between two tokens as a reduced fraction of microseconds.
    #[must_use]
    pub const fn interval(&self) -> (u64, u64) {
        (self.interval, self.per)
    }

    /// Judges `cost` at `now` and gives the state that an admission leaves behind.
    #[inline]
    pub(crate) fn judge(&self, cell: Cell, cost: u64, now: u64) -> (Judged, Option<Cell>) {
        let start = self.start(cell, now);
        if cost > self.capacity {
            return (Judged { tat: start, retry: Retry::Never }, None);
        }
        let next = self.add(start, self.price(cost));
        let end = self.end(now);
        if next <= end {
            let after = Cell::pack(next.micros, next.rest, self.per);
            return (Judged { tat: next, retry: Retry::Now }, Some(after));
        }
        let over = next.micros - end.micros + u64::from(next.rest > end.rest);
        (Judged { tat: start, retry: Retry::After(Span::from_micros(over)) }, None)
    }

    /// Works out the numbers of what was judged at `now`: the one division, left until nobody waits for it.
    #[inline]
    pub(crate) fn verdict(&self, Judged { tat, retry }: Judged, now: u64) -> Verdict {
        let until_full = tat.micros - now + u64::from(tat.rest > 0);
        Verdict {
            retry,
            limit: self.capacity,
            remaining: self.tokens_between(tat, self.end(now)),
            reset: Span::from_micros(until_full),
        }
    }

    /// Takes back what is left of a charge of `cost` made at `charged_at`.
    ///
    /// Since then the bucket may have refilled the charge in part and given those tokens to others, so only
    /// what cannot have come back yet is returned: the price less the time gone by. That never leaves more
    /// than if the charge had not been made.
    pub(crate) fn refund(&self, cell: Cell, cost: u64, charged_at: u64, now: u64) -> Cell {
        let start = self.start(cell, now);
        let price = self.price(cost.min(self.capacity));
        let gone = now.saturating_sub(charged_at);
        let Some(micros) = price.micros.checked_sub(gone) else { return cell };
        let (tat, credit) = (self.wide(start), self.wide(Fine { micros, rest: price.rest }));
        let left = self.fine(tat - credit.min(tat));
        if left <= (Fine { micros: now, rest: 0 }) {
            return Cell::EMPTY;
        }
        Cell::pack(left.micros, left.rest, self.per)
    }

    /// When the bucket is full again: the stored instant, or now if that is later.
    #[inline]
    fn start(&self, cell: Cell, now: u64) -> Fine {
        let (rest, per) = (cell.first(), cell.second());
        let stored = match per == self.per {
            true => Fine { micros: cell.at(), rest },
            // Written under another rate: the remainder means something else now. Less than a microsecond, and
            // rounded against the client.
            false => Fine { micros: cell.at() + u64::from(rest > 0), rest: 0 },
        };
        stored.max(Fine { micros: now, rest: 0 })
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
