//! Whether what was acknowledged may have been lost: another server answers than before, or the same one after a start.
//!
//! Asked for batches with closed limits alone, in the same call that judges them: a server that nobody knows judges
//! nothing. A single server that writes every command to disk before it answers loses nothing when it starts again. What
//! one node notices is kept beside the counters for the others, and for those that start later.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use threshold_core::{Span, Timestamp};

use super::kept::Kept;

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
    /// How long ago that was when it was noticed here, in microseconds.
    ago: AtomicU64,
    /// True if a start loses nothing.
    pub(super) durable: bool,
    /// True if several servers have parts of the store.
    parted: bool,
}

impl Losses {
    /// What is known when the store is opened, where `servers` answer.
    pub(super) fn new(servers: &[String], kept: &Kept, (durable, parted): (bool, bool)) -> Self {
        let losses = Self {
            known: Mutex::new(named(&servers.join(" "))),
            lost_at: AtomicU64::new(0),
            ago: AtomicU64::new(0),
            durable,
            parted,
        };
        if let Some(lost) = kept.lost {
            losses.note(lost, kept.ago);
        }
        losses
    }

    /// The servers that may judge.
    pub(super) fn known(&self) -> Arc<str> {
        Arc::clone(&self.lock())
    }

    /// `server`, which was not known, answered at `now`; what is kept by then says whether others have met it before. True if
    /// something may have been lost before that.
    pub(super) fn met(&self, server: &str, now: Timestamp, kept: Option<&Kept>) -> bool {
        let mut known = self.lock();
        *known = match self.parted && known.len() <= MOST {
            true => format!("{known} {server}").into(),
            false => named(server),
        };
        let noticed = kept.and_then(|kept| Some((kept.lost?, kept.ago)));
        match noticed.filter(|(lost, _)| self.lost_at().is_none_or(|before| before < *lost)) {
            Some((lost, ago)) => self.note(lost, ago),
            None if self.durable => return false,
            None => self.note(now, Span::ZERO),
        }
        true
    }

    /// Takes over what others noticed. Shortly after a loss that is the same one.
    pub(super) fn told(&self, kept: &Kept) {
        if let Some(lost) = kept.lost
            && self.lost_at().is_none_or(|before| lost > before.plus(SAME))
        {
            *self.lock() = named(&kept.servers);
            self.note(lost, kept.ago);
        }
    }

    pub(super) fn lost_at(&self) -> Option<Timestamp> {
        match self.lost_at.load(Ordering::Acquire) {
            0 => None,
            at => Some(Timestamp::from_micros(at)),
        }
    }

    /// How long ago that was when it was noticed.
    pub(super) fn ago(&self) -> Span {
        Span::from_micros(self.ago.load(Ordering::Acquire))
    }

    /// Whoever sees the loss of now beside how long ago the one before was would forget it too early: so that comes first.
    fn note(&self, lost: Timestamp, ago: Span) {
        self.ago.store(ago.as_micros(), Ordering::Release);
        self.lost_at.fetch_max(lost.as_micros(), Ordering::AcqRel);
    }

    fn lock(&self) -> MutexGuard<'_, Arc<str>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn named(servers: &str) -> Arc<str> {
    format!("known {servers}").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Timestamp {
        Timestamp::from_micros(micros)
    }

    fn kept(lost: u64, ago: u64) -> Kept {
        let lost = Some(at(lost)).filter(|lost| *lost > at(0));
        Kept { since: at(1), lost, ago: Span::from_micros(ago), servers: "c".into() }
    }

    fn losses(durable: bool, parted: bool) -> Losses {
        Losses::new(&["a".to_owned(), "b".to_owned()], &kept(0, 0), (durable, parted))
    }

    #[test]
    fn a_server_that_was_not_there_may_know_less() {
        let parted = losses(false, true);
        assert_eq!((&*parted.known(), parted.lost_at()), ("known a b", None));
        assert!(parted.met("c", at(2), None));
        assert_eq!((&*parted.known(), parted.lost_at()), ("known a b c", Some(at(2))));
        let durable = losses(true, false);
        assert!(!durable.met("c", at(2), Some(&kept(0, 0))), "it loses nothing");
        durable.told(&kept(3, 0));
        assert_eq!(durable.lost_at(), Some(at(3)), "but for what somebody removes");
        parted.told(&kept(3, 0));
        assert_eq!(parted.lost_at(), Some(at(2)), "it is the same loss");
    }

    #[test]
    fn one_that_had_all_of_it_before_is_a_stranger_when_it_comes_back() {
        let losses = losses(false, false);
        losses.met("c", at(2), None);
        assert_eq!(&*losses.known(), "known c");
        assert!(losses.met("a", at(3), None));
        assert_eq!(losses.lost_at(), Some(at(3)));
    }

    #[test]
    fn what_others_noticed_is_taken_over() {
        let late = Losses::new(&["c".to_owned()], &kept(5, 7), (false, false));
        assert_eq!((late.lost_at(), late.ago()), (Some(at(5)), Span::from_micros(7)));
        let idle = losses(false, false);
        assert!(idle.met("c", at(90), Some(&kept(50, 40))));
        assert_eq!((idle.lost_at(), idle.ago()), (Some(at(50)), Span::from_micros(40)), "not a second one");
        assert!(idle.met("d", at(100), Some(&kept(50, 50))), "what is kept tells of an earlier one");
        assert_eq!((idle.lost_at(), idle.ago()), (Some(at(100)), Span::ZERO));
        let later = 100 + SAME.as_micros() + 1;
        idle.told(&kept(later, 1));
        assert_eq!((&*idle.known(), idle.lost_at()), ("known c", Some(at(later))));
    }
}
