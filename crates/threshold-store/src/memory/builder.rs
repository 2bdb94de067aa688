//! Building a memory store.

use std::sync::Arc;

use threshold_core::Clock;

use super::hint::Hint;
use super::shard::{Rest, Room, Shard};
use super::{Inner, MemoryStore, Padded};
use crate::clock::SystemClock;
use crate::sync::{AtomicUsize, Mutex};

/// The smallest cap: below it the overflow buckets would not be worth their name.
const MIN_BYTES: usize = 64 << 10;
const DEFAULT_BYTES: usize = 256 << 20;
/// Memory that one shard answers for before there are more shards instead.
const BYTES_PER_SHARD: usize = 128 << 10;
const MAX_SHARDS: usize = 2_048;
/// The share of the cap that is kept back for overflow buckets: one in this many.
const OVERFLOW_SHARE: usize = 32;

/// A memory store to be.
#[derive(Clone, Debug)]
pub struct MemoryStoreBuilder<C = SystemClock> {
    max_bytes: usize,
    clock: C,
}

/// A memory store that cannot be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a memory store needs a cap of at least {MIN_BYTES} bytes, not {max_bytes}")]
pub struct MemoryStoreError {
    max_bytes: usize,
}

impl Default for MemoryStoreBuilder {
    fn default() -> Self {
        Self { max_bytes: DEFAULT_BYTES, clock: SystemClock::new() }
    }
}

impl<C: Clock> MemoryStoreBuilder<C> {
    /// The hard cap on the bytes the store takes.
    #[must_use]
    pub fn max_bytes(self, max_bytes: usize) -> Self {
        Self { max_bytes, ..self }
    }

    /// Another clock than the system's, for tests and simulations.
    #[must_use]
    pub fn clock<D: Clock>(self, clock: D) -> MemoryStoreBuilder<D> {
        MemoryStoreBuilder { max_bytes: self.max_bytes, clock }
    }

    /// Builds the store, or says why its cap is too small.
    pub fn build(self) -> Result<MemoryStore<C>, MemoryStoreError> {
        let Self { max_bytes, clock } = self;
        if max_bytes < MIN_BYTES {
            return Err(MemoryStoreError { max_bytes });
        }
        let count = (max_bytes / BYTES_PER_SHARD).next_power_of_two().clamp(4, MAX_SHARDS);
        let fixed_bytes = count * (size_of::<Padded>() + size_of::<Rest>() + size_of::<Hint>());
        let overflow = max_bytes / OVERFLOW_SHARE;
        let room = Arc::new(Room::new(max_bytes - overflow - fixed_bytes, overflow, count));
        let shard = |index| Padded(Mutex::new(Shard::new(index, Arc::clone(&room))));
        let shards = (0..count).map(shard).collect();
        let sweep_from = AtomicUsize::new(0);
        Ok(MemoryStore { inner: Arc::new(Inner { shards, sweep_from, room, fixed_bytes, max_bytes, clock }) })
    }
}
