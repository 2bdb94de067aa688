//! Keys as they are looked up here.

use std::hash::Hasher;

/// A key is a keyed hash already: its words are mixed and no more.
#[derive(Default)]
pub(super) struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    #[inline]
    fn write_u64(&mut self, word: u64) {
        self.0 = self.0.rotate_left(29) ^ word;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
