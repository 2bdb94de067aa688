//! What is held against whom, as decisions read it: in memory, small, and free for those nothing is held against.
//!
//! The ledger has the whole of it; this is what a decision needs. Filters of bits answer for most subjects without a lock:
//! a subject whose bits are not all set is not here. The first is so small that it stays near the processor, and answers
//! alone as long as few are held; the second has room for all.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock};

use hashbrown::HashTable;
use threshold_core::ledger::{Sanction, SanctionKind, Standing};
use threshold_core::standing::{Ladder, Reputation, Score, Tally};
use threshold_core::{Span, SubjectId, SubjectKind, Timestamp};

/// What is held against a subject, as far as decisions need it. The default is nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// The end of each kind of sanction, in the order of [`SanctionKind::ALL`].
    ends: [Timestamp; 3],
    /// Strikes that count for the ladder.
    pub strikes: Tally,
    /// The reputation.
    pub score: Score,
}

/// Everybody that something is held against. Users and networks apart, so that where only users are held nobody looks for
/// networks, and the other way round.
pub(crate) struct Standings {
    users: Table,
    addresses: Table,
}

/// Subjects of one kind that something is held against.
struct Table {
    /// How many there are, so that nobody looks where there is nothing.
    count: AtomicUsize,
    near: Filter,
    far: Filter,
    shards: Box<[RwLock<Shard>]>,
    /// The most subjects of one shard.
    most: usize,
    /// How many could not be kept for want of room.
    dropped: AtomicUsize,
    /// True if some were dropped since somebody asked: the ledger has more than is here.
    incomplete: AtomicBool,
}

/// Which subjects there may be: some bits for each, in one word. Each shard has words of its own.
struct Filter(Box<[AtomicU64]>);

#[derive(Default)]
struct Shard {
    /// Places in `entries`: small numbers, so that growing by doubling wastes little.
    index: HashTable<u32>,
    entries: Vec<Entry>,
}

struct Entry {
    id: [u64; 2],
    held: Held,
}

/// How many sanctions are in force, in the order of [`SanctionKind::ALL`].
pub type SanctionsInForce = [u64; SanctionKind::ALL.len()];

/// What still counts, and by which rules.
#[derive(Clone, Copy)]
pub(crate) struct Counting<'a> {
    pub(crate) ladder: Option<&'a Ladder>,
    pub(crate) reputation: Option<&'a Reputation>,
    pub(crate) now: Timestamp,
}

const SHARDS: usize = 64;

/// Bits of the far filter for each subject there is room for: one in a hundred strangers has all its bits set.
const FAR_BITS: usize = 16;

/// Words of the near filter: 16 KiB, good for ten thousand subjects.
const NEAR_WORDS: usize = 1 << 11;

/// The most subjects that something is held against, unless somebody asks for more.
pub(crate) const MOST: usize = 1 << 19;

impl Held {
    /// When the sanction of that kind ends; the epoch if there is none.
    #[must_use]
    pub fn until(&self, kind: SanctionKind) -> Timestamp {
        self.ends[kind as usize]
    }

    /// What is held against one that is known by two ids, or against two that ask together: the later end of each
    /// sanction, the more strikes, the worse score.
    #[must_use]
    pub(crate) fn and(mut self, other: &Self) -> Self {
        for (end, other) in self.ends.iter_mut().zip(other.ends) {
            *end = (*end).max(other);
        }
        if self.strikes.parts() < other.strikes.parts() {
            self.strikes = other.strikes;
        }
        if self.score.parts().0 > other.score.parts().0 {
            self.score = other.score;
        }
        self
    }

    /// True if none of it counts any more.
    fn is_over(&self, counting: &Counting<'_>) -> bool {
        let Counting { ladder, reputation, now } = *counting;
        let lapse = ladder.map_or(Span::DAY, Ladder::lapse);
        let whole = reputation.is_none_or(|reputation| self.score.points(reputation, now) == 100);
        !self.is_sanctioned(now) && self.strikes.count(lapse, now) == 0 && whole
    }

    fn is_sanctioned(&self, now: Timestamp) -> bool {
        self.ends.iter().any(|end| now < *end)
    }
}

impl Standings {
    /// Room for `most` subjects of each kind.
    pub(crate) fn new(most: usize) -> Self {
        Self { users: Table::new(most), addresses: Table::new(most) }
    }

    /// False if nothing is held against anybody of that kind whose id has the lower half that `low` gives, which is not asked
    /// for in vain.
    #[inline(always)]
    pub(crate) fn may_hold(&self, kind: SubjectKind, low: impl FnOnce() -> Option<u64>) -> bool {
        let table = self.table(kind);
        !table.is_empty() && low().is_some_and(|low| table.near.may_hold(low))
    }

    /// What is held against `subject`.
    pub(crate) fn find(&self, subject: &SubjectId) -> Option<Held> {
        self.table(subject.kind()).find(subject)
    }

    /// How many there are, and how many could not be kept.
    pub(crate) fn figures(&self) -> (usize, usize) {
        let [(users, some), (addresses, others)] = [&self.users, &self.addresses].map(Table::figures);
        (users + addresses, some + others)
    }

    /// How many sanctions of each kind are in force at `now`.
    pub(crate) fn in_force(&self, now: Timestamp) -> SanctionsInForce {
        let mut all = [0; SanctionKind::ALL.len()];
        [&self.users, &self.addresses].into_iter().for_each(|table| table.add_in_force(now, &mut all));
        all
    }

    /// Takes over what a ledger says of a subject's strikes and reputation.
    pub(crate) fn stand(&self, standing: &Standing, counting: &Counting<'_>) {
        self.table(standing.subject.kind()).stand(standing, counting);
    }

    /// Takes over what a ledger says of a sanction.
    pub(crate) fn sanction(&self, sanction: &Sanction, counting: &Counting<'_>) {
        self.table(sanction.subject.kind()).sanction(sanction, counting);
    }

    /// Forgets `subject`, but for its sanctions if they are to stay.
    pub(crate) fn forget(&self, subject: SubjectId, keep_sanctions: bool, counting: &Counting<'_>) {
        self.table(subject.kind()).forget(subject, keep_sanctions, counting);
    }

    /// Forgets what counts no more.
    pub(crate) fn sweep(&self, counting: &Counting<'_>) {
        self.users.sweep(counting);
        self.addresses.sweep(counting);
    }

    /// True if some were dropped since the last time this was asked.
    pub(crate) fn take_incomplete(&self) -> bool {
        self.users.take_incomplete() | self.addresses.take_incomplete()
    }

    /// Only users and networks are ever held.
    #[inline(always)]
    const fn table(&self, kind: SubjectKind) -> &Table {
        if matches!(kind, SubjectKind::User) { &self.users } else { &self.addresses }
    }
}

impl Table {
    /// Adds how many sanctions of each kind are in force at `now`.
    fn add_in_force(&self, now: Timestamp, all: &mut SanctionsInForce) {
        for shard in &self.shards {
            for entry in &shard.read().unwrap_or_else(PoisonError::into_inner).entries {
                all.iter_mut().zip(entry.held.ends).for_each(|(count, end)| *count += u64::from(now < end));
            }
        }
    }

    /// Room for `most` subjects.
    fn new(most: usize) -> Self {
        Self {
            count: AtomicUsize::new(0),
            near: Filter::new(NEAR_WORDS),
            far: Filter::new((most * FAR_BITS).div_ceil(64).max(SHARDS).next_power_of_two()),
            shards: (0..SHARDS).map(|_| RwLock::default()).collect(),
            most: most.div_ceil(SHARDS).max(1),
            dropped: AtomicUsize::new(0),
            incomplete: AtomicBool::new(false),
        }
    }

    /// True if nothing is held against anybody.
    #[inline]
    fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// How many there are, and how many could not be kept.
    fn figures(&self) -> (usize, usize) {
        (self.count.load(Ordering::Relaxed), self.dropped.load(Ordering::Relaxed))
    }

    /// What is held against `subject`.
    fn find(&self, subject: &SubjectId) -> Option<Held> {
        let id = subject.halves();
        if !self.near.may_hold(id[0]) || !self.far.may_hold(id[0]) {
            return None;
        }
        let shard = self.shard(id).read().unwrap_or_else(PoisonError::into_inner);
        shard.place(id).map(|place| shard.entries[place].held)
    }

    /// Takes over what a ledger says of a subject's strikes and reputation.
    fn stand(&self, standing: &Standing, counting: &Counting<'_>) {
        self.change(standing.subject, counting, |held| {
            // What is read late may be older than what this process did since. Strikes that were forgiven have no time.
            let (_, last) = standing.strikes.parts();
            if last == Timestamp::default() || last >= held.strikes.last() {
                (held.strikes, held.score) = (standing.strikes, standing.score);
            }
        });
    }

    /// Takes over what a ledger says of a sanction.
    fn sanction(&self, sanction: &Sanction, counting: &Counting<'_>) {
        self.change(sanction.subject, counting, |held| {
            let end = &mut held.ends[sanction.kind as usize];
            // No end comes nearer but by being lifted; what is read late may be older than what this process did since.
            *end = if sanction.lifted.is_some() { Timestamp::default() } else { sanction.until.max(*end) };
        });
    }

    /// Forgets `subject`, but for its sanctions if they are to stay.
    fn forget(&self, subject: SubjectId, keep_sanctions: bool, counting: &Counting<'_>) {
        let id = subject.halves();
        let mut shard = self.shard(id).write().unwrap_or_else(PoisonError::into_inner);
        let Some(place) = shard.place(id) else { return };
        let ends = shard.entries[place].held.ends;
        let held = Held { ends, ..Held::default() };
        match keep_sanctions && held.is_sanctioned(counting.now) {
            true => shard.entries[place].held = held,
            false => self.keep(number(id[0]), &mut shard, |entry| entry.id != id),
        }
    }

    /// Forgets what counts no more.
    fn sweep(&self, counting: &Counting<'_>) {
        for (number, shard) in self.shards.iter().enumerate() {
            let mut shard = shard.write().unwrap_or_else(PoisonError::into_inner);
            self.keep(number, &mut shard, |entry| !entry.held.is_over(counting));
        }
    }

    /// Keeps those entries of the shard of that number for which `keep` holds.
    fn keep(&self, number: usize, shard: &mut Shard, keep: impl Fn(&Entry) -> bool) {
        let before = shard.entries.len();
        shard.keep(keep);
        if shard.entries.len() < before {
            self.near.refill(number, shard);
            self.far.refill(number, shard);
            self.count.fetch_sub(before - shard.entries.len(), Ordering::Release);
        }
    }

    fn change(&self, subject: SubjectId, counting: &Counting<'_>, change: impl FnOnce(&mut Held)) {
        let id = subject.halves();
        let mut shard = self.shard(id).write().unwrap_or_else(PoisonError::into_inner);
        let place = shard.place(id);
        let mut held = place.map_or_else(Held::default, |place| shard.entries[place].held);
        change(&mut held);
        match place {
            Some(place) => shard.entries[place].held = held,
            None if held.is_over(counting) => {}
            None => self.add(&mut shard, Entry { id, held }, counting),
        }
    }

    fn add(&self, shard: &mut Shard, entry: Entry, counting: &Counting<'_>) {
        if shard.entries.len() >= self.most && !self.make_room(shard, &entry, counting) {
            self.drop_some(1);
            return;
        }
        // First the bits: who is in the shard and not in the filter would not be found.
        self.near.add(entry.id[0]);
        self.far.add(entry.id[0]);
        shard.push(entry);
        self.count.fetch_add(1, Ordering::Release);
    }

    fn drop_some(&self, how_many: usize) {
        self.dropped.fetch_add(how_many, Ordering::Relaxed);
        self.incomplete.store(true, Ordering::Release);
    }

    /// True if some were dropped since the last time this was asked.
    fn take_incomplete(&self) -> bool {
        self.incomplete.swap(false, Ordering::AcqRel)
    }

    /// Drops what counts no more, or else what is no sanction: the ledger still has it. False if all are sanctions, or
    /// if the new one is none.
    fn make_room(&self, shard: &mut Shard, new: &Entry, counting: &Counting<'_>) -> bool {
        let before = shard.entries.len();
        shard.keep(|entry| !entry.held.is_over(counting));
        if shard.entries.len() == before && new.held.is_sanctioned(counting.now) {
            let dropped =
                shard.entries.iter().filter(|entry| !entry.held.is_sanctioned(counting.now)).count();
            shard.keep(|entry| entry.held.is_sanctioned(counting.now));
            self.drop_some(dropped);
        }
        self.count.fetch_sub(before - shard.entries.len(), Ordering::Release);
        shard.entries.len() < before
    }

    fn shard(&self, [low, _]: [u64; 2]) -> &RwLock<Shard> {
        &self.shards[number(low)]
    }
}

impl Filter {
    /// `words` is a power of two, and at least one for each shard.
    fn new(words: usize) -> Self {
        Self((0..words).map(|_| AtomicU64::new(0)).collect())
    }

    #[inline]
    fn may_hold(&self, low: u64) -> bool {
        let (word, bits) = self.bits(low);
        self.0[word].load(Ordering::Acquire) & bits == bits
    }

    fn add(&self, low: u64) {
        let (word, bits) = self.bits(low);
        self.0[word].fetch_or(bits, Ordering::Release);
    }

    /// Sets the bits of one shard anew. Each word is written once and whole, so that nobody who is there is missed
    /// meanwhile.
    fn refill(&self, number: usize, shard: &Shard) {
        let words = self.0.len() / SHARDS;
        let mut fresh = vec![0_u64; words];
        for entry in &shard.entries {
            let (word, bits) = self.bits(entry.id[0]);
            fresh[word - number * words] |= bits;
        }
        let own = self.0.iter().skip(number * words);
        own.zip(fresh).for_each(|(word, bits)| word.store(bits, Ordering::Release));
    }

    /// The word that is asked about an id, and its bits in it. The lowest bits choose the shard, the next the bits, the
    /// upper ones the word.
    #[inline]
    fn bits(&self, low: u64) -> (usize, u64) {
        let words = self.0.len() / SHARDS;
        let within = (low >> 32) as usize & (words - 1);
        let bits = 1 << (low >> 6 & 63) | 1 << (low >> 12 & 63) | 1 << (low >> 18 & 63);
        (number(low) * words + within, bits)
    }
}

#[inline]
const fn number(low: u64) -> usize {
    (low as usize) & (SHARDS - 1)
}

impl Shard {
    fn place(&self, id: [u64; 2]) -> Option<usize> {
        let same = |place: &u32| self.entries[*place as usize].id == id;
        self.index.find(id[1], same).map(|place| *place as usize)
    }

    fn push(&mut self, entry: Entry) {
        // By an eighth at a time: doubling would leave up to half of the room empty.
        if self.entries.len() == self.entries.capacity() {
            self.entries.reserve_exact((self.entries.len() / 8).max(4));
        }
        let hash = entry.id[1];
        // There are far fewer than 2³² in a shard.
        let place = u32::try_from(self.entries.len()).unwrap_or(u32::MAX);
        self.entries.push(entry);
        let entries = &self.entries;
        self.index.insert_unique(hash, place, |place| entries[*place as usize].id[1]);
    }

    /// Keeps the entries for which `keep` holds.
    fn keep(&mut self, keep: impl Fn(&Entry) -> bool) {
        let before = self.entries.len();
        self.entries.retain(keep);
        if self.entries.len() == before {
            return;
        }
        let Self { index, entries } = self;
        entries.shrink_to(entries.len() + entries.len() / 8);
        let hash = |place: &u32| entries[*place as usize].id[1];
        *index = HashTable::with_capacity(entries.len());
        for place in (0..).take(entries.len()) {
            index.insert_unique(hash(&place), place, hash);
        }
    }
}
