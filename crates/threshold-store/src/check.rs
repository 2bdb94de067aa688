//! What a store or a ledger is looked at for before it is used, and by `threshold doctor`.

use threshold_core::{Clock, StoreError, StoreErrorKind, Timestamp};

use crate::clock::SystemClock;

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// What it is, in a word or two.
    pub what: &'static str,
    /// How it is.
    pub grade: Grade,
    /// What was seen, and what to do if that is not well.
    pub said: String,
}

/// How well something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grade {
    /// As it should be.
    Good,
    /// It works, and somebody should know.
    Doubtful,
    /// It would not keep its promise: it is not opened.
    Bad,
}

/// Clocks that differ by more than this are told of. Decisions use one clock only, the store's; but what is held against
/// somebody ends by this machine's.
const FAR_OFF: u64 = 5_000_000;
/// Clocks that differ by more than this are not to be used: a node that is days ahead would sweep away what still holds.
const TOO_FAR_OFF: u64 = 600_000_000;

impl Check {
    /// Something as it should be.
    #[must_use]
    pub fn good(what: &'static str, said: impl Into<String>) -> Self {
        Self { what, grade: Grade::Good, said: said.into() }
    }

    /// Something that works, and that somebody should know of.
    #[must_use]
    pub fn doubtful(what: &'static str, said: impl Into<String>) -> Self {
        Self { what, grade: Grade::Doubtful, said: said.into() }
    }

    /// Something that must not be.
    #[must_use]
    pub fn bad(what: &'static str, said: impl Into<String>) -> Self {
        Self { what, grade: Grade::Bad, said: said.into() }
    }

    /// Whether what is kept somewhere belongs to the secret; `other` says what is to be done if it does not.
    #[cfg(any(feature = "durable-objects", feature = "sqlite", feature = "postgres", feature = "redis"))]
    pub(crate) fn secret(
        kept: Option<u128>,
        (secret, previous): crate::open::SecretPair<'_>,
        other: impl FnOnce() -> String,
    ) -> Self {
        let is = |secret: &threshold_core::Secret| kept == Some(secret.fingerprint());
        match kept {
            None => Self::good("secret", "none is known there yet; it is at the first start"),
            Some(_) if is(secret) => Self::good("secret", "it is the one that this was made with"),
            Some(_) if previous.is_some_and(is) => Self::good(
                "secret",
                "this was made with the previous one; it is taken over at the next start",
            ),
            Some(_) => Self::bad("secret", other()),
        }
    }

    /// How far the time of a server is from this machine's.
    #[must_use]
    pub fn clock(theirs: Timestamp) -> Self {
        let ours = SystemClock::new().now();
        let off = ours.as_micros().abs_diff(theirs.as_micros());
        let said =
            format!("{:.3} s from this machine's", std::time::Duration::from_micros(off).as_secs_f64());
        match off > FAR_OFF {
            true if off > TOO_FAR_OFF => {
                Self::bad("clock", format!("{said}; set both by NTP: what still holds would end, or never"))
            }
            true => Self::doubtful("clock", format!("{said}; set both by NTP: bans end by this machine's")),
            false => Self::good("clock", said),
        }
    }
}

/// An error that says what is bad, if anything is.
///
/// # Errors
///
/// If anything is bad.
pub fn all_well(operation: &'static str, checks: &[Check]) -> Result<(), StoreError> {
    let bad: Vec<String> = checks
        .iter()
        .filter(|check| check.grade == Grade::Bad)
        .map(|check| format!("{}: {}", check.what, check.said))
        .collect();
    match bad.is_empty() {
        true => Ok(()),
        false => Err(StoreError::new(StoreErrorKind::Misconfigured, operation, bad.join("; "))),
    }
}
