//! Report: what a tally says, as data that texts, JSON and pages are made of.

mod condition;
mod html;
mod json;

use threshold::engine::Rules;
use threshold::figures::Ending;
use threshold::policy::Layer;
use threshold::{Span, Timestamp};

pub use condition::{Condition, ConditionError};
pub use html::page;
pub use json::document;

use crate::replay::Sanctions;
use crate::tally::{
    Busiest, Census, Counts, Kind, LimitCount, Looks, Moment, Part, Record, SHARES, Series, Subjects, Tally,
};

/// How many limits are named where there is little room.
const NAMED_LIMITS: usize = 3;

/// What the shares of [`SHARES`] are called.
pub const SHARE_NAMES: [&str; SHARES.len()] =
    ["below 10 %", "10–25 %", "25–50 %", "50–75 %", "75–90 %", "90–100 %", "over"];

/// What a policy would have done.
#[derive(Clone, Debug)]
pub struct Report {
    /// What the policy is called, and the one that it is compared with.
    pub policy: (String, Option<String>),
    /// Where the requests came from: lines of text.
    pub sources: Vec<String>,
    /// When the first and the last came.
    pub span: Option<(Timestamp, Timestamp)>,
    /// By what they came to, and by the policy that is compared with.
    pub totals: (Counts, Option<Counts>),
    /// Sanctions that would have been imposed, and by the policy that is compared with.
    pub sanctions: (Sanctions, Option<Sanctions>),
    /// By limit.
    pub limits: Vec<LimitReport>,
    /// By layer: refusals.
    pub layers: Vec<(&'static str, u64)>,
    /// By route.
    pub routes: Vec<(String, Counts)>,
    /// By tenant, those with most refusals first.
    pub tenants: Vec<(String, Counts)>,
    /// By who made them, where a scenario did.
    pub actors: Vec<(String, Counts)>,
    /// Who was refused: how many there were in all, and how many of them were, and whether that was counted exactly.
    pub subjects: (u64, u64, bool),
    /// Those who met most.
    pub hit: Vec<SubjectReport>,
    /// How many of those who were refused seem to be who.
    pub looks: [u64; 3],
    /// Those who seem to be ordinary people and were refused.
    pub ordinary: Vec<SubjectReport>,
    /// Who is refused now and was not, and the other way round.
    pub changed: Option<[Changed; 2]>,
    /// Over time.
    pub series: Series,
    /// How many subjects had a peak of 1, of 2 to 3, of 4 to 7 and so on requests in a minute.
    pub peaks: Vec<u64>,
    /// The first refusal.
    pub first: Option<Moment>,
    /// The busiest times.
    pub busiest: Busiest,
    /// What the policy costs.
    pub cost: Cost,
    /// What has to be known to understand it.
    pub notes: Vec<String>,
}

/// What one limit did.
#[derive(Clone, Debug)]
pub struct LimitReport {
    /// Its id.
    pub id: &'static str,
    /// Its layer.
    pub layer: Layer,
    /// What it did.
    pub count: LimitCount,
    /// How many subjects it refused, and how many of them seem to be ordinary.
    pub subjects: (u64, u64),
    /// How many of its keys use which share at most, as [`SHARE_NAMES`].
    pub shares: [u64; SHARES.len()],
}

/// One subject.
#[derive(Clone, Debug)]
pub struct SubjectReport {
    /// What it is called.
    pub who: String,
    /// What was counted.
    pub record: Record,
    /// What refused it.
    pub limits: Vec<&'static str>,
    /// Who it seems to be, and why.
    pub looks: (Looks, Vec<&'static str>),
}

/// Whom a policy treats otherwise than the one before.
#[derive(Clone, Debug, Default)]
pub struct Changed {
    /// How many subjects.
    pub subjects: u64,
    /// How many of them seem to be ordinary.
    pub ordinary: u64,
    /// How many requests, of whomever.
    pub requests: u64,
    /// Those with most.
    pub most: Vec<SubjectReport>,
}

/// What the policy costs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Operations of the store in its busiest second.
    pub operations_at_peak: u64,
    /// Operations of the store in all.
    pub operations: u64,
    /// Steps that a request takes, at the edge and in the store.
    pub steps: (f64, f64),
    /// The most counters that lived at the same time, and their bytes.
    pub memory: (usize, usize),
}

/// What a report is made of, beside the tally.
pub struct Made<'a> {
    /// The policy, made ready.
    pub rules: Option<&'a Rules>,
    /// What it imposed, and what the one imposed that it is compared with.
    pub sanctions: (Sanctions, Option<Sanctions>),
    /// True if the counters did not fit into memory.
    pub crowded: bool,
    /// What they are called.
    pub names: (String, Option<String>),
    /// Where the requests came from.
    pub sources: Vec<String>,
    /// Who made them.
    pub actors: Vec<String>,
    /// What has to be known.
    pub notes: Vec<String>,
    /// How many subjects are named.
    pub most: usize,
}

impl Report {
    /// What `tally` says.
    #[must_use]
    pub fn new(tally: &Tally, made: Made<'_>) -> Self {
        let (rules, compared) = (made.rules, made.sanctions.1.is_some());
        let mut notes = made.notes;
        notes.extend(caveats(tally, made.crowded));
        let records: Vec<&Record> = tally.subjects.met().collect();
        let denied: Vec<&Record> = records.iter().copied().filter(|record| record.denied > 0).collect();
        let census = tally.subjects.census();
        let ordinary = denied.iter().copied().filter(|record| record.looks().0 == Looks::Ordinary);
        Self {
            policy: made.names,
            sources: made.sources,
            span: tally.span,
            totals: (tally.totals, compared.then(|| tally.before.unwrap_or_default())),
            sanctions: made.sanctions,
            limits: limits(tally, rules, &census),
            layers: layers(tally),
            routes: routes(tally, rules),
            tenants: tenants(tally),
            actors: made.actors.into_iter().zip(tally.actors.iter().copied()).collect(),
            subjects: (census.seen, census.refused(), tally.subjects.exact()),
            hit: most(&tally.subjects, records.iter().copied(), made.most, |record| {
                u64::from(record.denied) << 32 | u64::from(record.warned.saturating_add(record.slowed))
            }),
            looks: census.denied,
            ordinary: most(&tally.subjects, ordinary, made.most, |record| record.denied.into()),
            changed: compared.then(|| changed(tally, &census, &records, made.most)),
            series: tally.series.clone(),
            peaks: tally.subjects.peaks(),
            first: tally.first.clone(),
            busiest: tally.busiest,
            cost: cost(tally),
            notes,
        }
    }

    /// All requests.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.totals.0.requests()
    }
}

fn limits(tally: &Tally, rules: Option<&Rules>, census: &Census) -> Vec<LimitReport> {
    let report = |(id, (layer, count)): (&&'static str, &(Layer, LimitCount))| {
        let Part { subjects, ordinary } = tally.subjects.refused_by(id, census);
        let subjects = (subjects, ordinary);
        LimitReport { id, layer: *layer, count: count.clone(), subjects, shares: tally.peaks.of(id).0 }
    };
    let mut limits: Vec<LimitReport> = tally.limits.iter().map(report).collect();
    // In the order of the policy; those of the policy before come last.
    let place = |id: &str| {
        rules.and_then(|rules| rules.limits().position(|rule| rule.id().as_str() == id)).unwrap_or(usize::MAX)
    };
    limits.sort_by_key(|limit| place(limit.id));
    limits
}

fn layers(tally: &Tally) -> Vec<(&'static str, u64)> {
    let denied = |layer: Layer| {
        let limits = tally.limits.values().filter(|(of, _)| *of == layer);
        limits.map(|(_, count)| count.denied).sum()
    };
    Layer::ALL.iter().map(|layer| (layer.word(), denied(*layer))).collect()
}

fn routes(tally: &Tally, rules: Option<&Rules>) -> Vec<(String, Counts)> {
    let named = rules.into_iter().flat_map(Rules::routes).map(str::to_owned);
    let names = named.chain(["unmatched".to_owned()]);
    let all = names.zip(tally.routes.iter().copied());
    all.filter(|(_, counts)| counts.requests() > 0).collect()
}

fn tenants(tally: &Tally) -> Vec<(String, Counts)> {
    let mut tenants: Vec<(String, Counts)> =
        tally.tenants.iter().map(|(name, counts)| (name.to_string(), *counts)).collect();
    if tally.other_tenants.requests() > 0 {
        tenants.push(("(others)".to_owned(), tally.other_tenants));
    }
    tenants.sort_by_key(|(_, counts)| std::cmp::Reverse((counts.denied(), counts.requests())));
    tenants
}

/// Those with the highest `worth`, and of equal ones the first by name.
fn most<'a>(
    subjects: &Subjects,
    records: impl Iterator<Item = &'a Record>,
    most: usize,
    worth: impl Fn(&Record) -> u64,
) -> Vec<SubjectReport> {
    let mut records: Vec<&Record> = records.collect();
    records.sort_by(|one, other| (worth(other), one.shown()).cmp(&(worth(one), other.shown())));
    records.truncate(most);
    let report = |record: &Record| SubjectReport {
        who: record.shown().to_owned(),
        record: record.clone(),
        limits: subjects.limits_of(record).collect(),
        looks: record.looks(),
    };
    records.into_iter().map(report).collect()
}

fn changed(tally: &Tally, census: &Census, records: &[&Record], named: usize) -> [Changed; 2] {
    let side = |place: usize, is: fn(&Record) -> bool, worth: fn(&Record) -> u64| {
        let Part { subjects, ordinary } = census.changed[place];
        let some = records.iter().copied().filter(|record| is(record));
        let most = most(&tally.subjects, some, named, worth);
        Changed { subjects, ordinary, requests: tally.changed[place], most }
    };
    [
        side(0, Record::is_newly_denied, |record| record.denied.into()),
        side(1, Record::is_newly_freed, |record| record.denied_before.into()),
    ]
}

fn cost(tally: &Tally) -> Cost {
    let requests = tally.totals.requests().max(1) as f64;
    Cost {
        operations_at_peak: tally.busiest.operations,
        operations: tally.operations,
        steps: (tally.steps.0 as f64 / requests, tally.steps.1 as f64 / requests),
        memory: tally.memory,
    }
}

/// What keeps the figures from being what they seem.
fn caveats(tally: &Tally, crowded: bool) -> Vec<String> {
    let mut notes = Vec::new();
    if !tally.subjects.exact() {
        notes.push(
            "there were more subjects than are kept apart: who came back after a long time counts twice"
                .to_owned(),
        );
    }
    if crowded {
        notes.push("the counters did not fit into memory: some subjects shared one, and more was refused than need be".to_owned());
    }
    notes
}

/// A span in words that are short: its two largest units.
#[must_use]
pub fn lasting(span: Span) -> String {
    let seconds = span.as_micros() / 1_000_000;
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    match (days, hours, minutes, seconds % 60) {
        (0, 0, 0, 0) if !span.is_zero() => "below 1s".to_owned(),
        (0, 0, 0, seconds) => format!("{seconds}s"),
        (0, 0, minutes, seconds) => format!("{minutes}min {seconds}s"),
        (0, hours, minutes, _) => format!("{hours}h {minutes}min"),
        (days, hours, ..) => format!("{days}d {hours}h"),
    }
}

impl SubjectReport {
    /// What refused it, as a list.
    #[must_use]
    pub fn by(&self) -> String {
        match self.limits.is_empty() {
            true => self.record.by.to_owned(),
            // Few say enough, and a table has only so much room.
            false if self.limits.len() > NAMED_LIMITS => {
                let (first, others) = self.limits.split_at(NAMED_LIMITS);
                format!("{} and {} more", first.join(", "), others.len())
            }
            false => self.limits.join(", "),
        }
    }
}

impl Kind {
    /// A word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Address => "address",
            Self::User => "user",
        }
    }
}

impl Counts {
    /// Allowed, warned, slowed, and refused by limits, by bans and cooldowns, and by what else.
    #[must_use]
    pub const fn kinds(&self) -> [(&'static str, u64); 6] {
        [
            ("allowed", self.of(Ending::Allowed)),
            ("warned", self.of(Ending::Warned)),
            ("slowed", self.of(Ending::Delayed)),
            ("limited", self.of(Ending::Limited)),
            ("sanctioned", self.of(Ending::Banned) + self.of(Ending::Cooldown)),
            ("other", self.of(Ending::Listed) + self.of(Ending::BadPath)),
        ]
    }
}
