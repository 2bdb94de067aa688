//! The floor: what a decision cannot cost less than, not a product.
//!
//! One open-addressing table of (hash, theoretical arrival time) pairs, 16 bytes each, at most half full, and
//! one compare-and-swap per decision. It never grows, never sweeps, keeps 64 bits of hash and so confuses two
//! keys once in a while, and has no bound against a full table. Keys are hashed with SipHash-1-3 under a
//! random key: a limiter faces keys chosen by others, so an unkeyed hash would be no fair floor.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use quanta::Clock;
use siphasher::sip::SipHasher13;

use super::{Peer, Quota, count_refused};

/// A hash of zero marks a free slot.
const FREE: u64 = 0;

#[derive(Default)]
struct Slot {
    hash: AtomicU64,
    arrival: AtomicU64,
}

pub(super) struct Floor {
    slots: Box<[Slot]>,
    hasher: SipHasher13,
    clock: Clock,
    /// In ticks of the raw clock, so that no decision converts units.
    interval: u64,
    tolerance: u64,
}

impl Floor {
    pub(super) fn new(quota: Quota, keys: usize) -> Self {
        let clock = Clock::new();
        let size = (2 * keys.max(8)).next_power_of_two();
        let random = RandomState::new();
        let interval = ticks(&clock, quota.interval_nanos());
        Self {
            slots: (0..size).map(|_| Slot::default()).collect(),
            hasher: SipHasher13::new_with_keys(random.hash_one(0), random.hash_one(1)),
            clock,
            interval,
            tolerance: interval * u64::from(quota.burst),
        }
    }

    #[inline(always)]
    fn decide(&self, key: &str, cost: u64) -> bool {
        let slot = self.slot(self.hasher.hash(key.as_bytes()).max(1));
        let now = self.clock.raw();
        let mut arrival = slot.arrival.load(Ordering::Relaxed);
        loop {
            let next = arrival.max(now) + self.interval * cost;
            if next - now > self.tolerance {
                return false;
            }
            match slot.arrival.compare_exchange_weak(arrival, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(seen) => arrival = seen,
            }
        }
    }

    /// The key's slot, claimed if it has none: linear probing, no removal.
    #[inline(always)]
    fn slot(&self, hash: u64) -> &Slot {
        let mask = self.slots.len() - 1;
        let mut place = hash as usize & mask;
        loop {
            let slot = &self.slots[place];
            let seen = slot.hash.load(Ordering::Relaxed);
            if seen == hash || (seen == FREE && claim(slot, hash)) {
                return slot;
            }
            place = (place + 1) & mask;
        }
    }
}

#[cold]
fn claim(slot: &Slot, hash: u64) -> bool {
    match slot.hash.compare_exchange(FREE, hash, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => true,
        Err(other) => other == hash,
    }
}

/// Nanoseconds as ticks of the raw counter.
fn ticks(clock: &Clock, nanos: u64) -> u64 {
    const SAMPLE: u64 = 1 << 40;
    let sample_nanos = clock.delta_as_nanos(0, SAMPLE).max(1);
    (u128::from(nanos) * u128::from(SAMPLE) / u128::from(sample_nanos)) as u64
}

impl Peer for Floor {
    fn charge(&self, key: &String, cost: u32) -> bool {
        self.decide(key, cost.into())
    }

    fn decide_all(&self, keys: &[String], order: &[u32]) -> u64 {
        count_refused(keys, order, |key| self.decide(key, 1))
    }
}
