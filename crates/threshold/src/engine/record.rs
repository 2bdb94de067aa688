//! Record: a decision is counted, if anybody counts.

use smallvec::SmallVec;
use threshold_core::{Clock, Ledger, Store, SubjectId};

use super::decide::{Decision, Part};
use super::names::Blames;
use super::select::Role;
use super::subject::{Asker, SubjectKeys};
use super::{Asking, Engine, State};
use crate::policy::Layer;
use crate::usage::{Counted, EVERY_REQUEST, LONGEST_WINDOW, Usage};

/// Who asks, as the ledger knows them: worked out when they are needed, and once.
struct Names<'a> {
    asker: Asker<'a>,
    keys: &'a SubjectKeys,
    ipv6_prefix: u8,
    address: Option<SubjectId>,
    client: Option<SubjectId>,
}

impl<S: Store, C: Clock, L: Ledger> Engine<S, C, L> {
    /// Counts what was decided, if anybody counts.
    #[inline]
    pub(super) fn record(&self, state: &State, asking: &Asking<'_>, decision: &Decision) {
        if let Some(usage) = &self.usage {
            self.count(usage, (state, asking), decision);
        }
    }

    fn count(&self, usage: &Usage, (state, asking): (&State, &Asking<'_>), decision: &Decision) {
        let mut names = Names {
            asker: self.asker(state, asking),
            keys: &self.subject_keys,
            ipv6_prefix: state.rules.frame.ipv6_prefix,
            address: None,
            client: None,
        };
        let (allowed, at) = (decision.allowed(), decision.at);
        let cost = asking.extras.cost.map_or(1, std::num::NonZeroU64::get);
        let subject = names.client();
        let whole = Counted { limit: EVERY_REQUEST, period: LONGEST_WINDOW, subject, allowed, cost, at };
        let mut counted: SmallVec<[Counted; 8]> = SmallVec::from_elem(whole, 1);
        for part in decision.parts().filter(Part::is_limit) {
            let (about, step) = (part.planned.about, part.step);
            let subject = names.of(about.blames, about.layer);
            let (limit, period, cost) = (about.limit, step.algorithm.period(), step.action.cost());
            counted.push(Counted { limit, period, subject, allowed, cost, at });
        }
        usage.count(&counted);
    }
}

impl Names<'_> {
    fn address(&mut self) -> SubjectId {
        let Self { asker, keys, .. } = self;
        *self.address.get_or_insert_with(|| asker.address_id(keys.current()))
    }

    /// A user who proved who it is, or else the address: others could make up a new name for each request.
    fn client(&mut self) -> SubjectId {
        if let Some(client) = self.client {
            return client;
        }
        let user = self.asker.user_id(self.keys.current());
        let client = user.unwrap_or_else(|| self.address());
        *self.client.insert(client)
    }

    /// Whom a limit counts by, as far as that has a name.
    fn of(&mut self, blames: Blames, layer: Layer) -> SubjectId {
        match (blames, layer, self.asker.tenant()) {
            (Blames::Address, ..) | (_, Layer::Edge, _) => self.address(),
            (Blames::Nobody, Layer::Tenant, Some(tenant)) => {
                self.keys.current_subjects(self.ipv6_prefix).tenant(tenant)
            }
            _ => self.client(),
        }
    }
}

impl Part<'_> {
    /// True if it is a limit itself, and no more of what stands beside it.
    fn is_limit(&self) -> bool {
        matches!(self.planned.role, Role::Limit | Role::Graced)
    }
}
