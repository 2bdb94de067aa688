//! Figures: what decisions came to, in numbers, for whoever watches a server.
//!
//! It never holds up a decision and never grows with the number of clients: counters are each thread's own, and those who
//! are refused most are kept in [sketches](Top) of a fixed size.

mod latency;
mod layers;
mod top;

use std::cell::Cell;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use threshold_core::{Source, SubjectId, Timestamp};

use crate::policy::Layer;

pub use latency::{Latencies, Stage};
pub use layers::{InLayer, Layers};
pub use top::{Most, Top};

/// Enough that two threads seldom share one.
pub(crate) const SHARDS: usize = 16;
/// One decision in so many is timed.
const SAMPLED: u32 = 32;
/// How many tenants, endpoints and addresses are told apart.
const KEPT: usize = 512;
const MINUTE: u64 = 60_000_000;

/// Counts what decisions came to.
pub struct Figures {
    shards: Box<[Shard]>,
    /// Who was refused most, since the start.
    tenants: Top<String>,
    endpoints: Top<String>,
    addresses: Top<SubjectId>,
    /// Refusals by limit: as many as policies have had.
    limits: Mutex<Vec<(&'static str, Layer, u64)>>,
    /// The addresses of this minute.
    minute: Mutex<Minute>,
    latencies: Latencies,
}

/// The counters of one thread or a few. Nobody else's are in the same line of memory.
#[derive(Default)]
#[repr(align(128))]
struct Shard {
    /// By what they came to, and in which layers.
    outcomes: [[AtomicU64; Layers::SETS]; Ending::ALL.len()],
    sources: [AtomicU64; Source::ALL.len()],
    /// Layers that let pass what came to something else in another.
    beside: [AtomicU64; Layers::SETS],
}

struct Minute {
    number: u64,
    addresses: Top<SubjectId>,
    /// The most refusals of one address in the minute before.
    before: u64,
}

/// What a decision came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Ending {
    /// It passed.
    Allowed = 0,
    /// It passed with a warning.
    Warned = 1,
    /// It passed and was held back.
    Delayed = 2,
    /// A limit refused it.
    Limited = 3,
    /// A ban refused it.
    Banned = 4,
    /// A cooldown refused it.
    Cooldown = 5,
    /// A list refused it.
    Listed = 6,
    /// Its path could not be read.
    BadPath = 7,
}

impl Ending {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Allowed,
        Self::Warned,
        Self::Delayed,
        Self::Limited,
        Self::Banned,
        Self::Cooldown,
        Self::Listed,
        Self::BadPath,
    ];

    /// Its name, as a label.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Warned => "warned",
            Self::Delayed => "delayed",
            Self::Limited => "limited",
            Self::Banned => "banned",
            Self::Cooldown => "cooldown",
            Self::Listed => "listed",
            Self::BadPath => "bad_path",
        }
    }

    /// True if the request did not pass.
    #[must_use]
    pub const fn is_refusal(self) -> bool {
        !matches!(self, Self::Allowed | Self::Warned | Self::Delayed)
    }
}

/// What is known of a refusal.
#[derive(Clone, Copy, Debug)]
pub struct Blocked<'a> {
    /// When.
    pub at: Timestamp,
    /// The limit and its layer, if one refused it.
    pub limit: Option<(&'static str, Layer)>,
    /// The tenant, as far as it is believed.
    pub tenant: Option<&'a str>,
    /// What was asked for: the route's name where it has one.
    pub endpoint: &'a str,
    /// Where it came from.
    pub address: SubjectId,
}

/// One decision, for whoever watches them one by one.
#[derive(Clone, Debug)]
pub struct Seen<'a> {
    /// When.
    pub at: Timestamp,
    /// What it came to.
    pub ending: Ending,
    /// Where the answer came from.
    pub source: Source,
    /// The limit that refused it, or that is tightest, and its layer.
    pub limit: Option<(&'static str, Layer)>,
    /// The tenant, as far as it is believed.
    pub tenant: Option<&'a str>,
    /// The user, if it has proven to be one.
    pub user: Option<SubjectId>,
    /// What was asked for: the route's name where it has one.
    pub endpoint: &'a str,
    /// The address, as far as it may be shown.
    pub address: String,
}

/// Watches decisions one by one.
pub trait Watcher: Send + Sync {
    /// True if somebody wants to see decisions that came to `ending`. It is asked for each, so it should not take long.
    fn wants(&self, ending: Ending) -> bool;

    /// Sees one. It is called while a decision is made.
    fn see(&self, seen: &Seen<'_>);
}

/// All counters at one moment. They only grow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Decisions by what they came to, in the order of [`Ending::ALL`].
    pub endings: [u64; Ending::ALL.len()],
    /// Decisions by where they came from, in the order of [`Source::ALL`].
    pub sources: [u64; Source::ALL.len()],
    /// Decisions by the layers that they reached, in the order of [`Layer::ALL`].
    pub layers: [InLayer; Layer::ALL.len()],
    /// Refusals by limit.
    pub limits: Vec<(&'static str, Layer, u64)>,
}

impl Totals {
    /// How many decisions there were.
    #[must_use]
    pub fn decisions(&self) -> u64 {
        self.endings.iter().sum()
    }

    /// How many of them were refusals.
    #[must_use]
    pub fn refused(&self) -> u64 {
        let each = Ending::ALL.iter().zip(self.endings);
        each.filter(|(ending, _)| ending.is_refusal()).map(|(_, count)| count).sum()
    }

    /// Adds what came to `ending` in sets of layers to each of those; says how many there were.
    fn add(&mut self, ending: Ending, counters: &[AtomicU64; Layers::SETS]) -> u64 {
        let mut all = 0;
        for (layers, counter) in Layers::all().zip(counters) {
            let count = counter.load(Ordering::Relaxed);
            all += count;
            let reached = Layer::ALL.iter().filter(|layer| layers.has(**layer));
            reached.for_each(|layer| self.layers[*layer as usize].add(ending, count));
        }
        all
    }
}

thread_local! {
    static PLACE: Cell<usize> = const { Cell::new(usize::MAX) };
    static TURN: Cell<u32> = const { Cell::new(0) };
}

/// The place of this thread among the shards.
#[inline]
pub(crate) fn place() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    PLACE.with(|place| match place.get() {
        usize::MAX => {
            let new = NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS;
            place.set(new);
            new
        }
        known => known,
    })
}

impl Default for Figures {
    fn default() -> Self {
        Self::new()
    }
}

impl Figures {
    /// Nothing was counted yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Shard::default()).collect(),
            tenants: Top::new(KEPT),
            endpoints: Top::new(KEPT),
            addresses: Top::new(KEPT),
            limits: Mutex::default(),
            minute: Mutex::new(Minute { number: 0, addresses: Top::new(KEPT), before: 0 }),
            latencies: Latencies::default(),
        }
    }

    /// True for one decision in some: those are timed.
    #[inline]
    pub fn samples(&self) -> bool {
        TURN.with(|turn| {
            let next = turn.get().wrapping_add(1);
            turn.set(next);
            next.is_multiple_of(SAMPLED)
        })
    }

    /// Counts `times` like decisions: what they came to, and in which layers.
    #[inline]
    pub fn count(&self, (ending, layers): (Ending, Layers), source: Source, times: u64) {
        let shard = &self.shards[place()];
        shard.sources[source as usize].fetch_add(times, Ordering::Relaxed);
        shard.outcomes[ending as usize][layers.place()].fetch_add(times, Ordering::Relaxed);
    }

    /// Counts `layers` that let a request pass which came to something else in another, beside [`count`](Self::count).
    pub fn count_beside(&self, layers: Layers) {
        self.shards[place()].beside[layers.place()].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a refusal, beside [`count`](Self::count).
    pub fn block(&self, blocked: &Blocked<'_>) {
        if let Some((limit, layer)) = blocked.limit {
            self.count_limit(limit, layer);
        }
        if let Some(tenant) = blocked.tenant {
            self.tenants.count(tenant);
        }
        self.endpoints.count(blocked.endpoint);
        self.addresses.count(&blocked.address);
        let mut minute = self.minute.lock().unwrap_or_else(PoisonError::into_inner);
        minute.turn(blocked.at.as_micros() / MINUTE);
        minute.addresses.count(&blocked.address);
    }

    fn count_limit(&self, limit: &'static str, layer: Layer) {
        let mut limits = self.limits.lock().unwrap_or_else(PoisonError::into_inner);
        match limits.iter_mut().find(|(known, of, _)| *known == limit && *of == layer) {
            Some((_, _, count)) => *count += 1,
            None => limits.push((limit, layer, 1)),
        }
    }

    /// How long stages took, of those decisions that were timed.
    #[must_use]
    pub const fn latencies(&self) -> &Latencies {
        &self.latencies
    }

    /// All counters.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let mut totals = Totals {
            limits: self.limits.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            ..Totals::default()
        };
        for shard in &self.shards {
            add(&mut totals.sources, &shard.sources);
            for (ending, counters) in Ending::ALL.iter().zip(&shard.outcomes) {
                totals.endings[*ending as usize] += totals.add(*ending, counters);
            }
            totals.add(Ending::Allowed, &shard.beside);
        }
        totals
    }

    /// The tenants that were refused most, the first of them first.
    #[must_use]
    pub fn top_tenants(&self, most: usize) -> Vec<Most<String>> {
        self.tenants.most(most)
    }

    /// The endpoints that refused most.
    #[must_use]
    pub fn top_endpoints(&self, most: usize) -> Vec<Most<String>> {
        self.endpoints.most(most)
    }

    /// The addresses that were refused most.
    #[must_use]
    pub fn top_addresses(&self, most: usize) -> Vec<Most<SubjectId>> {
        self.addresses.most(most)
    }

    /// Forgets how often an address was refused, and the tenants that `is_meant`, with those of whose names only a part is
    /// kept: nobody can tell whether they are. Sums stay: they name nobody.
    pub fn forget(&self, subject: &SubjectId, is_meant: impl Fn(&str) -> bool) {
        self.addresses.retain(|address| address != subject);
        self.tenants.retain(|tenant| !is_meant(tenant) && !top::may_be_cut(tenant));
        let minute = self.minute.lock().unwrap_or_else(PoisonError::into_inner);
        minute.addresses.retain(|address| address != subject);
    }

    /// The most refusals of one address within this minute or the one before, at `now`: at least so many. Of a crowd of very
    /// many, one that makes up less than one part in 500 may be missed.
    #[must_use]
    pub fn busiest_address(&self, now: Timestamp) -> u64 {
        let mut minute = self.minute.lock().unwrap_or_else(PoisonError::into_inner);
        minute.turn(now.as_micros() / MINUTE);
        minute.busiest().max(minute.before)
    }
}

impl Minute {
    /// Begins another minute, if it is another.
    fn turn(&mut self, number: u64) {
        if number > self.number {
            self.before = if number == self.number + 1 { self.busiest() } else { 0 };
            (self.number, self.addresses) = (number, Top::new(KEPT));
        }
    }

    fn busiest(&self) -> u64 {
        self.addresses.most(1).first().map_or(0, Most::at_least)
    }
}

fn add<const N: usize>(totals: &mut [u64; N], counters: &[AtomicU64; N]) {
    totals.iter_mut().zip(counters).for_each(|(total, counter)| *total += counter.load(Ordering::Relaxed));
}

#[cfg(test)]
mod tests {
    use super::*;
    use threshold_core::SubjectKind;

    fn blocked(address: u64, second: u64) -> Blocked<'static> {
        Blocked {
            at: Timestamp::from_micros(second * 1_000_000),
            limit: Some(("api", Layer::User)),
            tenant: Some("acme"),
            endpoint: "search",
            address: SubjectId::from_raw(SubjectKind::Address, [address, !address]),
        }
    }

    #[test]
    fn every_thread_counts() {
        let figures = Figures::new();
        let (all, user): (Layers, _) = (Layer::ALL.iter().copied().collect(), Layers::NONE.with(Layer::User));
        std::thread::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(|| {
                    for _ in 0..1_000 {
                        figures.count((Ending::Allowed, all), Source::Leased, 1);
                        figures.count((Ending::Limited, user), Source::Local, 1);
                        figures.count_beside(all.before(Layer::User));
                        figures.block(&blocked(1, 60));
                    }
                });
            }
        });
        let totals = figures.totals();
        assert_eq!((totals.decisions(), totals.refused()), (40_000, 20_000));
        assert_eq!(totals.sources.iter().sum::<u64>(), 40_000);
        let [edge, tenant, user, endpoint] = totals.layers;
        assert_eq!((edge, tenant), (InLayer { allowed: 40_000, ..InLayer::default() }, edge));
        assert_eq!(user, InLayer { allowed: 20_000, denied: 20_000, ..InLayer::default() });
        assert_eq!(endpoint, InLayer { allowed: 20_000, ..InLayer::default() });
        assert_eq!(totals.limits, [("api", Layer::User, 20_000)]);
        assert_eq!(figures.top_tenants(3)[0], Most { key: "acme".to_owned(), count: 20_000, error: 0 });
    }

    #[test]
    fn one_address_among_many_is_seen_for_a_minute_and_the_next() {
        let figures = Figures::new();
        for other in 0..100_000 {
            figures.block(&blocked(other, 120));
            if other % 100 == 0 {
                figures.block(&blocked(7, 120));
            }
        }
        let at = |second: u64| figures.busiest_address(Timestamp::from_micros(second * 1_000_000));
        // It was refused so often, and as often as nobody can tell it from others less.
        let seen = at(121);
        assert!((800..=1_001).contains(&seen), "{seen}");
        assert_eq!(at(180), seen);
        assert_eq!(at(240), 0);
        assert!(figures.top_addresses(1_000).len() <= KEPT);
    }

    #[test]
    fn some_decisions_are_timed() {
        let figures = Figures::new();
        let timed = (0..3_200).filter(|_| figures.samples()).count();
        assert_eq!(timed, 100);
    }
}
