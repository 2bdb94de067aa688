//! Locks and atomics, by loom's twins when the `loom` feature asks for model checking.

#[cfg(not(feature = "loom"))]
mod real {
    use spin::mutex::{SpinMutex, SpinMutexGuard};
    pub(crate) use std::sync::atomic::{AtomicU64, AtomicUsize};

    pub(crate) type Guard<'a, T> = SpinMutexGuard<'a, T>;

    pub(crate) struct Mutex<T>(SpinMutex<T>);

    impl<T> Mutex<T> {
        pub(crate) const fn new(value: T) -> Self {
            Self(SpinMutex::new(value))
        }

        #[inline]
        pub(crate) fn lock(&self) -> Guard<'_, T> {
            match self.0.try_lock() {
                Some(guard) => guard,
                None => self.lock_contended(),
            }
        }

        /// Looks again after pauses of some microseconds, then lets others run in between. A lock is held for some ten
        /// nanoseconds; while the others pause, its holder has the cache lines to itself and decides several
        /// times in a row. Only a holder that was interrupted makes anybody wait for long, and yielding lets
        /// it go on.
        #[cold]
        fn lock_contended(&self) -> Guard<'_, T> {
            for pauses in [128, 128, 128] {
                (0..pauses).for_each(|_| std::hint::spin_loop());
                if let Some(guard) = self.0.try_lock() {
                    return guard;
                }
            }
            loop {
                std::thread::yield_now();
                if let Some(guard) = self.0.try_lock() {
                    return guard;
                }
            }
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
