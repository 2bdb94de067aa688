//! The shards of one batch, locked together.

use smallvec::SmallVec;

use threshold_core::algorithm::{Concurrency, SlidingLog};
use threshold_core::state::{Cell, Log, Permits};
use threshold_core::transition::States;
use threshold_core::{Key, Step, Timestamp};

use super::shard::Shard;
use super::{Padded, shard_of};
use crate::sync::Guard;

/// The locks of all shards that a batch needs, in ascending order. Every batch takes them in that order, so no
/// two can wait for each other.
pub(super) struct Locked<'a> {
    held: SmallVec<[(usize, Guard<'a, Shard>); FEW]>,
    /// Where in `held` the shard of each of the first steps is, and which step is likely to come next: steps come in
    /// order.
    places: [u16; FEW],
    next: usize,
    shards: usize,
}

/// The steps of most batches: one for each layer.
const FEW: usize = 4;

/// A shard and the step that needs it, in one number that sorts by shard.
const STEP_BITS: usize = 16;

impl<'a> Locked<'a> {
    /// No lock yet, of so many `shards`.
    #[inline]
    pub(super) fn new(shards: usize) -> Self {
        Self { held: SmallVec::new(), places: [0; FEW], next: 0, shards }
    }

    /// Locks what `steps` need.
    #[inline]
    pub(super) fn lock(&mut self, shards: &'a [Padded], steps: &[Step]) {
        let wanted = |(number, step): (usize, &Step)| shard_of(&step.key, shards.len()) << STEP_BITS | number;
        let numbered = steps.iter().enumerate();
        if steps.len() <= FEW {
            let mut few = [usize::MAX; FEW];
            few.iter_mut().zip(numbered).for_each(|(place, step)| *place = wanted(step));
            sort(&mut few);
            self.lock_sorted(shards, &few[..steps.len()]);
        } else {
            let mut many: Vec<usize> = numbered.map(wanted).collect();
            many.sort_unstable();
            self.lock_sorted(shards, &many);
        }
    }

    /// Locks what is `wanted`, in its order.
    #[inline]
    fn lock_sorted(&mut self, shards: &'a [Padded], wanted: &[usize]) {
        let mut last = usize::MAX;
        for wanted in wanted {
            let (index, number) = (wanted >> STEP_BITS, wanted & ((1 << STEP_BITS) - 1));
            if index != last {
                self.held.push((index, shards[index].0.lock()));
                last = index;
            }
            if let Some(place) = self.places.get_mut(number) {
                *place = (self.held.len() - 1) as u16;
            }
        }
    }

    /// The time to charge at, for a caller whose clock showed `now` before it had the locks; remembered by all the
    /// shards.
    pub(super) fn advance(&mut self, now: Timestamp) -> Timestamp {
        let now = self.not_before(now);
        self.held.iter_mut().for_each(|(_, shard)| {
            shard.advance(now);
        });
        now
    }

    /// The time to judge at, for a caller whose clock showed `now` before it had the locks.
    pub(super) fn not_before(&self, now: Timestamp) -> Timestamp {
        self.held.iter().map(|(_, shard)| shard.not_before(now)).max().unwrap_or(now)
    }

    #[inline(always)]
    fn shard(&mut self, key: &Key) -> &mut Shard {
        let wanted = shard_of(key, self.shards);
        let likely = self.places.get(self.next).map_or(0, |place| usize::from(*place));
        self.next += 1;
        let place = match self.held.get(likely) {
            Some((index, _)) if *index == wanted => likely,
            _ => self.held.partition_point(|(index, _)| *index < wanted),
        };
        &mut self.held[place].1
    }
}

impl States for Locked<'_> {
    fn cell(&mut self, key: &Key) -> Cell {
        self.shard(key).cell(key)
    }

    #[inline(always)]
    fn own_cell(&mut self, key: &Key) -> Option<&mut Cell> {
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

/// Sorts, by exchanges that take no branch, because nobody could predict it.
#[inline]
fn sort(numbers: &mut [usize; FEW]) {
    for (a, b) in [(0, 1), (2, 3), (0, 2), (1, 3), (1, 2)] {
        (numbers[a], numbers[b]) = (numbers[a].min(numbers[b]), numbers[a].max(numbers[b]));
    }
}
