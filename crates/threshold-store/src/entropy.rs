//! The only place that draws random numbers.

use std::sync::atomic::{AtomicU64, Ordering};

use threshold_core::Secret;

/// A secret that nobody knows and that ends with the process: right for a store in memory, useless for one
/// that is shared or kept.
///
/// # Panics
///
/// If the operating system has no random numbers to give, which no supported one does.
#[must_use]
pub fn random_secret() -> Secret {
    Secret::new(random_bytes())
}

/// A token that nobody can guess: 256 random bits as 64 hexadecimal digits.
///
/// # Panics
///
/// If the operating system has no random numbers to give, which no supported one does.
#[must_use]
pub fn random_token() -> String {
    random_bytes::<32>().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Ids that never come twice, in this process or another: a random half and a counted one, stirred so that neither tells
/// how many there were.
#[derive(Debug)]
pub struct UniqueIds {
    process: u64,
    next: AtomicU64,
}

impl UniqueIds {
    /// Ids that begin anywhere.
    ///
    /// # Panics
    ///
    /// If the operating system has no random numbers to give, which no supported one does.
    #[must_use]
    pub fn new() -> Self {
        let [process, next] = [random_bytes(), random_bytes()].map(u64::from_ne_bytes);
        Self { process, next: AtomicU64::new(next) }
    }

    /// The next one.
    pub fn next(&self) -> u128 {
        let counted = self.next.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed);
        u128::from(self.process) << 64 | u128::from(stirred(counted))
    }
}

impl Default for UniqueIds {
    fn default() -> Self {
        Self::new()
    }
}

/// Another number for each number (the end of SplitMix64).
const fn stirred(mut number: u64) -> u64 {
    number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ (number >> 31)
}

fn random_bytes<const COUNT: usize>() -> [u8; COUNT] {
    let mut bytes = [0; COUNT];
    getrandom::fill(&mut bytes).expect("the operating system provides random numbers");
    bytes
}
