//! A global allocator that can count the bytes asked for and held.
//!
//! It counts only where it was switched on (the memory probes): two shared counters touched by every
//! allocation would slow down the peers that allocate per decision.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

static COUNTING: AtomicBool = AtomicBool::new(false);
static ASKED: AtomicI64 = AtomicI64::new(0);
static HELD: AtomicI64 = AtomicI64::new(0);

pub(crate) struct Counting;

/// Starts counting in this process, for good.
pub(crate) fn start_counting() {
    COUNTING.store(true, Ordering::Relaxed);
}

/// Bytes in use since counting started.
#[derive(Clone, Copy)]
pub(crate) struct InUse {
    /// The sum of the sizes asked for.
    pub(crate) asked: i64,
    /// What the allocator takes for them: a string of twelve bytes costs thirty-two.
    pub(crate) held: i64,
}

pub(crate) fn in_use() -> InUse {
    InUse { asked: ASKED.load(Ordering::Relaxed), held: HELD.load(Ordering::Relaxed) }
}

fn note(bytes: usize, sign: i64) {
    if COUNTING.load(Ordering::Relaxed) {
        ASKED.fetch_add(sign * bytes as i64, Ordering::Relaxed);
        HELD.fetch_add(sign * chunk(bytes) as i64, Ordering::Relaxed);
    }
}

/// The size of glibc's chunk on 64-bit machines: a header of 8 bytes, in steps of 16, at least 32.
fn chunk(bytes: usize) -> usize {
    (bytes + 8).next_multiple_of(16).max(32)
}

// SAFETY: every call goes unchanged to the system allocator; the counters allocate nothing.
#[allow(unsafe_code, reason = "a global allocator cannot be written without it")]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size(), 1);
        // SAFETY: the caller keeps alloc's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size(), 1);
        // SAFETY: the caller keeps alloc_zeroed's contract.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        note(layout.size(), -1);
        // SAFETY: the caller keeps dealloc's contract.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(layout.size(), -1);
        note(size, 1);
        // SAFETY: the caller keeps realloc's contract.
        unsafe { System.realloc(block, layout, size) }
    }
}
