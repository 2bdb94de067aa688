//! Keys: who is limited by what, as 128 bits that say nothing about either.
//!
//! A key is made in two steps. The [`Secret`] and a limit's identity (its id, algorithm, period and unit) give a
//! [`LimitKey`]; the limit key and the subject's parts give a [`Key`]: several parts each with its length before
//! it, a single one as it stands and under a hash key of its own, so that it meets no list of parts. Both steps
//! are SipHash-1-3 with a 128-bit result, a keyed pseudo-random function: without the secret nobody can
//! choose two subjects that collide, tell a subject from its key, or aim at one shard of a table.
//!
//! Because the limit is inside the hash key, no subject of one limit can meet a subject of another.

mod limit_id;
mod partition;
mod words;

use std::fmt;
use std::hash::Hasher;

use siphasher::sip128::{Hasher128, SipHasher13};

use crate::algorithm::Algorithm;
use crate::rate::Unit;
use partition::Partitions;
pub(crate) use words::{Absorbing, WordHasher};

pub use limit_id::{LimitId, LimitIdError};
pub use partition::Partition;

/// The secret behind every key. Its `Debug` form never shows it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    words: [u64; 2],
    /// True if keys are given their partitions.
    partitions: bool,
}

/// A limit's identity, ready to make the keys of its subjects.
#[derive(Clone)]
pub struct LimitKey {
    /// For subjects of one part. Keyed already: copying a hasher is cheaper than keying it anew.
    one: SipHasher13,
    /// For subjects of several parts.
    several: WordHasher,
    tag: u64,
    /// For stores that need it; others would pay for a hash that they ignore.
    partitions: Option<Partitions>,
}

/// One subject under one limit: what a store keeps state for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// The halves of the hash: as one number it would be aligned to 16 bytes, and a step would carry gaps.
    high: u64,
    low: u64,
    /// The limit, and above it the partition.
    limit: u64,
}

/// The bits of a key's last word that name its limit; those above name its partition.
const LIMIT_BITS: u32 = 48;
const LIMIT: u64 = (1 << LIMIT_BITS) - 1;

impl Secret {
    /// Makes a secret from 16 random bytes.
    #[must_use]
    pub fn new(bytes: [u8; 16]) -> Self {
        let [low, high] = halves(u128::from_le_bytes(bytes));
        Self { words: [low, high], partitions: false }
    }

    /// The same secret, whose keys know their partitions: for stores that are [partitioned](crate::Store::is_partitioned).
    #[must_use]
    pub const fn partitioning(self) -> Self {
        Self { partitions: true, ..self }
    }

    /// Makes a secret of a text that was drawn at random: the same on every node that has the text.
    #[must_use]
    pub fn from_text(text: &str) -> Self {
        let mut hasher = SipHasher13::new_with_keys(0, 0);
        feed(&mut hasher, b"secret");
        feed(&mut hasher, text.as_bytes());
        let hash = hasher.finish128();
        Self { words: [hash.h1, hash.h2], partitions: false }
    }

    /// A hash of words for a purpose that no limit has.
    pub(crate) fn words_for(&self, purpose: &[u8]) -> WordHasher {
        let mut hasher = SipHasher13::new_with_keys(self.words[0], self.words[1]);
        feed(&mut hasher, b"purpose");
        feed(&mut hasher, purpose);
        let hash = hasher.finish128();
        WordHasher::new(hash.h1, hash.h2)
    }

    /// The key maker of the limit called `id` that counts `unit`s by `algorithm`.
    ///
    /// Count and burst are left out on purpose: a limit whose numbers change keeps its consumption, one whose
    /// algorithm, period or unit changes is another limit.
    #[must_use]
    pub fn limit_key(&self, id: &LimitId, algorithm: &Algorithm, unit: Unit) -> LimitKey {
        let derive = |purpose: &[u8]| {
            let mut hasher = SipHasher13::new_with_keys(self.words[0], self.words[1]);
            feed(&mut hasher, purpose);
            feed(&mut hasher, id.as_str().as_bytes());
            feed(&mut hasher, algorithm.kind().name().as_bytes());
            feed(&mut hasher, &algorithm.period().as_micros().to_le_bytes());
            feed(&mut hasher, unit.name().as_bytes());
            let hash = hasher.finish128();
            (hash.h1, hash.h2)
        };
        let (one, several) = (derive(b"one"), derive(b"several"));
        LimitKey {
            one: SipHasher13::new_with_keys(one.0, one.1),
            several: WordHasher::new(several.0, several.1),
            tag: derive(b"tag").0 & LIMIT,
            partitions: self.partitions.then(|| Partitions::new(self.words_for(b"partitions"))),
        }
    }
}

impl LimitKey {
    /// The key of the subject made of `parts`.
    #[must_use]
    #[inline]
    pub fn key(&self, parts: impl Parts) -> Key {
        let hash = match parts.only() {
            Some(part) => self.one.hash(part),
            None => return self.key_of(&Subject::new(parts)),
        };
        let key = Key { high: hash.h2, low: hash.h1, limit: self.tag };
        match &self.partitions {
            None => key,
            Some(partitions) => key.within(partitions.of(Subject::new(parts).words())),
        }
    }
}

impl LimitKey {
    /// The key of a subject whose parts were joined before.
    #[must_use]
    #[inline(always)]
    pub fn key_of(&self, subject: &Subject) -> Key {
        let [low, high] = self.several.hash(subject.words());
        let key = Key { high, low, limit: self.tag };
        match &self.partitions {
            None => key,
            Some(partitions) => key.within(partitions.of(subject.words())),
        }
    }
}

/// The parts of a subject's name in one piece, each behind its length: joined once, hashed for several limits.
///
/// Kept in words of eight bytes, each written and read as a whole: a processor that has to gather a word from several
/// recent writes stands still for as long as a hash takes.
#[derive(Clone, Debug)]
pub struct Subject {
    here: [u64; ROOM],
    /// How many words there are; past `ROOM` all of them are in `spilled`.
    length: usize,
    spilled: Vec<u64>,
}

/// Words enough for most subjects.
const ROOM: usize = 12;

impl Subject {
    /// Joins `parts`.
    #[must_use]
    pub fn new(parts: impl Parts) -> Self {
        let mut subject = Self::default();
        parts.feed(&mut |part| subject.push(part));
        subject
    }

    /// Adds a part at the end.
    #[inline]
    pub fn push(&mut self, part: &[u8]) {
        self.push_marked(0, part);
    }

    /// Adds a part with a mark that says what it is.
    #[inline(always)]
    pub fn push_marked(&mut self, mark: u8, part: &[u8]) {
        each_marked_word(mark, part, |word| self.write(word));
    }

    /// Makes room for another subject.
    #[inline]
    pub fn clear(&mut self) {
        self.length = 0;
    }

    #[inline]
    fn write(&mut self, word: u64) {
        match self.here.get_mut(self.length) {
            Some(place) => *place = word,
            None => self.spill(word),
        }
        self.length += 1;
    }

    #[cold]
    fn spill(&mut self, word: u64) {
        if self.length == ROOM {
            self.spilled.clear();
            self.spilled.extend(self.here);
        }
        self.spilled.push(word);
    }

    #[inline]
    pub(crate) fn words(&self) -> &[u64] {
        self.here.get(..self.length).unwrap_or(&self.spilled)
    }
}

/// Hands a part with its mark to `sink`, as words: first what it is and how long, then the part itself.
#[inline(always)]
pub(crate) fn each_marked_word(mark: u8, part: &[u8], mut sink: impl FnMut(u64)) {
    // No part is as long as 2⁵⁶ bytes.
    sink(u64::from(mark) << 56 | part.len() as u64);
    each_word(part, sink);
}

/// Hands `bytes` to `sink`, eight in a word, the last one with zeros behind what there is.
#[inline(always)]
pub fn each_word(bytes: &[u8], mut sink: impl FnMut(u64)) {
    let (words, rest) = bytes.as_chunks();
    words.iter().for_each(|word| sink(u64::from_le_bytes(*word)));
    if !rest.is_empty() {
        sink(last_word(rest));
    }
}

/// Fewer than eight bytes as one word, with zeros behind them: the part's length says where it ends.
#[inline]
fn last_word(rest: &[u8]) -> u64 {
    match rest {
        [] => 0,
        [a] => u64::from(*a),
        [a, b] => u64::from(u16::from_le_bytes([*a, *b])),
        [a, b, c] => u64::from(u32::from_le_bytes([*a, *b, *c, 0])),
        _ => {
            let (first, last) = (rest.first_chunk(), rest.last_chunk());
            let word = |four: Option<&[u8; 4]>| four.map_or(0, |four| u64::from(u32::from_le_bytes(*four)));
            // Four bytes from each end: where they overlap they agree.
            word(first) | word(last) << (8 * (rest.len() - 4))
        }
    }
}

impl Default for Subject {
    #[inline]
    fn default() -> Self {
        Self { here: [0; ROOM], length: 0, spilled: Vec::new() }
    }
}

impl PartialEq for Subject {
    fn eq(&self, other: &Self) -> bool {
        self.words() == other.words()
    }
}

impl Eq for Subject {}

/// A length and then the bytes, so that no two lists of parts read the same.
fn feed(hasher: &mut SipHasher13, part: &[u8]) {
    hasher.write_u64(part.len() as u64);
    hasher.write(part);
}

impl Key {
    /// A key from its numbers, for stores that read keys back and for tests.
    #[must_use]
    pub const fn from_raw(hash: u128, limit: u64) -> Self {
        let [low, high] = halves(hash);
        Self { high, low, limit: limit & LIMIT }
    }

    /// The key of something else that goes with this one, such as its grace: each `purpose` gives another key.
    #[must_use]
    pub const fn beside(&self, purpose: u64) -> Self {
        // A bijection of hashes: keys that differ stay different, and the hash is too wide to meet another by chance.
        let high = self.high ^ purpose.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        Self { high, low: self.low.wrapping_add(purpose.rotate_left(32)), limit: self.limit }
    }

    /// The 128-bit hash of limit and subject: the whole identity.
    #[must_use]
    pub const fn hash(&self) -> u128 {
        (self.high as u128) << 64 | self.low as u128
    }

    /// Which limit this key belongs to, for what a store keeps per limit. Not needed to tell keys apart.
    #[must_use]
    pub const fn limit(&self) -> u64 {
        self.limit & LIMIT
    }

    /// What the key belongs together with where a backend cannot be atomic over everything.
    #[must_use]
    pub const fn partition(&self) -> Partition {
        Partition((self.limit >> LIMIT_BITS) as u16)
    }

    /// The same key within a partition. A key must always be given the same one: it says where its state is.
    #[must_use]
    pub const fn within(self, partition: Partition) -> Self {
        Self { limit: self.limit & LIMIT | (partition.0 as u64) << LIMIT_BITS, ..self }
    }

    /// The hash as its low and high half.
    #[must_use]
    pub const fn halves(&self) -> [u64; 2] {
        [self.low, self.high]
    }
}

#[expect(clippy::cast_possible_truncation, reason = "each half is cut out on purpose")]
const fn halves(wide: u128) -> [u64; 2] {
    [wide as u64, (wide >> 64) as u64]
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl fmt::Debug for LimitKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LimitKey({:016x})", self.tag)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({:032x})", self.hash())
    }
}

/// One part of a subject's name.
pub trait Part {
    /// Its bytes.
    fn bytes(&self) -> &[u8];
}

/// What names a subject: one part (`"alice"`) or several (`("acme", "alice")`, or a slice of parts).
pub trait Parts {
    /// Hands every part to `sink`, in order.
    fn feed(&self, sink: &mut impl FnMut(&[u8]));

    /// The part, if there is one only.
    fn only(&self) -> Option<&[u8]>;
}

macro_rules! part {
    ($($type:ty)+) => {$(
        impl Part for $type {
            #[inline]
            fn bytes(&self) -> &[u8] {
                self.as_ref()
            }
        }

        impl Parts for $type {
            #[inline]
            fn feed(&self, sink: &mut impl FnMut(&[u8])) {
                sink(self.bytes());
            }

            #[inline]
            fn only(&self) -> Option<&[u8]> {
                Some(self.bytes())
            }
        }
    )+};
}

part! { &str &String String &[u8] Vec<u8> }

impl<P: Part> Parts for &[P] {
    #[inline]
    fn feed(&self, sink: &mut impl FnMut(&[u8])) {
        self.iter().for_each(|part| sink(part.bytes()));
    }

    #[inline]
    fn only(&self) -> Option<&[u8]> {
        match self {
            [part] => Some(part.bytes()),
            _ => None,
        }
    }
}

impl<A: Part, B: Part> Parts for (A, B) {
    #[inline]
    fn feed(&self, sink: &mut impl FnMut(&[u8])) {
        sink(self.0.bytes());
        sink(self.1.bytes());
    }

    #[inline]
    fn only(&self) -> Option<&[u8]> {
        None
    }
}

impl<A: Part, B: Part, C: Part> Parts for (A, B, C) {
    #[inline]
    fn feed(&self, sink: &mut impl FnMut(&[u8])) {
        sink(self.0.bytes());
        sink(self.1.bytes());
        sink(self.2.bytes());
    }

    #[inline]
    fn only(&self) -> Option<&[u8]> {
        None
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn limit(secret: u8, id: &str, rate: &str) -> LimitKey {
        let algorithm = Algorithm::token_bucket(&rate.parse().unwrap()).unwrap();
        Secret::new([secret; 16]).limit_key(&LimitId::new(id).unwrap(), &algorithm, Unit::Requests)
    }

    #[test]
    fn parts_never_run_into_each_other() {
        let limit = limit(1, "api", "1/s");
        let keys = [
            limit.key(("a", "b:c")),
            limit.key(("a:b", "c")),
            limit.key("a:b:c"),
            limit.key(("ab", "c")),
            limit.key(("a", "bc")),
            limit.key(("a", "b", "c")),
            limit.key(("", "abc")),
            limit.key(("abc", "")),
            limit.key("abc"),
            limit.key("abc\0"),
            limit.key(""),
            limit.key("\x03\0\0\0\0\0\0\0abc"),
            limit.key(&["", ""][..]),
        ];
        assert_eq!(HashSet::from(keys).len(), keys.len());
        assert_eq!(limit.key("abc"), limit.key(&["abc"][..]), "one part is one part");
    }

    #[test]
    fn every_byte_of_every_length_counts() {
        let limit = limit(1, "api", "1/s");
        let mut seen = HashSet::new();
        for length in 0..200 {
            let name = vec![b'x'; length];
            assert!(seen.insert(limit.key((name.clone(), "y"))), "length {length}");
            for at in 0..length {
                let mut other = name.clone();
                other[at] = b'z';
                assert!(seen.insert(limit.key((other, "y"))), "byte {at} of {length}");
            }
        }
    }

    #[test]
    fn the_limit_and_the_secret_are_inside() {
        let base = limit(1, "api", "100/min").key("alice");
        assert_ne!(base, limit(1, "ap", "100/min").key("alice"), "another id");
        assert_ne!(base, limit(1, "api", "100/hour").key("alice"), "another period");
        assert_ne!(base, limit(2, "api", "100/min").key("alice"), "another secret");
        assert_eq!(base, limit(1, "api", "200/min burst 7").key("alice"), "new numbers, same limit");
    }

    #[test]
    fn a_limit_id_fits_into_a_header() {
        assert!(LimitId::new("login").is_ok());
        for bad in ["", "two words", "quote\"", "back\\slash", "naïve", "line\n", &"x".repeat(65)] {
            assert!(LimitId::new(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_secret_never_prints_itself() {
        assert_eq!(format!("{:?}", Secret::new([7; 16])), "Secret(..)");
    }
}
