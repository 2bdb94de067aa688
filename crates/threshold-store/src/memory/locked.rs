//! The shards of one batch, locked together.

use smallvec::SmallVec;

use threshold_core::algorithm::{Concurrency, SlidingLog};
use threshold_core::state::{Cell, Log, Permits};
use threshold_core::transition::{States, Updated};
use threshold_core::{Key, Step, Timestamp};

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
    pub(super) fn new(shards: &'a [Padded], steps: &[Step]) -> Self {
        let mut wanted: SmallVec<[usize; 4]> = SmallVec::new();
        for step in steps {
            wanted.push(shard_of(&step.key, shards.len()));
        }
        sort(&mut wanted);
        let mut locked = Self { held: SmallVec::new(), shards: shards.len() };
        for index in wanted {
            if locked.held.last().is_none_or(|(last, _)| *last != index) {
                locked.held.push((index, shards[index].0.lock()));
            }
        }
        // The keys' slots are far apart and rarely cached: asking for all of them before using the first lets
        // the waits overlap.
        for step in steps {
            std::hint::black_box(locked.held[locked.index(&step.key)].1.touch(&step.key));
        }
        locked
    }

    /// The time to judge at, for a caller whose clock showed `now` before it had the locks.
    pub(super) fn not_before(&self, now: Timestamp) -> Timestamp {
        self.held.iter().map(|(_, shard)| shard.not_before(now)).max().unwrap_or(now)
    }

    /// Keys that have a state of their own, in all the shards together.
    pub(super) fn len(&self) -> usize {
        self.held.iter().map(|(_, shard)| shard.len()).sum()
    }

    /// Notes that a state was dropped at `now`.
    pub(super) fn dropped(&mut self, now: Timestamp) {
        self.held.iter_mut().for_each(|(_, shard)| shard.dropped(now));
    }

    /// Where the shard of `key` is held. Most batches have few steps, for which looking at each is quickest.
    #[inline]
    fn index(&self, key: &Key) -> usize {
        let wanted = shard_of(key, self.shards);
        match self.held.len() {
            0..=8 => self.held.iter().position(|(index, _)| *index == wanted).unwrap_or_default(),
            _ => self.held.partition_point(|(index, _)| *index < wanted),
        }
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

    #[inline]
    fn update<T>(
        &mut self,
        key: &Key,
        now: Timestamp,
        judge: impl FnOnce(Cell) -> (T, Option<Cell>),
    ) -> Updated<T> {
        self.shard(key).update(key, now, judge)
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

    fn own_log(&mut self, key: &Key) -> Option<&mut Log> {
        self.shard(key).own_log(key)
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

/// Sorts the few shards of most batches by insertion, which for four is a third of the work.
#[inline]
fn sort(wanted: &mut [usize]) {
    if wanted.len() > 8 {
        return wanted.sort_unstable();
    }
    for last in 1..wanted.len() {
        for index in (0..last).rev() {
            if wanted[index] <= wanted[index + 1] {
                break;
            }
            wanted.swap(index, index + 1);
        }
    }
}
