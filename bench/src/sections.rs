//! The groups of measurements.

pub(crate) mod batch;
mod collide;
pub(crate) mod collision;
pub(crate) mod core;
pub(crate) mod layers;
pub(crate) mod memory;

use crate::machine;

/// One thread, and all of them.
pub(crate) fn thread_counts() -> Vec<usize> {
    let mut counts = vec![1, machine::cores()];
    counts.dedup();
    counts
}
