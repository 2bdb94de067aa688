//! Rings: what the decisions of one thread hand over to the one that adds up, in memory of a fixed size.
//!
//! One thread writes and one reads, and neither waits for the other: both only load and store. A lock would do it as well,
//! but its atomic exchange waits for all that the decision has stored before, which is most of what it would cost.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use smallvec::SmallVec;
use threshold_core::{MAX_STEPS, Span, SubjectId, SubjectKey, SubjectKind, Timestamp, each_word};

use super::block::{Block, Given};
use super::{Met, Noted, People, Whose};
use crate::engine::Names;

/// How many words a ring has: 1 MiB. A decision over four layers takes 14 of them.
const WORDS: usize = 1 << 17;
const MASK: u64 = WORDS as u64 - 1;
/// The words that are touched before a decision is made: each is in another line than the one before.
const AHEAD: [u64; 3] = [0, 8, 16];
/// The kinds of so many subjects are in one word.
const KINDS: usize = 16;
/// No decision takes more words.
const LONGEST: u64 = (3 + NAMES + 3 * MAX_STEPS + 3 * MAX_STEPS) as u64;
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
}

/// What a decision came to, and how many words of what kind follow, as one word.
#[derive(Clone, Copy)]
struct Head(u64);

/// A limit that was met, as one word; its cost and its period follow where they are not the usual.
#[derive(Clone, Copy)]
struct Brief(u64);

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
    /// for who has [claimed](Self::claim) it.
    #[inline]
    pub(super) fn write(&self, noted: &Noted<'_>) -> bool {
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
        put(noted.at.as_micros());
        put(Head::new(noted).0);
        if let Some(cost) = noted.whole.filter(|cost| *cost != 1) {
            put(cost);
        }
        match noted.whose {
            Whose::People(people) => people.write(&mut put),
            Whose::Ids(ids) => write_ids(ids, &mut put),
        }
        for met in noted.met {
            let brief = Brief::new(met);
            put(brief.0);
            if brief.has_cost() {
                put(met.cost);
            }
            if brief.has_period() {
                put(met.period.as_micros());
            }
        }
        writer.tail.store(place, Ordering::Release);
        much
    }

    #[cold]
    fn drop_counts(&self, noted: &Noted<'_>) {
        let dropped = self.writer.dropped.load(Ordering::Relaxed);
        self.writer.dropped.store(dropped + noted.counts(), Ordering::Relaxed);
    }

    /// Writes something where the next decisions will be, which nobody reads before those: the lines of memory come here from
    /// the reader's processor, and the decision that writes them need not wait. Only for who has [claimed](Self::claim) it.
    #[inline]
    pub(super) fn touch(&self) {
        let writer = &self.writer;
        let tail = writer.tail.load(Ordering::Relaxed);
        if tail < writer.look.load(Ordering::Relaxed) {
            for ahead in AHEAD {
                self.words[((tail + ahead) & MASK) as usize].store(0, Ordering::Relaxed);
            }
        }
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
        let mut reading = Reading { ring: self, place: begun, key };
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
}

impl Reading<'_> {
    fn next(&mut self) -> u64 {
        let word = self.ring.words[(self.place & MASK) as usize].load(Ordering::Relaxed);
        self.place += 1;
        word
    }

    fn decision(&mut self, block: &mut Block) {
        let (at, head) = (Timestamp::from_micros(self.next()), Head(self.next()));
        let whole = head.is_whole().then(|| if head.has_cost() { self.next() } else { 1 });
        let subjects = match head.subjects() {
            0 => self.people(block),
            many => self.ids(many, block),
        };
        for _ in 0..head.mets() {
            let brief = Brief(self.next());
            let cost = if brief.has_cost() { self.next() } else { brief.cost() };
            let period = if brief.has_period() { Some(Span::from_micros(self.next())) } else { None };
            block.push_met(Given { limit: brief.limit(), who: brief.who(), period, cost });
        }
        block.push((at, head.is_allowed(), head.times()), whole, (subjects, head.mets()));
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
    fn people(&mut self, block: &mut Block) -> usize {
        let lengths = Lengths(self.next());
        let [address, tenant, user] = lengths.all().map(|length| self.bytes(length));
        let Some(names) = self.key.map(Names) else {
            // Nobody hands over people without a key.
            return 0;
        };
        let of_address = names.address(&address);
        let client = if lengths.has_user() { names.user(&tenant, &user) } else { of_address };
        let of_tenant = if lengths.has_tenant() { names.tenant(&tenant) } else { client };
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

/// How long the names of people are, as one word. Bits 0 to 15: the address; 16 to 31: the tenant; 32 to 47: the user; 48: there
/// is a tenant; 49: there is a user.
#[derive(Clone, Copy)]
struct Lengths(u64);

impl Lengths {
    const fn all(self) -> [usize; 3] {
        [self.0 as u16 as usize, (self.0 >> 16) as u16 as usize, (self.0 >> 32) as u16 as usize]
    }

    const fn has_tenant(self) -> bool {
        self.0 >> 48 & 1 != 0
    }

    const fn has_user(self) -> bool {
        self.0 >> 49 & 1 != 0
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
        let (tenant, user) = (self.tenant.unwrap_or_default(), self.user.unwrap_or_default());
        let lengths = self.address.as_bytes().len() | tenant.len() << 16 | user.len() << 32;
        let there = u64::from(self.tenant.is_some()) << 48 | u64::from(self.user.is_some()) << 49;
        put(lengths as u64 | there);
        for name in [self.address.as_bytes(), tenant.as_bytes(), user.as_bytes()] {
            each_word(name, &mut *put);
        }
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

/// Bit 0: allowed; 1: a whole request; 2: its cost follows; 4 to 17: how many limits; 18 to 31: how many ids, none if there are people; from
/// 32 on: how many times.
impl Head {
    /// No more words than these for one decision.
    const fn most_words(noted: &Noted<'_>) -> u64 {
        let ids = if let Whose::Ids(ids) = noted.whose { ids.len() } else { 0 };
        (3 + NAMES + 3 * ids + 3 * noted.met.len()) as u64
    }

    #[inline]
    fn new(noted: &Noted<'_>) -> Self {
        let costs = noted.whole.is_some_and(|cost| cost != 1);
        let flags = u64::from(noted.allowed) | u64::from(noted.whole.is_some()) << 1 | u64::from(costs) << 2;
        let ids = if let Whose::Ids(ids) = noted.whose { ids.len() } else { 0 };
        let (mets, subjects) = (noted.met.len() as u64, ids as u64);
        Self(flags | mets << 4 | subjects << 18 | u64::from(noted.times) << 32)
    }

    const fn is_allowed(self) -> bool {
        self.0 & 1 != 0
    }

    const fn is_whole(self) -> bool {
        self.0 & 2 != 0
    }

    const fn has_cost(self) -> bool {
        self.0 & 4 != 0
    }

    const fn mets(self) -> usize {
        (self.0 >> 4 & 0x3fff) as usize
    }

    const fn subjects(self) -> usize {
        (self.0 >> 18 & 0x3fff) as usize
    }

    const fn times(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// Bits 0 to 15: the cost, or that it follows; 16: the period follows; 17 to 30: who; from 32 on: the limit.
impl Brief {
    const COST_FOLLOWS: u64 = 0xffff;

    #[inline]
    fn new(met: &Met) -> Self {
        let period = u64::from(met.period != met.limit.period());
        let cost = met.cost.min(Self::COST_FOLLOWS);
        Self(cost | period << 16 | u64::from(met.who & 0x3fff) << 17 | u64::from(met.limit.number()) << 32)
    }

    const fn has_cost(self) -> bool {
        self.0 & Self::COST_FOLLOWS == Self::COST_FOLLOWS
    }

    const fn cost(self) -> u64 {
        self.0 & Self::COST_FOLLOWS
    }

    const fn has_period(self) -> bool {
        self.0 & 1 << 16 != 0
    }

    const fn who(self) -> u16 {
        (self.0 >> 17 & 0x3fff) as u16
    }

    const fn limit(self) -> u32 {
        (self.0 >> 32) as u32
    }
}
