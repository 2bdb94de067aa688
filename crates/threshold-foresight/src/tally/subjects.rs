//! Subjects: who asked, how often, and what they met.

use std::hash::Hasher as _;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use siphasher::sip::SipHasher13;
use threshold::figures::Ending;
use threshold::identify::{Identity, address_key};
use threshold::{Span, Timestamp};

use super::agents::Agent;
use super::blocked_until;
use crate::Request;
use crate::replay::Judged;
use crate::request::{name_network, name_user, short};

/// How many subjects are kept.
const MOST: usize = 1 << 18;
/// Peaks are counted by their powers of two.
const POWERS: usize = 33;

/// Who asked. With more than there is room for, those are let go that came longest ago and met nothing.
#[derive(Debug)]
pub struct Subjects {
    table: HashTable<Record>,
    most: usize,
    /// Limits by their numbers, for the records.
    limits: Vec<&'static str>,
    /// Those that were let go.
    gone: Census,
    /// How many of those that were let go had which peak.
    peaks: [u64; POWERS],
}

/// How many subjects there were, and what they met.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// All of them.
    pub seen: u64,
    /// Those that were refused, by whom they seem to be: as [`Looks`].
    pub denied: [u64; 3],
    /// Those that were refused, and not by the policy that is compared with; and the other way round.
    pub changed: [Part; 2],
    /// Those that each limit refused, by its bit.
    limits: Vec<Part>,
}

/// A part of all subjects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// How many.
    pub subjects: u64,
    /// How many of them seem to be ordinary.
    pub ordinary: u64,
}

impl Census {
    fn add(&mut self, record: &Record) {
        self.seen += 1;
        // Most met nothing, and nobody asks what those look like.
        if record.denied == 0 && record.denied_before == 0 {
            return;
        }
        let looks = record.looks().0;
        let changed = [record.is_newly_denied(), record.is_newly_freed()];
        for (part, _) in self.changed.iter_mut().zip(changed).filter(|(_, is)| *is) {
            part.add(looks);
        }
        if record.denied == 0 {
            return;
        }
        self.denied[looks as usize] += 1;
        let mut bits = record.limits;
        while bits != 0 {
            let place = bits.trailing_zeros() as usize;
            if self.limits.len() <= place {
                self.limits.resize(place + 1, Part::default());
            }
            self.limits[place].add(looks);
            bits &= bits - 1;
        }
    }

    /// Those that were refused, whoever they seem to be.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.denied.iter().sum()
    }
}

impl Part {
    fn add(&mut self, looks: Looks) {
        self.subjects += 1;
        self.ordinary += u64::from(looks == Looks::Ordinary);
    }
}

/// What a subject is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An address, or a network of IPv6.
    Address,
    /// A user.
    User,
}

/// One subject, and what it met.
#[derive(Clone, Debug)]
pub struct Record {
    hash: u64,
    /// What it is.
    pub kind: Kind,
    /// What it is called; only known of who met something.
    name: Option<Box<str>>,
    /// How many requests it made.
    pub requests: u32,
    /// How many of them passed with a warning.
    pub warned: u32,
    /// How many of them were held back.
    pub slowed: u32,
    /// How many of them were refused.
    pub denied: u32,
    /// The same by the policy that is compared with.
    pub denied_before: u32,
    /// How many were answered with an error of the client's.
    pub errors: u32,
    /// When it first came and when last.
    pub seen: (Timestamp, Timestamp),
    /// When it was first refused.
    pub first_denied: Option<Timestamp>,
    /// How long it could not pass, all in all.
    pub blocked: Span,
    blocked_until: Timestamp,
    /// True if it was refused for good.
    pub for_good: bool,
    /// True if it was banned.
    pub banned: bool,
    /// What refused it most lately.
    pub by: &'static str,
    /// The minute that is now, and how many requests it had.
    minute: (u32, u32),
    /// The most requests of one minute.
    pub peak: u32,
    agents: u8,
    /// Which limits refused it: a bit for each of the first.
    limits: u64,
}

/// Who somebody seems to be, who met something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Looks {
    /// A person: a browser at a person's pace, most of whose requests are answered well.
    Ordinary,
    /// Some of both.
    Unclear,
    /// No person: no browser, or faster than people are, or mostly refused by the application too.
    Abusive,
}

/// More requests in a minute than a person makes, with all that a page loads; and than a few of them behind one address.
const PACE: u32 = 120;
const RUSH: u32 = 600;

impl Subjects {
    pub(super) fn new() -> Self {
        Self::with_room(MOST)
    }

    fn with_room(most: usize) -> Self {
        Self {
            table: HashTable::new(),
            most,
            limits: Vec::new(),
            gone: Census::default(),
            peaks: [0; POWERS],
        }
    }

    /// The record of who sent `request`, with the request counted.
    pub(super) fn see(&mut self, request: &Request<'_>, identity: &Identity<'_>, prefix: u8) -> &mut Record {
        if self.table.len() >= self.most {
            self.let_go();
        }
        let (hash, kind) = hash(identity, prefix);
        let record = match self.table.entry(hash, |record| record.hash == hash, |record| record.hash) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => place.insert(Record::new(hash, kind, request.at)).into_mut(),
        };
        record.come(request);
        record
    }

    /// Lets half of those go that met nothing, the longest ago first; and if nearly all met something, half of those.
    #[cold]
    fn let_go(&mut self) {
        let spared = |record: &Record| record.name.is_none();
        let mut times: Vec<u64> = self
            .table
            .iter()
            .filter(|record| spared(record))
            .map(|record| record.seen.1.as_micros())
            .collect();
        let half = times.len() / 2;
        if half > self.most / 8 {
            let (_, &mut middle, _) = times.select_nth_unstable(half);
            return self.retain(|record| !spared(record) || record.seen.1.as_micros() > middle);
        }
        let mut denied: Vec<u32> = self.table.iter().map(|record| record.denied).collect();
        let place = denied.len() / 2;
        let (_, &mut middle, _) = denied.select_nth_unstable(place);
        let mut surplus = place;
        // Many may have been refused equally often: as many of them go as have to.
        self.retain(|record| {
            let goes = record.denied <= middle && surplus > 0;
            surplus -= usize::from(goes);
            !goes
        });
    }

    fn retain(&mut self, mut stays: impl FnMut(&Record) -> bool) {
        let Self { table, gone, peaks, .. } = self;
        table.retain(|record| {
            let stays = stays(record);
            if !stays {
                gone.add(record);
                peaks[power(record.peak)] += 1;
            }
            stays
        });
    }

    /// Those that met something, in no order.
    pub fn met(&self) -> impl Iterator<Item = &Record> {
        self.table.iter().filter(|record| record.name.is_some())
    }

    /// A bit for `limit`; none for limits beyond the first 64 that refused anybody.
    pub(super) fn bit(&mut self, limit: &'static str) -> u64 {
        let known = self.limits.iter().position(|known| *known == limit);
        let place = known.unwrap_or_else(|| {
            self.limits.push(limit);
            self.limits.len() - 1
        });
        1_u64.checked_shl(place as u32).unwrap_or(0)
    }

    /// The limits that refused `record`.
    pub fn limits_of<'a>(&'a self, record: &Record) -> impl Iterator<Item = &'static str> + use<'a> {
        let limits = record.limits;
        self.limits
            .iter()
            .take(64)
            .enumerate()
            .filter(move |(bit, _)| limits >> bit & 1 == 1)
            .map(|(_, name)| *name)
    }

    /// How many there were, and what they met. Who came back after it was let go counts twice: see [`Subjects::exact`].
    #[must_use]
    pub fn census(&self) -> Census {
        let mut census = self.gone.clone();
        self.table.iter().for_each(|record| census.add(record));
        census
    }

    /// True if nobody was let go.
    #[must_use]
    pub const fn exact(&self) -> bool {
        self.gone.seen == 0
    }

    /// How many subjects `limit` refused, by `census`.
    #[must_use]
    pub fn refused_by(&self, limit: &str, census: &Census) -> Part {
        let place = self.limits.iter().position(|known| *known == limit);
        place.and_then(|place| census.limits.get(place)).copied().unwrap_or_default()
    }

    /// How many had a peak of 1, of 2 to 3, of 4 to 7 and so on requests in a minute.
    #[must_use]
    pub fn peaks(&self) -> Vec<u64> {
        let mut peaks = self.peaks;
        self.table.iter().for_each(|record| peaks[power(record.peak)] += 1);
        let last = peaks.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1);
        peaks[..last].to_vec()
    }
}

const fn power(peak: u32) -> usize {
    (if peak == 0 { 0 } else { peak.ilog2() }) as usize
}

/// Who asks: the user if somebody vouches for it, or else the address.
fn hash(identity: &Identity<'_>, prefix: u8) -> (u64, Kind) {
    let mut hasher = SipHasher13::new();
    match user(identity) {
        Some(user) => {
            hasher.write(identity.tenant.as_deref().unwrap_or_default().as_bytes());
            hasher.write_u8(0xff);
            hasher.write(user.as_bytes());
            (hasher.finish(), Kind::User)
        }
        None => {
            hasher.write(address_key(identity.client, prefix).as_bytes());
            (hasher.finish(), Kind::Address)
        }
    }
}

fn user<'a>(identity: &'a Identity<'_>) -> Option<&'a str> {
    identity.user.as_deref().filter(|_| identity.user_kind.is_some_and(|kind| kind.verified()))
}

/// How a subject is called.
fn name(identity: &Identity<'_>, prefix: u8) -> String {
    let mut name = String::new();
    match user(identity) {
        Some(user) => name_user(&mut name, short(user), identity.tenant.as_deref().map(short)),
        None => name_network(&mut name, identity.client, prefix),
    }
    name
}

impl Record {
    const fn new(hash: u64, kind: Kind, at: Timestamp) -> Self {
        Self {
            hash,
            kind,
            name: None,
            requests: 0,
            warned: 0,
            slowed: 0,
            denied: 0,
            denied_before: 0,
            errors: 0,
            seen: (at, at),
            first_denied: None,
            blocked: Span::ZERO,
            blocked_until: Timestamp::from_micros(0),
            for_good: false,
            banned: false,
            by: "",
            minute: (0, 0),
            peak: 0,
            agents: 0,
            limits: 0,
        }
    }

    fn come(&mut self, request: &Request<'_>) {
        self.requests = self.requests.saturating_add(1);
        self.seen.1 = request.at;
        let failed = request.status.is_some_and(|status| (400..500).contains(&status));
        self.errors = self.errors.saturating_add(failed.into());
        let minute = (request.at.as_micros() / Span::MINUTE.as_micros()) as u32;
        self.minute =
            if self.minute.0 == minute { (minute, self.minute.1.saturating_add(1)) } else { (minute, 1) };
        self.peak = self.peak.max(self.minute.1);
        // Looking takes its time, and few change their names: less and less often.
        if self.requests.is_power_of_two() {
            self.agents |= Agent::of(request.agent) as u8;
        }
    }

    /// Counts what a request of it came to.
    pub(super) fn meet(&mut self, at: Timestamp, judged: &Judged<'_>, (denied_before, bit): (bool, u64)) {
        self.limits |= bit;
        let ending = judged.ending();
        let count = |count: &mut u32, is: bool| *count = count.saturating_add(is.into());
        count(&mut self.warned, ending == Ending::Warned);
        count(&mut self.slowed, ending == Ending::Delayed);
        count(&mut self.denied_before, denied_before);
        count(&mut self.denied, ending.is_refusal());
        self.banned |= judged.brought_ban || ending == Ending::Banned;
        if ending.is_refusal() {
            self.first_denied.get_or_insert(at);
            self.by = judged.refused_by();
            // A request may be refused for good, by what it asks for. A subject is if a list has it.
            self.for_good |= ending == Ending::Listed;
            self.block(at, blocked_until(at, judged));
        }
    }

    fn block(&mut self, at: Timestamp, until: Timestamp) {
        let from = self.blocked_until.max(at);
        self.blocked = Span::from_micros(self.blocked.as_micros() + until.since(from).as_micros());
        self.blocked_until = self.blocked_until.max(until);
    }

    /// True if it is refused now and was not by the policy that is compared with.
    #[must_use]
    pub const fn is_newly_denied(&self) -> bool {
        self.denied > 0 && self.denied_before == 0
    }

    /// True if it was refused by the policy that is compared with, and is not now.
    #[must_use]
    pub const fn is_newly_freed(&self) -> bool {
        self.denied == 0 && self.denied_before > 0
    }

    /// Writes down what it is called.
    pub(super) fn name(&mut self, identity: &Identity<'_>, prefix: u8) {
        if self.name.is_none() {
            self.name = Some(name(identity, prefix).into());
        }
    }

    /// What it is called.
    #[must_use]
    pub fn shown(&self) -> &str {
        self.name.as_deref().unwrap_or("somebody")
    }

    /// The kinds of programs that it used.
    pub fn agents(&self) -> impl Iterator<Item = Agent> {
        let agents = self.agents;
        Agent::ALL.into_iter().filter(move |agent| agents & *agent as u8 != 0)
    }

    /// Who it seems to be, and what speaks for that.
    #[must_use]
    pub fn looks(&self) -> (Looks, Vec<&'static str>) {
        let mut against = Vec::new();
        let browser = self.agents == Agent::Browser as u8;
        if !browser {
            against.push(match self.agents {
                agents if agents & Agent::Crawler as u8 != 0 => "a crawler by its own word",
                agents if agents & Agent::Program as u8 != 0 => "a program and no browser",
                _ => "does not say what it is",
            });
        }
        if self.peak > PACE {
            against.push("faster than people are");
        }
        if self.errors > 10 && self.errors > self.requests / 2 {
            against.push("mostly answered with errors");
        }
        let rush = self.peak > RUSH;
        match against.len() {
            0 if !rush => (Looks::Ordinary, vec!["a browser at a person's pace"]),
            1 if !rush => (Looks::Unclear, against),
            _ => (Looks::Abusive, against),
        }
    }
}

impl Looks {
    /// A word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ordinary => "ordinary",
            Self::Unclear => "unclear",
            Self::Abusive => "abusive",
        }
    }
}
