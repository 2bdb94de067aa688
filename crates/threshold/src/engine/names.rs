//! What policies say of their limits, kept for ever: decisions carry it without copying or counting.
//!
//! Only what operators write into policies comes here, and each different thing once, so there is as much of it as they
//! ever wrote.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::{LazyLock, Mutex, PoisonError};

use threshold_core::Rate;

use crate::policy::Layer;
use crate::usage;

/// What a decision says of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct About {
    pub(crate) limit: &'static str,
    /// What answers call it: its id, unless it has a name.
    pub(crate) called: &'static str,
    pub(crate) layer: Layer,
    pub(crate) rate: Rate,
    pub(crate) category: Option<&'static str>,
    /// The routes it is for, as a list; none if it is for every request.
    pub(crate) routes: Option<&'static str>,
    pub(crate) error: &'static str,
    pub(crate) silent: bool,
    pub(crate) bytes: bool,
    /// Whose fault it is when the limit is exceeded.
    pub(crate) blames: Blames,
    /// What it is counted under.
    pub(crate) counted: usage::Limit,
}

/// Whom a limit holds its refusals against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Blames {
    /// Nobody: those that it counts together need not know each other.
    Nobody,
    /// The network that the request came from.
    Address,
    /// The user, or the network if nobody claims to be one. Nobody where the name was only claimed: others may have used up
    /// what is counted by it.
    User,
    /// The user, or the network: the limit counts by both.
    UserAtAddress,
}

type Kept<T> = LazyLock<Mutex<HashSet<&'static T>>>;

/// The lasting copy of a name.
pub(crate) fn lasting(name: &str) -> &'static str {
    static NAMES: Kept<str> = LazyLock::new(Mutex::default);
    keep(&NAMES, name, || Box::leak(name.into()))
}

impl About {
    /// The lasting copy.
    pub(crate) fn lasting(self) -> &'static Self {
        static ABOUTS: Kept<About> = LazyLock::new(Mutex::default);
        keep(&ABOUTS, &self, || Box::leak(Box::new(self)))
    }
}

fn keep<T: Hash + Eq + ?Sized>(all: &Kept<T>, wanted: &T, make: impl FnOnce() -> &'static T) -> &'static T {
    let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = all.get(wanted) {
        return known;
    }
    let kept = make();
    all.insert(kept);
    kept
}
