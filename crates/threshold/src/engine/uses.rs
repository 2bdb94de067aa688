//! Uses: what is left of every limit that a decision asked, for who counts decisions by the million.

use threshold_core::Mode;

use super::Decision;
use super::decide::Part;
use super::rules::Rules;
use super::select::Role;
use crate::identify::Facts;
use crate::policy::Layer;
use crate::route::Path;

/// One limit's part in a decision, in few words: [`Considered`](super::Considered) has all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Use {
    /// The limit's id.
    pub limit: &'static str,
    /// Its layer.
    pub layer: Layer,
    /// The key, as the store knows it: a keyed hash.
    pub key: u128,
    /// The most that it has.
    pub capacity: u64,
    /// What is left of that.
    pub remaining: u64,
    /// True if it has no room for the request.
    pub refuses: bool,
    /// True if that counts: the limit is in force and no longer only observed.
    pub enforced: bool,
    /// True if it has no room, and grace let the request pass.
    pub graced: bool,
}

impl Decision {
    /// What is left of every limit that had a part in it.
    pub fn uses(&self) -> impl Iterator<Item = Use> {
        self.parts().filter_map(|part| part.as_use())
    }

    /// How many steps the edge and the store were asked for.
    #[must_use]
    pub fn steps(&self) -> (usize, usize) {
        (self.edge.outcome.verdicts.len(), self.inner.outcome.verdicts.len())
    }
}

impl Part<'_> {
    fn as_use(&self) -> Option<Use> {
        let graced = match self.planned.role {
            Role::Limit => false,
            Role::Graced => true,
            _ => return None,
        };
        Some(Use {
            limit: self.planned.about.limit,
            layer: self.planned.about.layer,
            key: self.step.key.hash(),
            capacity: self.verdict.limit,
            remaining: self.verdict.remaining,
            refuses: !self.verdict.admitted(),
            enforced: self.step.mode == Mode::Enforce,
            graced,
        })
    }
}

impl Rules {
    /// The names of all routes, by their numbers.
    pub fn routes(&self) -> impl ExactSizeIterator<Item = &str> {
        self.frame.routes.names()
    }

    /// The number of the first route that a request belongs to; none if it belongs to none.
    #[must_use]
    pub fn route(&self, facts: &Facts<'_>) -> Option<usize> {
        let path = Path::read(facts.path).ok()?;
        self.frame.routes.matches(facts.method, facts.host, &path).iter().next()
    }
}
