//! Where a shard's slots are, for those who do not hold its lock.

use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use threshold_core::Key;

use super::table::{Slot, home};
use crate::prefetch::prefetch;

/// Where the slots of a table were when it last moved. Read without its lock and only to ask for memory ahead of need:
/// if it is out of date, the wrong line is asked for and nothing else happens.
#[derive(Default)]
pub(super) struct Hint {
    slots: AtomicPtr<Slot>,
    homes: AtomicUsize,
}

impl Hint {
    pub(super) fn publish(&self, slots: &[Slot], homes: usize) {
        self.slots.store(slots.as_ptr().cast_mut(), Ordering::Relaxed);
        self.homes.store(homes, Ordering::Relaxed);
    }

    /// Starts loading the slot that a search for `key` starts at, and those one and two cache lines later, where
    /// many a search ends.
    #[inline]
    pub(super) fn prefetch(&self, key: &Key) {
        let [_, high] = key.halves();
        let home = home(high, self.homes.load(Ordering::Relaxed));
        let slots = self.slots.load(Ordering::Relaxed);
        [home, home + 2, home + 4].iter().for_each(|index| prefetch(slots.wrapping_add(*index)));
    }
}
