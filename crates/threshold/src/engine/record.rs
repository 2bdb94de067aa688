//! Record: a decision is counted, if anybody counts.

use std::num::NonZeroU64;
use std::ops::Range;

use smallvec::SmallVec;
use threshold_core::{Clock, Ledger, Source, Store, SubjectId};

use super::charge::is_adhoc;
use super::decide::{Asked, Decision, Part, Reason, Refused};
use super::names::{About, Blames};
use super::select::Role;
use super::{Asking, Engine, Extras, State};
use crate::event::shown_address;
use crate::figures::{Blocked, Ending, Layers, Seen, Watcher};
use crate::identify::{Facts, Identity, address_key};
use crate::policy::Layer;
use crate::recent::{Note, Recent};
use crate::route::Path;
use crate::usage::{Met, Mets, Noted, People, Person, Usage, Whose};

impl<S: Store, C: Clock, L: Ledger> Engine<S, C, L> {
    /// Counts what was decided, if anybody counts.
    #[inline]
    pub(super) fn record(&self, state: &State, asking: &Asking<'_>, decision: &Decision) {
        let ending = decision.ending();
        if let Some(recent) = &self.recent {
            remember(recent, (state, asking), decision);
        }
        if let Some(figures) = &self.figures {
            let (layers, beside) = decision.layers(ending);
            figures.count((ending, layers), decision.source(), 1);
            if beside != Layers::NONE {
                figures.count_beside(beside);
            }
        }
        if let Some(usage) = &self.usage {
            self.count(usage, (state, asking), decision, NonZeroU64::MIN);
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

    /// Counts what was charged to whom the caller names, by limits of those layers, so many `times` at once.
    #[inline]
    pub(super) fn count_charge(
        &self,
        admitted: bool,
        source: Source,
        layers: impl FnOnce() -> Layers,
        times: u64,
    ) {
        if let Some(figures) = &self.figures {
            let ending = if admitted { Ending::Allowed } else { Ending::Limited };
            figures.count((ending, layers()), source, times);
        }
    }

    /// Counts what was decided about `times` like requests at once.
    #[inline]
    fn count(
        &self,
        usage: &Usage,
        (state, asking): (&State, &Asking<'_>),
        decision: &Decision,
        times: NonZeroU64,
    ) {
        let identity = asking.identity;
        let people = match decision.tenant_believed {
            Some(believed) => {
                let tenant = identity.tenant.as_deref().filter(|_| believed);
                People::new(identity, tenant, state.rules.frame.ipv6_prefix)
            }
            // It was refused before any limit was looked for.
            None => {
                let asker = self.asker(state, asking);
                People::new(identity, asker.tenant(), state.rules.frame.ipv6_prefix)
            }
        };
        let mut met = Mets::default();
        for part in decision.parts().filter(Part::is_limit) {
            let (about, step) = (part.planned.about, part.step);
            let (who, period, cost) = (about.counts_by() as u16, step.algorithm.period(), step.action.cost());
            met.push(&Met { limit: about.counted, who, period, cost });
        }
        let cost = asking.extras.cost.map_or(1, NonZeroU64::get).saturating_mul(times.get());
        usage.count(&Noted {
            at: decision.at,
            allowed: decision.allowed(),
            times: u32::try_from(times.get()).unwrap_or(u32::MAX),
            whole: Some(cost),
            whose: Whose::People(&people),
            met: &met,
        });
    }

    /// Counts a run of messages that passed as one, if anybody counts.
    pub(super) fn count_run(&self, of: (&State, &Asking<'_>), decision: &Decision) {
        let times = of.1.extras.message.and_then(|message| message.count).unwrap_or(NonZeroU64::MIN);
        if let Some(figures) = &self.figures {
            figures.count((Ending::Allowed, decision.asked_layers()), decision.source(), times.get());
        }
        if let Some(usage) = &self.usage {
            self.count(usage, of, decision, times);
        }
    }

    /// Counts what limits of the policy were asked about keys that callers named, if anybody counts: which steps of `asked`
    /// are whose. Those are no requests: nothing else is known of them. So many `times` at once.
    pub(super) fn count_named(
        &self,
        (asked, allowed, times): (&Asked, bool, u64),
        named: impl Iterator<Item = (Range<usize>, SubjectId)>,
    ) {
        let Some(usage) = &self.usage else { return };
        let parts: SmallVec<[Part<'_>; 4]> = asked.parts().collect();
        let (mut subjects, mut met) = (SmallVec::<[SubjectId; 4]>::new(), Mets::default());
        for (steps, subject) in named {
            // Fewer than a batch has steps.
            let who = subjects.len() as u16;
            subjects.push(subject);
            for part in parts.get(steps).into_iter().flatten().filter(|part| part.is_limit()) {
                let (limit, step) = (part.planned.about.counted, part.step);
                let (period, cost) = (step.algorithm.period(), step.action.cost());
                met.push(&Met { limit, who, period, cost });
            }
        }
        if !met.is_empty() {
            let (at, whole, whose) = (asked.outcome.at, None, Whose::Ids(&subjects));
            let times = u32::try_from(times).unwrap_or(u32::MAX);
            usage.count(&Noted { at, allowed, times, whole, whose, met: &met });
        }
    }

    /// True if somebody counts whom callers name.
    pub(super) const fn counts(&self) -> bool {
        self.usage.is_some()
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
    #[must_use]
    pub fn ending(&self) -> Ending {
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

    /// The layers that it was asked of.
    #[inline]
    fn asked_layers(&self) -> Layers {
        let asked = [&self.edge, &self.inner].into_iter().filter(|asked| !asked.outcome.verdicts.is_empty());
        asked.flat_map(|asked| &asked.plan.steps).map(|planned| planned.about.layer).collect()
    }

    /// In which layers it came to `ending`, and which others let it pass.
    #[inline]
    fn layers(&self, ending: Ending) -> (Layers, Layers) {
        match ending {
            Ending::Allowed | Ending::Delayed => (self.asked_layers(), Layers::NONE),
            Ending::Warned | Ending::Limited => self.parted_layers(ending),
            // It reached none.
            Ending::Banned | Ending::Cooldown | Ending::Listed | Ending::BadPath => Default::default(),
        }
    }

    #[cold]
    fn parted_layers(&self, ending: Ending) -> (Layers, Layers) {
        let (asked, layer) = (self.asked_layers(), |part: Part<'_>| part.planned.about.layer);
        if ending == Ending::Warned {
            let graced = self.parts().filter(|part| part.planned.role == Role::Graced).map(layer).collect();
            return (graced, asked.without(graced));
        }
        let refusing = self.parts().find(Part::refuses).map(layer);
        refusing.map_or_else(Default::default, |layer| (Layers::NONE.with(layer), asked.before(layer)))
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

impl Asked {
    /// The layers of those limits of the policy that were asked, if all passed, or of the first that refuses.
    pub(super) fn layers(&self) -> Layers {
        let known = || self.parts().filter(|part| !is_adhoc(part.planned.about));
        let layer = |part: Part<'_>| part.planned.about.layer;
        match self.outcome.admitted() {
            true => known().map(layer).collect(),
            false => known().find(Part::refuses).map(layer).into_iter().collect(),
        }
    }
}

impl About {
    /// Whom the limit is counted for, as far as that has a name.
    #[inline]
    const fn counts_by(&self) -> Person {
        match (self.blames, self.layer) {
            (Blames::Address, _) | (_, Layer::Edge) => Person::Address,
            (Blames::Nobody, Layer::Tenant) => Person::Tenant,
            _ => Person::Client,
        }
    }
}

impl<'a> People<'a> {
    #[inline]
    fn new(identity: &'a Identity<'_>, tenant: Option<&'a str>, ipv6_prefix: u8) -> Self {
        let proven = identity.user_kind.is_none_or(|kind| kind.verified());
        let user = identity.user.as_deref().filter(|_| proven);
        Self { address: address_key(identity.client, ipv6_prefix), tenant, user }
    }
}

impl Part<'_> {
    /// True if it is a limit itself, and no more of what stands beside it.
    fn is_limit(&self) -> bool {
        matches!(self.planned.role, Role::Limit | Role::Graced)
    }
}
