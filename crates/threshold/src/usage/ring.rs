//! Rings: what the decisions of one thread hand over to the one that adds up, in memory of a fixed size.
//!
//! One thread writes and one reads, and neither waits for the other: both only load and store. A lock would do it as well,
//! but its atomic exchange waits for all that the decision has stored before, which is most of what it would cost.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use smallvec::SmallVec;
use threshold_core::{MAX_STEPS, SubjectId, SubjectKey, SubjectKind, Timestamp, each_word};

use super::block::Block;
use super::shape::{self, Shapes};
use super::{Noted, People, Whose};
use crate::engine::Names;

/// How many words a ring has: 1 MiB. A decision over four layers takes about seven of them.
const WORDS: usize = 1 << 17;
const MASK: u64 = WORDS as u64 - 1;
/// The kinds of so many subjects are in one word.
const KINDS: usize = 16;
/// No decision takes more words.
const LONGEST: u64 = (5 + NAMES + 3 * MAX_STEPS + 3 * MAX_STEPS) as u64;
/// Names that are longer together are hashed at once.
const NAMES: usize = 64;
/// How many words are written between two looks at a reader that is behind.
const LOOK: u64 = WORDS as u64 / 32;
const _: () = assert!(LONGEST + LOOK < WORDS as u64 / 4);
const _: () = assert!(MAX_STEPS <= 1 << 12 && SubjectKind::ALL.len() <= 16);

/// The words between two threads. What each of them writes is in lines of memory of its own.
pub(super) struct Ring {
    words: Box<[AtomicU64]>,
    /// True while some thread writes here, and no other may.
    claimed: AtomicBool,
    writer: Writer,
    reader: Reader,
}

#[repr(align(128))]
#[derive(Default)]
struct Writer {
    /// How many words were ever written.
    tail: AtomicU64,
    /// How many of them were read, as far as the writer knows.
    read: AtomicU64,
    /// Where it looks again.
    look: AtomicU64,
    /// Counts for which there was no room, since ever.
    dropped: AtomicU64,
}

#[repr(align(128))]
#[derive(Default)]
struct Reader {
    /// How many words were ever read.
    head: AtomicU64,
    /// How much of what was dropped has been told.
    told: AtomicU64,
    /// Nobody waits for it: one thread reads at a time.
    shapes: Mutex<Shapes>,
}

/// What a decision came to, and how many words of what kind follow, as one word.
#[derive(Clone, Copy)]
struct Head(u64);

impl Ring {
    pub(super) fn new() -> Self {
        Self {
            words: (0..WORDS).map(|_| AtomicU64::new(0)).collect(),
            claimed: AtomicBool::new(false),
            writer: Writer::default(),
            reader: Reader::default(),
        }
    }

    /// True if nobody else writes here from now on.
    pub(super) fn claim(&self) -> bool {
        self.claimed.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Another may write here. What the last one has written is seen by the next.
    pub(super) fn release(&self) {
        self.claimed.store(false, Ordering::Release);
    }

    /// Writes down one decision, or counts it as dropped. True if the ring is half full, so that somebody should read. Only
    /// for who has [claimed](Self::claim) it, with the shapes that it has written here since then.
    #[inline]
    pub(super) fn write(&self, noted: &Noted<'_>, shapes: &mut Shapes) -> bool {
        let writer = &self.writer;
        let tail = writer.tail.load(Ordering::Relaxed);
        let mut much = false;
        if !noted.is_sound() {
            self.drop_counts(noted);
            return false;
        }
        if tail >= writer.look.load(Ordering::Relaxed) {
            much = self.look(tail);
            let used = tail - writer.read.load(Ordering::Relaxed);
            if used + Head::most_words(noted) > WORDS as u64 {
                self.drop_counts(noted);
                return much;
            }
        }
        let mut place = tail;
        let mut put = |word: u64| {
            self.words[(place & MASK) as usize].store(word, Ordering::Relaxed);
            place += 1;
        };
        let known = shapes.knows(noted.met);
        put(noted.at.as_micros());
        put(Head::new(noted, known).0);
        if let Some(cost) = noted.whole.filter(|cost| *cost != 1) {
            put(cost);
        }
        if noted.times != 1 {
            put(u64::from(noted.times));
        }
        if !known {
            put(noted.met.place() as u64);
            noted.met.words().iter().for_each(|word| put(*word));
        }
        match noted.whose {
            Whose::People(people) => people.write(&mut put),
            Whose::Ids(ids) => write_ids(ids, &mut put),
        }
        writer.tail.store(place, Ordering::Release);
        much
    }

    #[cold]
    fn drop_counts(&self, noted: &Noted<'_>) {
        let dropped = self.writer.dropped.load(Ordering::Relaxed);
        self.writer.dropped.store(dropped + noted.counts(), Ordering::Relaxed);
    }

    /// Looks how far the reader is, and says when to look again: its lines of memory are far away. True if half of the ring
    /// is full.
    #[cold]
    fn look(&self, tail: u64) -> bool {
        let read = self.reader.head.load(Ordering::Acquire);
        self.writer.read.store(read, Ordering::Relaxed);
        let half = read + WORDS as u64 / 2;
        // As long as what follows surely fits.
        let sure = (tail + LOOK).min(read + WORDS as u64 - LONGEST);
        self.writer.look.store(half.max(sure), Ordering::Relaxed);
        tail >= half
    }

    /// How many words were ever written.
    pub(super) fn written(&self) -> u64 {
        self.writer.tail.load(Ordering::Acquire)
    }

    /// Reads on, up to word `until` or as much as fits into `block`; false if there was nothing. Only for one thread at a
    /// time.
    pub(super) fn read(&self, until: u64, key: Option<&SubjectKey>, block: &mut Block) -> bool {
        let begun = self.reader.head.load(Ordering::Relaxed);
        let mut shapes = self.reader.shapes.lock().unwrap_or_else(PoisonError::into_inner);
        let mut reading = Reading { ring: self, place: begun, key, shapes: &mut shapes };
        while reading.place < until && block.has_room() {
            reading.decision(block);
        }
        self.reader.head.store(reading.place, Ordering::Release);
        reading.place > begun
    }

    /// How many counts found no room since the last time. Only for one thread at a time.
    pub(super) fn dropped(&self) -> u64 {
        let dropped = self.writer.dropped.load(Ordering::Relaxed);
        let told = self.reader.told.load(Ordering::Relaxed);
        self.reader.told.store(dropped, Ordering::Relaxed);
        dropped - told
    }
}

/// Somewhere in a ring.
struct Reading<'a> {
    ring: &'a Ring,
    place: u64,
    key: Option<&'a SubjectKey>,
    shapes: &'a mut Shapes,
}

impl Reading<'_> {
    fn next(&mut self) -> u64 {
        let word = self.ring.words[(self.place & MASK) as usize].load(Ordering::Relaxed);
        self.place += 1;
        word
    }

    fn decision(&mut self, block: &mut Block) {
        let (at, head) = (Timestamp::from_micros(self.next()), Head(self.next()));
        let whole = head.has(Head::WHOLE).then(|| if head.has(Head::COST) { self.next() } else { 1 });
        let times = if head.has(Head::TIMES) { self.next() as u32 } else { 1 };
        let mets = self.shape(head, block);
        let subjects = match head.has(Head::PEOPLE) {
            true => self.people(head, block),
            false => self.ids(head.ids(), block),
        };
        block.push((at, head.has(Head::ALLOWED), times), whole, (subjects, mets));
    }

    /// The limits that were met; says how many they are.
    fn shape(&mut self, head: Head, block: &mut Block) -> usize {
        let before = block.mets();
        if head.has(Head::KNOWN) {
            shape::read(self.shapes.at(head.shape())).for_each(|met| block.push_met(met));
        } else {
            let place = self.next() as usize;
            let words: SmallVec<[u64; 24]> = (0..head.shape()).map(|_| self.next()).collect();
            self.shapes.keep(place, &words);
            shape::read(&words).for_each(|met| block.push_met(met));
        }
        block.mets() - before
    }

    fn ids(&mut self, many: usize, block: &mut Block) -> usize {
        let mut left = many;
        while left > 0 {
            let mut kinds = self.next();
            for _ in 0..left.min(KINDS) {
                let kind = SubjectKind::ALL[(kinds & 15) as usize % SubjectKind::ALL.len()];
                kinds >>= 4;
                let hash = [self.next(), self.next()];
                block.push_subject(SubjectId::from_raw(kind, hash));
            }
            left = left.saturating_sub(KINDS);
        }
        many
    }

    /// Client, address and tenant: always all three.
    fn people(&mut self, head: Head, block: &mut Block) -> usize {
        let [address, tenant, user] = head.lengths().map(|length| self.bytes(length));
        let Some(names) = self.key.map(Names) else {
            // Nobody hands over people without a key.
            return 0;
        };
        let of_address = names.address(&address);
        let client = if head.has(Head::USER) { names.user(&tenant, &user) } else { of_address };
        let of_tenant = if head.has(Head::TENANT) { names.tenant(&tenant) } else { client };
        [client, of_address, of_tenant].into_iter().for_each(|id| block.push_subject(id));
        3
    }

    fn bytes(&mut self, length: usize) -> SmallVec<[u8; 64]> {
        let mut bytes = SmallVec::new();
        for _ in 0..length.div_ceil(8) {
            bytes.extend_from_slice(&self.next().to_le_bytes());
        }
        bytes.truncate(length);
        bytes
    }
}

impl People<'_> {
    /// True if their names are short enough to be handed over.
    #[inline]
    pub(super) fn are_short(&self) -> bool {
        let length = |name: Option<&str>| name.map_or(0, str::len);
        length(self.tenant) + length(self.user) <= 8 * NAMES - 64
    }

    #[inline]
    fn write(&self, put: &mut impl FnMut(u64)) {
        for name in self.names() {
            each_word(name, &mut *put);
        }
    }

    /// The address, the tenant and the user; nothing for who is not there.
    #[inline]
    fn names(&self) -> [&[u8]; 3] {
        let (tenant, user) = (self.tenant.unwrap_or_default(), self.user.unwrap_or_default());
        [self.address.as_bytes(), tenant.as_bytes(), user.as_bytes()]
    }

    /// The same by their ids: client, address and tenant.
    pub(super) fn ids(&self, key: &SubjectKey) -> [SubjectId; 3] {
        let (names, tenant) = (Names(key), self.tenant.unwrap_or_default().as_bytes());
        let address = names.address(self.address.as_bytes());
        let client = self.user.map_or(address, |user| names.user(tenant, user.as_bytes()));
        [client, address, self.tenant.map_or(client, |tenant| names.tenant(tenant.as_bytes()))]
    }
}

impl Noted<'_> {
    /// True if it is about somebody, and about no more than one operation of a store: the reader relies on that.
    #[inline]
    const fn is_sound(&self) -> bool {
        let somebody = match self.whose {
            Whose::People(_) => true,
            Whose::Ids(ids) => !ids.is_empty() && ids.len() <= MAX_STEPS,
        };
        somebody && self.met.len() <= MAX_STEPS
    }
}

#[inline]
fn write_ids(ids: &[SubjectId], put: &mut impl FnMut(u64)) {
    for ids in ids.chunks(KINDS) {
        put(ids.iter().rev().fold(0, |kinds, id| kinds << 4 | id.kind() as u64));
        for [low, high] in ids.iter().map(SubjectId::halves) {
            put(low);
            put(high);
        }
    }
}

/// Bits 0 to 7: what there is; 8 to 21: where the shape is known, or else how many words it has; from 24 on: how many ids, or how long
/// the names of people are, in 10 bits each.
impl Head {
    const ALLOWED: u64 = 1;
    /// It is a whole request.
    const WHOLE: u64 = 1 << 1;
    /// What it costs follows; or else it is one.
    const COST: u64 = 1 << 2;
    /// How many times it was follows; or else it was once.
    const TIMES: u64 = 1 << 3;
    /// The shape is known.
    const KNOWN: u64 = 1 << 4;
    /// It is about people by their names.
    const PEOPLE: u64 = 1 << 5;
    const TENANT: u64 = 1 << 6;
    const USER: u64 = 1 << 7;

    /// No more words than these for one decision.
    fn most_words(noted: &Noted<'_>) -> u64 {
        let ids = if let Whose::Ids(ids) = noted.whose { ids.len() } else { 0 };
        (5 + NAMES + 3 * ids + noted.met.words().len()) as u64
    }

    #[inline]
    fn new(noted: &Noted<'_>, known: bool) -> Self {
        let flag = |there: bool, flag: u64| if there { flag } else { 0 };
        let shape = if known { noted.met.place() } else { noted.met.words().len() };
        let (people, subjects) = match noted.whose {
            Whose::Ids(ids) => (0, ids.len()),
            Whose::People(people) => {
                let there =
                    flag(people.tenant.is_some(), Self::TENANT) | flag(people.user.is_some(), Self::USER);
                let [address, tenant, user] = people.names().map(<[u8]>::len);
                (Self::PEOPLE | there, address | tenant << 10 | user << 20)
            }
        };
        Self(
            flag(noted.allowed, Self::ALLOWED)
                | flag(noted.whole.is_some(), Self::WHOLE)
                | flag(noted.whole.is_some_and(|cost| cost != 1), Self::COST)
                | flag(noted.times != 1, Self::TIMES)
                | flag(known, Self::KNOWN)
                | people
                | (shape as u64) << 8
                | (subjects as u64) << 24,
        )
    }

    const fn has(self, flag: u64) -> bool {
        self.0 & flag != 0
    }

    const fn shape(self) -> usize {
        (self.0 >> 8 & 0x3fff) as usize
    }

    const fn ids(self) -> usize {
        (self.0 >> 24) as usize
    }

    fn lengths(self) -> [usize; 3] {
        [24, 34, 44].map(|from| (self.0 >> from & 0x3ff) as usize)
    }
}
