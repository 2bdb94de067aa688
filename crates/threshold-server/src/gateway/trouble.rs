//! Trouble with applications, told when it begins and when it is over, and not for every request.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::upstream::SendError;
use crate::log::Log;

/// Whether applications are in trouble, and who is told.
pub(super) struct Trouble {
    now: AtomicBool,
    log: Arc<Log>,
}

impl Trouble {
    pub(super) fn new(log: Arc<Log>) -> Self {
        Self { now: AtomicBool::new(false), log }
    }

    /// A request had no answer.
    pub(super) fn begins(&self, error: &SendError) {
        if self.now.swap(true, Ordering::Relaxed) {
            self.log.debug(&format!("an application did not answer: {error}"));
        } else {
            self.log.warning(&format!("an application did not answer: {error}; clients are told 502 or 504"));
        }
    }

    /// A request had an answer.
    pub(super) fn over(&self) {
        if self.now.load(Ordering::Relaxed) && self.now.swap(false, Ordering::Relaxed) {
            self.log.info("applications answer again");
        }
    }
}
