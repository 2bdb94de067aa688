//! Record: a decision is counted, if anybody counts.

use smallvec::SmallVec;
use threshold_core::{Clock, Ledger, Source, Store, SubjectId};

use super::decide::{Asked, Decision, Part, Reason, Refused};
use super::names::Blames;
use super::select::Role;
use super::subject::{Asker, SubjectKeys};
use super::{Asking, Engine, Extras, State};
use crate::event::shown_address;
use crate::figures::{Blocked, Ending, Seen, Watcher};
use crate::identify::{Facts, Identity};
use crate::policy::Layer;
use crate::recent::{Note, Recent};
use crate::route::Path;
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
        let ending = decision.ending();
        if let Some(recent) = &self.recent {
            remember(recent, (state, asking), decision);
        }
        if let Some(figures) = &self.figures {
            figures.count(ending, decision.source());
        }
        let watcher = self.watcher.as_deref().filter(|watcher| watcher.wants(ending));
        if watcher.is_some() || (ending.is_refusal() && self.figures.is_some()) {
            self.show((state, asking), decision, watcher);
        }
    }

    /// Shows a decision to who watches, and counts whom it refused.
    #[cold]
    fn show(
        &self,
        (state, asking): (&State, &Asking<'_>),
        decision: &Decision,
        watcher: Option<&dyn Watcher>,
    ) {
        let (at, ending) = (decision.at, decision.ending());
        if let Some(figures) = self.figures.as_deref().filter(|_| ending.is_refusal()) {
            let asker = self.asker(state, asking);
            let limit = decision.told().filter(|_| ending == Ending::Limited);
            let (tenant, address) = (asker.tenant(), asker.address_id(self.subject_keys.current()));
            let endpoint = endpoint(state, asking);
            figures.block(&Blocked { at, limit, tenant, endpoint, address });
        }
        if let Some(watcher) = watcher {
            self.see((state, asking), decision, watcher);
        }
    }

    /// Shows what was decided about one request to `watcher`, whoever else watches.
    pub fn show_to(
        &self,
        watcher: &dyn Watcher,
        (facts, identity, extras): (&Facts<'_>, &Identity<'_>, Extras<'_>),
        decision: &Decision,
    ) {
        if watcher.wants(decision.ending()) {
            self.see((&self.state.load(), &Asking { facts, identity, extras }), decision, watcher);
        }
    }

    fn see(&self, (state, asking): (&State, &Asking<'_>), decision: &Decision, watcher: &dyn Watcher) {
        let frame = &state.rules.frame;
        let (asker, keys) = (self.asker(state, asking), self.subject_keys.current());
        let subjects = self.subject_keys.current_subjects(frame.ipv6_prefix);
        let client = asking.identity.client;
        watcher.see(&Seen {
            at: decision.at,
            ending: decision.ending(),
            source: decision.source(),
            limit: decision.told(),
            tenant: asker.tenant(),
            user: asker.user_id(keys),
            endpoint: endpoint(state, asking),
            address: shown_address(client, frame.ipv6_prefix, &subjects, state.rules.shown_addresses()),
        });
    }

    /// Counts what was charged to whom the caller names.
    #[inline]
    pub(super) fn count_charge(&self, admitted: bool, source: Source) {
        if let Some(figures) = &self.figures {
            figures.count(if admitted { Ending::Allowed } else { Ending::Limited }, source);
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

/// Remembers what was asked. Messages are not: they count by connections, which come and go.
#[inline]
fn remember(recent: &Recent, (state, asking): (&State, &Asking<'_>), decision: &Decision) {
    let Asking { facts, identity, extras } = *asking;
    if extras.message.is_some() {
        return recent.skip();
    }
    let when = |asked: &Asked| match asked.outcome.verdicts.is_empty() {
        true => decision.at,
        false => asked.outcome.at,
    };
    recent.note(&Note {
        facts,
        identity,
        account: extras.account,
        cost: extras.cost,
        at: (when(&decision.edge), when(&decision.inner)),
        ending: decision.ending(),
        ipv6_prefix: state.rules.frame.ipv6_prefix,
    });
}

/// What stands for an endpoint that no route is for.
const UNMATCHED: &str = "unmatched";

/// What was asked for: the route's name where it has one.
fn endpoint<'a>(state: &'a State, asking: &Asking<'_>) -> &'a str {
    let routes = &state.rules.frame.routes;
    let Facts { method, host, path, .. } = *asking.facts;
    let matched = Path::read(path).ok().and_then(|path| routes.matches(method, host, &path).iter().next());
    matched.and_then(|route| routes.names().nth(route)).unwrap_or(UNMATCHED)
}

impl Decision {
    /// What it came to.
    pub(crate) fn ending(&self) -> Ending {
        match self.refused {
            None if self.warned => Ending::Warned,
            None if !self.delay.is_zero() => Ending::Delayed,
            None => Ending::Allowed,
            Some(Refused::Path(_)) => Ending::BadPath,
            Some(Refused::Listed) => Ending::Listed,
            Some(Refused::Banned(_)) => Ending::Banned,
            Some(Refused::Cooldown(_)) => Ending::Cooldown,
            Some(Refused::Edge | Refused::Inner) => Ending::Limited,
        }
    }

    /// The limit that refused it, or else the tightest one that shows itself.
    fn told(&self) -> Option<(&'static str, Layer)> {
        match self.refusal().map(|refusal| refusal.reason) {
            Some(Reason::Limit(by)) => Some((by.limit, by.layer)),
            Some(_) => None,
            None => self.quota().map(|quota| (quota.limit, quota.layer)),
        }
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
