//! throttlecrab: its periodic store needs `&mut`, so threads share it through a mutex.

use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use throttlecrab::{PeriodicStore, RateLimiter};

use super::{Peer, Quota, count_refused};

pub(super) struct Throttlecrab {
    limiter: Mutex<RateLimiter<PeriodicStore>>,
    quota: Quota,
}

impl Throttlecrab {
    pub(super) fn new(quota: Quota) -> Self {
        Self { limiter: Mutex::new(RateLimiter::new(PeriodicStore::new())), quota }
    }

    #[inline(always)]
    fn decide(&self, key: &str, cost: i64) -> bool {
        let Quota { burst, refill, seconds } = self.quota;
        // The time is read inside the lock: one read earlier could run backwards for the next holder.
        let mut limiter = self.limiter.lock().unwrap_or_else(PoisonError::into_inner);
        let now = SystemTime::now();
        let answer = limiter.rate_limit(key, burst.into(), refill.into(), seconds.into(), cost, now);
        answer.is_ok_and(|(allowed, _)| allowed)
    }
}

impl Peer for Throttlecrab {
    fn charge(&self, key: &String, cost: u32) -> bool {
        self.decide(key, cost.into())
    }

    fn decide_all(&self, keys: &[String], order: &[u32]) -> u64 {
        count_refused(keys, order, |key| self.decide(key, 1))
    }
}
