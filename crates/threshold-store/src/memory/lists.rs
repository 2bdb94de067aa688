//! Logs and permits by key: what does not fit into a cell, each byte of it reserved before it is taken.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use threshold_core::algorithm::{Concurrency, SlidingLog};
use threshold_core::state::{Entry, Log, Permit, Permits};
use threshold_core::{Key, Timestamp};

use super::budget::{Budget, Shortages};

/// Keys are keyed hashes already: hashing them again would buy nothing.
type ByKey<V> = HashMap<u128, V, BuildHasherDefault<Halves>>;

/// Logs and permits by key.
#[derive(Default)]
pub(super) struct Lists {
    logs: ByKey<Log>,
    permits: ByKey<Permits>,
}

/// Entries that a new list has room for.
const FIRST_ROOM: usize = 4;

impl Lists {
    pub(super) fn len(&self) -> usize {
        self.logs.len() + self.permits.len()
    }

    pub(super) fn log(&mut self, key: &Key) -> Option<&mut Log> {
        self.logs.get_mut(&key.hash())
    }

    pub(super) fn permits(&mut self, key: &Key) -> Option<&mut Permits> {
        self.permits.get_mut(&key.hash())
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
        if !self.logs.contains_key(&key.hash()) {
            make_room(&mut self.logs, budget, |log| log.is_expired(now.as_micros()), release_log)?;
            let mut log = Log::default();
            grow_log(&mut log, FIRST_ROOM.min(most), budget)?;
            self.logs.insert(key.hash(), log);
        }
        let log = self.logs.get_mut(&key.hash())?;
        algorithm.forget_expired(log);
        let full = log.entries().len() == log.capacity();
        if full && !log.is_merged() && grow_log(log, (log.capacity() * 2).min(most), budget).is_none() {
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
        if !self.permits.contains_key(&key.hash()) {
            make_room(&mut self.permits, budget, |all| all.is_expired(now.as_micros()), release_permits)?;
            self.permits.insert(key.hash(), Permits::default());
        }
        let permits = self.permits.get_mut(&key.hash())?;
        limit.drop_lapsed(permits);
        if permits.held().len() == permits.capacity() {
            let room = (permits.capacity() * 2).max(FIRST_ROOM).min(most);
            grow_permits(permits, room, budget)?;
        }
        Some(permits)
    }

    /// Forgets all that is known of `key`.
    pub(super) fn remove(&mut self, key: &Key, budget: &Budget) {
        if let Some(log) = self.logs.remove(&key.hash()) {
            release_log(&log, budget);
        }
        if let Some(permits) = self.permits.remove(&key.hash()) {
            release_permits(&permits, budget);
        }
    }

    /// Drops all expired lists and gives memory back. Returns how many it saw and dropped.
    pub(super) fn sweep(&mut self, now: u64, budget: &Budget) -> (usize, usize) {
        let seen = self.len();
        drop_expired(&mut self.logs, budget, |log| log.is_expired(now), release_log);
        drop_expired(&mut self.permits, budget, |permits| permits.is_expired(now), release_permits);
        shrink(&mut self.logs, budget);
        shrink(&mut self.permits, budget);
        (seen, seen - self.len())
    }
}

/// Makes sure that one more list fits into the map.
fn make_room<V>(
    map: &mut ByKey<V>,
    budget: &Budget,
    expired: impl Fn(&V) -> bool,
    release: impl Fn(&V, &Budget),
) -> Option<()> {
    if map.len() < map.capacity() {
        return Some(());
    }
    drop_expired(map, budget, expired, release);
    if map.len() < map.capacity() {
        return Some(());
    }
    let before = map_bytes::<V>(map.capacity());
    let grown = map_bytes::<V>((map.capacity() * 2).max(3));
    // The map copies itself into the larger one, so both are there for a moment.
    budget.reserve(grown).then(|| {
        map.reserve(1);
        budget.release(before);
    })
}

fn drop_expired<V>(
    map: &mut ByKey<V>,
    budget: &Budget,
    expired: impl Fn(&V) -> bool,
    release: impl Fn(&V, &Budget),
) {
    map.retain(|_, list| {
        let gone = expired(list);
        if gone {
            release(list, budget);
        }
        !gone
    });
}

fn shrink<V>(map: &mut ByKey<V>, budget: &Budget) {
    let before = map_bytes::<V>(map.capacity());
    if map.len() * 4 < map.capacity() {
        map.shrink_to(map.len() * 2);
        budget.release(before - map_bytes::<V>(map.capacity()));
    }
}

/// What a map with room for `capacity` takes: buckets in powers of two, an eighth of them kept free, one byte
/// of control each.
fn map_bytes<V>(capacity: usize) -> usize {
    match capacity {
        0 => 0,
        1..=3 => 4 * (size_of::<(u128, V)>() + 1) + 16,
        _ => (capacity * 8 / 7).next_power_of_two() * (size_of::<(u128, V)>() + 1) + 16,
    }
}

fn grow_log(log: &mut Log, room: usize, budget: &Budget) -> Option<()> {
    let before = log.capacity();
    budget
        .reserve(room.saturating_sub(before) * size_of::<Entry>())
        .then(|| log.reserve(room - log.entries().len()))
}

fn grow_permits(permits: &mut Permits, room: usize, budget: &Budget) -> Option<()> {
    let before = permits.capacity();
    budget
        .reserve(room.saturating_sub(before) * size_of::<Permit>())
        .then(|| permits.reserve(room - permits.held().len()))
}

fn release_log(log: &Log, budget: &Budget) {
    budget.release(log.capacity() * size_of::<Entry>());
}

fn release_permits(permits: &Permits, budget: &Budget) {
    budget.release(permits.capacity() * size_of::<Permit>());
}

/// Takes the high half of a key's hash as it is; the low half chose the shard.
#[derive(Default)]
struct Halves(u64);

impl Hasher for Halves {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |all, byte| all.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u128(&mut self, hash: u128) {
        let [_, high] = Key::from_raw(hash, 0).halves();
        self.0 = high;
    }
}
