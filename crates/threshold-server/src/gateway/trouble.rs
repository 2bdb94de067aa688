//! Trouble with applications, told when it begins and when it is over, and not for every request.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::StatusCode;
use threshold_http::Answer;

use super::upstream::{ConnectError, SendError};
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

    /// What came of a request, which has to be in time; or what its client is told instead.
    pub(super) fn tell<T>(&self, came: Option<Result<T, SendError>>) -> Result<T, Box<Answer>> {
        match came {
            Some(Ok(answered)) => {
                self.over();
                Ok(answered)
            }
            // The client broke off, or was cut off: that is no trouble of the application.
            Some(Err(SendError::Body)) => Err(Box::new(broken_off())),
            Some(Err(error)) => {
                self.begins(&error);
                Err(Box::new(unreachable(&error)))
            }
            None => Err(Box::new(late())),
        }
    }

    /// A request had no answer.
    fn begins(&self, error: &SendError) {
        if self.now.swap(true, Ordering::Relaxed) {
            self.log.debug(&format!("an application did not answer: {error}"));
        } else {
            self.log.warning(&format!("an application did not answer: {error}; clients are told 502 or 504"));
        }
    }

    /// A request had an answer.
    fn over(&self) {
        if self.now.load(Ordering::Relaxed) && self.now.swap(false, Ordering::Relaxed) {
            self.log.info("applications answer again");
        }
    }
}

fn late() -> Answer {
    let detail = "the application did not answer in time";
    Answer::new(StatusCode::GATEWAY_TIMEOUT, "upstream_timeout", detail)
}

fn broken_off() -> Answer {
    Answer::new(StatusCode::BAD_REQUEST, "bad_body", "the body of the request broke off")
}

/// Nothing of why is told to clients: the addresses of applications are not theirs to know.
fn unreachable(error: &SendError) -> Answer {
    match error {
        SendError::Connect(ConnectError::Timeout) => {
            let detail = "the application cannot be reached in time";
            Answer::new(StatusCode::GATEWAY_TIMEOUT, "upstream_timeout", detail)
        }
        SendError::Connect(ConnectError::Failed(_)) => {
            let detail = "the application cannot be reached";
            Answer::new(StatusCode::BAD_GATEWAY, "upstream_unreachable", detail)
        }
        SendError::Body | SendError::Broken(_) => {
            let detail = "the application broke off its answer";
            Answer::new(StatusCode::BAD_GATEWAY, "upstream_broken", detail)
        }
    }
}
