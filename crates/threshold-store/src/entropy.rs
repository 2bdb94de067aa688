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

fn random_bytes<const COUNT: usize>() -> [u8; COUNT] {
    let mut bytes = [0; COUNT];
    getrandom::fill(&mut bytes).expect("the operating system provides random numbers");
    bytes
}
