//! The byte cap, kept as a sum that is reserved before memory is taken.

use std::sync::atomic::Ordering;

use crate::sync::{AtomicU64, AtomicUsize};

/// A cap on bytes, shared by all shards.
pub(super) struct Budget {
    max: usize,
    used: AtomicUsize,
}

/// What happened for want of room; only ever grows.
#[derive(Default)]
pub(super) struct Shortages {
    /// Charges written to a shared overflow bucket.
    pub(super) shared: AtomicU64,
    /// Logs folded into one entry.
    pub(super) merged: AtomicU64,
    /// Steps refused because not even an overflow bucket was left.
    pub(super) refused: AtomicU64,
}

impl Budget {
    pub(super) fn new(max: usize) -> Self {
        Self { max, used: AtomicUsize::new(0) }
    }

    /// Takes `bytes`, or takes nothing and says no.
    pub(super) fn reserve(&self, bytes: usize) -> bool {
        let fits = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= self.max);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok()
    }

    /// True if `bytes` would fit now.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.used().checked_add(bytes).is_some_and(|sum| sum <= self.max)
    }

    /// Gives back `bytes` that were reserved.
    pub(super) fn release(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(super) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }
}

impl Shortages {
    pub(super) fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}
