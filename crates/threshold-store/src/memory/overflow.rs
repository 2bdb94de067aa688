//! Shared buckets for keys that found no slot: they may refuse more, they never admit more.
//!
//! When the cap is reached, a new key shares one of a few buckets of its limit with others. Whatever any of
//! them is charged, all of them are, so each gets at most what it would have got alone. A key that finds a slot
//! later starts from its bucket's state.

use threshold_core::Key;
use threshold_core::state::{Cell, Log};

use super::budget::Budget;

/// Buckets that each limit has in each shard.
const BUCKETS: usize = 8;

/// The shared buckets of one shard, by limit.
#[derive(Default)]
pub(super) struct Overflow {
    limits: Vec<Buckets>,
}

struct Buckets {
    limit: u64,
    cells: [Cell; BUCKETS],
    logs: [Log; BUCKETS],
}

/// What one limit's buckets take: their logs hold one entry each, for which a queue allocates four.
const BYTES: usize = size_of::<Buckets>() + BUCKETS * 64;

impl Overflow {
    /// The state of the bucket that `key` would share.
    pub(super) fn cell(&self, key: &Key) -> Cell {
        self.find(key).map_or(Cell::EMPTY, |buckets| buckets.cells[bucket(key)])
    }

    /// The log of the bucket that `key` would share.
    pub(super) fn log(&mut self, key: &Key) -> Option<&mut Log> {
        let limit = key.limit();
        let buckets = self.limits.iter_mut().find(|buckets| buckets.limit == limit)?;
        Some(&mut buckets.logs[bucket(key)])
    }

    /// Charges the bucket; false if this limit has none and none fits.
    pub(super) fn set_cell(&mut self, key: &Key, cell: Cell, reserve: &Budget) -> bool {
        match self.ensure(key, reserve) {
            Some(buckets) => buckets.cells[bucket(key)] = cell,
            None => return false,
        }
        true
    }

    /// Overwrites the bucket if there is one.
    pub(super) fn restore_cell(&mut self, key: &Key, cell: Cell) {
        let limit = key.limit();
        if let Some(buckets) = self.limits.iter_mut().find(|buckets| buckets.limit == limit) {
            buckets.cells[bucket(key)] = cell;
        }
    }

    /// The bucket's log, kept to one entry; none if this limit has no buckets and none fit.
    pub(super) fn merged_log(&mut self, key: &Key, reserve: &Budget) -> Option<&mut Log> {
        let log = &mut self.ensure(key, reserve)?.logs[bucket(key)];
        log.merge();
        Some(log)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.limits.is_empty()
    }

    /// Lets go of limits whose buckets have all expired.
    pub(super) fn sweep(&mut self, now: u64, reserve: &Budget) {
        let before = self.limits.len();
        self.limits.retain(|buckets| !buckets.is_expired(now));
        if self.limits.len() < before {
            self.limits.shrink_to_fit();
            reserve.release((before - self.limits.len()) * BYTES);
        }
    }

    fn find(&self, key: &Key) -> Option<&Buckets> {
        self.limits.iter().find(|buckets| buckets.limit == key.limit())
    }

    fn ensure(&mut self, key: &Key, reserve: &Budget) -> Option<&mut Buckets> {
        let index = match self.limits.iter().position(|buckets| buckets.limit == key.limit()) {
            Some(index) => index,
            None => {
                if !reserve.reserve(BYTES) {
                    return None;
                }
                self.limits.reserve_exact(1);
                self.limits.push(Buckets::new(key.limit()));
                self.limits.len() - 1
            }
        };
        self.limits.get_mut(index)
    }
}

impl Buckets {
    fn new(limit: u64) -> Self {
        Self { limit, cells: [Cell::EMPTY; BUCKETS], logs: Default::default() }
    }

    fn is_expired(&self, now: u64) -> bool {
        self.cells.iter().all(|cell| cell.is_expired(now)) && self.logs.iter().all(|log| log.is_expired(now))
    }
}

/// The bits of the hash that neither the shard nor the home uses first.
fn bucket(key: &Key) -> usize {
    let [low, _] = key.halves();
    (low >> 56) as usize % BUCKETS
}

#[cfg(all(test, not(feature = "loom")))]
mod tests;
