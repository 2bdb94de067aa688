//! SipHash-1-3 of whole words.
//!
//! The same function as `siphasher` computes, which stays its judge. Where all input is words there is no tail to
//! gather, and in one piece with its caller it takes two thirds of the time; a decision over four layers makes four of
//! these.

/// A SipHash-1-3 with its keys mixed in, for a result of 128 bits.
#[derive(Clone)]
pub(crate) struct WordHasher([u64; 4]);

impl WordHasher {
    pub(crate) const fn new(key0: u64, key1: u64) -> Self {
        Self([
            key0 ^ 0x736f_6d65_7073_6575,
            key1 ^ 0x646f_7261_6e64_6f6d ^ 0xee,
            key0 ^ 0x6c79_6765_6e65_7261,
            key1 ^ 0x7465_6462_7974_6573,
        ])
    }

    /// The hash of `words`, each as its eight bytes from the lowest on: its lower half and its upper.
    #[inline(always)]
    pub(crate) fn hash(&self, words: &[u64]) -> [u64; 2] {
        let mut state = self.0;
        words.iter().for_each(|word| absorb(&mut state, *word));
        finish(state, words.len() as u64)
    }
}

/// A hash in the making, for words that need not be kept.
#[derive(Clone, Copy)]
pub(crate) struct Absorbing {
    state: [u64; 4],
    words: u64,
}

impl WordHasher {
    #[inline(always)]
    pub(crate) const fn begin(&self) -> Absorbing {
        Absorbing { state: self.0, words: 0 }
    }
}

impl Absorbing {
    #[inline(always)]
    pub(crate) const fn absorb(&mut self, word: u64) {
        absorb(&mut self.state, word);
        self.words += 1;
    }

    /// The same as [`WordHasher::hash`] of the words together.
    #[inline(always)]
    pub(crate) const fn finish(self) -> [u64; 2] {
        finish(self.state, self.words)
    }

    /// The lower half alone, for two thirds of the price.
    #[inline(always)]
    pub(crate) const fn finish_low(mut self) -> u64 {
        absorb(&mut self.state, self.words << 59);
        self.state[2] ^= 0xee;
        squeeze(&mut self.state)
    }
}

#[inline(always)]
const fn finish(mut state: [u64; 4], words: u64) -> [u64; 2] {
    absorb(&mut state, words << 59);
    state[2] ^= 0xee;
    let low = squeeze(&mut state);
    state[1] ^= 0xdd;
    [low, squeeze(&mut state)]
}

#[inline(always)]
const fn absorb(state: &mut [u64; 4], word: u64) {
    state[3] ^= word;
    round(state);
    state[0] ^= word;
}

#[inline(always)]
const fn squeeze(state: &mut [u64; 4]) -> u64 {
    round(state);
    round(state);
    round(state);
    state[0] ^ state[1] ^ state[2] ^ state[3]
}

#[inline(always)]
const fn round([a, b, c, d]: &mut [u64; 4]) {
    *a = a.wrapping_add(*b);
    *b = b.rotate_left(13) ^ *a;
    *a = a.rotate_left(32);
    *c = c.wrapping_add(*d);
    *d = d.rotate_left(16) ^ *c;
    *a = a.wrapping_add(*d);
    *d = d.rotate_left(21) ^ *a;
    *c = c.wrapping_add(*b);
    *b = b.rotate_left(17) ^ *c;
    *c = c.rotate_left(32);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use siphasher::sip128::SipHasher13;

    use super::*;

    proptest! {
        #[test]
        fn it_is_siphash_1_3(key: (u64, u64), words in prop::collection::vec(any::<u64>(), 0..70)) {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            let judge = SipHasher13::new_with_keys(key.0, key.1).hash(&bytes);
            prop_assert_eq!(WordHasher::new(key.0, key.1).hash(&words), [judge.h1, judge.h2]);
        }
    }
}
