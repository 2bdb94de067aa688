//! How long the stages of decisions took, in buckets.

use std::sync::atomic::{AtomicU64, Ordering};

use threshold_core::Span;

/// A stage of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Stage {
    /// All of it.
    Decide = 0,
    /// What the store took of it.
    Store = 1,
}

impl Stage {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Decide, Self::Store];

    /// Its name, as a label.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Decide => "decide",
            Self::Store => "store",
        }
    }
}

/// How long each stage took.
#[derive(Default)]
pub struct Latencies([Histogram; Stage::ALL.len()]);

#[derive(Default)]
struct Histogram {
    buckets: [AtomicU64; Latencies::BOUNDS.len() + 1],
    micros: AtomicU64,
}

impl Latencies {
    /// The upper bounds of the buckets, in microseconds; the last one has none.
    pub const BOUNDS: [u64; 12] = [1, 5, 10, 50, 100, 500, 1_000, 5_000, 10_000, 50_000, 100_000, 1_000_000];

    /// Adds what one decision took.
    pub fn add(&self, stage: Stage, took: Span) {
        let histogram = &self.0[stage as usize];
        let micros = took.as_micros();
        let bucket = Self::BOUNDS.iter().position(|bound| micros <= *bound).unwrap_or(Self::BOUNDS.len());
        histogram.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        histogram.micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// How many took up to each bound, the last one for all; and how many microseconds all took together.
    #[must_use]
    pub fn read(&self, stage: Stage) -> ([u64; Self::BOUNDS.len() + 1], u64) {
        let histogram = &self.0[stage as usize];
        let mut sum = 0;
        let buckets = histogram.buckets.each_ref().map(|bucket| {
            sum += bucket.load(Ordering::Relaxed);
            sum
        });
        (buckets, histogram.micros.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_add_up() {
        let latencies = Latencies::default();
        for micros in [0, 1, 2, 700, 3_000_000] {
            latencies.add(Stage::Store, Span::from_micros(micros));
        }
        let (buckets, sum) = latencies.read(Stage::Store);
        assert_eq!(buckets, [2, 3, 3, 3, 3, 3, 4, 4, 4, 4, 4, 4, 5]);
        assert_eq!(sum, 3_000_703);
        assert_eq!(latencies.read(Stage::Decide).0, [0; 13]);
    }
}
