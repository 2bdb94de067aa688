//! What is asked to be written, and what is answered.

use std::sync::Arc;

use super::erase::{Erased, Erasure};
use super::records::{Override, Sanction, SanctionKind, Standing, Tenant};
use super::subject::SubjectId;
use crate::standing::{Ladder, Lockout, Looks, Reputation, Violation};
use crate::time::{Span, Timestamp};

/// One thing that happened.
#[derive(Clone, Debug)]
pub enum Entry {
    /// Somebody went over a limit.
    Strike(Strike),
    /// A violation turned out worse than it first was.
    Worse(Worse),
    /// An operator changed something.
    Operator {
        /// Who.
        by: String,
        /// When.
        at: Timestamp,
        /// What.
        change: Change,
    },
    /// A login failed.
    LoginFailed(LoginFailed),
    /// A login succeeded.
    LoginSucceeded(LoginSucceeded),
}

/// Somebody went over a limit: written once per subject, limit and window, however often it is asked for.
#[derive(Clone, Debug)]
pub struct Strike {
    /// Who.
    pub subject: SubjectId,
    /// The same under the secret before, while it still counts: what is held against it is carried over.
    pub before: Option<SubjectId>,
    /// Which limit.
    pub limit: String,
    /// The limit's window: no second strike before it is over.
    pub window: Span,
    /// When.
    pub at: Timestamp,
    /// What is known about it.
    pub evidence: Evidence,
    /// What follows strikes; nothing without it.
    pub ladder: Option<Arc<Ladder>>,
    /// What follows for the reputation; nothing without it.
    pub reputation: Option<Reputation>,
}

/// What is known about a violation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// What kind it is by its numbers.
    pub kind: Violation,
    /// How many requests there were, or bytes.
    pub count: u64,
    /// How many the limit allows.
    pub allowed: u64,
    /// How the client looks.
    pub looks: Looks,
    /// The same as a hash to show.
    pub fingerprint: Option<String>,
    /// What the client calls itself.
    pub user_agent: Option<String>,
    /// What else there is to say.
    pub details: String,
}

/// A violation that turned out worse within its window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worse {
    /// Who.
    pub subject: SubjectId,
    /// Which limit.
    pub limit: String,
    /// The limit's window: the violation began at most that long ago.
    pub window: Span,
    /// When.
    pub at: Timestamp,
    /// What kind it is now.
    pub kind: Violation,
    /// How many requests there were by now.
    pub count: u64,
}

/// What an operator may change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Sanctions a subject; one that is in force is extended, never shortened.
    Impose {
        /// Whom.
        subject: SubjectId,
        /// With what.
        kind: SanctionKind,
        /// For how long.
        until: Timestamp,
        /// Why.
        reason: String,
    },
    /// Lifts a subject's sanctions.
    Lift {
        /// Whose.
        subject: SubjectId,
        /// Which; all without one. Strikes are forgotten if all are lifted.
        kind: Option<SanctionKind>,
    },
    /// Sets an override, or changes the one of the same id.
    SetOverride(Override),
    /// Removes the override of that id.
    RemoveOverride(String),
    /// Sets a tenant's tier.
    SetTenant(Tenant),
    /// Removes a tenant's tier.
    RemoveTenant(SubjectId),
    /// Forgets failed logins: an account's, or those of one source.
    Unlock(SubjectId),
    /// Forgets somebody as a whole.
    Erase(Erasure),
    /// Changes nothing here: something was changed elsewhere, such as a policy, and is to be remembered.
    Note {
        /// What was done.
        action: String,
        /// To what.
        target: String,
        /// What it was before; empty if nothing.
        before: String,
        /// What it is now; empty if nothing.
        after: String,
    },
}

/// A login failed.
#[derive(Clone, Debug)]
pub struct LoginFailed {
    /// The account together with the source.
    pub source: SubjectId,
    /// The same under the secret before, while it still counts: failures are carried over.
    pub before: Option<SubjectId>,
    /// The account.
    pub account: SubjectId,
    /// When.
    pub at: Timestamp,
    /// How failures lock out.
    pub lockout: Arc<Lockout>,
}

/// A login succeeded: failures from this source are forgotten, unless they lock it out.
#[derive(Clone, Copy, Debug)]
pub struct LoginSucceeded {
    /// The account together with the source.
    pub source: SubjectId,
    /// The same under the secret before, while it still counts.
    pub before: Option<SubjectId>,
    /// The account.
    pub account: SubjectId,
    /// When.
    pub at: Timestamp,
    /// The device that is known from now on.
    pub device: Option<SubjectId>,
}

/// What came of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// Of a strike.
    Struck(Struck),
    /// Of a worse violation: true if one was found that it is worse than.
    Worse(bool),
    /// Of an operator's change: true if something is different now.
    Changed(bool),
    /// Of an erasure: how much was forgotten.
    Erased(Erased),
    /// Of a login: until when the source is locked out of the account; none if it is not.
    Login {
        /// Failures that count by now.
        failures: u32,
        /// The end of the lockout. A login that succeeded counts for nothing then.
        locked_until: Option<Timestamp>,
        /// True if this entry began or prolonged the lockout.
        locked_now: bool,
    },
}

/// What came of a strike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Struck {
    /// False if the window had its strike already: then nothing was written.
    pub fresh: bool,
    /// The subject's standing after it.
    pub standing: Standing,
    /// What kind of violation it was in the end.
    pub kind: Violation,
    /// The sanctions that were imposed or extended.
    pub imposed: Vec<Sanction>,
}
