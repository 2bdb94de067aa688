//! Link: the way from a node to the store, which may be cut.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use threshold::{
    Batch, Health, Key, ManualClock, MemoryStore, MemoryStoreError, Outcome, Span, Store, StoreError,
    StoreErrorKind, Swept, Timestamp,
};

/// The store that all nodes share.
#[derive(Clone)]
pub(super) struct Shared(Arc<Inner>);

struct Inner {
    store: RwLock<MemoryStore<ManualClock>>,
    clock: ManualClock,
    bytes: usize,
    /// The nodes that cannot reach it: a bit for each.
    cut: AtomicU64,
    /// When it last lost what it had, in microseconds; 0 if it never did.
    lost: AtomicU64,
}

/// What one node has of it.
pub(super) struct Link {
    shared: Shared,
    bit: u64,
}

impl Shared {
    pub(super) fn new(bytes: usize, clock: &ManualClock) -> Result<Self, MemoryStoreError> {
        let store = RwLock::new(memory(bytes, clock)?);
        let (cut, lost) = (AtomicU64::new(0), AtomicU64::new(0));
        Ok(Self(Arc::new(Inner { store, clock: clock.clone(), bytes, cut, lost })))
    }

    pub(super) fn link(&self, node: u32) -> Link {
        Link { shared: self.clone(), bit: 1 << (node % 64) }
    }

    /// From now on these do not reach it.
    pub(super) fn cut(&self, nodes: u64) {
        self.0.cut.store(nodes, Ordering::Release);
    }

    /// It begins anew, with nothing in it.
    pub(super) fn lose(&self, now: Timestamp) -> Result<(), MemoryStoreError> {
        let empty = memory(self.0.bytes, &self.0.clock)?;
        *self.0.store.write().unwrap_or_else(PoisonError::into_inner) = empty;
        self.0.lost.store(now.as_micros(), Ordering::Release);
        Ok(())
    }

    pub(super) fn store(&self) -> MemoryStore<ManualClock> {
        self.0.store.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

pub(super) fn memory(
    bytes: usize,
    clock: &ManualClock,
) -> Result<MemoryStore<ManualClock>, MemoryStoreError> {
    MemoryStore::builder().max_bytes(bytes).clock(clock.clone()).build()
}

impl Link {
    fn reach(&self, operation: &'static str) -> Result<MemoryStore<ManualClock>, StoreError> {
        match self.shared.0.cut.load(Ordering::Acquire) & self.bit {
            0 => Ok(self.shared.store()),
            _ => Err(StoreError::new(StoreErrorKind::Unavailable, operation, "the scenario has cut it off")),
        }
    }
}

impl Store for Link {
    async fn apply(&self, batch: &Batch) -> Result<Outcome, StoreError> {
        Ok(self.reach("decide")?.apply_now(batch))
    }

    async fn peek(&self, batch: &Batch) -> Result<Outcome, StoreError> {
        Ok(self.reach("look")?.peek_now(batch))
    }

    async fn refund(&self, batch: &Batch, outcome: &Outcome) -> Result<(), StoreError> {
        self.reach("refund")?.refund_now(batch, outcome);
        Ok(())
    }

    async fn reset(&self, keys: &[Key]) -> Result<(), StoreError> {
        self.reach("reset")?.reset_now(keys);
        Ok(())
    }

    async fn sweep(&self, budget: usize) -> Result<Swept, StoreError> {
        Ok(self.reach("sweep")?.sweep_now(budget))
    }

    fn lost_at(&self) -> Option<Timestamp> {
        Some(self.shared.0.lost.load(Ordering::Acquire)).filter(|at| *at > 0).map(Timestamp::from_micros)
    }

    async fn health(&self) -> Health {
        match self.reach("look") {
            Ok(_) => Health::Up { latency: Span::ZERO },
            Err(error) => Health::Down { reason: error.to_string() },
        }
    }

    async fn close(&self) -> Result<(), StoreError> {
        Ok(())
    }
}
