//! Usage: how many requests met which limit, by whom and when, for an archive to write down.
//!
//! A store has nothing to tell of that: it holds keyed hashes of a limit and a subject together, and what is over is
//! gone. Usage counts beside it. It never holds up a decision: its room is bounded, and what finds no room is counted as
//! [dropped](Drained::dropped). Nothing in it names anybody: subjects are keyed hashes.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use smallvec::SmallVec;
use threshold_core::{Span, SubjectId, Timestamp};

/// What stands for a limit's id where a request is counted once, whatever limits it met. No limit is called that.
pub const EVERY_REQUEST: &str = "*";

/// The longest window that is counted by, and the one that whole requests are counted by.
pub const LONGEST_WINDOW: Span = Span::HOUR;
/// The shortest: less would be a row for nearly each request.
pub const SHORTEST_WINDOW: Span = Span::SECOND;

/// Enough that two decisions at once seldom want the same one.
const SHARDS: usize = 32;

/// Counts requests by window, limit and subject.
pub struct Usage {
    shards: Box<[Mutex<Shard>]>,
    /// The most rows there are, but for what several threads add at the same instant.
    most: usize,
    /// How many rows there are.
    rows: AtomicUsize,
    /// How many requests found no room since the last time somebody asked.
    dropped: AtomicU64,
}

#[derive(Default)]
struct Shard {
    subjects: HashTable<Rows>,
    /// How many rows they have together.
    rows: usize,
}

/// The rows of one subject: a request meets several limits of the same one, and they are found together.
struct Rows {
    subject: SubjectId,
    /// Those that were asked for last are at the end.
    rows: SmallVec<[Row; 4]>,
}

/// How many requests of one subject met one limit in one window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// When the window began. Windows are counted from 1970 on.
    pub window_start: Timestamp,
    /// How long it is: the limit's period, between a second and an hour.
    pub window: Span,
    /// The limit's id, or [`EVERY_REQUEST`].
    pub limit: &'static str,
    /// Who: whom the limit counts by, as far as that is a tenant, a user or an address.
    pub subject: SubjectId,
    /// How many requests.
    pub requests: u64,
    /// How many of them were refused, by whichever limit.
    pub refused: u64,
    /// What they cost together, if they were allowed.
    pub cost: u64,
    /// The first of them.
    pub first: Timestamp,
    /// The last of them.
    pub last: Timestamp,
}

/// One request that met one limit.
#[derive(Clone, Copy, Debug)]
pub struct Counted {
    /// The limit's id, or [`EVERY_REQUEST`].
    pub limit: &'static str,
    /// The limit's period.
    pub period: Span,
    /// Who.
    pub subject: SubjectId,
    /// Whether the request was allowed, by all that it met.
    pub allowed: bool,
    /// What it costs.
    pub cost: u64,
    /// When.
    pub at: Timestamp,
}

/// What was counted.
#[derive(Clone, Debug, Default)]
pub struct Drained {
    /// The rows, in no order.
    pub rows: Vec<Row>,
    /// How many requests found no room. One that met three limits counts as up to four.
    pub dropped: u64,
}

impl Usage {
    /// Room for about `most` rows; one takes some hundred bytes.
    #[must_use]
    pub fn new(most: usize) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self { shards, most, rows: AtomicUsize::new(0), dropped: AtomicU64::new(0) }
    }

    /// Counts one request for each limit that it met. Those of one subject are best side by side.
    pub fn count(&self, counted: &[Counted]) {
        for of_one in counted.chunk_by(|one, other| one.subject == other.subject) {
            let Some(Counted { subject, .. }) = of_one.first() else { continue };
            let mut shard = self.shard(subject);
            let room = self.most.saturating_sub(self.len());
            let (added, dropped) = shard.count(*subject, of_one, room);
            if added > 0 {
                self.rows.fetch_add(added, Ordering::Relaxed);
            }
            drop(shard);
            if dropped > 0 {
                self.dropped.fetch_add(dropped, Ordering::Relaxed);
            }
        }
    }

    /// How many rows there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.load(Ordering::Relaxed)
    }

    /// True if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many rows there is room for.
    #[must_use]
    pub const fn room(&self) -> usize {
        self.most
    }

    /// Takes out all there is. A window that is not over goes on as another row, which is to be added to this one.
    #[must_use]
    pub fn drain(&self) -> Drained {
        let mut rows = Vec::with_capacity(self.len());
        for shard in &self.shards {
            // Taken out as a whole: nobody waits while its rows are read.
            let taken = std::mem::take(&mut *shard.lock().unwrap_or_else(PoisonError::into_inner));
            self.rows.fetch_sub(taken.rows, Ordering::Relaxed);
            rows.extend(taken.subjects.into_iter().flat_map(|subject| subject.rows));
        }
        Drained { rows, dropped: self.dropped.swap(0, Ordering::Relaxed) }
    }

    /// Forgets what was counted of `subject`; says how many rows that were.
    pub fn forget(&self, subject: &SubjectId) -> usize {
        let mut shard = self.shard(subject);
        let Ok(known) = shard.subjects.find_entry(hash(subject), |known| known.subject == *subject) else {
            return 0;
        };
        let (gone, _) = known.remove();
        shard.rows -= gone.rows.len();
        self.rows.fetch_sub(gone.rows.len(), Ordering::Relaxed);
        gone.rows.len()
    }

    fn shard(&self, subject: &SubjectId) -> MutexGuard<'_, Shard> {
        // The tables take the lower half.
        let [_, high] = subject.halves();
        self.shards[high as usize % SHARDS].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shard {
    /// Counts what is all of `subject`, with room for so many more rows; says how many there are more, and how much found no
    /// room.
    fn count(&mut self, subject: SubjectId, counted: &[Counted], room: usize) -> (usize, u64) {
        let place = self.subjects.entry(
            hash(&subject),
            |known| known.subject == subject,
            |known| hash(&known.subject),
        );
        let known = match place {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(_) if room == 0 => return (0, counted.len() as u64),
            Entry::Vacant(place) => place.insert(Rows { subject, rows: SmallVec::new() }).into_mut(),
        };
        let (mut added, mut dropped) = (0, 0);
        for counted in counted {
            let row = counted.row();
            if let Some(same) = known.find(&row) {
                same.add(&row);
            } else if added < room {
                known.rows.push(row);
                added += 1;
            } else {
                dropped += 1;
            }
        }
        self.rows += added;
        (added, dropped)
    }
}

/// A subject is a keyed hash already: nobody can foretell where its rows are.
const fn hash(subject: &SubjectId) -> u64 {
    let [low, _] = subject.halves();
    low
}

impl Rows {
    /// The row of the same window and limit. One that was far from the end goes there: limits by the second leave many rows
    /// behind that nobody asks for any more.
    fn find(&mut self, row: &Row) -> Option<&mut Row> {
        const NEAR: usize = 8;
        let mut place = self.rows.iter().rposition(|other| other.is_same(row))?;
        let last = self.rows.len() - 1;
        if last - place >= NEAR {
            self.rows.swap(place, last);
            place = last;
        }
        self.rows.get_mut(place)
    }
}

impl Counted {
    fn row(&self) -> Row {
        let window = self.period.clamp(SHORTEST_WINDOW, LONGEST_WINDOW);
        let at = self.at.as_micros();
        Row {
            window_start: Timestamp::from_micros(at - at % window.as_micros()),
            window,
            limit: self.limit,
            subject: self.subject,
            requests: 1,
            refused: u64::from(!self.allowed),
            cost: if self.allowed { self.cost } else { 0 },
            first: self.at,
            last: self.at,
        }
    }
}

impl Row {
    /// True if it is of the same window, limit and subject.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.window_start == other.window_start
            && self.subject == other.subject
            && self.window == other.window
            && self.limit == other.limit
    }

    /// Takes `other` in, which is of the same window, limit and subject.
    pub fn add(&mut self, other: &Self) {
        self.requests = self.requests.saturating_add(other.requests);
        self.refused = self.refused.saturating_add(other.refused);
        self.cost = self.cost.saturating_add(other.cost);
        self.first = self.first.min(other.first);
        self.last = self.last.max(other.last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use threshold_core::SubjectKind;

    fn one(subject: u64, at: u64) -> Counted {
        let subject = SubjectId::from_raw(SubjectKind::Address, [subject, !subject]);
        let (period, at) = (Span::MINUTE, Timestamp::from_micros(at * 1_000_000));
        Counted { limit: "api", period, subject, allowed: true, cost: 2, at }
    }

    #[test]
    fn requests_of_one_window_are_one_row() {
        let usage = Usage::new(100);
        for (subject, at, allowed) in
            [(1, 60, true), (1, 119, true), (1, 90, false), (1, 120, true), (2, 60, true)]
        {
            usage.count(&[Counted { allowed, ..one(subject, at) }]);
        }
        assert_eq!(usage.len(), 3);
        let mut drained = usage.drain();
        assert!(usage.is_empty() && drained.dropped == 0);
        drained.rows.sort_by_key(|row| (row.subject, row.window_start));
        let seconds = |at: Timestamp| at.as_micros() / 1_000_000;
        let told = |row: &Row| {
            (
                seconds(row.window_start),
                row.requests,
                row.refused,
                row.cost,
                seconds(row.first),
                seconds(row.last),
            )
        };
        let told: Vec<_> = drained.rows.iter().map(told).collect();
        assert_eq!(told, [(60, 3, 1, 4, 60, 119), (120, 1, 0, 2, 120, 120), (60, 1, 0, 2, 60, 60)]);
    }

    #[test]
    fn windows_are_between_a_second_and_an_hour() {
        let usage = Usage::new(100);
        usage.count(&[Counted { period: Span::DAY, ..one(1, 7_300) }]);
        usage.count(&[Counted { period: Span::TICK, ..one(2, 7_300) }]);
        let mut rows = usage.drain().rows;
        rows.sort_by_key(|row| row.subject);
        assert_eq!((rows[0].window, rows[0].window_start.as_micros()), (Span::HOUR, 7_200_000_000));
        assert_eq!((rows[1].window, rows[1].window_start.as_micros()), (Span::SECOND, 7_300_000_000));
    }

    #[test]
    fn rows_are_found_again_among_many_that_are_over() {
        let usage = Usage::new(1 << 12);
        for second in 0..1_000 {
            let (api, whole) = (one(1, 36_000 + second), one(1, 36_000 + second));
            let whole = Counted { limit: EVERY_REQUEST, period: LONGEST_WINDOW, ..whole };
            usage.count(&[whole, Counted { period: Span::SECOND, ..api }, api]);
        }
        let Drained { rows, dropped } = usage.drain();
        let requests = |window: Span| -> Vec<u64> {
            rows.iter().filter(|row| row.window == window).map(|row| row.requests).collect()
        };
        assert_eq!((requests(Span::HOUR), requests(Span::SECOND)), (vec![1_000], vec![1; 1_000]));
        assert_eq!((requests(Span::MINUTE).len(), requests(Span::MINUTE).iter().sum::<u64>()), (17, 1_000));
        assert_eq!(dropped, 0);
    }

    #[test]
    fn what_finds_no_room_is_counted_as_dropped() {
        let usage = Usage::new(64);
        (0..10_000)
            .for_each(|subject: u64| usage.count(&[one(subject.wrapping_mul(0x2545_f491_4f6c_dd1d), 60)]));
        assert!(usage.len() <= usage.room());
        let Drained { rows, dropped } = usage.drain();
        assert_eq!(rows.len() as u64 + dropped, 10_000);
        assert!(!rows.is_empty() && dropped > 0);
        assert_eq!(usage.drain().dropped, 0, "told once");
    }

    #[test]
    fn nothing_is_lost_between_counting_and_draining() {
        let usage = Usage::new(1 << 16);
        let drained = Mutex::new(0);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let usage = &usage;
                scope.spawn(move || {
                    (0..20_000).for_each(|n| usage.count(&[one(thread * 10 + n % 7, n % 300)]));
                });
            }
            scope.spawn(|| {
                for _ in 0..200 {
                    let rows = usage.drain().rows;
                    *drained.lock().unwrap() += rows.iter().map(|row| row.requests).sum::<u64>();
                }
            });
        });
        let rest: u64 = usage.drain().rows.iter().map(|row| row.requests).sum();
        assert_eq!(*drained.lock().unwrap() + rest, 80_000);
    }
}
