//! The table: what was handed over, added up by window, limit and subject. One thread at a time.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use smallvec::SmallVec;
use threshold_core::{Span, SubjectId, SubjectKey, Timestamp};

use super::block::{Block, Handed};
use super::limit::{Limit, named};
use super::ring::Ring;
use super::{LONGEST_WINDOW, Row, SHORTEST_WINDOW};

/// So many subjects are looked for before the first of them is needed: the waits for memory overlap.
const AHEAD: usize = 32;

pub(super) struct Table {
    subjects: HashTable<Rows>,
    windows: Windows,
    /// The most rows there may be.
    most: usize,
    /// How many there are.
    rows: usize,
    /// How many counts found no room.
    dropped: u64,
    /// Used again and again.
    block: Block,
}

/// The rows of one subject: a request meets several limits of the same one, and they are found together. Two lines of memory
/// side by side, for most: what adding up takes is mostly waiting for those.
#[repr(C, align(128))]
struct Rows {
    subject: SubjectId,
    /// Those that were asked for last are at the end.
    tallies: SmallVec<[Tally; 3]>,
}

const _: () = assert!(size_of::<Rows>() == 128);

/// A row without what all of its subject and window have in common.
#[derive(Clone, Copy)]
struct Tally {
    /// Which window of which limit.
    window: u32,
    /// How many of those there were before, since 1970.
    number: u32,
    /// After its start: no window is longer than that can say.
    first: u32,
    last: u32,
    requests: u32,
    refused: u32,
    cost: u64,
}

const _: () = assert!(LONGEST_WINDOW.as_micros() <= u32::MAX as u64);
/// Enough until the next century.
const _: () = assert!(SHORTEST_WINDOW.as_micros() >= 1_000_000);

/// The windows that are counted by: each limit has one, or a few where overrides give it others.
struct Windows {
    all: Vec<Window>,
    /// By the limit's number: which of `all` is its own.
    own: Vec<u32>,
    /// That of whole requests.
    whole: u32,
}

struct Window {
    limit: u32,
    micros: u64,
    /// When the last one began that was asked for, and its number: most are of the same.
    start: u64,
    number: u32,
}

/// No window yet.
const UNKNOWN: u32 = u32::MAX;

/// One request, or several alike, that met one limit.
struct Count {
    window: u32,
    requests: u32,
    refused: u32,
    cost: u64,
    at: u64,
}

impl Table {
    pub(super) fn new(most: usize) -> Self {
        Self {
            subjects: HashTable::new(),
            windows: Windows::new(),
            most,
            rows: 0,
            dropped: 0,
            block: Block::default(),
        }
    }

    /// How many rows there are.
    pub(super) const fn len(&self) -> usize {
        self.rows
    }

    /// Takes out the rows of `subject`; says how many they were.
    pub(super) fn forget(&mut self, subject: &SubjectId) -> usize {
        let found = self.subjects.find_entry(hash(subject), |known| known.subject == *subject);
        let gone = found.map_or(0, |known| known.remove().0.tallies.len());
        self.rows -= gone;
        gone
    }

    pub(super) const fn lose(&mut self, counts: u64) {
        self.dropped += counts;
    }

    /// Adds up what is in `ring` up to word `until`.
    pub(super) fn add_all(&mut self, ring: &Ring, until: u64, key: Option<&SubjectKey>) {
        let mut block = std::mem::take(&mut self.block);
        while ring.read(until, key, &mut block) {
            self.add(&block);
            block.clear();
        }
        self.block = block;
    }

    fn add(&mut self, block: &Block) {
        let mut coming = block.subjects();
        let (mut looked, mut used) = (0, 0);
        for handed in block.decisions() {
            if looked <= used {
                let (next, rest) = coming.split_at(coming.len().min(AHEAD));
                self.look_at(next);
                (coming, looked) = (rest, looked + next.len());
            }
            used += handed.subjects.len();
            self.note(&handed);
        }
    }

    /// Has what `subjects` have here brought into the cache.
    fn look_at(&self, subjects: &[SubjectId]) {
        let find = |subject: &SubjectId| self.subjects.find(hash(subject), |known| known.subject == *subject);
        let rows = subjects.iter().filter_map(find);
        std::hint::black_box(rows.map(|rows| rows.tallies.len()).sum::<usize>());
    }

    fn note(&mut self, noted: &Handed<'_>) {
        let times = noted.times;
        let (at, refused) = (noted.at.as_micros(), if noted.allowed { 0 } else { times });
        for (who, subject) in noted.subjects.iter().enumerate() {
            let of_this = noted.mets.iter().filter(|met| usize::from(met.who) == who);
            let windows = &mut self.windows;
            let mut counts: SmallVec<[Count; 8]> = SmallVec::new();
            let mut count = |window, cost| {
                let cost = if noted.allowed { cost } else { 0 };
                counts.push(Count { window, requests: times, refused, cost, at });
            };
            if let (0, Some(cost)) = (who, noted.whole) {
                count(windows.whole, cost);
            }
            of_this.for_each(|met| count(windows.of(met.limit, met.period), met.cost));
            self.count(*subject, &counts);
        }
    }

    /// Counts what is all of `subject`.
    fn count(&mut self, subject: SubjectId, counts: &[Count]) {
        if counts.is_empty() {
            return;
        }
        let of = |known: &Rows| hash(&known.subject);
        let room = self.most - self.rows;
        let known = match self.subjects.entry(hash(&subject), |known| known.subject == subject, of) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(_) if room == 0 => {
                self.dropped += counts.iter().map(|count| u64::from(count.requests)).sum::<u64>();
                return;
            }
            Entry::Vacant(place) => place.insert(Rows { subject, tallies: SmallVec::new() }).into_mut(),
        };
        for count in counts {
            let (number, after) = self.windows.place(count.window, count.at);
            if let Some(same) = known.find((count.window, number), count.requests) {
                same.add(count, after);
            } else if self.rows < self.most {
                known.tallies.push(Tally::new(count, (number, after)));
                self.rows += 1;
            } else {
                self.dropped += u64::from(count.requests);
            }
        }
    }

    /// Takes out all there is: the rows, and how many counts found no room.
    pub(super) fn drain(&mut self) -> (Vec<Row>, u64) {
        let mut rows = Vec::with_capacity(self.rows);
        let subjects = self.subjects.len();
        for Rows { subject, tallies } in self.subjects.drain() {
            rows.extend(tallies.iter().map(|tally| self.windows.row(subject, tally)));
        }
        // The room of a flood is not kept for ever.
        self.subjects.shrink_to(subjects.saturating_mul(2), |known| hash(&known.subject));
        (self.rows, self.windows) = (0, Windows::new());
        (rows, std::mem::take(&mut self.dropped))
    }
}

/// A subject is a keyed hash already: nobody can foretell where its rows are.
const fn hash(subject: &SubjectId) -> u64 {
    let [low, _] = subject.halves();
    low
}

impl Rows {
    /// The row of that window, if it can count so many more: a window may have several. One that was far from the end goes
    /// there: limits by the second leave many rows behind that nobody asks for any more.
    fn find(&mut self, (window, number): (u32, u32), more: u32) -> Option<&mut Tally> {
        const NEAR: usize = 8;
        let is_same = |tally: &Tally| {
            tally.number == number && tally.window == window && tally.requests.checked_add(more).is_some()
        };
        let mut place = self.tallies.iter().rposition(is_same)?;
        let last = self.tallies.len() - 1;
        if last - place >= NEAR {
            self.tallies.swap(place, last);
            place = last;
        }
        self.tallies.get_mut(place)
    }
}

impl Tally {
    fn new(count: &Count, (number, at): (u32, u32)) -> Self {
        let Count { window, requests, refused, cost, .. } = *count;
        Self { window, number, first: at, last: at, requests, refused, cost }
    }

    fn add(&mut self, count: &Count, at: u32) {
        self.requests += count.requests;
        self.refused += count.refused;
        self.cost = self.cost.saturating_add(count.cost);
        (self.first, self.last) = (self.first.min(at), self.last.max(at));
    }
}

impl Windows {
    fn new() -> Self {
        let mut windows = Self { all: Vec::new(), own: Vec::new(), whole: 0 };
        windows.whole = windows.of(Limit::every_request().number(), None);
        windows
    }

    /// The window of `limit`, whose period is its own or `period`.
    fn of(&mut self, limit: u32, period: Option<Span>) -> u32 {
        match (period, self.own.get(limit as usize)) {
            (None, Some(known)) if *known != UNKNOWN => *known,
            (None, _) => self.add_own(limit),
            (Some(period), _) => self.add(limit, period),
        }
    }

    #[cold]
    fn add_own(&mut self, limit: u32) -> u32 {
        let (_, _, period) = named(limit);
        let (window, place) = (self.add(limit, period), limit as usize);
        if self.own.len() <= place {
            self.own.resize(place + 1, UNKNOWN);
        }
        self.own[place] = window;
        window
    }

    fn add(&mut self, limit: u32, period: Span) -> u32 {
        let micros = period.clamp(SHORTEST_WINDOW, LONGEST_WINDOW).as_micros();
        let same = self.all.iter().position(|known| known.limit == limit && known.micros == micros);
        let place = same.unwrap_or_else(|| {
            self.all.push(Window { limit, micros, start: 0, number: 0 });
            self.all.len() - 1
        });
        place as u32
    }

    /// The number of the window that `at` is in, and how long after its start that is.
    fn place(&mut self, window: u32, at: u64) -> (u32, u32) {
        let window = &mut self.all[window as usize];
        if at.wrapping_sub(window.start) >= window.micros {
            window.number = (at / window.micros).min(u64::from(u32::MAX)) as u32;
            window.start = u64::from(window.number) * window.micros;
        }
        (window.number, (at - window.start).min(u64::from(u32::MAX)) as u32)
    }

    fn row(&self, subject: SubjectId, tally: &Tally) -> Row {
        let window = &self.all[tally.window as usize];
        let (limit, layer, _) = named(window.limit);
        let start = u64::from(tally.number) * window.micros;
        let at = |after: u32| Timestamp::from_micros(start + u64::from(after));
        Row {
            window_start: at(0),
            window: Span::from_micros(window.micros),
            limit,
            layer,
            subject,
            requests: tally.requests.into(),
            refused: tally.refused.into(),
            cost: tally.cost,
            first: at(tally.first),
            last: at(tally.last),
        }
    }
}
