//! Dice: random numbers that are the same on every machine. Whole numbers only, and an algorithm that is written down here.

use threshold::{Rate, Span};

/// Times within a play are counted in parts of a microsecond, so that a thousand requests in a millisecond do not come too
/// soon by what was rounded away of each gap.
pub(super) const FINE: u64 = 1 << 10;

/// SplitMix64: eight bytes for each of a million actors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dice(u64);

/// How long it is from one event to the next on average: so many fine ticks for so many events.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gap {
    pub(super) ticks: u64,
    pub(super) events: u64,
}

impl Gap {
    pub(super) const fn of(rate: &Rate) -> Self {
        Self { ticks: rate.period().as_micros() * FINE, events: rate.count() }
    }

    pub(super) const fn each(span: Span) -> Self {
        Self { ticks: span.as_micros() * FINE, events: 1 }
    }

    /// The gap of `more` events for `fewer` of these.
    pub(super) fn denser(self, more: u64, fewer: u64) -> Self {
        Self { ticks: self.ticks.saturating_mul(fewer), events: self.events.saturating_mul(more) }
    }

    /// When the event numbered `number` is due, if each comes exactly when it should.
    pub(super) fn due(self, number: u64) -> u64 {
        let due = u128::from(self.ticks) * u128::from(number) / u128::from(self.events.max(1));
        u64::try_from(due).unwrap_or(u64::MAX)
    }
}

impl Dice {
    /// Dice of their own for each combination of `numbers`.
    pub(super) fn new(numbers: &[u64]) -> Self {
        Self(numbers.iter().fold(0, |state, number| stir(state ^ stir(number.wrapping_add(GOLDEN)))))
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        stir(self.0)
    }

    /// A number below `bound`; 0 if there is none.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// True `part` times out of `whole`.
    pub(super) fn chance(&mut self, part: u64, whole: u64) -> bool {
        self.below(whole) < part
    }

    /// A wait whose length has no memory, with `gap` as its mean.
    pub(super) fn wait(&mut self, gap: Gap) -> u64 {
        let wait = u128::from(minus_ln(self.next())) * u128::from(gap.ticks) / u128::from(gap.events.max(1));
        u64::try_from(wait >> BITS).unwrap_or(u64::MAX)
    }
}

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

const fn stir(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// The bits of a logarithm behind its point.
const BITS: u32 = 24;
/// The natural logarithm of 2 with 32 bits behind its point.
const LN_2: u64 = 2_977_044_472;

/// −ln(u) for u = `number` of 2⁶⁴: the logarithm to base 2, bit by bit, since that of the machine differs between machines.
const fn minus_ln(number: u64) -> u64 {
    let number = number | 1;
    let zeros = number.leading_zeros();
    let (mut mantissa, mut fraction, mut bit) = (number << zeros, 0_u64, BITS);
    while bit > 0 {
        bit -= 1;
        // Squared, the logarithm is doubled; whether that passes 1 is its next bit.
        let square = (mantissa as u128 * mantissa as u128) >> 63;
        let passes = square >> 64 != 0;
        mantissa = (square >> passes as u32) as u64;
        fraction |= (passes as u64) << bit;
    }
    let log_2 = ((zeros as u64 + 1) << BITS) - fraction;
    ((log_2 as u128 * LN_2 as u128) >> 32) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_are_those_of_the_machine() {
        let mut dice = Dice::new(&[1]);
        for _ in 0..10_000 {
            let number = dice.next();
            let ours = minus_ln(number) as f64 / f64::from(1 << BITS);
            let theirs = -(number as f64 / 2_f64.powi(64)).ln();
            assert!((ours - theirs).abs() < 1e-6, "{number}: {ours} is not {theirs}");
        }
        assert!(minus_ln(0) < 45 << BITS && minus_ln(u64::MAX) == 0);
    }

    #[test]
    fn waits_have_the_mean_that_they_should_and_numbers_fill_their_range() {
        let mut dice = Dice::new(&[7, 7]);
        let gap = Gap::of(&"300000/s".parse().expect("a rate"));
        let sum: u64 = (0..1_000_000).map(|_| dice.wait(gap)).sum();
        let mean = sum as f64 / 1_000_000.0 / FINE as f64;
        assert!((mean - 10.0 / 3.0).abs() < 0.02, "{mean}");
        let mut seen = [0; 10];
        (0..100_000).for_each(|_| seen[dice.below(10) as usize] += 1);
        assert!(seen.iter().all(|count| (9_600..10_400).contains(count)), "{seen:?}");
        assert_eq!(dice.below(0), 0);
    }

    #[test]
    fn the_numbers_never_change() {
        let mut dice = Dice::new(&[7, 0, 3]);
        let numbers = [dice.next(), dice.next()];
        assert_eq!(numbers.map(|number| format!("{number:016x}")), ["427568b78302fb8b", "919d40048bf377e6"]);
    }
}
