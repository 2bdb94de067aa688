//! Maps by the hash of a key.

use std::hash::{BuildHasherDefault, Hasher};

use threshold_core::Key;

/// For maps by hashes of keys, which are keyed hashes already: hashing them again would buy nothing.
pub(crate) type ByHalf = BuildHasherDefault<Halves>;

/// Takes the high half of a key's hash as it is; in a sharded store the low half chose the shard.
#[derive(Default)]
pub(crate) struct Halves(u64);

impl Hasher for Halves {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |all, byte| all.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u128(&mut self, hash: u128) {
        let [_, high] = Key::from_raw(hash, 0).halves();
        self.0 = high;
    }
}
