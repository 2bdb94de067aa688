//! Keys and the order in which they are asked for, all made before the timing starts.

use std::borrow::Cow;

use crate::measure::CHUNK;

/// A small, fast, seeded generator (xorshift with a multiplied output): runs ask for the same keys.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// Uniform in `0..bound` (the bias of the multiplication is below 2⁻³² for our bounds).
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// Uniform in (0, 1].
    fn unit(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }
}

/// `user:0`, `user:1`, …: the caller's own strings.
pub(crate) fn user_keys(count: usize) -> Vec<String> {
    (0..count).map(|index| format!("user:{index}")).collect()
}

/// How often each key is asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pattern {
    Uniform,
    Zipf,
    /// Uniform, but the caller's strings lie in the order in which they are asked for, so that each is in the
    /// cache when its decision begins, as the bytes of a request that was just parsed are.
    AtHand,
}

impl Pattern {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Zipf => "zipf",
            Self::AtHand => "at-hand",
        }
    }

    /// The caller's side of a run over `keys`.
    pub(crate) fn asked(self, keys: &[String], per_decision: usize) -> Asked<'_> {
        let order = self.order(keys.len(), per_decision);
        if self != Self::AtHand {
            return Asked { keys: Cow::Borrowed(keys), order };
        }
        let laid_out: Vec<String> = order.iter().map(|&index| keys[index as usize].clone()).collect();
        Asked { order: (0..laid_out.len() as u32).collect(), keys: Cow::Owned(laid_out) }
    }

    /// Indexes of keys; `per_decision` of them make one decision.
    pub(crate) fn order(self, keys: usize, per_decision: usize) -> Vec<u32> {
        let length = order_length(keys * per_decision);
        let mut random = Random::new(7 + keys as u64);
        match self {
            Self::Uniform | Self::AtHand => (0..length).map(|_| random.below(keys as u64) as u32).collect(),
            Self::Zipf => {
                let zipf = Zipf::new(keys as u64, 0.99);
                let place = scatter(keys, &mut random);
                (0..length).map(|_| place[zipf.sample(&mut random) as usize - 1]).collect()
            }
        }
    }
}

/// The caller's strings, and which of them comes next.
pub(crate) struct Asked<'a> {
    pub(crate) keys: Cow<'a, [String]>,
    pub(crate) order: Vec<u32>,
}

/// Long enough to touch most keys, and whole chunks.
fn order_length(keys: usize) -> usize {
    if keys == 1 { CHUNK * 4 } else { (2 * keys).next_power_of_two().clamp(1 << 16, 1 << 24) }
}

/// A random place for each rank: popular keys must not be neighbours in the caller's memory.
fn scatter(keys: usize, random: &mut Random) -> Vec<u32> {
    let mut place: Vec<u32> = (0..keys as u32).collect();
    for last in (1..keys).rev() {
        place.swap(last, random.below(last as u64 + 1) as usize);
    }
    place
}

/// Zipf's law over ranks 1..=n by rejection-inversion (Hörmann and Derflinger, 1996): the integral of x^-s
/// is inverted, and the rare draws outside the histogram's bars are drawn again.
struct Zipf {
    exponent: f64,
    ranks: f64,
    lower: f64,
    upper: f64,
}

impl Zipf {
    fn new(ranks: u64, exponent: f64) -> Self {
        let mut zipf = Self { exponent, ranks: ranks as f64, lower: 0.0, upper: 0.0 };
        // The first bar is taken whole (height 1), every other one from half a rank below.
        zipf.lower = zipf.integral(1.5) - 1.0;
        zipf.upper = zipf.integral(zipf.ranks + 0.5);
        zipf
    }

    /// ∫ x^-s dx, up to a constant.
    fn integral(&self, x: f64) -> f64 {
        x.powf(1.0 - self.exponent) / (1.0 - self.exponent)
    }

    fn inverse(&self, area: f64) -> f64 {
        ((1.0 - self.exponent) * area).powf(1.0 / (1.0 - self.exponent))
    }

    fn sample(&self, random: &mut Random) -> u64 {
        loop {
            let area = self.upper + random.unit() * (self.lower - self.upper);
            let rank = self.inverse(area).round().clamp(1.0, self.ranks);
            if area >= self.integral(rank + 0.5) - rank.powf(-self.exponent) {
                return rank as u64;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zipf_follows_its_law() {
        let (ranks, draws) = (1_000, 400_000);
        let zipf = Zipf::new(ranks, 0.99);
        let mut random = Random::new(1);
        let mut seen = vec![0u32; ranks as usize + 1];
        for _ in 0..draws {
            seen[zipf.sample(&mut random) as usize] += 1;
        }
        let total: f64 = (1..=ranks).map(|rank| (rank as f64).powf(-0.99)).sum();
        for rank in [1, 2, 3, 10, 100] {
            let expected = f64::from(draws) * f64::from(rank as u32).powf(-0.99) / total;
            let off = (f64::from(seen[rank]) - expected).abs();
            assert!(off < 5.0 * expected.sqrt(), "rank {rank}: {} instead of {expected}", seen[rank]);
        }
    }

    #[test]
    fn orders_stay_inside_and_are_whole_chunks() {
        for (pattern, keys) in [(Pattern::Uniform, 1), (Pattern::Uniform, 10), (Pattern::Zipf, 10_000)] {
            let order = pattern.order(keys, 1);
            assert!(order.iter().all(|&index| (index as usize) < keys));
            assert_eq!(order.len() % CHUNK, 0);
        }
    }
}
