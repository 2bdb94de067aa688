//! Limits by number: what a decision hands over of one is a few bytes.

use std::sync::{Mutex, PoisonError};

use threshold_core::Span;

use super::{EVERY_REQUEST, LONGEST_WINDOW};
use crate::policy::Layer;

/// A limit that is counted: its id, layer and period, once for all time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limit {
    number: u32,
    period: Span,
}

/// What is known of a limit: its id, its layer, none for what is none of a policy's, and its period.
pub(super) type Named = (&'static str, Option<Layer>, Span);

/// All that there were: as many as operators ever wrote into policies.
static ALL: Mutex<Vec<Named>> = Mutex::new(Vec::new());

impl Limit {
    /// The limit called `id` of `layer` that counts by `period`, under the same number every time. It is looked for among all
    /// there were: not for each decision.
    #[must_use]
    pub fn new(id: &'static str, layer: Option<Layer>, period: Span) -> Self {
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        let place = all.iter().position(|known| *known == (id, layer, period)).unwrap_or_else(|| {
            all.push((id, layer, period));
            all.len() - 1
        });
        Self { number: u32::try_from(place).unwrap_or(u32::MAX), period }
    }

    /// What each request is counted under once.
    pub(super) fn every_request() -> Self {
        Self::new(EVERY_REQUEST, None, LONGEST_WINDOW)
    }

    /// The period that it has unless an override gives it another.
    #[must_use]
    pub const fn period(self) -> Span {
        self.period
    }

    pub(super) const fn number(self) -> u32 {
        self.number
    }
}

/// The limit of that number.
pub(super) fn named(number: u32) -> Named {
    let all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    all.get(number as usize).copied().unwrap_or((EVERY_REQUEST, None, LONGEST_WINDOW))
}
