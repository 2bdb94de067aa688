//! Whether what was acknowledged may have been lost: another server answers than before, or the same one after a start.
//!
//! Asked for batches with closed limits alone, in the same call that judges them. A single server that writes every
//! command to disk before it answers loses nothing when it starts again.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use threshold_core::Timestamp;

/// The servers that have answered, and when one came that may not know what another had promised.
#[derive(Default)]
pub(super) struct Losses {
    known: Mutex<HashSet<Vec<u8>>>,
    /// In microseconds; 0 if there was none.
    lost_at: AtomicU64,
    /// True if a start loses nothing.
    durable: bool,
}

impl Losses {
    pub(super) fn new(known: impl IntoIterator<Item = Vec<u8>>, durable: bool) -> Self {
        Self { known: Mutex::new(known.into_iter().collect()), lost_at: AtomicU64::new(0), durable }
    }

    /// `server` answered at `now`. True if something may have been lost just before that.
    pub(super) fn answered(&self, server: Vec<u8>, now: Timestamp) -> bool {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.insert(server) || self.durable {
            return false;
        }
        // A change of servers is rare; more names than these are of no use.
        if known.len() > 1_024 {
            known.clear();
        }
        self.lost_at.fetch_max(now.as_micros(), Ordering::AcqRel);
        true
    }

    pub(super) fn lost_at(&self) -> Option<Timestamp> {
        match self.lost_at.load(Ordering::Acquire) {
            0 => None,
            at => Some(Timestamp::from_micros(at)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_was_not_there_may_know_less() {
        let at = Timestamp::from_micros;
        let losses = Losses::new([b"a".to_vec(), b"b".to_vec()], false);
        assert!(!losses.answered(b"a".to_vec(), at(1)) && losses.lost_at().is_none());
        assert!(losses.answered(b"c".to_vec(), at(2)));
        assert!(!losses.answered(b"c".to_vec(), at(3)));
        assert_eq!(losses.lost_at(), Some(at(2)));
        assert!(!Losses::new([], true).answered(b"c".to_vec(), at(2)), "it loses nothing");
    }
}
