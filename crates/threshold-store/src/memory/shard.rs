//! One shard: the states of the keys that fall into it, and the rules for when there is no room.

use std::sync::Arc;

use threshold_core::algorithm::{Concurrency, SlidingLog};
use threshold_core::state::{Cell, Log, Permits};
use threshold_core::transition::States;
use threshold_core::{Key, Swept, Timestamp};

use super::budget::{Budget, Shortages};
use super::lists::Lists;
use super::overflow::Overflow;
use super::table::Table;

/// The states of a share of all keys, under one lock.
pub(super) struct Shard {
    table: Table,
    lists: Box<Lists>,
    overflow: Overflow,
    room: Arc<Room>,
}

/// What all shards share: how much memory is left, and how often there was none.
pub(super) struct Room {
    /// For cells and lists.
    pub(super) states: Budget,
    /// Kept back for overflow buckets.
    pub(super) overflow: Budget,
    pub(super) shortages: Shortages,
}

impl Shard {
    pub(super) fn new(phase: f64, room: Arc<Room>) -> Self {
        Self { table: Table::new(phase), lists: Box::default(), overflow: Overflow::default(), room }
    }

    /// Keys that have a state of their own.
    pub(super) fn len(&self) -> usize {
        self.table.len() + self.lists.len()
    }

    /// Starts loading what `key` needs.
    #[inline]
    pub(super) fn touch(&self, key: &Key) -> u64 {
        self.table.touch(key)
    }

    /// Forgets all that is known of `key`. A bucket it shares is left alone: it is others' as well.
    pub(super) fn reset(&mut self, key: &Key) {
        self.table.remove(key);
        self.lists.remove(key, &self.room.states);
    }

    /// Drops everything that is expired, and gives memory back. Returns what was done and how much it cost, in
    /// states looked at.
    pub(super) fn sweep(&mut self, now: Timestamp) -> (Swept, usize) {
        let now = now.as_micros();
        let looked_at = self.table.slots() + self.lists.len();
        let (seen, dropped) = self.table.sweep_all(now);
        let (seen_lists, dropped_lists) = self.lists.sweep(now, &self.room.states);
        self.table.shrink(now, &self.room.states);
        self.overflow.sweep(now, &self.room.overflow);
        (Swept { seen: seen + seen_lists, dropped: dropped + dropped_lists }, looked_at)
    }
}

impl States for Shard {
    #[inline]
    fn cell(&mut self, key: &Key) -> Cell {
        match self.table.get(key) {
            Some(cell) => cell,
            // Almost always empty; if not, the key starts from what its bucket was charged.
            None => self.overflow.cell(key),
        }
    }

    fn own_cell(&mut self, key: &Key) -> Option<Cell> {
        self.table.get(key)
    }

    #[inline]
    fn set_cell(&mut self, key: &Key, cell: Cell, now: Timestamp) -> bool {
        if self.table.replace(key, cell)
            || self.table.insert(key, cell, now.as_micros(), &self.room.states).is_ok()
        {
            return true;
        }
        let shared = self.overflow.set_cell(key, cell, &self.room.overflow);
        let shortages = &self.room.shortages;
        Shortages::count(if shared { &shortages.shared } else { &shortages.refused });
        shared
    }

    fn restore_cell(&mut self, key: &Key, cell: Cell) {
        if self.table.get(key).is_none() {
            self.overflow.restore_cell(key, cell);
        } else if cell.is_empty() {
            self.table.remove(key);
        } else {
            self.table.replace(key, cell);
        }
    }

    fn log(&mut self, key: &Key) -> Option<&mut Log> {
        match self.lists.log(key) {
            Some(log) => Some(log),
            None => self.overflow.log(key),
        }
    }

    fn log_with_room(&mut self, key: &Key, algorithm: &SlidingLog, now: Timestamp) -> Option<&mut Log> {
        let room = &*self.room;
        let fresh = self.lists.log(key).is_none();
        let own = self.lists.log_with_room(key, algorithm, now, (&room.states, &room.shortages));
        match own {
            Some(log) if fresh && !self.overflow.is_empty() => {
                let shared = self.overflow.log(key).filter(|shared| !shared.is_expired(now.as_micros()));
                log.inherit(shared.map(|shared| &*shared));
                Some(log)
            }
            Some(log) => Some(log),
            None => {
                let shared = self.overflow.merged_log(key, &room.overflow);
                Shortages::count(if shared.is_some() {
                    &room.shortages.shared
                } else {
                    &room.shortages.refused
                });
                shared
            }
        }
    }

    fn permits(&mut self, key: &Key) -> Option<&mut Permits> {
        self.lists.permits(key)
    }

    fn permits_with_room(&mut self, key: &Key, limit: &Concurrency, now: Timestamp) -> Option<&mut Permits> {
        let permits = self.lists.permits_with_room(key, limit, now, &self.room.states);
        if permits.is_none() {
            Shortages::count(&self.room.shortages.refused);
        }
        permits
    }
}
