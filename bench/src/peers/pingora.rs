//! pingora-limits: an approximate counter of fixed size. It keeps no key, so it has no cost per key either,
//! and colliding keys share a count: a different product, shown for orientation.

use std::time::Duration;

use pingora_limits::rate::Rate;

use super::{Peer, Quota, count_refused};

pub(super) struct Pingora {
    rate: Rate,
    limit: isize,
}

impl Pingora {
    pub(super) fn new(quota: Quota) -> Self {
        Self { rate: Rate::new(Duration::from_secs(60)), limit: quota.burst as isize }
    }
}

impl Peer for Pingora {
    fn charge(&self, key: &String, cost: u32) -> bool {
        self.rate.observe(key, cost as isize) <= self.limit
    }

    fn decide_all(&self, keys: &[String], order: &[u32]) -> u64 {
        count_refused(keys, order, |key| self.rate.observe(key, 1) <= self.limit)
    }
}
