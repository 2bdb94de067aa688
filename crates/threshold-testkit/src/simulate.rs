//! Seeded simulation: a small world of honest and hostile clients, reloads, clock steps, a ladder, logins and a ledger
//! that fails, over the real engine.
//!
//! One number decides everything that happens, so a failure is replayed from its seed. The judge looks only at what the
//! clients saw: for every limit and subject, the log of what was admitted and when.

mod abuse;
mod clients;
mod logins;
mod world;

pub use clients::{Client, Kind};
pub use world::{Story, World, run};

/// Random numbers from a seed: small, fast and the same everywhere.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// Dice that fall the same way for the same seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `sides`; 0 if there are none.
    pub fn roll(&mut self, sides: u64) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ mixed >> 31).checked_rem(sides).unwrap_or(0)
    }

    /// One of `choices`.
    ///
    /// # Panics
    ///
    /// If there are none.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.roll(choices.len() as u64) as usize]
    }

    /// True once in `times`.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.roll(times) == 0
    }
}
