//! One shard: the states of the keys that fall into it, and the rules for when there is no room.

use std::sync::Arc;

use threshold_core::algorithm::{Concurrency, SlidingLog};
use threshold_core::state::{Cell, Log, Permits};
use threshold_core::transition::States;
use threshold_core::{Key, Swept, Timestamp};

use super::budget::{Budget, Shortages};
use super::hint::Hint;
use super::lists::Lists;
use super::overflow::Overflow;
use super::table::Table;

/// The states of a share of all keys, under one lock.
pub(super) struct Shard {
    table: Table,
    /// What few decisions need, out of the way of those that do not.
    rest: Box<Rest>,
    /// The latest time at which something was decided or dropped here. Whoever read the clock before that and
    /// waited for the lock since is judged at this time: in a shard, time never goes back.
    latest: Timestamp,
}

/// What a shard has besides its table.
pub(super) struct Rest {
    lists: Lists,
    overflow: Overflow,
    room: Arc<Room>,
    /// The shard's own place among all.
    index: usize,
}

/// What all shards share: how much memory is left, and how often there was none.
pub(super) struct Room {
    /// For cells and lists.
    pub(super) states: Budget,
    /// Kept back for overflow buckets.
    pub(super) overflow: Budget,
    pub(super) shortages: Shortages,
    /// Where the slots of each shard are.
    pub(super) hints: Box<[Hint]>,
}

impl Room {
    /// Room for `shards` together: so many bytes for states and for overflow buckets.
    pub(super) fn new(states: usize, overflow: usize, shards: usize) -> Self {
        Self {
            states: Budget::new(states),
            overflow: Budget::new(overflow),
            shortages: Shortages::default(),
            hints: (0..shards).map(|_| Hint::default()).collect(),
        }
    }
}

impl Shard {
    /// The shard at place `index`.
    pub(super) fn new(index: usize, room: Arc<Room>) -> Self {
        let phase = index as f32 / room.hints.len() as f32;
        let rest = Rest { lists: Lists::default(), overflow: Overflow::default(), room, index };
        Self { table: Table::new(phase), rest: Box::new(rest), latest: Timestamp::default() }
    }

    /// Keys that have a state of their own.
    pub(super) fn len(&self) -> usize {
        self.table.len() + self.rest.lists.len()
    }

    /// The time to judge at, for a caller whose clock showed `now` before it had the lock.
    #[inline]
    pub(super) fn not_before(&self, now: Timestamp) -> Timestamp {
        now.max(self.latest)
    }

    /// [`not_before`](Self::not_before), remembered: nobody is judged at an earlier time from now on.
    #[inline]
    pub(super) fn advance(&mut self, now: Timestamp) -> Timestamp {
        self.latest = self.not_before(now);
        self.latest
    }

    /// Forgets all that is known of `key`. A bucket it shares is left alone: it is others' as well.
    pub(super) fn reset(&mut self, key: &Key) {
        self.table.remove(key);
        self.rest.lists.remove(key, &self.rest.room.states);
    }

    /// Drops everything that is expired, and gives memory back. Returns what was done and how much it cost, in
    /// states looked at.
    pub(super) fn sweep(&mut self, now: Timestamp) -> (Swept, usize) {
        let now = self.advance(now).as_micros();
        let looked_at = self.table.slots() + self.rest.lists.len();
        let (seen, dropped) = self.table.sweep_all(now);
        let (seen_lists, dropped_lists) = self.rest.lists.sweep(now, &self.rest.room.states);
        self.table.shrink(now, &self.rest.room.states);
        self.publish();
        self.rest.overflow.sweep(now, &self.rest.room.overflow);
        (Swept { seen: seen + seen_lists, dropped: dropped + dropped_lists }, looked_at)
    }
}

impl Shard {
    /// Gives `key`, which has no slot, one; false if there is no room.
    fn insert(&mut self, key: &Key, cell: Cell, now: Timestamp) -> bool {
        let before = self.table.len();
        let inserted = self.table.insert(key, cell, now.as_micros(), &self.rest.room.states).is_ok();
        self.publish();
        if self.table.len() < before + usize::from(inserted) {
            self.advance(now);
        }
        inserted
    }

    /// Says where the slots are, after something that may have moved them.
    fn publish(&self) {
        self.table.publish(&self.rest.room.hints[self.rest.index]);
    }

    /// Runs `make`, which may drop expired lists to make room for another.
    fn making_room(&mut self, now: Timestamp, make: impl FnOnce(&mut Lists, &Room) -> bool) -> bool {
        let before = self.rest.lists.dropped();
        let made = make(&mut self.rest.lists, &self.rest.room);
        if self.rest.lists.dropped() != before {
            self.advance(now);
        }
        made
    }
}

impl States for Shard {
    #[inline]
    fn cell(&mut self, key: &Key) -> Cell {
        match self.table.get(key) {
            Some(cell) => cell,
            // Almost always empty; if not, the key starts from what its bucket was charged.
            None => self.rest.overflow.cell(key),
        }
    }

    #[inline]
    fn own_cell(&mut self, key: &Key) -> Option<&mut Cell> {
        self.table.get_mut(key)
    }

    fn set_cell(&mut self, key: &Key, cell: Cell, now: Timestamp) -> bool {
        if self.table.replace(key, cell) || self.insert(key, cell, now) {
            return true;
        }
        let shared = self.rest.overflow.set_cell(key, cell, &self.rest.room.overflow);
        let shortages = &self.rest.room.shortages;
        Shortages::count(if shared { &shortages.shared } else { &shortages.refused });
        shared
    }

    fn restore_cell(&mut self, key: &Key, cell: Cell) {
        if self.table.get(key).is_none() {
            self.rest.overflow.restore_cell(key, cell);
        } else if cell.is_empty() {
            self.table.remove(key);
        } else {
            self.table.replace(key, cell);
        }
    }

    fn log(&mut self, key: &Key) -> Option<&mut Log> {
        match self.rest.lists.log(key) {
            Some(log) => Some(log),
            None => self.rest.overflow.log(key),
        }
    }

    fn own_log(&mut self, key: &Key) -> Option<&mut Log> {
        self.rest.lists.log(key)
    }

    fn log_with_room(&mut self, key: &Key, algorithm: &SlidingLog, now: Timestamp) -> Option<&mut Log> {
        let fresh = self.rest.lists.log(key).is_none();
        let own = self.making_room(now, |lists, room| {
            lists.log_with_room(key, algorithm, now, (&room.states, &room.shortages)).is_some()
        });
        let Rest { lists, overflow, room, .. } = &mut *self.rest;
        if !own {
            let shared = overflow.merged_log(key, &room.overflow);
            Shortages::count(match shared {
                Some(_) => &room.shortages.shared,
                None => &room.shortages.refused,
            });
            return shared;
        }
        let log = lists.log(key)?;
        if fresh && !overflow.is_empty() {
            // Even if it has expired by `now`: this step may be refused, and the next one come at an earlier time.
            log.inherit(overflow.log(key).map(|shared| &*shared));
        }
        Some(log)
    }

    fn permits(&mut self, key: &Key) -> Option<&mut Permits> {
        self.rest.lists.permits(key)
    }

    fn permits_with_room(&mut self, key: &Key, limit: &Concurrency, now: Timestamp) -> Option<&mut Permits> {
        let own = self
            .making_room(now, |lists, room| lists.permits_with_room(key, limit, now, &room.states).is_some());
        if !own {
            Shortages::count(&self.rest.room.shortages.refused);
            return None;
        }
        self.rest.lists.permits(key)
    }
}
