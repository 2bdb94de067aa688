//! Keys an attacker would choose: all in the same bucket of a table with a known hash function.

use crate::machine;
use crate::workload::Random;

/// Characters to choose from where few places must do.
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

const FNV_OFFSET: u64 = 0xCBF2_9CE4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01B3;

/// How a set of keys is chosen. All sets have keys of the same shape and length.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Choice {
    Random,
    /// The low 16 bits of FNV-1a are the same.
    Fnv,
    /// The low 12 bits of SipHash-1-3 with a zero key are the same.
    Sip,
}

impl Choice {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Random => "random keys",
            Self::Fnv => "FNV-1a colliding",
            Self::Sip => "SipHash-1-3(0) colliding",
        }
    }

    /// `count` distinct keys: an eight-byte serial number, then eight chosen characters.
    pub(crate) fn keys(self, count: usize) -> Vec<String> {
        let workers = machine::cores();
        std::thread::scope(|scope| {
            let parts: Vec<_> = (0..workers)
                .map(|worker| {
                    scope.spawn(move || {
                        let serials = (count * worker / workers)..(count * (worker + 1) / workers);
                        let mut random = Random::new(99 + worker as u64);
                        serials.map(|serial| self.key(serial, &mut random)).collect::<Vec<String>>()
                    })
                })
                .collect();
            parts.into_iter().flat_map(|part| part.join().unwrap_or_default()).collect()
        })
    }

    fn key(self, serial: usize, random: &mut Random) -> String {
        let serial: [u8; 8] =
            std::array::from_fn(|place| b'0' + (serial / 10usize.pow(7 - place as u32) % 10) as u8);
        let chosen = match self {
            Self::Random => suffix(random.next()),
            Self::Fnv => fnv_suffix(&serial, random),
            Self::Sip => sip_suffix(&serial, random),
        };
        let mut key = String::with_capacity(16);
        key.extend(serial.iter().chain(&chosen).map(|&byte| char::from(byte)));
        key
    }
}

/// Eight letters out of four bits each, in two operations: the search makes billions of them.
fn suffix(bits: u64) -> [u8; 8] {
    ((bits & 0x0F0F_0F0F_0F0F_0F0F) + u64::from_le_bytes([b'A'; 8])).to_le_bytes()
}

fn fnv(state: u64, byte: u8) -> u64 {
    (state ^ u64::from(byte)).wrapping_mul(FNV_PRIME)
}

/// Six random characters, then a search over the last two: FNV works byte by byte, so the state before
/// them is reused.
fn fnv_suffix(serial: &[u8; 8], random: &mut Random) -> [u8; 8] {
    loop {
        let mut chosen = suffix(random.next());
        let before = serial.iter().chain(&chosen[..6]).fold(FNV_OFFSET, |state, &byte| fnv(state, byte));
        for &second_last in ALPHABET {
            let state = fnv(before, second_last);
            // Multiplying by an odd number keeps zero low bits zero: the last byte must cancel the low
            // sixteen bits, so the upper eight of them must be zero already.
            if state & 0xFF00 == 0 && ALPHABET.contains(&(state as u8)) {
                chosen[6] = second_last;
                chosen[7] = state as u8;
                return chosen;
            }
        }
    }
}

/// Plain search, four thousand tries a key: the serial number's state is reused, and several candidates are
/// hashed side by side.
fn sip_suffix(serial: &[u8; 8], random: &mut Random) -> [u8; 8] {
    let prefix = sip_block(SIP_START, u64::from_le_bytes(*serial));
    loop {
        let candidates: [[u8; 8]; LANES] = std::array::from_fn(|_| suffix(random.next()));
        let hashes = sip_finish(prefix, candidates.map(u64::from_le_bytes));
        if let Some(found) = hashes.iter().position(|hash| hash & 0xFFF == 0) {
            return candidates[found];
        }
    }
}

const LANES: usize = 4;

/// The state of SipHash under a zero key.
const SIP_START: [u64; 4] =
    [0x736F_6D65_7073_6575, 0x646F_7261_6E64_6F6D, 0x6C79_6765_6E65_7261, 0x7465_6462_7974_6573];

#[inline(always)]
fn sip_round([mut a, mut b, mut c, mut d]: [u64; 4]) -> [u64; 4] {
    a = a.wrapping_add(b);
    b = b.rotate_left(13) ^ a;
    a = a.rotate_left(32);
    c = c.wrapping_add(d);
    d = d.rotate_left(16) ^ c;
    a = a.wrapping_add(d);
    d = d.rotate_left(21) ^ a;
    c = c.wrapping_add(b);
    b = b.rotate_left(17) ^ c;
    c = c.rotate_left(32);
    [a, b, c, d]
}

#[inline(always)]
fn sip_block([a, b, c, d]: [u64; 4], word: u64) -> [u64; 4] {
    let [a, b, c, d] = sip_round([a, b, c, d ^ word]);
    [a ^ word, b, c, d]
}

/// SipHash-1-3 of sixteen bytes, for several choices of the last eight.
#[inline(always)]
fn sip_finish(prefix: [u64; 4], words: [u64; LANES]) -> [u64; LANES] {
    const LENGTH: u64 = 16 << 56;
    let mut lanes = words.map(|word| sip_block(sip_block(prefix, word), LENGTH));
    for lane in &mut lanes {
        lane[2] ^= 0xFF;
    }
    for _ in 0..3 {
        lanes = lanes.map(sip_round);
    }
    lanes.map(|[a, b, c, d]| a ^ b ^ c ^ d)
}

#[cfg(test)]
mod tests {
    use super::*;
    use siphasher::sip::SipHasher13;
    use std::collections::HashSet;

    fn check(choice: Choice, bucket: impl Fn(&[u8]) -> u64) {
        let keys = choice.keys(50);
        assert_eq!(keys.iter().collect::<HashSet<_>>().len(), 50);
        assert!(keys.iter().all(|key| key.len() == 16 && bucket(key.as_bytes()) == 0));
    }

    #[test]
    fn chosen_keys_collide() {
        check(Choice::Random, |_| 0);
        check(Choice::Fnv, |key| key.iter().fold(FNV_OFFSET, |state, &byte| fnv(state, byte)) & 0xFFFF);
        check(Choice::Sip, |key| SipHasher13::new().hash(key) & 0xFFF);
    }
}
