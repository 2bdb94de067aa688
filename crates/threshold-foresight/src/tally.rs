//! Tally: what came of many requests, in memory that does not grow with them.
//!
//! Totals, limits, layers and routes are counted for good: a policy has only so many. Subjects are kept up to a number; then
//! those are let go that came longest ago and met nothing. Tenants beyond a number are counted together.

mod agents;
mod peaks;
mod series;
mod subjects;

use std::collections::BTreeMap;

use threshold::engine::Decision;
use threshold::figures::Ending;
use threshold::policy::Layer;
use threshold::{MemoryStats, Retry, Span, Timestamp};

pub use agents::Agent;
pub use peaks::{Peaks, SHARES};
pub use series::{Series, Slot};
pub use subjects::{Census, Kind, Looks, Part, Record, Subjects};

use crate::Request;
use crate::replay::Judged;
use crate::request::short;

/// How many tenants are told apart.
const MOST_TENANTS: usize = 10_000;

/// How often requests came to what, by [`Ending`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts([u64; Ending::ALL.len()]);

/// What one limit did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitCount {
    /// Requests that it judged.
    pub asked: u64,
    /// Requests that it refused.
    pub denied: u64,
    /// Requests that were over it and passed by grace.
    pub warned: u64,
    /// Requests that it would have refused, were it in force.
    pub would_deny: u64,
    /// The same by the policy that is compared with.
    pub denied_before: u64,
    /// When it first refused.
    pub first: Option<Timestamp>,
}

/// A refusal that is told in full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment {
    /// When.
    pub at: Timestamp,
    /// Whom.
    pub who: String,
    /// Method and path.
    pub what: String,
    /// By what: a limit's id, or a word for what else it was.
    pub by: String,
}

/// The busiest times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Busiest {
    /// When the second began that had most requests, and how many.
    pub requests: (Timestamp, u64),
    /// How many operations of the store the busiest second of the store had.
    pub operations: u64,
    /// When the minute began that had most refusals, and how many.
    pub denied: (Timestamp, u64),
}

/// Counts within the second and the minute that are now.
#[derive(Default)]
struct Now {
    second: u64,
    requests: u64,
    operations: u64,
    minute: u64,
    denied: u64,
}

/// What came of many requests.
pub struct Tally {
    /// By what they came to.
    pub totals: Counts,
    /// The same by the policy that is compared with.
    pub before: Option<Counts>,
    /// Requests that are refused and were not by the policy that is compared with, and the other way round.
    pub changed: [u64; 2],
    /// By limit: its layer and what it did.
    pub limits: BTreeMap<&'static str, (Layer, LimitCount)>,
    /// By route, the last one for what belongs to none.
    pub routes: Vec<Counts>,
    /// By tenant, and those beyond the number that is told apart.
    pub tenants: BTreeMap<Box<str>, Counts>,
    /// Requests of the others.
    pub other_tenants: Counts,
    /// By who made them, where a scenario did.
    pub actors: Vec<Counts>,
    /// By subject.
    pub subjects: Subjects,
    /// Over time.
    pub series: Series,
    /// How much of each limit its keys use when they use most.
    pub peaks: Peaks,
    /// The first refusal.
    pub first: Option<Moment>,
    /// The busiest times.
    pub busiest: Busiest,
    /// Steps that the edge and the store were asked for.
    pub steps: (u64, u64),
    /// The most counters that lived at the same time, and their bytes.
    pub memory: (usize, usize),
    /// Requests that asked the store at all.
    pub operations: u64,
    /// When the first and the last request came.
    pub span: Option<(Timestamp, Timestamp)>,
    now: Now,
    ipv6_prefix: u8,
}

impl Counts {
    /// How many came to `ending`.
    #[must_use]
    pub const fn of(&self, ending: Ending) -> u64 {
        self.0[ending as usize]
    }

    /// All of them.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Those that did not pass.
    #[must_use]
    pub fn denied(&self) -> u64 {
        Ending::ALL.into_iter().filter(|ending| ending.is_refusal()).map(|ending| self.of(ending)).sum()
    }

    /// One more.
    pub const fn add(&mut self, ending: Ending) {
        self.0[ending as usize] += 1;
    }
}

impl Tally {
    /// Counts requests of a policy with so many routes, in which so many bits of an IPv6 address count.
    #[must_use]
    pub fn new(routes: usize, ipv6_prefix: u8) -> Self {
        Self {
            totals: Counts::default(),
            before: None,
            changed: [0; 2],
            limits: BTreeMap::new(),
            routes: vec![Counts::default(); routes + 1],
            tenants: BTreeMap::new(),
            other_tenants: Counts::default(),
            actors: Vec::new(),
            subjects: Subjects::new(),
            series: Series::default(),
            peaks: Peaks::default(),
            first: None,
            busiest: Busiest::default(),
            steps: (0, 0),
            memory: (0, 0),
            operations: 0,
            span: None,
            now: Now::default(),
            ipv6_prefix,
        }
    }

    /// Counts one request, and what it came to by the policy that is compared with, if one is.
    pub fn see(&mut self, request: &Request<'_>, judged: &Judged<'_>, before: Option<&Judged<'_>>) {
        let (at, ending) = (request.at, judged.ending());
        self.span = Some((self.span.map_or(at, |(first, _)| first), at));
        self.totals.add(ending);
        self.series.add(at, ending);
        let routes = self.routes.len();
        self.routes[judged.route.map_or(routes - 1, |route| route.min(routes - 1))].add(ending);
        self.by_tenant(judged, ending);
        let refusing = self.by_limit(at, judged);
        let bit = refusing.map_or(0, |limit| self.subjects.bit(limit));
        self.by_time(at, judged.decision, ending);
        let denied_before = before.map(|before| self.by_policy_before(before));
        if let Some(denied_before) = denied_before {
            let denied = ending.is_refusal();
            self.changed[0] += u64::from(denied && !denied_before);
            self.changed[1] += u64::from(!denied && denied_before);
        }
        let subject = self.subjects.see(request, &judged.identity, self.ipv6_prefix);
        subject.meet(at, judged, (denied_before.unwrap_or(false), bit));
        if ending != Ending::Allowed || denied_before == Some(true) {
            subject.name(&judged.identity, self.ipv6_prefix);
        }
        if ending.is_refusal() && self.first.is_none() {
            self.first = Some(Moment {
                at,
                who: subject.shown().to_owned(),
                what: format!("{} {}", short(request.method), short(request.target)),
                by: judged.refused_by().to_owned(),
            });
        }
    }

    /// Sees what counters take; to be called now and then.
    pub fn see_memory(&mut self, stats: &[MemoryStats]) {
        let keys = stats.iter().map(|one| one.keys).sum();
        let bytes = stats.iter().map(|one| one.bytes).sum();
        self.memory = (self.memory.0.max(keys), self.memory.1.max(bytes));
    }

    /// Counts what the actor with this number came to, among `actors`.
    pub fn see_actor(&mut self, actor: usize, ending: Ending) {
        if self.actors.len() <= actor {
            self.actors.resize(actor + 1, Counts::default());
        }
        self.actors[actor].add(ending);
    }

    fn by_tenant(&mut self, judged: &Judged<'_>, ending: Ending) {
        let Some(tenant) = judged.identity.tenant.as_deref().map(short) else { return };
        let room = self.tenants.len() < MOST_TENANTS;
        match self.tenants.get_mut(tenant) {
            Some(counts) => counts.add(ending),
            None if room => self.tenants.entry(tenant.into()).or_default().add(ending),
            None => self.other_tenants.add(ending),
        }
    }

    fn by_limit(&mut self, at: Timestamp, judged: &Judged<'_>) -> Option<&'static str> {
        let (mut refusing, decision) = (None, judged.decision);
        if let Some(by) = judged.refusing().filter(|_| judged.ending() == Ending::Limited) {
            refusing = Some(by.limit);
            let (_, count) = self.limits.entry(by.limit).or_insert_with(|| (by.layer, LimitCount::default()));
            count.denied += 1;
            count.first.get_or_insert(at);
        }
        for used in decision.uses() {
            let (_, count) =
                self.limits.entry(used.limit).or_insert_with(|| (used.layer, LimitCount::default()));
            count.asked += 1;
            count.warned += u64::from(used.graced);
            count.would_deny += u64::from(used.refuses && !used.enforced);
            self.peaks.see(&used, refusing == Some(used.limit));
        }
        refusing
    }

    fn by_policy_before(&mut self, before: &Judged<'_>) -> bool {
        let ending = before.ending();
        self.before.get_or_insert_default().add(ending);
        if let Some(by) = before.refusing() {
            let (_, count) = self.limits.entry(by.limit).or_insert_with(|| (by.layer, LimitCount::default()));
            count.denied_before += 1;
        }
        ending.is_refusal()
    }

    fn by_time(&mut self, at: Timestamp, decision: &Decision, ending: Ending) {
        let (edge, inner) = decision.steps();
        self.steps = (self.steps.0 + edge as u64, self.steps.1 + inner as u64);
        let operations = u64::from(inner > 0);
        self.operations += operations;
        let second = at.as_micros() / Span::SECOND.as_micros();
        let Now { minute, denied, .. } = self.now;
        if self.now.second != second {
            self.now = Now { second, minute, denied, ..Now::default() };
        }
        self.now.requests += 1;
        self.now.operations += operations;
        if self.now.requests > self.busiest.requests.1 {
            self.busiest.requests = (Timestamp::from_micros(second * 1_000_000), self.now.requests);
        }
        self.busiest.operations = self.busiest.operations.max(self.now.operations);
        if ending.is_refusal() {
            self.deny_at(second / 60);
        }
    }

    fn deny_at(&mut self, minute: u64) {
        if self.now.minute != minute {
            (self.now.minute, self.now.denied) = (minute, 0);
        }
        self.now.denied += 1;
        if self.now.denied > self.busiest.denied.1 {
            self.busiest.denied =
                (Timestamp::from_micros(minute * Span::MINUTE.as_micros()), self.now.denied);
        }
    }
}

/// Until when whoever sent a refused request has to wait. Waiting does not help where what it asks for is refused for good.
fn blocked_until(at: Timestamp, judged: &Judged<'_>) -> Timestamp {
    match judged.decision.refusal().map(|refusal| refusal.retry) {
        Some(Retry::After(span)) => at.plus(span),
        Some(Retry::Now | Retry::Never) | None => at,
    }
}
