//! The token bucket as a debt that drains: admitted while debt and cost fit into the bucket. A debt drains at the
//! rate it was made under until the next admission adds to it.

use num_rational::BigRational;
use num_traits::Zero;

use threshold_core::Retry;

use super::{Said, after, ceil, floor, rational};

/// What is owed, as of the last admission.
#[derive(Clone, Debug)]
pub(super) struct Bucket {
    capacity: u64,
    /// Microseconds that one token takes to drain: under the rate of now, and of the last admission.
    interval: BigRational,
    drains: BigRational,
    debt: BigRational,
    last: u64,
}

impl Default for Bucket {
    fn default() -> Self {
        Self { capacity: 0, interval: rational(1), drains: rational(1), debt: BigRational::zero(), last: 0 }
    }
}

impl Bucket {
    pub(super) fn set_limit(&mut self, capacity: u64, (interval, per): (u64, u64)) {
        self.capacity = capacity;
        self.interval = BigRational::new(interval.into(), per.into());
    }

    pub(super) fn consume(&mut self, cost: u64, now: u64) -> Said {
        let debt = self.debt_at(now);
        let free = rational(self.capacity) - &debt;
        let wanted = rational(cost);
        let retry = match () {
            () if cost > self.capacity => Retry::Never,
            () if wanted <= free => Retry::Now,
            () => after(ceil(&((wanted.clone() - &free) * &self.drains))),
        };
        if retry != Retry::Now {
            return self.said(retry, &debt);
        }
        self.debt = self.carried(debt) + wanted;
        self.drains = self.interval.clone();
        self.last = now;
        let owed = self.debt.clone();
        self.said(retry, &owed)
    }

    /// A debt that is taken over by another rate: in the parts of a microsecond that it counts in, rounded up.
    fn carried(&self, debt: BigRational) -> BigRational {
        if self.drains == self.interval {
            return debt;
        }
        let parts = BigRational::from_integer(self.interval.numer().clone());
        (debt * &parts).ceil() / parts
    }

    /// The debt at `now`, more than at the last admission if the clock went back since.
    fn debt_at(&self, now: u64) -> BigRational {
        if self.debt.is_zero() {
            return BigRational::zero();
        }
        let drained = (rational(now) - rational(self.last)) / &self.drains;
        (&self.debt - drained).max(BigRational::zero())
    }

    fn said(&self, retry: Retry, debt: &BigRational) -> Said {
        let free = (rational(self.capacity) - debt).max(BigRational::zero());
        Said { retry, remaining: floor(&free), reset: ceil(&(debt * &self.drains)) }
    }
}
