//! Usage: how many requests met which limit, by whom and when, for an archive to write down.
//!
//! A store has nothing to tell of that: it holds keyed hashes of a limit and a subject together, and what is over is
//! gone. Usage counts beside it, and never holds up a decision. A decision only writes down whom it was about and what it
//! met, in a ring that its thread has to itself; another thread [adds up](Usage::gather) what is in the rings. There are so
//! many of them and so many rows and no more, and what finds no room is counted as [dropped](Drained::dropped). Names
//! are in the rings alone, and in the rows keyed hashes.

mod block;
mod limit;
mod ring;
mod shape;
mod table;

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use threshold_core::{Span, SubjectId, SubjectKey, Timestamp};

use crate::identify::AddressKey;
use crate::policy::Layer;
use ring::Ring;
use shape::Shapes;
use table::Table;

pub use limit::Limit;
pub use shape::Mets;

/// What stands for a limit's id where a request is counted once, whatever limits it met. No limit is called that.
pub const EVERY_REQUEST: &str = "*";

/// The longest window that is counted by, and the one that whole requests are counted by.
pub const LONGEST_WINDOW: Span = Span::HOUR;
/// The shortest: less would be a row for nearly each request.
pub const SHORTEST_WINDOW: Span = Span::SECOND;

/// How many threads have a ring to themselves; any others share one.
const RINGS: usize = 31;

/// Counts requests by window, limit and subject.
pub struct Usage {
    /// Tells it from others, of which a thread may know several.
    id: u64,
    /// Those that threads have claimed so far, and [`RINGS`] at most: each is made when it is needed.
    rings: Mutex<Vec<Arc<Ring>>>,
    /// For threads that find none, one after the other.
    shared: Mutex<()>,
    shared_ring: OnceLock<Ring>,
    table: Mutex<Table>,
    /// How many rows the table has, to be looked at without it.
    rows: AtomicUsize,
    most: usize,
    sleeping: Sleeping,
    /// Makes the ids of people.
    key: OnceLock<SubjectKey>,
}

/// Who adds up, while it waits.
#[derive(Default)]
struct Sleeping {
    asleep: AtomicBool,
    woken: Mutex<bool>,
    wake: Condvar,
}

/// The rings that this thread has claimed. They are another's when it ends.
struct Claim {
    usage: u64,
    ring: Arc<Ring>,
    /// What was written there.
    shapes: Shapes,
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.ring.release();
    }
}

thread_local! {
    static CLAIMS: RefCell<Vec<Claim>> = const { RefCell::new(Vec::new()) };
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
    pub whose: Whose<'a>,
    /// The limits it met.
    pub met: &'a Mets,
}

/// Whom a decision is about.
#[derive(Clone, Copy, Debug)]
pub enum Whose<'a> {
    /// Who sent a request. Limits refer to them as [`Person`].
    People(&'a People<'a>),
    /// Any subjects, by their ids.
    Ids(&'a [SubjectId]),
}

/// Who sent a request, by name: their ids are made by who adds up, for a keyed hash takes a while.
#[derive(Clone, Copy, Debug)]
pub struct People<'a> {
    /// The network that it came from.
    pub(crate) address: AddressKey,
    /// The tenant, if it is believed.
    pub(crate) tenant: Option<&'a str>,
    /// The user, if it has proven who it is.
    pub(crate) user: Option<&'a str>,
}

/// Which of the [`People`] a limit counts by. The tenant is the client where there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Person {
    /// The user, or else the address: others could make up a new name for each request.
    Client = 0,
    /// The address.
    Address = 1,
    /// The tenant.
    Tenant = 2,
}

/// A limit that a decision met.
#[derive(Clone, Copy, Debug)]
pub struct Met {
    /// Which.
    pub limit: Limit,
    /// Whom it counts by: a [`Person`], or which of the ids.
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
    /// Room for `most` rows; one takes some hundred bytes. Each thread that decides takes a megabyte beside that, and there
    /// are 32 of those at most.
    #[must_use]
    pub fn new(most: usize) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            rings: Mutex::default(),
            shared: Mutex::default(),
            shared_ring: OnceLock::new(),
            table: Mutex::new(Table::new(most)),
            rows: AtomicUsize::new(0),
            most,
            sleeping: Sleeping::default(),
            key: OnceLock::new(),
        }
    }

    /// From now on [`People`] are known by ids under `key`. It is that of the first engine.
    pub(crate) fn named_by(&self, key: &SubjectKey) {
        let _ = self.key.set(key.clone());
    }

    /// Writes down one decision, for [`gather`](Self::gather) to count.
    #[inline]
    pub fn count(&self, noted: &Noted<'_>) {
        if let Whose::People(people) = noted.whose
            && !people.are_short()
        {
            return self.count_long(noted, people);
        }
        // A thread that ends has no claims any more.
        let own = CLAIMS.try_with(|claims| {
            let mut claims = claims.borrow_mut();
            let own = claims.iter_mut().find(|claim| claim.usage == self.id)?;
            Some(own.ring.write(noted, &mut own.shapes))
        });
        let much = own.ok().flatten().unwrap_or_else(|| self.count_first(noted));
        if much && self.sleeping.asleep.load(Ordering::Relaxed) {
            self.sleeping.wake();
        }
    }

    /// The same for people whose names are too long to be handed over.
    #[cold]
    fn count_long(&self, noted: &Noted<'_>, people: &People<'_>) {
        if let Some(key) = self.key.get() {
            self.count(&Noted { whose: Whose::Ids(&people.ids(key)), ..*noted });
        }
    }

    /// The first time that a thread does so, or every time if it finds no ring to claim.
    #[cold]
    fn count_first(&self, noted: &Noted<'_>) -> bool {
        if let Some(ring) = self.claim() {
            let mut shapes = Shapes::default();
            let much = ring.write(noted, &mut shapes);
            let claim = Claim { usage: self.id, ring, shapes };
            let keep = |claims: &RefCell<Vec<Claim>>| {
                let mut claims = claims.borrow_mut();
                // Nobody else has those: their usage is gone.
                claims.retain(|claim| Arc::strong_count(&claim.ring) > 1);
                claims.push(claim);
            };
            // A thread that ends lets go of it at once.
            let _ = CLAIMS.try_with(keep);
            return much;
        }
        let _turn = lock(&self.shared);
        self.shared_ring.get_or_init(Ring::new).write(noted, &mut Shapes::default())
    }

    fn claim(&self) -> Option<Arc<Ring>> {
        let mut rings = lock(&self.rings);
        if let Some(free) = rings.iter().find(|ring| ring.claim()) {
            return Some(Arc::clone(free));
        }
        (rings.len() < RINGS).then(|| {
            let ring = Arc::new(Ring::new());
            ring.claim();
            rings.push(Arc::clone(&ring));
            ring
        })
    }

    /// Waits until some thread has much to add up, and for `most` at most.
    pub fn wait(&self, most: Duration) {
        self.sleeping.wait(most);
    }

    /// Adds up what was written down before the call. For a thread of its own, which decisions do not wait for.
    pub fn gather(&self) {
        self.gather_into(&mut lock(&self.table));
    }

    fn gather_into(&self, table: &mut Table) {
        let rings = lock(&self.rings).clone();
        for ring in rings.iter().map(|ring| &**ring).chain(self.shared_ring.get()) {
            // Not what is written meanwhile: that may be without end.
            let until = ring.written();
            table.lose(ring.dropped());
            table.add_all(ring, until, self.key.get());
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

    /// Forgets what was counted of `subject` before the call; says how many rows that were.
    pub fn forget(&self, subject: &SubjectId) -> usize {
        let mut table = lock(&self.table);
        self.gather_into(&mut table);
        let gone = table.forget(subject);
        self.rows.store(table.len(), Ordering::Relaxed);
        gone
    }
}

impl Sleeping {
    fn wait(&self, most: Duration) {
        // Whoever looks a moment too early to see this looks again at its next decision.
        self.asleep.store(true, Ordering::Relaxed);
        let woken = lock(&self.woken);
        let waited = self.wake.wait_timeout_while(woken, most, |woken| !*woken);
        let (mut woken, _) = waited.unwrap_or_else(PoisonError::into_inner);
        *woken = false;
        self.asleep.store(false, Ordering::Relaxed);
    }

    #[cold]
    fn wake(&self) {
        self.asleep.store(false, Ordering::Relaxed);
        *lock(&self.woken) = true;
        self.wake.notify_one();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
