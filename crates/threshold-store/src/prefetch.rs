//! Asking for memory before it is needed: the one place with `unsafe`.
//!
//! A batch needs as many cache lines as it has steps, far apart. An ordinary load asks for a line too, but
//! nothing behind it retires before the line has come, so a batch of four waited a good quarter longer than with
//! this instruction, which lets go at once (`cargo xtask bench --filter batch`, ADR 13).

/// Starts loading the cache line of `slots[index]`, which need not exist.
#[inline]
#[cfg(target_arch = "x86_64")]
#[expect(
    unsafe_code,
    reason = "a prefetch is a hint: it reads nothing, faults at no address, and every x86-64 has it"
)]
pub(crate) fn prefetch<T: Copy>(slots: &[T], index: usize) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: the instruction has no effect that the program could see, whatever the address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(slots.as_ptr().wrapping_add(index).cast()) }
}

/// Reads the slot instead, if it exists: stable Rust has no such instruction here.
#[inline]
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn prefetch<T: Copy>(slots: &[T], index: usize) {
    std::hint::black_box(slots.get(index).copied());
}
