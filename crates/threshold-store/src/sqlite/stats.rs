//! What a store in SQLite counted.

use std::sync::atomic::{AtomicU64, Ordering};

use threshold_core::Span;

/// What the store did since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SqliteStats {
    /// Batches that were judged, and refunds and resets.
    pub batches: u64,
    /// Groups in which they were judged.
    pub groups: u64,
    /// Transactions that were written: each is one wait for the disk. Groups that changed nothing need none.
    pub commits: u64,
    /// How far the store's time is ahead of its clock: not at all, unless the clock went back. Until the clock has caught
    /// up, nothing refills.
    pub ahead: Span,
}

#[derive(Default)]
pub(super) struct Counters {
    batches: AtomicU64,
    groups: AtomicU64,
    commits: AtomicU64,
    ahead: AtomicU64,
}

impl Counters {
    pub(super) fn count(&self, batches: usize) {
        self.batches.fetch_add(batches as u64, Ordering::Relaxed);
        self.groups.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_commits(&self, written: bool) {
        self.commits.fetch_add(u64::from(written), Ordering::Relaxed);
    }

    pub(super) fn set_ahead(&self, ahead: Span) {
        self.ahead.store(ahead.as_micros(), Ordering::Relaxed);
    }

    pub(super) fn read(&self) -> SqliteStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        SqliteStats {
            batches: read(&self.batches),
            groups: read(&self.groups),
            commits: read(&self.commits),
            ahead: Span::from_micros(read(&self.ahead)),
        }
    }
}
