//! An allocator that counts, for tests that ask what the heap is really used for.
//!
//! Counts are kept for each thread, so tests beside each other do not disturb one another. A reallocation
//! counts as an allocation beside the old one, because that is what it may be.
#![allow(dead_code, reason = "each test binary takes what it needs")]
#![expect(unsafe_code, reason = "an allocator is unsafe by nature; this one only counts and hands on")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

#[global_allocator]
static HEAP: Counting = Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
    static LIVE: Cell<usize> = const { Cell::new(0) };
    static PEAK: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator as it came; counting touches no memory of the caller's.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // Wrapping, because a thread may free what another one took.
        LIVE.set(LIVE.get().wrapping_add(layout.size()));
        PEAK.set(PEAK.get().max(LIVE.get()));
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.set(LIVE.get().wrapping_sub(layout.size()));
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// How often `action` takes memory from the heap.
pub(crate) fn allocations_in(action: impl FnOnce()) -> usize {
    let before = ALLOCATIONS.get();
    action();
    ALLOCATIONS.get() - before
}

/// What this thread has taken from the heap since a mark, and the most it had at any moment.
pub(crate) struct Mark(usize);

impl Mark {
    pub(crate) fn here() -> Self {
        PEAK.set(LIVE.get());
        Self(LIVE.get())
    }

    pub(crate) fn live(&self) -> usize {
        LIVE.get() - self.0
    }

    pub(crate) fn peak(&self) -> usize {
        PEAK.get() - self.0
    }
}
