//! The token bucket as a debt that drains: admitted while debt and cost fit into the bucket.

use num_rational::BigRational;
use num_traits::Zero;

use threshold_core::Retry;

use super::{Said, after, ceil, floor, rational};

/// What is owed, as of the last admission.
#[derive(Clone, Debug)]
pub(super) struct Bucket {
    capacity: u64,
    /// Microseconds that one token takes to drain.
    interval: BigRational,
    debt: BigRational,
    last: u64,
}

impl Default for Bucket {
    fn default() -> Self {
        Self { capacity: 0, interval: rational(1), debt: BigRational::zero(), last: 0 }
    }
}

impl Bucket {
    /// A changed rate keeps the instant at which the debt is paid, rounded up to a whole microsecond where the
    /// new rate counts in other parts of one.
    pub(super) fn set_limit(&mut self, capacity: u64, (interval, per): (u64, u64)) {
        let interval = BigRational::new(interval.into(), per.into());
        self.capacity = capacity;
        if self.interval != interval {
            let paid_after = &self.debt * &self.interval;
            let same_parts = self.interval.denom() == interval.denom();
            let paid_after = if same_parts { paid_after } else { paid_after.ceil() };
            self.debt = paid_after / &interval;
            self.interval = interval;
        }
    }

    pub(super) fn consume(&mut self, cost: u64, now: u64) -> Said {
        let debt = self.debt_at(now);
        let free = rational(self.capacity) - &debt;
        let wanted = rational(cost);
        let retry = match () {
            () if cost > self.capacity => Retry::Never,
            () if wanted <= free => Retry::Now,
            () => after(ceil(&((wanted.clone() - &free) * &self.interval))),
        };
        if retry != Retry::Now {
            return self.said(retry, &debt);
        }
        self.debt = debt + wanted;
        self.last = now;
        let owed = self.debt.clone();
        self.said(retry, &owed)
    }

    /// The debt at `now`, more than at the last admission if the clock went back since.
    fn debt_at(&self, now: u64) -> BigRational {
        if self.debt.is_zero() {
            return BigRational::zero();
        }
        let drained = (rational(now) - rational(self.last)) / &self.interval;
        (&self.debt - drained).max(BigRational::zero())
    }

    fn said(&self, retry: Retry, debt: &BigRational) -> Said {
        let free = (rational(self.capacity) - debt).max(BigRational::zero());
        Said { retry, remaining: floor(&free), reset: ceil(&(debt * &self.interval)) }
    }
}
