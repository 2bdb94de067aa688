//! Tracks: who asked for what and when, as few bytes for each request, of whole subjects.
//!
//! While there is room everybody is kept. Then one subject in two is, and so on, chosen by a hash: of those that are kept
//! everything is known, so that what a limit would do to them is exact.

use std::collections::HashMap;
use std::hash::Hasher as _;

use siphasher::sip::SipHasher13;
use threshold::Timestamp;

use super::patterns::PatternId;
use crate::request::short;

/// What a subject takes beside its requests.
const EACH: usize = 128;

/// All that is kept of one kind of subjects.
pub(super) struct Tracks {
    subjects: HashMap<u64, Track>,
    /// One in 2 to this power is kept.
    level: u32,
    bytes: usize,
    most_bytes: usize,
    /// Requests that have such a subject, kept or not.
    pub(super) requests: u64,
    /// Those of subjects that are kept, for which there was no room.
    pub(super) cut_short: u64,
}

/// A subject may take one part in so many of the room: whoever asks for more is known from its beginning only, and does not
/// drive out everybody else.
const PART: usize = 8;

/// The requests of one subject: for each the microseconds since the last, and its pattern.
pub(super) struct Track {
    pub(super) name: Box<str>,
    last: u64,
    bytes: Vec<u8>,
}

/// One request of a track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) at: Timestamp,
    pub(super) pattern: PatternId,
}

impl Tracks {
    pub(super) fn new(most_bytes: usize) -> Self {
        Self { subjects: HashMap::new(), level: 0, bytes: 0, most_bytes, requests: 0, cut_short: 0 }
    }

    /// Remembers one request of the subject called `name`. Whatever comes before what came last comes at the same time.
    pub(super) fn add(&mut self, name: &str, asked: Asked) {
        self.requests += 1;
        let hash = hash(name);
        if !is_of(hash, self.level) {
            return;
        }
        let track = self.subjects.entry(hash).or_insert_with(|| {
            self.bytes += EACH;
            Track { name: short(name).into(), last: 0, bytes: Vec::new() }
        });
        if track.bytes.len() > self.most_bytes / PART {
            self.cut_short += 1;
            return;
        }
        let (before, at) = (track.bytes.capacity(), asked.at.as_micros().max(track.last));
        write(&mut track.bytes, at - track.last);
        write(&mut track.bytes, asked.pattern.into());
        track.last = at;
        self.bytes += track.bytes.capacity() - before;
        while self.bytes > self.most_bytes && self.level < 40 {
            self.drop_half();
        }
    }

    /// Those that are kept are one in so many.
    pub(super) const fn one_in(&self) -> u64 {
        1 << self.level
    }

    /// Everybody who is kept, by name.
    pub(super) fn sorted(&self) -> Vec<&Track> {
        let mut all: Vec<&Track> = self.subjects.values().collect();
        all.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        all
    }

    fn drop_half(&mut self) {
        self.level += 1;
        let level = self.level;
        self.subjects.retain(|hash, _| is_of(*hash, level));
        self.bytes = self.subjects.values().map(|track| EACH + track.bytes.capacity()).sum();
    }
}

impl Track {
    /// The requests, by their times.
    pub(super) fn asked(&self) -> impl Iterator<Item = Asked> {
        let (mut rest, mut at) = (self.bytes.as_slice(), 0);
        std::iter::from_fn(move || {
            at += read(&mut rest)?;
            let pattern = PatternId::try_from(read(&mut rest)?).ok()?;
            Some(Asked { at: Timestamp::from_micros(at), pattern })
        })
    }
}

/// A number for a name, the same on every machine.
fn hash(name: &str) -> u64 {
    let mut hasher = SipHasher13::new_with_keys(0x7468_7265_7368_6f6c, 0x6420_7265_636f_6d6d);
    hasher.write(name.as_bytes());
    hasher.finish()
}

const fn is_of(hash: u64, level: u32) -> bool {
    hash & ((1 << level) - 1) == 0
}

/// Writes seven bits at a time, the lowest first; the eighth says that more follow.
fn write(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    bytes.push(number.to_le_bytes()[0]);
}

fn read(bytes: &mut &[u8]) -> Option<u64> {
    let (mut number, mut shift) = (0, 0);
    loop {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
        shift += 7;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(at: u64, pattern: PatternId) -> Asked {
        Asked { at: Timestamp::from_micros(at), pattern }
    }

    #[test]
    fn what_is_kept_is_read_back() {
        let mut tracks = Tracks::new(1 << 20);
        let all = [asked(5, 1), asked(1_772_409_600_000_000, 4_095), asked(1_772_409_600_000_001, 0)];
        all.iter().for_each(|one| tracks.add("a", *one));
        tracks.add("a", asked(7, 3));
        let back: Vec<Asked> = tracks.sorted()[0].asked().collect();
        assert_eq!(back[..3], all);
        assert_eq!(back[3], asked(1_772_409_600_000_001, 3));
    }

    #[test]
    fn past_its_bytes_whole_subjects_are_left_out() {
        let mut tracks = Tracks::new(64 << 10);
        for round in 0..50 {
            (0..2_000).for_each(|subject| tracks.add(&format!("s{subject}"), asked(round * 1_000, 1)));
        }
        assert!(tracks.one_in() > 1 && tracks.bytes <= 64 << 10, "{}", tracks.bytes);
        assert_eq!(tracks.requests, 100_000);
        let kept = tracks.sorted();
        assert!(kept.iter().all(|track| track.asked().count() == 50));
        let share = 2_000 / tracks.one_in();
        assert!((share / 2..share * 2).contains(&(kept.len() as u64)), "{} of {share}", kept.len());
    }
}
