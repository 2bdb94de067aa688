//! Ours: the memory store through the public limiter, synchronous path.
//!
//! Everything here that calls our interface; the batch section uses it too.

use std::num::NonZeroU64;

use threshold::{Batch, MemoryStore, RateLimiter};

use super::{Peer, Quota, count_refused};
use crate::Outcome;

/// Room enough that the byte cap, which every store has, is never met here.
const MAX_BYTES: usize = 8 << 30;

pub(super) struct Ours(RateLimiter);

impl Ours {
    pub(super) fn new(quota: Quota) -> Outcome<Self> {
        Ok(Self(limiter("bench", quota, &store()?)?))
    }
}

pub(crate) fn store() -> Outcome<MemoryStore> {
    Ok(MemoryStore::builder().max_bytes(MAX_BYTES).build()?)
}

/// A limiter of the given id in a store that it shares.
pub(crate) fn limiter(id: &str, quota: Quota, store: &MemoryStore) -> Outcome<RateLimiter> {
    let Quota { burst, refill, seconds } = quota;
    let rate = format!("{refill} per {seconds}s burst {burst}");
    Ok(RateLimiter::builder(id).rate(rate).store(store.clone()).build()?)
}

#[inline(always)]
pub(crate) fn decide(limiter: &RateLimiter, key: &str, cost: u64) -> bool {
    limiter.consume_now(key, cost).is_ok_and(|decision| decision.allowed())
}

/// All four or none.
#[inline(always)]
pub(crate) fn decide_four(store: &MemoryStore, limiters: [&RateLimiter; 4], keys: [&str; 4]) -> bool {
    let mut batch = Batch::default();
    for (limiter, key) in limiters.into_iter().zip(keys) {
        if batch.push(limiter.step(key, NonZeroU64::MIN)).is_err() {
            return false;
        }
    }
    store.apply_now(&batch).admitted()
}

impl Peer for Ours {
    fn charge(&self, key: &String, cost: u32) -> bool {
        decide(&self.0, key, cost.into())
    }

    fn decide_all(&self, keys: &[String], order: &[u32]) -> u64 {
        count_refused(keys, order, |key| decide(&self.0, key, 1))
    }
}
