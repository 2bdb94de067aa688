//! The shards of one batch, locked together.

use smallvec::SmallVec;

use threshold_core::algorithm::{Concurrency, SlidingLog};
use threshold_core::state::{Cell, Log, Permits};
use threshold_core::transition::States;
use threshold_core::{Key, Timestamp};

use super::shard::Shard;
use super::{Padded, shard_of};
use crate::sync::Guard;

/// The locks of all shards that a batch needs, in ascending order. Every batch takes them in that order, so no
/// two can wait for each other.
pub(super) struct Locked<'a> {
    held: SmallVec<[(usize, Guard<'a, Shard>); 4]>,
    shards: usize,
}

impl<'a> Locked<'a> {
    pub(super) fn new(shards: &'a [Padded], keys: impl Iterator<Item = Key> + Clone) -> Self {
        let mut wanted: SmallVec<[usize; 4]> = keys.clone().map(|key| shard_of(&key, shards.len())).collect();
        wanted.sort_unstable();
        wanted.dedup();
        let held = wanted.into_iter().map(|index| (index, shards[index].0.lock())).collect();
        let locked = Self { held, shards: shards.len() };
        // The keys' slots are far apart and rarely cached: asking for all of them before using the first lets
        // the waits overlap.
        let touched = keys.fold(0, |all, key| all ^ locked.held[locked.index(&key)].1.touch(&key));
        std::hint::black_box(touched);
        locked
    }

    #[inline]
    fn index(&self, key: &Key) -> usize {
        let wanted = shard_of(key, self.shards);
        self.held.partition_point(|(index, _)| *index < wanted)
    }

    #[inline]
    fn shard(&mut self, key: &Key) -> &mut Shard {
        let index = self.index(key);
        &mut self.held[index].1
    }
}

impl States for Locked<'_> {
    fn cell(&mut self, key: &Key) -> Cell {
        self.shard(key).cell(key)
    }

    fn own_cell(&mut self, key: &Key) -> Option<Cell> {
        self.shard(key).own_cell(key)
    }

    fn set_cell(&mut self, key: &Key, cell: Cell, now: Timestamp) -> bool {
        self.shard(key).set_cell(key, cell, now)
    }

    fn restore_cell(&mut self, key: &Key, cell: Cell) {
        self.shard(key).restore_cell(key, cell);
    }

    fn log(&mut self, key: &Key) -> Option<&mut Log> {
        self.shard(key).log(key)
    }

    fn log_with_room(&mut self, key: &Key, algorithm: &SlidingLog, now: Timestamp) -> Option<&mut Log> {
        self.shard(key).log_with_room(key, algorithm, now)
    }

    fn permits(&mut self, key: &Key) -> Option<&mut Permits> {
        self.shard(key).permits(key)
    }

    fn permits_with_room(&mut self, key: &Key, limit: &Concurrency, now: Timestamp) -> Option<&mut Permits> {
        self.shard(key).permits_with_room(key, limit, now)
    }
}
