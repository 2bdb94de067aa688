//! Asking for memory before it is needed: the one place with `unsafe`.
//!
//! A decision needs cache lines that are far apart and rarely near. An ordinary load asks for a line too, but
//! nothing behind it retires before the line has come, and it may only read what nobody is writing. This instruction
//! lets go at once and reads nothing (`cargo xtask bench --filter batch`, ADR 14).

/// Starts loading the cache line at `address`, where there need not be anything.
#[inline]
#[cfg(target_arch = "x86_64")]
#[expect(
    unsafe_code,
    reason = "a prefetch is a hint: it reads nothing, faults at no address, and every x86-64 has it"
)]
pub(crate) fn prefetch<T>(address: *const T) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: the instruction has no effect that the program could see, whatever the address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) }
}

/// Nothing: stable Rust has no such instruction here.
#[inline]
#[cfg(not(target_arch = "x86_64"))]
pub(crate) const fn prefetch<T>(_: *const T) {}
