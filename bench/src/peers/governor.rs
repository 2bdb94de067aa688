//! governor: GCRA in a DashMap keyed by `String`, with its default hasher and clock.

use std::num::NonZeroU32;
use std::time::Duration;

use governor::DefaultKeyedRateLimiter;

use super::{Peer, Quota, count_refused};
use crate::Outcome;

pub(super) struct Governor(DefaultKeyedRateLimiter<String>);

impl Governor {
    pub(super) fn new(quota: Quota) -> Outcome<Self> {
        let burst = NonZeroU32::new(quota.burst).ok_or("burst of zero")?;
        let period = Duration::from_nanos(quota.interval_nanos());
        let quota = governor::Quota::with_period(period).ok_or("period of zero")?.allow_burst(burst);
        Ok(Self(DefaultKeyedRateLimiter::dashmap(quota)))
    }
}

impl Peer for Governor {
    fn charge(&self, key: &String, cost: u32) -> bool {
        NonZeroU32::new(cost).is_some_and(|cost| matches!(self.0.check_key_n(key, cost), Ok(Ok(()))))
    }

    fn decide_all(&self, keys: &[String], order: &[u32]) -> u64 {
        count_refused(keys, order, |key| self.0.check_key(key).is_ok())
    }
}
