//! Locks and atomics, by loom's twins when the `loom` feature asks for model checking.

#[cfg(not(feature = "loom"))]
mod real {
    pub(crate) use std::sync::atomic::{AtomicU64, AtomicUsize};

    pub(crate) type Guard<'a, T> = parking_lot::MutexGuard<'a, T>;

    pub(crate) struct Mutex<T>(parking_lot::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) const fn new(value: T) -> Self {
            Self(parking_lot::Mutex::new(value))
        }

        #[inline]
        pub(crate) fn lock(&self) -> Guard<'_, T> {
            match self.0.try_lock() {
                Some(guard) => guard,
                None => self.lock_contended(),
            }
        }

        /// Looks again after ever longer pauses before it goes to sleep. A lock is held for some ten
        /// nanoseconds, so sleeping is the last resort; and while the others pause, the holder's processor has
        /// the cache line to itself and decides several times in a row.
        #[cold]
        fn lock_contended(&self) -> Guard<'_, T> {
            for pauses in [4, 16, 64, 64, 64, 64] {
                (0..pauses).for_each(|_| std::hint::spin_loop());
                if let Some(guard) = self.0.try_lock() {
                    return guard;
                }
            }
            self.0.lock()
        }
    }
}

#[cfg(feature = "loom")]
mod model {
    pub(crate) use loom::sync::atomic::{AtomicU64, AtomicUsize};

    pub(crate) type Guard<'a, T> = loom::sync::MutexGuard<'a, T>;

    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> Guard<'_, T> {
            self.0.lock().expect("no thread of a model panics while it holds a lock")
        }
    }
}

#[cfg(feature = "loom")]
pub(crate) use model::*;
#[cfg(not(feature = "loom"))]
pub(crate) use real::*;
