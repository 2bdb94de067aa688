//! Whether what was acknowledged may have been lost: another server answers than before, or the same one after a start.
//!
//! Asked for batches with closed limits alone, in the same call that judges them: a server that nobody knows judges
//! nothing. A single server that writes every command to disk before it answers loses nothing when it starts again.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use threshold_core::{Span, Timestamp};

/// The longest list of servers; a change of servers is rare.
const MOST: usize = 64 * 1024;

/// So long after a server that lost its data was met it may be found empty.
const SAME: Span = Span::from_secs(5);

/// The servers that have answered, and when one came that may not know what another had promised.
pub(super) struct Losses {
    /// Their names one after the other. The first word is no number, as a script might take it for.
    known: Mutex<Arc<str>>,
    /// In microseconds; 0 if there was none.
    lost_at: AtomicU64,
    /// True if a start loses nothing.
    durable: bool,
}

impl Losses {
    pub(super) fn new<'a>(known: impl IntoIterator<Item = &'a str>, durable: bool) -> Self {
        let known = known.into_iter().fold("known".to_owned(), |all, one| format!("{all} {one}"));
        Self { known: Mutex::new(known.into()), lost_at: AtomicU64::new(0), durable }
    }

    /// The servers that may judge.
    pub(super) fn known(&self) -> Arc<str> {
        Arc::clone(&self.lock())
    }

    /// `server`, which was not known, answered at `now`. True if something may have been lost before that.
    pub(super) fn met(&self, server: &str, now: Timestamp) -> bool {
        let mut known = self.lock();
        let before = if known.len() > MOST { "known" } else { &known };
        *known = format!("{before} {server}").into();
        if !self.durable {
            self.lost_at.fetch_max(now.as_micros(), Ordering::AcqRel);
        }
        !self.durable
    }

    /// All that was kept was gone at `at`, whichever server it is. Shortly after a loss that is the same one.
    pub(super) fn emptied(&self, at: Timestamp) {
        if self.lost_at().is_none_or(|lost| at > lost.plus(SAME)) {
            self.lost_at.fetch_max(at.as_micros(), Ordering::AcqRel);
        }
    }

    pub(super) fn lost_at(&self) -> Option<Timestamp> {
        match self.lost_at.load(Ordering::Acquire) {
            0 => None,
            at => Some(Timestamp::from_micros(at)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Arc<str>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_was_not_there_may_know_less() {
        let at = Timestamp::from_micros;
        let losses = Losses::new(["a", "b"], false);
        assert_eq!((&*losses.known(), losses.lost_at()), ("known a b", None));
        assert!(losses.met("c", at(2)));
        assert_eq!((&*losses.known(), losses.lost_at()), ("known a b c", Some(at(2))));
        let durable = Losses::new([], true);
        assert!(!durable.met("c", at(2)), "it loses nothing");
        durable.emptied(at(3));
        assert_eq!(durable.lost_at(), Some(at(3)), "but for what somebody removes");
        losses.emptied(at(3));
        assert_eq!(losses.lost_at(), Some(at(2)), "it is the same loss");
    }
}
