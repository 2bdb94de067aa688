//! Usage: how many requests met which limit, by whom and when, for an archive to write down.
//!
//! A store has nothing to tell of that: it holds keyed hashes of a limit and a subject together, and what is over is
//! gone. Usage counts beside it, and never holds up a decision. A decision only writes down whom it was about and what it
//! met, in a [block](block) that its thread has to itself; another thread [adds up](Usage::gather) what is in the blocks.
//! There are so many blocks and so many rows and no more, and what finds no room is counted as
//! [dropped](Drained::dropped). Nothing in it names anybody: subjects are keyed hashes.

mod block;
mod limit;
mod table;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use threshold_core::{Span, SubjectId, Timestamp};

use crate::place::place;
use crate::policy::Layer;
use block::{Block, Queue};
use table::Table;

pub use limit::Limit;

/// What stands for a limit's id where a request is counted once, whatever limits it met. No limit is called that.
pub const EVERY_REQUEST: &str = "*";

/// The longest window that is counted by, and the one that whole requests are counted by.
pub const LONGEST_WINDOW: Span = Span::HOUR;
/// The shortest: less would be a row for nearly each request.
pub const SHORTEST_WINDOW: Span = Span::SECOND;

/// Enough that two threads seldom share one.
const SHARDS: usize = 16;
/// How many blocks there are: room for 28,000 decisions at least that nobody has added up, in some 9 MB.
const BLOCKS: usize = 128;
/// So many full ones are worth waking somebody for.
const WORTH_WAKING: usize = 8;

/// Counts requests by window, limit and subject.
pub struct Usage {
    shards: Box<[Shard]>,
    queue: Mutex<Queue>,
    /// Told when there are enough full blocks to be worth it.
    filled: Condvar,
    /// How many blocks are free, to be looked at without the queue.
    free: AtomicUsize,
    table: Mutex<Table>,
    /// How many rows the table has, to be looked at without it.
    rows: AtomicUsize,
    most: usize,
}

/// What one thread or a few write into. Nobody else's is in the same line of memory.
#[repr(align(128))]
#[derive(Default)]
struct Shard(Mutex<Writing>);

#[derive(Default)]
struct Writing {
    block: Option<Block>,
    /// Counts for which there was no block.
    dropped: u64,
}

/// One decision: whom it is about, and which limits it met.
#[derive(Clone, Copy, Debug)]
pub struct Noted<'a> {
    /// When.
    pub at: Timestamp,
    /// Whether it was allowed, by all that it met.
    pub allowed: bool,
    /// How many requests it stands for: more than one where like ones were decided as one.
    pub times: u32,
    /// What it costs as a whole, if it is a request: that is counted once by itself, for the first of the subjects.
    pub whole: Option<u64>,
    /// Whom it is about.
    pub subjects: &'a [SubjectId],
    /// The limits it met.
    pub met: &'a [Met],
}

/// A limit that a decision met.
#[derive(Clone, Copy, Debug)]
pub struct Met {
    /// Which.
    pub limit: Limit,
    /// Whom it counts by: which of the decision's subjects.
    pub who: u16,
    /// Its period.
    pub period: Span,
    /// What it is charged if the decision allows it.
    pub cost: u64,
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
    /// Its layer; none for whole requests.
    pub layer: Option<Layer>,
    /// Who: whom the limit counts by, as far as that is a tenant, a user, an address or a key of the caller's own.
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

/// What was counted.
#[derive(Clone, Debug, Default)]
pub struct Drained {
    /// The rows, in no order.
    pub rows: Vec<Row>,
    /// How many requests found no room. One that met three limits counts as up to four.
    pub dropped: u64,
}

impl Noted<'_> {
    /// What it adds to rows, and to what is dropped if there is no room: each limit it met and the whole, every time.
    fn counts(&self) -> u64 {
        (self.met.len() as u64 + u64::from(self.whole.is_some())) * u64::from(self.times)
    }
}

impl Usage {
    /// Room for `most` rows; one takes some hundred bytes.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self::with_blocks(most, BLOCKS)
    }

    fn with_blocks(most: usize, blocks: usize) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Shard::default()).collect(),
            queue: Mutex::new(Queue::new(blocks)),
            filled: Condvar::new(),
            free: AtomicUsize::new(blocks),
            table: Mutex::new(Table::new(most)),
            rows: AtomicUsize::new(0),
            most,
        }
    }

    /// Writes down one decision, for [`gather`](Self::gather) to count.
    #[inline]
    pub fn count(&self, noted: &Noted<'_>) {
        let mut writing = lock(&self.shards[place() % SHARDS].0);
        if !writing.block.as_mut().is_some_and(|block| block.write(noted)) {
            self.go_on(&mut writing, noted);
        }
    }

    /// The same where there is no block, or no room in it.
    #[cold]
    fn go_on(&self, writing: &mut Writing, noted: &Noted<'_>) {
        if writing.block.is_some() || self.free.load(Ordering::Relaxed) > 0 {
            let mut queue = lock(&self.queue);
            writing.block = queue.exchange(writing.block.take());
            self.free.store(queue.free(), Ordering::Relaxed);
            let full = queue.full();
            drop(queue);
            if full >= WORTH_WAKING && full.is_multiple_of(WORTH_WAKING) {
                self.filled.notify_one();
            }
        }
        if !writing.block.as_mut().is_some_and(|block| block.write(noted)) {
            writing.dropped += noted.counts();
        }
    }

    /// Waits until there is something worth adding up, and for `most` at most.
    pub fn wait(&self, most: Duration) {
        let queue = lock(&self.queue);
        let too_few = |queue: &mut Queue| queue.full() < WORTH_WAKING;
        drop(self.filled.wait_timeout_while(queue, most, too_few));
    }

    /// Adds up what was written down before the call. For a thread of its own, which decisions do not wait for.
    pub fn gather(&self) {
        self.gather_into(&mut lock(&self.table));
    }

    fn gather_into(&self, table: &mut Table) {
        // First what is half full: whatever was written before is in the queue from then on.
        for shard in &self.shards {
            let mut writing = lock(&shard.0);
            table.lose(std::mem::take(&mut writing.dropped));
            if let Some(block) = writing.block.take_if(|block| !block.is_empty()) {
                lock(&self.queue).push(block);
            }
        }
        let full = lock(&self.queue).full();
        for _ in 0..full {
            let Some(block) = lock(&self.queue).pop() else { break };
            table.add(&block);
            let mut queue = lock(&self.queue);
            queue.give_back(block);
            self.free.store(queue.free(), Ordering::Relaxed);
        }
        self.rows.store(table.len(), Ordering::Relaxed);
    }

    /// How many rows there are, of what was added up.
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

    /// Takes out all that was written down before the call. A window that is not over goes on as another row, which is to
    /// be added to this one.
    #[must_use]
    pub fn drain(&self) -> Drained {
        let mut table = lock(&self.table);
        self.gather_into(&mut table);
        let (rows, dropped) = table.drain();
        self.rows.store(0, Ordering::Relaxed);
        Drained { rows, dropped }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use threshold_core::SubjectKind;

    fn subject(number: u64) -> SubjectId {
        let hash = number.wrapping_mul(0x2545_f491_4f6c_dd1d);
        SubjectId::from_raw(SubjectKind::Address, [hash, !hash])
    }

    fn api(period: Span) -> Met {
        Met { limit: Limit::new("api", Some(Layer::User)), who: 0, period, cost: 2 }
    }

    fn seconds(at: u64) -> Timestamp {
        Timestamp::from_micros(at * 1_000_000)
    }

    /// A decision of `number` at so many seconds that met `met`, and was not counted by itself.
    fn count(usage: &Usage, (number, at): (u64, u64), allowed: bool, met: &[Met]) {
        let (at, subjects) = (seconds(at), &[subject(number)]);
        usage.count(&Noted { at, allowed, times: 1, whole: None, subjects, met });
    }

    fn requests(drained: &Drained) -> u64 {
        drained.rows.iter().map(|row| row.requests).sum()
    }

    #[test]
    fn requests_of_one_window_are_one_row() {
        let usage = Usage::new(100);
        for (number, at, allowed) in
            [(1, 60, true), (1, 119, true), (1, 90, false), (1, 120, true), (2, 60, true)]
        {
            count(&usage, (number, at), allowed, &[api(Span::MINUTE)]);
        }
        assert!(usage.is_empty(), "nobody has added up yet");
        usage.gather();
        assert_eq!(usage.len(), 3);
        let mut drained = usage.drain();
        assert!(usage.is_empty() && drained.dropped == 0);
        drained.rows.sort_by_key(|row| (row.subject != subject(1), row.window_start));
        let told = |row: &Row| {
            let times = [row.window_start, row.first, row.last].map(|at| at.as_micros() / 1_000_000);
            (times, row.requests, row.refused, row.cost)
        };
        let told: Vec<_> = drained.rows.iter().map(told).collect();
        assert_eq!(told, [([60, 60, 119], 3, 1, 4), ([120, 120, 120], 1, 0, 2), ([60, 60, 60], 1, 0, 2)]);
        assert!(drained.rows.iter().all(|row| (row.limit, row.layer) == ("api", Some(Layer::User))));
    }

    #[test]
    fn windows_are_between_a_second_and_an_hour() {
        let usage = Usage::new(100);
        count(&usage, (1, 7_300), true, &[api(Span::DAY)]);
        count(&usage, (2, 7_300), true, &[api(Span::TICK)]);
        let mut rows = usage.drain().rows;
        rows.sort_by_key(|row| row.subject != subject(1));
        assert_eq!((rows[0].window, rows[0].window_start), (Span::HOUR, seconds(7_200)));
        assert_eq!((rows[1].window, rows[1].window_start), (Span::SECOND, seconds(7_300)));
    }

    #[test]
    fn a_request_counts_once_for_the_first_subject_and_for_each_limit_for_its_own() {
        let usage = Usage::new(100);
        let tenant = SubjectId::from_raw(SubjectKind::Tenant, [7, 7]);
        let of_tenant =
            Met { limit: Limit::new("tenants", Some(Layer::Tenant)), who: 1, ..api(Span::MINUTE) };
        let (subjects, met) = (&[subject(1), tenant], &[of_tenant, api(Span::MINUTE)]);
        usage.count(&Noted { at: seconds(60), allowed: true, times: 5, whole: Some(3), subjects, met });
        let mut rows: Vec<_> = usage
            .drain()
            .rows
            .iter()
            .map(|row| (row.limit, row.layer, row.subject, row.requests, row.cost))
            .collect();
        rows.sort_unstable_by_key(|(limit, ..)| *limit);
        let wanted = [
            (EVERY_REQUEST, None, subject(1), 5, 3),
            ("api", Some(Layer::User), subject(1), 5, 2),
            ("tenants", Some(Layer::Tenant), tenant, 5, 2),
        ];
        assert_eq!(rows, wanted);
    }

    #[test]
    fn rows_are_found_again_among_many_that_are_over() {
        let usage = Usage::new(1 << 12);
        for second in 0..1_000 {
            let (subjects, met) = (&[subject(1)], &[api(Span::SECOND), api(Span::MINUTE)]);
            let at = seconds(36_000 + second);
            usage.count(&Noted { at, allowed: true, times: 1, whole: Some(1), subjects, met });
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
    fn what_finds_no_room_among_the_rows_is_counted_as_dropped() {
        let usage = Usage::new(64);
        (0..10_000).for_each(|number| count(&usage, (number, 60), true, &[api(Span::MINUTE)]));
        usage.gather();
        assert_eq!(usage.len(), usage.room());
        let drained = usage.drain();
        assert_eq!((requests(&drained), drained.dropped), (64, 10_000 - 64));
        assert_eq!(usage.drain().dropped, 0, "told once");
    }

    #[test]
    fn what_finds_no_block_is_counted_as_dropped() {
        let usage = Usage::with_blocks(1 << 12, 2);
        let met = [api(Span::MINUTE), api(Span::HOUR)];
        (0..1_000).for_each(|number| count(&usage, (number % 100, 60), true, &met));
        let drained = usage.drain();
        assert_eq!((requests(&drained), drained.dropped), (1_024, 2_000 - 1_024));
        count(&usage, (1, 60), true, &met);
        let drained = usage.drain();
        assert_eq!((requests(&drained), drained.dropped), (2, 0), "there is room again");
    }

    #[test]
    fn many_limits_of_one_decision_fit() {
        let usage = Usage::new(1 << 12);
        let met = vec![api(Span::MINUTE); threshold_core::MAX_STEPS];
        (0..10).for_each(|number| count(&usage, (number, 60), true, &met));
        let drained = usage.drain();
        assert_eq!((requests(&drained), drained.dropped), (10 * met.len() as u64, 0));
    }

    #[test]
    fn nothing_is_lost_or_counted_twice_whoever_adds_up_while_others_count() {
        let (usage, sum) = (Usage::with_blocks(100, 4), Mutex::new([0, 0]));
        let take = || {
            let drained = usage.drain();
            let mut sum = sum.lock().unwrap();
            *sum = [sum[0] + requests(&drained), sum[1] + drained.dropped];
        };
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let usage = &usage;
                scope.spawn(move || {
                    for n in 0..20_000 {
                        count(usage, (thread * 100 + n % 77, n % 300), true, &[api(Span::MINUTE)]);
                    }
                });
            }
            scope.spawn(|| (0..200).for_each(|_| usage.gather()));
            scope.spawn(|| (0..200).for_each(|_| take()));
        });
        take();
        assert_eq!(sum.lock().unwrap().iter().sum::<u64>(), 80_000);
    }
}
