//! Scenario: synthetic traffic from a small TOML file, the same for the same seed on every machine.
//!
//! [`Scenario::read`] reads the file, or says everything that is wrong with it. [`Scenario::play`] has its actors send
//! requests, by their times, one by one: nothing is worked out ahead, so that a week takes as much memory as a minute.
//!
//! | module | holds |
//! | --- | --- |
//! | `fields`, `read`, `time` | the file as values, and every mistake in it |
//! | `cluster` | nodes, and what goes wrong between them and their store |
//! | `sources`, `routes`, `agents` | where requests come from, what they ask for, and with what |
//! | `dice`, `rhythm`, `pattern` | when they come |
//! | `play` | one after the other |

mod agents;
mod cluster;
mod dice;
mod fields;
mod pattern;
mod play;
mod read;
mod rhythm;
mod routes;
mod sources;
mod time;

use std::fmt;

use threshold::policy::Problem;
use threshold::{Span, Timestamp};

use agents::Agents;
use fields::HUNDRED;
use pattern::Pattern;
use routes::{Route, Routes};
use sources::Sources;

pub use cluster::{Cluster, Crash, Cut, Spread};
pub use play::{Play, Sent};

/// Synthetic traffic: who sends what, and what goes wrong meanwhile.
#[derive(Clone, Debug)]
pub struct Scenario {
    about: Option<String>,
    seed: u64,
    start: Timestamp,
    lasts: Span,
    /// The route whose requests name an account.
    login: Route,
    policy: Option<String>,
    actors: Vec<Actor>,
    cluster: Option<Cluster>,
}

/// One or many who send alike.
#[derive(Clone, Debug)]
pub struct Actor {
    name: String,
    kind: Kind,
    honest: bool,
    expected: Option<Expectation>,
    /// How many there are, each with times of its own.
    members: u64,
    /// When it begins and ends, in microseconds from the start.
    active: [u64; 2],
    pattern: Pattern,
    sources: Sources,
    routes: Routes,
    agents: Agents,
    host: Option<String>,
    tenant: Option<String>,
    /// How many of a hundred thousand are signed in.
    signed_in: u64,
    /// How many accounts it tries; each member has one of its own unless told.
    accounts: Option<u64>,
    bytes: u64,
    /// Header fields that it makes up: their names, and sets of values.
    forged: Option<Forged>,
}

#[derive(Clone, Debug)]
struct Forged {
    names: Vec<String>,
    values: Vec<String>,
}

/// The kinds of actors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// People, who come and go by day and by night.
    Users,
    /// Programs that read everything, one page after the other.
    Crawler,
    /// Passwords tried on many accounts from many networks.
    Stuffing,
    /// Many at once for a short time.
    Burst,
    /// Few at a time, as regular as a clock, for long.
    Drip,
    /// A tenant that becomes larger.
    Tenant,
    /// As much as possible on both sides of a window's edge.
    Edges,
    /// A new sender for every request.
    Flood,
}

/// How many of an actor's requests should be refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expectation {
    /// True if at least so many are, false if at most so many are.
    pub at_least: bool,
    /// So many of a hundred thousand.
    pub parts: u64,
}

/// A scenario that is refused whole, with everything that is wrong in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError {
    /// The file's name, as it was given.
    pub file: String,
    /// The mistakes, in the order of the file; never empty.
    pub problems: Vec<Problem>,
}

impl Scenario {
    /// Reads the scenario in `text`, which stands in `file`.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it, if anything is.
    pub fn read(file: &str, text: &str) -> Result<Self, ScenarioError> {
        read::read(text).map_err(|mut problems| {
            problems.sort_by_key(|problem| (problem.line, problem.column));
            ScenarioError { file: file.to_owned(), problems }
        })
    }

    /// Has everybody send their requests. The same seed gives the same requests.
    #[must_use]
    pub fn play(&self, seed: u64) -> Play<'_> {
        Play::new(self, seed)
    }

    /// What it shows, by its own word.
    #[must_use]
    pub fn about(&self) -> Option<&str> {
        self.about.as_deref()
    }

    /// The seed that it is meant to be played with.
    #[must_use]
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// When it begins.
    #[must_use]
    pub const fn begins(&self) -> Timestamp {
        self.start
    }

    /// When it is over.
    #[must_use]
    pub const fn ends(&self) -> Timestamp {
        self.start.plus(self.lasts)
    }

    /// The policy that it is meant for, beside the scenario's file.
    #[must_use]
    pub fn policy(&self) -> Option<&str> {
        self.policy.as_deref()
    }

    /// Who sends.
    #[must_use]
    pub fn actors(&self) -> &[Actor] {
        &self.actors
    }

    /// The nodes that requests come to, if there are several or something goes wrong with them.
    #[must_use]
    pub const fn cluster(&self) -> Option<&Cluster> {
        self.cluster.as_ref()
    }
}

impl Actor {
    /// What it is called.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it does.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// True if a refusal of one of its requests is a mistake.
    #[must_use]
    pub const fn is_honest(&self) -> bool {
        self.honest
    }

    /// How many of its requests should be refused.
    #[must_use]
    pub const fn expected(&self) -> Option<Expectation> {
        self.expected
    }
}

impl Kind {
    /// All of them, in the order of the documentation.
    pub const ALL: [Self; 8] = [
        Self::Users,
        Self::Crawler,
        Self::Stuffing,
        Self::Burst,
        Self::Drip,
        Self::Tenant,
        Self::Edges,
        Self::Flood,
    ];

    /// The word in a scenario.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Users => "users",
            Self::Crawler => "crawler",
            Self::Stuffing => "stuffing",
            Self::Burst => "burst",
            Self::Drip => "drip",
            Self::Tenant => "tenant",
            Self::Edges => "edges",
            Self::Flood => "flood",
        }
    }

    /// True if each of its requests comes from somewhere else.
    const fn roams(self) -> bool {
        matches!(self, Self::Stuffing | Self::Flood)
    }
}

impl Expectation {
    /// Whether `refused` of `sent` are as many as they should be. Nothing sent is as it should be.
    #[must_use]
    pub fn holds(&self, refused: u64, sent: u64) -> bool {
        let (is, should) =
            (u128::from(refused) * u128::from(HUNDRED), u128::from(sent) * u128::from(self.parts));
        sent == 0 || if self.at_least { is >= should } else { is <= should }
    }
}

impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.at_least { "at least" } else { "at most" };
        let (whole, behind) = (self.parts / 1_000, format!("{:03}", self.parts % 1_000));
        match behind.trim_end_matches('0') {
            "" => write!(f, "{word} {whole}%"),
            behind => write!(f, "{word} {whole}.{behind}%"),
        }
    }
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            let newline = if index == 0 { "" } else { "\n" };
            write!(f, "{newline}{}:{problem}", self.file)?;
        }
        Ok(())
    }
}

impl std::error::Error for ScenarioError {}

#[cfg(test)]
mod tests;
