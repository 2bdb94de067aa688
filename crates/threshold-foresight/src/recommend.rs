//! Recommend: limits that fit what was seen, and whom each of them would have hit.
//!
//! A [`Recommender`] sees requests by their times and keeps, of as many subjects as there is room for, when each asked for
//! what. From that it finds how much they ask for at once, proposes round numbers above that, and tries every proposal on
//! every subject that it kept: what is said of a limit was counted by the limit itself.
//!
//! | module | holds |
//! | --- | --- |
//! | `patterns` | paths as routes |
//! | `tracks` | who asked for what and when |
//! | `measure` | peaks, and limits that are tried |
//! | `finish` | what follows from all of it |
//! | `fragment`, `json` | the same as a policy, and as data |

mod finish;
mod fragment;
mod json;
mod measure;
mod patterns;
mod tracks;

use threshold::{Rate, Timestamp};

use crate::Request;
use crate::request::{name_network, name_user};
use patterns::{OTHER, PatternId, Patterns};
use tracks::{Asked, Tracks};

pub use measure::{Peaks, WINDOWS};
pub use patterns::Pattern;

/// What is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// How many bytes the requests of one kind of subjects may take.
    pub bytes: usize,
    /// How many patterns something is said about: those with the most requests.
    pub patterns: usize,
    /// How many bits of an address of IPv6 are one client.
    pub ipv6_prefix: u8,
    /// How many subjects have to have asked for something, before a limit is proposed for it.
    pub least_subjects: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { bytes: 32 << 20, patterns: 24, ipv6_prefix: 64, least_subjects: 5 }
    }
}

/// The kinds of subjects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SubjectKind {
    /// Addresses; those of IPv6 by network.
    Address,
    /// Users of their tenants; who is none counts by address, as limits do it.
    User,
    /// Tenants; requests without one do not count.
    Tenant,
}

impl SubjectKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Address, Self::User, Self::Tenant];

    /// What one is called.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Address => "address",
            Self::User => "user",
            Self::Tenant => "tenant",
        }
    }
}

/// Sees requests, and recommends limits.
pub struct Recommender {
    options: Options,
    patterns: Patterns,
    /// How often each pattern was seen.
    seen: Vec<u64>,
    /// For each kind of subjects, and whether there were any.
    tracks: [Tracks; 3],
    present: [bool; 3],
    times: Option<[Timestamp; 2]>,
    /// A subject's name while it is written.
    name: String,
}

/// What is recommended, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Recommendation {
    /// How many requests were seen.
    pub requests: u64,
    /// The first and the last of them.
    pub times: Option<[Timestamp; 2]>,
    /// Requests whose pattern is none of those that something is said about.
    pub other: u64,
    /// What was found, by kind and pattern.
    pub findings: Vec<Finding>,
}

/// What was found about one pattern and one kind of subjects.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// Who asked.
    pub kind: SubjectKind,
    /// For what; everything without one.
    pub pattern: Option<Pattern>,
    /// How many requests of the subjects below there were.
    pub requests: u64,
    /// How many subjects that was.
    pub subjects: u64,
    /// These are one subject in so many.
    pub one_in: u64,
    /// Requests of these subjects that there was no room for, of any pattern.
    pub cut_short: u64,
    /// How much they ask for at once, in each of [`WINDOWS`].
    pub peaks: [Peaks; WINDOWS.len()],
    /// How many times denser the busiest second is than the minute around it, in tenths, for half of the subjects and
    /// for 99 of 100 that asked more than once in a minute.
    pub bursts: [u64; 2],
    /// Limits that might be set, from the strictest on in each window.
    pub candidates: Vec<Candidate>,
    /// Which of them is recommended.
    pub chosen: Option<usize>,
}

/// A limit that might be set, and what it would have done.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// The limit, as a token bucket.
    pub rate: Rate,
    /// What it was chosen to be above: `p99`, `p99.9` or `max`.
    pub above: &'static str,
    /// How many subjects it would have refused something.
    pub subjects_hit: u64,
    /// How many requests it would have refused.
    pub requests_hit: u64,
    /// Those that it would have hit most, and how often.
    pub worst: Vec<(String, u64)>,
}

impl Recommender {
    /// One that has seen nothing.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self {
            options,
            patterns: Patterns::new(),
            seen: Vec::new(),
            tracks: [(); 3].map(|()| Tracks::new(options.bytes)),
            present: [false; 3],
            times: None,
            name: String::new(),
        }
    }

    /// Sees one request. They come by their times.
    pub fn see(&mut self, request: &Request<'_>) {
        let pattern = self.patterns.learn(request.method, request.target);
        let place = pattern as usize;
        if self.seen.len() <= place {
            self.seen.resize(place + 1, 0);
        }
        self.seen[place] += 1;
        let [first, last] = self.times.unwrap_or([request.at; 2]);
        self.times = Some([first.min(request.at), last.max(request.at)]);
        let asked = Asked { at: request.at, pattern };
        let [addresses, users, tenants] = &mut self.tracks;
        self.present[0] = true;
        name_network(&mut self.name, request.client, self.options.ipv6_prefix);
        addresses.add(&self.name, asked);
        if let Some(user) = request.user {
            self.present[1] = true;
            name_user(&mut self.name, user, request.tenant);
        }
        users.add(&self.name, asked);
        if let Some(tenant) = request.tenant {
            self.present[2] = true;
            tenants.add(tenant, asked);
        }
    }

    /// What follows from all that was seen.
    #[must_use]
    pub fn finish(self) -> Recommendation {
        finish::finish(&self)
    }
}

#[cfg(test)]
mod tests;
