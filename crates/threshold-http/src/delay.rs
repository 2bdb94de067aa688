//! The bounded pool of requests that are held back.
//!
//! Holding back costs a connection and memory for seconds. Whoever is held back must not be able to make that cost
//! unbounded, so there are only so many places; without one the answer is an ordinary refusal.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Places for requests that are held back; clones share them.
#[derive(Clone, Debug)]
pub struct DelayPool(Arc<Places>);

#[derive(Debug)]
struct Places {
    most: usize,
    taken: AtomicUsize,
    turned_away: AtomicU64,
}

/// One place, given back when it is dropped.
#[derive(Debug)]
pub struct Place(Arc<Places>);

impl DelayPool {
    /// A pool of `most` places.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self(Arc::new(Places { most, taken: AtomicUsize::new(0), turned_away: AtomicU64::new(0) }))
    }

    /// A place, unless all are taken.
    #[must_use]
    pub fn take(&self) -> Option<Place> {
        let places = &self.0;
        let more = |taken: usize| (taken < places.most).then_some(taken + 1);
        if places.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_err() {
            places.turned_away.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        Some(Place(Arc::clone(places)))
    }

    /// How many are held back now.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.0.taken.load(Ordering::Relaxed)
    }

    /// How many may be.
    #[must_use]
    pub fn most(&self) -> usize {
        self.0.most
    }

    /// How many found no place so far, and were refused.
    #[must_use]
    pub fn turned_away(&self) -> u64 {
        self.0.turned_away.load(Ordering::Relaxed)
    }
}

impl Default for DelayPool {
    fn default() -> Self {
        Self::new(1_024)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_so_many_places_and_each_comes_back() {
        let pool = DelayPool::new(2);
        let (first, second) = (pool.take(), pool.take());
        assert!(first.is_some() && second.is_some() && pool.take().is_none());
        drop(first);
        assert_eq!(pool.taken(), 1);
        let same = pool.clone();
        assert!(same.take().is_some() && pool.taken() == 1);
        assert_eq!((pool.most(), pool.turned_away()), (2, 1));
    }
}
