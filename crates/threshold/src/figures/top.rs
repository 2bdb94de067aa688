//! Those who were counted most, in a space that does not grow: the space-saving sketch.
//!
//! Whoever makes up more than one part in `kept` of all that was counted is in it, and its count is too high by at most
//! what it says.

use std::borrow::Borrow;
use std::hash::{BuildHasher as _, Hash, RandomState};
use std::sync::{Mutex, PoisonError};

/// Enough that two threads seldom want the same one.
const SHARDS: usize = 8;
/// The most bytes that are kept of a text: those that begin alike for so long are counted as one.
const TEXT: usize = 128;

/// Those who were counted most.
pub struct Top<K> {
    hasher: RandomState,
    shards: Box<[Mutex<Vec<Most<K>>>]>,
    /// How many each shard keeps.
    each: usize,
}

/// One of those who were counted most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Most<K> {
    /// Who.
    pub key: K,
    /// How often, or less.
    pub count: u64,
    /// By how much less, at most.
    pub error: u64,
}

impl<K> Most<K> {
    /// How often at least.
    #[must_use]
    pub const fn at_least(&self) -> u64 {
        self.count - self.error
    }
}

/// True if a text that was kept may be the beginning of a longer one.
pub(super) const fn may_be_cut(text: &str) -> bool {
    // A letter that does not fit takes up to four bytes.
    text.len() + 3 >= TEXT
}

/// What can be kept of a key.
pub trait Keep<K> {
    /// As much of it as is kept.
    fn cut(&self) -> &Self;
    /// Keeps it.
    fn keep(&self) -> K;
}

impl Keep<String> for str {
    fn cut(&self) -> &Self {
        let end = (0..=TEXT.min(self.len())).rev().find(|end| self.is_char_boundary(*end));
        &self[..end.unwrap_or(0)]
    }

    fn keep(&self) -> String {
        self.to_owned()
    }
}

impl<K: Copy> Keep<K> for K {
    fn cut(&self) -> &Self {
        self
    }

    fn keep(&self) -> K {
        *self
    }
}

impl<K: Hash + Eq + Ord + Clone> Top<K> {
    /// Keeps about `kept` of them.
    #[must_use]
    pub fn new(kept: usize) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self { hasher: RandomState::new(), shards, each: (kept / SHARDS).max(1) }
    }

    /// Counts `key` once.
    pub fn count<Q>(&self, key: &Q)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + Keep<K> + ?Sized,
    {
        let key = key.cut();
        // Drawn anew for each process: nobody can choose keys that meet in one shard.
        let shard = usize::try_from(self.hasher.hash_one(key) % SHARDS as u64).unwrap_or(0);
        let mut kept = self.shards[shard].lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = kept.iter().position(|one| one.key.borrow() == key) {
            kept[place].count += 1;
            // Those who come most often are found first.
            if place > 0 && kept[place].count > kept[place - 1].count {
                kept.swap(place, place - 1);
            }
        } else if kept.len() < self.each {
            kept.push(Most { key: key.keep(), count: 1, error: 0 });
        } else if let Some(least) = kept.iter_mut().min_by_key(|one| one.count) {
            // Takes the place of the one that was counted least, and might have been counted as often.
            *least = Most { key: key.keep(), count: least.count + 1, error: least.count };
        }
    }

    /// Keeps only those for which `keep` holds.
    pub fn retain(&self, keep: impl Fn(&K) -> bool) {
        for shard in &self.shards {
            shard.lock().unwrap_or_else(PoisonError::into_inner).retain(|one| keep(&one.key));
        }
    }

    /// The `most` who were counted most often, the first of them first.
    #[must_use]
    pub fn most(&self, most: usize) -> Vec<Most<K>> {
        let mut all: Vec<Most<K>> = Vec::new();
        for shard in &self.shards {
            all.extend(shard.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned());
        }
        all.sort_by(|one, other| {
            other
                .at_least()
                .cmp(&one.at_least())
                .then(other.count.cmp(&one.count))
                .then(one.key.cmp(&other.key))
        });
        all.truncate(most);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_are_counted_exactly() {
        let top = Top::new(64);
        for (key, times) in [("a", 3), ("b", 10), ("c", 1)] {
            (0..times).for_each(|_| top.count(key));
        }
        let most: Vec<_> = top.most(2).into_iter().map(|one| (one.key, one.count, one.error)).collect();
        assert_eq!(most, [("b".to_owned(), 10, 0), ("a".to_owned(), 3, 0)]);
    }

    #[test]
    fn the_loudest_stay_among_very_many() {
        let top = Top::<u64>::new(64);
        for other in 10..100_000 {
            top.count(&other);
            top.count(&(other % 3));
        }
        let loud = top.most(3);
        let mut keys: Vec<u64> = loud.iter().map(|one| one.key).collect();
        keys.sort_unstable();
        assert_eq!(keys, [0, 1, 2]);
        let times = (10..100_000_u64).filter(|other| other % 3 == 0).count() as u64;
        let zero = loud.iter().find(|one| one.key == 0).unwrap();
        assert!((zero.at_least()..=zero.count).contains(&times), "{zero:?}, {times}");
        assert!(top.most(usize::MAX).len() <= 64);
    }

    #[test]
    fn texts_are_cut_and_those_that_begin_alike_are_one() {
        let top = Top::<String>::new(64);
        let long = format!("x{}", "ü".repeat(1_000));
        (0..3).for_each(|_| top.count(&*long));
        top.count(&*format!("{long}!"));
        let most = top.most(usize::MAX);
        assert_eq!(most.iter().map(|one| (one.key.len(), one.count)).collect::<Vec<_>>(), [(TEXT - 1, 4)]);
    }
}
