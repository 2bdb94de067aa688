//! What the benchmark and the program that reads its counts must agree on.

/// Decisions per benchmark: enough that the loop around them and a table's growth hardly count.
pub(crate) const DECISIONS: usize = 4_096;
