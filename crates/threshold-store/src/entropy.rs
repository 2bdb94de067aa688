//! The only place that draws random numbers.

use threshold_core::Secret;

/// A secret that nobody knows and that ends with the process: right for a store in memory, useless for one
/// that is shared or kept.
///
/// # Panics
///
/// If the operating system has no random numbers to give, which no supported one does.
#[must_use]
pub fn random_secret() -> Secret {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the operating system provides random numbers");
    Secret::new(bytes)
}
