//! Limits by number: what a decision hands over of one is four bytes.

use std::sync::{Mutex, PoisonError};

use super::EVERY_REQUEST;
use crate::policy::Layer;

/// A limit that is counted: its id and its layer, once for all time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Limit(u32);

/// What a limit is called, and its layer; none for what is none of a policy's.
pub(super) type Named = (&'static str, Option<Layer>);

/// All that there were: as many as operators ever wrote into policies.
static ALL: Mutex<Vec<Named>> = Mutex::new(Vec::new());

impl Limit {
    /// The limit called `id` of `layer`, under the same number every time. It is looked for among all there were: not for
    /// each decision.
    #[must_use]
    pub fn new(id: &'static str, layer: Option<Layer>) -> Self {
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        let place = all.iter().position(|known| *known == (id, layer)).unwrap_or_else(|| {
            all.push((id, layer));
            all.len() - 1
        });
        Self(u32::try_from(place).unwrap_or(u32::MAX))
    }

    /// What each request is counted under once.
    pub(super) fn every_request() -> Self {
        Self::new(EVERY_REQUEST, None)
    }

    pub(super) const fn place(self) -> usize {
        self.0 as usize
    }

    pub(super) fn named(self) -> Named {
        let all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(self.place()).copied().unwrap_or((EVERY_REQUEST, None))
    }
}
