//! What is written down.

use super::subject::SubjectId;
use crate::rate::Rate;
use crate::standing::{Habits, Score, Tally, Violation};
use crate::time::{Span, Timestamp};

/// What is held against a subject. Versions grow with every change in the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Whose it is.
    pub subject: SubjectId,
    /// When it was last changed, in the order of changes.
    pub version: u64,
    /// Strikes that count for the ladder.
    pub strikes: Tally,
    /// The reputation.
    pub score: Score,
    /// All violations there ever were.
    pub violations: u64,
    /// The first of them.
    pub first_seen: Timestamp,
    /// The last of them.
    pub last_seen: Timestamp,
    /// How the client looked.
    pub habits: Habits,
}

/// An active cooldown, shadow or ban, or one that was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sanction {
    /// Names it.
    pub id: u64,
    /// When it was last changed, in the order of changes.
    pub version: u64,
    /// Against whom.
    pub subject: SubjectId,
    /// What it does.
    pub kind: SanctionKind,
    /// When it began.
    pub from: Timestamp,
    /// When it ends.
    pub until: Timestamp,
    /// Why.
    pub reason: String,
    /// Who imposed it.
    pub author: Author,
    /// When and by whom it was lifted before its end.
    pub lifted: Option<Lifted>,
}

/// What a sanction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SanctionKind {
    /// Refuses for a short while.
    Cooldown,
    /// Delays answers.
    Shadow,
    /// Refuses everything.
    Ban,
}

/// Who imposed a sanction: there is nobody else who could.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Author {
    /// The ladder.
    Ladder {
        /// The limit that was exceeded.
        limit: String,
        /// How many strikes that made.
        strikes: u32,
    },
    /// An operator, by name.
    Operator(String),
}

/// A sanction's early end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lifted {
    /// When.
    pub at: Timestamp,
    /// By whom.
    pub by: String,
}

/// One violation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViolationRecord {
    /// Names it.
    pub id: u64,
    /// Who.
    pub subject: SubjectId,
    /// What kind.
    pub kind: Violation,
    /// When.
    pub at: Timestamp,
    /// Which limit.
    pub limit: String,
    /// How many requests there were, or bytes.
    pub count: u64,
    /// How many the limit allows.
    pub allowed: u64,
    /// In how long.
    pub window: Span,
    /// What the client looks like, as a hash.
    pub fingerprint: Option<String>,
    /// What it calls itself.
    pub user_agent: Option<String>,
    /// Where it is, as two letters.
    pub country: Option<[u8; 2]>,
    /// What else there is to say.
    pub details: String,
}

/// Another rate for a limit.
///
/// With the limit's own period it goes on with what was consumed. With another it counts from when it is set; the limit
/// counts on beside it and refuses nobody until it is in force again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    /// Names it, for changing and removing it.
    pub id: String,
    /// The limit's id.
    pub limit: String,
    /// Whom it is for; without one, everyone.
    pub subject: Option<SubjectId>,
    /// The rate it sets.
    pub rate: Rate,
    /// Capacity on top of that.
    pub burst_allowance: u64,
    /// Switched off, it waits.
    pub enabled: bool,
    /// The highest one counts; among equals the one for a subject, then the latest.
    pub priority: i64,
    /// When it ends.
    pub expires: Option<Timestamp>,
}

/// A tenant's tier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenant {
    /// The tenant.
    pub subject: SubjectId,
    /// The name of its tier.
    pub tier: String,
}

/// Failed logins to one account from one source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failures {
    /// The account together with the source.
    pub source: SubjectId,
    /// The account.
    pub account: SubjectId,
    /// When it was last changed, in the order of changes.
    pub version: u64,
    /// How many, and when last.
    pub tally: Tally,
    /// Until when the account is locked for this source.
    pub locked_until: Timestamp,
}

/// A device that an account was used on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    /// The account.
    pub account: SubjectId,
    /// The device, by the token it was given.
    pub device: SubjectId,
    /// When it was given.
    pub issued: Timestamp,
    /// When it was last shown.
    pub used: Timestamp,
}

/// An operator's change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Audit {
    /// Names it.
    pub id: u64,
    /// When.
    pub at: Timestamp,
    /// Who.
    pub by: String,
    /// What was done.
    pub action: String,
    /// To whom or what.
    pub target: String,
    /// What it was before; empty if nothing.
    pub before: String,
    /// What it is now; empty if nothing.
    pub after: String,
}

/// What can be asked of a ledger. Lists come in pages: `after`, or `before` where the newest come first, is the number
/// that the page before ended with, 0 for the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Query {
    /// Everything that decisions are made by (standings, sanctions, overrides, tenants) and changed after a version, and
    /// the operators' changes that erased somebody, in the order of changes.
    Changes {
        /// The version.
        after: u64,
    },
    /// Sanctions, oldest first.
    Sanctions {
        /// Only this subject's.
        subject: Option<SubjectId>,
        /// Only those in force then.
        active_at: Option<Timestamp>,
        /// The id before the first.
        after: u64,
    },
    /// What is held against a subject: one record or none.
    Standing(SubjectId),
    /// Violations, oldest first.
    Violations {
        /// Only this subject's.
        subject: Option<SubjectId>,
        /// The id before the first.
        after: u64,
    },
    /// Violations, newest first.
    LatestViolations {
        /// Only this subject's.
        subject: Option<SubjectId>,
        /// The id after the first.
        before: u64,
    },
    /// Overrides that were not removed, in the order in which they were set.
    Overrides {
        /// The version before the first.
        after: u64,
    },
    /// Tenants that were not removed, in the order in which they were set.
    Tenants {
        /// The version before the first.
        after: u64,
    },
    /// The failed logins of a source: one record or none.
    Failures(SubjectId),
    /// The failed logins that lock somebody out, in the order in which they last changed.
    Lockouts {
        /// When.
        at: Timestamp,
        /// Only of this account.
        account: Option<SubjectId>,
        /// The version before the first.
        after: u64,
    },
    /// A device of an account: one record or none.
    Device {
        /// The account.
        account: SubjectId,
        /// The device.
        device: SubjectId,
    },
    /// The operators' changes, oldest first.
    Audit {
        /// The id before the first.
        after: u64,
    },
    /// The operators' changes, newest first.
    LatestAudit {
        /// The id after the first.
        before: u64,
    },
}

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A standing.
    Standing(Standing),
    /// A sanction.
    Sanction(Sanction),
    /// A violation.
    Violation(ViolationRecord),
    /// An override.
    Override {
        /// When it was last changed, in the order of changes.
        version: u64,
        /// The override.
        change: Override,
        /// True if it is none any more.
        removed: bool,
    },
    /// A tenant.
    Tenant {
        /// When it was last changed, in the order of changes.
        version: u64,
        /// The tenant.
        tenant: Tenant,
        /// True if it is none any more.
        removed: bool,
    },
    /// Failed logins.
    Failures(Failures),
    /// A device.
    Device(Device),
    /// An operator's change.
    Audit(Audit),
}

/// Some records, and how to get at those after them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// The records.
    pub records: Vec<Record>,
    /// What the next query goes on after; none if there was nothing more.
    pub next: Option<u64>,
}

impl Sanction {
    /// True if it is in force at `now`.
    #[must_use]
    pub fn is_active(&self, now: Timestamp) -> bool {
        self.lifted.is_none() && now < self.until
    }
}

impl SanctionKind {
    /// All of them, the mildest first.
    pub const ALL: [Self; 3] = [Self::Cooldown, Self::Shadow, Self::Ban];

    /// The name, as it is shown and written down.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cooldown => "cooldown",
            Self::Shadow => "shadow",
            Self::Ban => "ban",
        }
    }
}

impl Record {
    /// The number that a page which ends with this record ends with.
    #[must_use]
    pub const fn number(&self, query: &Query) -> u64 {
        match self {
            Self::Sanction(sanction) if matches!(query, Query::Sanctions { .. }) => sanction.id,
            Self::Sanction(Sanction { version, .. })
            | Self::Standing(Standing { version, .. })
            | Self::Failures(Failures { version, .. })
            | Self::Override { version, .. }
            | Self::Tenant { version, .. } => *version,
            Self::Violation(ViolationRecord { id, .. }) | Self::Audit(Audit { id, .. }) => *id,
            Self::Device(_) => 0,
        }
    }
}

impl Page {
    /// The page of `records`, which were asked for up to one more than [`PAGE`](super::PAGE).
    #[must_use]
    pub fn of(mut records: Vec<Record>, query: &Query) -> Self {
        let more = records.len() > super::PAGE;
        records.truncate(super::PAGE);
        let next = records.last().filter(|_| more).map(|last| last.number(query));
        Self { records, next }
    }
}
