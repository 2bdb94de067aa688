//! Logs and permits by key: what does not fit into a cell, each byte of it reserved before it is taken.

use std::collections::HashMap;

use threshold_core::algorithm::{Concurrency, SlidingLog};
use threshold_core::state::{Entry, Log, Permit, Permits};
use threshold_core::{Key, Timestamp};

use super::budget::{Budget, Shortages};
use crate::halves::ByHalf;

/// Logs and permits by key.
#[derive(Default)]
pub(super) struct Lists {
    logs: ByKey<Log>,
    permits: ByKey<Permits>,
    /// When expired lists were last dropped for want of memory.
    reclaimed_at: u64,
}

/// Lists by key, in a map whose bytes are reserved.
///
/// The map's own capacity cannot tell them: what is removed may leave a mark behind, and marks make the
/// capacity look smaller than the memory is. So the buckets are counted here.
#[derive(Default)]
struct ByKey<V> {
    lists: HashMap<u128, V, ByHalf>,
    buckets: usize,
    /// When expired lists were last looked for.
    looked_at: u64,
    /// How many expired lists were dropped, ever.
    dropped: u64,
}

/// Microseconds before a full map is searched for expired lists again. At the cap every new key comes by here,
/// and looking at all lists for each would cost it dearly.
const LOOK_EVERY: u64 = 1_000;

/// Entries that a new list has room for.
const FIRST_ROOM: usize = 4;

impl Lists {
    pub(super) fn len(&self) -> usize {
        self.logs.lists.len() + self.permits.lists.len()
    }

    /// How many expired lists were dropped, ever.
    pub(super) const fn dropped(&self) -> u64 {
        self.logs.dropped + self.permits.dropped
    }

    pub(super) fn log(&mut self, key: &Key) -> Option<&mut Log> {
        self.logs.lists.get_mut(&key.hash())
    }

    pub(super) fn permits(&mut self, key: &Key) -> Option<&mut Permits> {
        self.permits.lists.get_mut(&key.hash())
    }

    /// The log of `key` with room for one more entry, merged if the budget is spent; none if the key has no
    /// log and there is no room for one.
    pub(super) fn log_with_room(
        &mut self,
        key: &Key,
        algorithm: &SlidingLog,
        now: Timestamp,
        (budget, shortages): (&Budget, &Shortages),
    ) -> Option<&mut Log> {
        // One more than the count: the entry that pushes the first one out stands beside it for a moment.
        let most = usize::try_from(algorithm.count()).map_or(usize::MAX, |count| count.saturating_add(1));
        if !self.logs.lists.contains_key(&key.hash()) {
            let first = FIRST_ROOM.min(most);
            if self.add_log(key, first, now, budget).is_none() {
                self.reclaim(now, budget)?;
                self.add_log(key, first, now, budget)?;
            }
        }
        let log = self.logs.lists.get_mut(&key.hash())?;
        let full = log.entries().len() == log.capacity();
        // A log may be longer than its count once that was lowered.
        let room = (log.capacity() * 2).min(most).max(log.entries().len() + 1);
        if full && !log.is_merged() && grow_log(log, room, budget).is_none() {
            Shortages::count(&shortages.merged);
            let before = log.capacity();
            log.merge();
            budget.release((before - log.capacity()) * size_of::<Entry>());
        }
        Some(log)
    }

    /// The permits of `key` with room for one more; none if there is no room for that.
    pub(super) fn permits_with_room(
        &mut self,
        key: &Key,
        limit: &Concurrency,
        now: Timestamp,
        budget: &Budget,
    ) -> Option<&mut Permits> {
        let most = usize::try_from(limit.count()).map_or(usize::MAX, |count| count.saturating_add(1));
        if self.add_permit(key, most, now, budget).is_none() {
            self.reclaim(now, budget)?;
            self.add_permit(key, most, now, budget)?;
        }
        self.permits.lists.get_mut(&key.hash())
    }

    fn add_log(&mut self, key: &Key, room: usize, now: Timestamp, budget: &Budget) -> Option<()> {
        self.logs.make_room(budget, now.as_micros(), Log::is_expired, release_log)?;
        let mut log = Log::default();
        grow_log(&mut log, room, budget)?;
        self.logs.lists.insert(key.hash(), log);
        Some(())
    }

    /// Makes sure that `key` has permits and that one more fits.
    fn add_permit(&mut self, key: &Key, most: usize, now: Timestamp, budget: &Budget) -> Option<()> {
        if !self.permits.lists.contains_key(&key.hash()) {
            self.permits.make_room(budget, now.as_micros(), Permits::is_expired, release_permits)?;
            self.permits.lists.insert(key.hash(), Permits::default());
        }
        let permits = self.permits.lists.get_mut(&key.hash())?;
        if permits.held().len() == permits.capacity() {
            let room = (permits.capacity() * 2).max(FIRST_ROOM).min(most).max(permits.held().len() + 1);
            grow_permits(permits, room, budget)?;
        }
        Some(())
    }

    /// Drops expired lists because memory is short, unless that was tried a moment ago. None if it did not help.
    fn reclaim(&mut self, now: Timestamp, budget: &Budget) -> Option<()> {
        let now = now.as_micros();
        if now.abs_diff(self.reclaimed_at) < LOOK_EVERY {
            return None;
        }
        self.reclaimed_at = now;
        let (_, dropped) = self.sweep(now, budget);
        (dropped > 0).then_some(())
    }

    /// Forgets all that is known of `key`.
    pub(super) fn remove(&mut self, key: &Key, budget: &Budget) {
        if let Some(log) = self.logs.lists.remove(&key.hash()) {
            release_log(&log, budget);
        }
        if let Some(permits) = self.permits.lists.remove(&key.hash()) {
            release_permits(&permits, budget);
        }
    }

    /// Drops all expired lists and gives memory back. Returns how many it saw and dropped.
    pub(super) fn sweep(&mut self, now: u64, budget: &Budget) -> (usize, usize) {
        let seen = self.len();
        self.logs.drop_expired(budget, now, Log::is_expired, release_log);
        self.permits.drop_expired(budget, now, Permits::is_expired, release_permits);
        self.logs.shrink(budget);
        self.permits.shrink(budget);
        (seen, seen - self.len())
    }
}

impl<V> ByKey<V> {
    /// Makes sure that one more list fits into the map.
    fn make_room(
        &mut self,
        budget: &Budget,
        now: u64,
        expired: fn(&V, u64) -> bool,
        release: fn(&V, &Budget),
    ) -> Option<()> {
        let full = self.lists.len() == self.lists.capacity();
        if full && now.abs_diff(self.looked_at) >= LOOK_EVERY {
            self.drop_expired(budget, now, expired, release);
        }
        if self.lists.len() < self.lists.capacity() {
            return Some(());
        }
        // With half of its room free, a map that needs more clears its marks away and stays where it is.
        if self.lists.len() < self.room() / 2 {
            self.lists.reserve(1);
            return Some(());
        }
        // Otherwise it copies itself into one of twice the size, and both are there for a moment.
        let grown = (self.buckets * 2).max(4);
        budget.reserve(Self::bytes(grown)).then(|| {
            self.lists.reserve(1);
            budget.release(Self::bytes(std::mem::replace(&mut self.buckets, grown)));
        })
    }

    fn drop_expired(
        &mut self,
        budget: &Budget,
        now: u64,
        expired: fn(&V, u64) -> bool,
        release: fn(&V, &Budget),
    ) {
        self.looked_at = now;
        self.lists.retain(|_, list| {
            let gone = expired(list, now);
            if gone {
                release(list, budget);
                self.dropped += 1;
            }
            !gone
        });
    }

    /// Gives memory back if far fewer lists are left than there is room for.
    fn shrink(&mut self, budget: &Budget) {
        let wanted = self.lists.len() * 2;
        let smaller = Self::buckets_for(wanted);
        if self.lists.len() * 4 < self.room() && budget.reserve(Self::bytes(smaller)) {
            self.lists.shrink_to(wanted);
            budget.release(Self::bytes(std::mem::replace(&mut self.buckets, smaller)));
        }
    }

    /// Lists that the buckets have room for: one of them is kept free, or an eighth.
    const fn room(&self) -> usize {
        match self.buckets {
            0..=8 => self.buckets.saturating_sub(1),
            _ => self.buckets / 8 * 7,
        }
    }

    /// The buckets that a map takes for `lists`: a power of two.
    const fn buckets_for(lists: usize) -> usize {
        match lists {
            0 => 0,
            1..=3 => 4,
            4..=7 => 8,
            8..=14 => 16,
            _ => (lists * 8 / 7).next_power_of_two(),
        }
    }

    /// What so many buckets take: the lists, a byte of control each, and sixteen more.
    const fn bytes(buckets: usize) -> usize {
        match buckets {
            0 => 0,
            _ => buckets * (size_of::<(u128, V)>() + 1) + 16,
        }
    }
}

/// Gives a log room for `room` entries, more than it holds.
fn grow_log(log: &mut Log, room: usize, budget: &Budget) -> Option<()> {
    // The entries move into the larger room, so both are there for a moment.
    budget.reserve(room * size_of::<Entry>()).then(|| {
        let before = log.capacity();
        log.reserve(room - log.entries().len());
        budget.release(before * size_of::<Entry>());
    })
}

/// Gives permits room for `room`, more than are held.
fn grow_permits(permits: &mut Permits, room: usize, budget: &Budget) -> Option<()> {
    budget.reserve(room * size_of::<Permit>()).then(|| {
        let before = permits.capacity();
        permits.reserve(room - permits.held().len());
        budget.release(before * size_of::<Permit>());
    })
}

fn release_log(log: &Log, budget: &Budget) {
    budget.release(log.capacity() * size_of::<Entry>());
}

fn release_permits(permits: &Permits, budget: &Budget) {
    budget.release(permits.capacity() * size_of::<Permit>());
}

#[cfg(all(test, not(feature = "loom")))]
mod tests;
