//! Each thread's own number, for what is kept apart by thread so that no two wait for each other.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

thread_local! {
    static PLACE: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// The number of this thread: they are given out one after the other, from zero on.
#[inline]
pub(crate) fn place() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    PLACE.with(|place| match place.get() {
        usize::MAX => {
            let new = NEXT.fetch_add(1, Ordering::Relaxed);
            place.set(new);
            new
        }
        known => known,
    })
}
