//! Record: a decision is counted, if anybody counts.

use std::num::NonZeroU64;
use std::ops::Range;

use smallvec::SmallVec;
use threshold_core::{Clock, Ledger, Source, Store, SubjectId, SubjectKey, SubjectKind};

use super::decide::{Asked, Decision, Part, Reason, Refused};
use super::names::{About, Blames};
use super::select::{Planned, Role};
use super::subject::Asker;
use super::{Asking, Engine, Extras, State};
use crate::event::shown_address;
use crate::figures::{Blocked, Ending, Seen, Watcher};
use crate::identify::{Facts, Identity};
use crate::policy::Layer;
use crate::recent::{Note, Recent};
use crate::route::Path;
use crate::usage::{Met, Noted, Usage};

/// Whom a decision is about, as the ledger knows them and as far as its limits ask.
///
/// Ids are written in their place and read where they are, word by word: who copies one just after it was made waits for
/// all that was stored before it.
pub(crate) struct Whom {
    /// The client, the address and the tenant. The client is a user who proved who it is, or else the address: others could
    /// make up a new name for each request.
    ids: [SubjectId; 3],
    /// How many of them are to be looked at; none if nobody was worked out.
    many: usize,
    /// Where the address and the tenant are: with the client, if they are nobody else.
    address: u16,
    tenant: u16,
}

impl<S: Store, C: Clock, L: Ledger> Engine<S, C, L> {
    /// Works out whom the limits of `decision` are about, if anybody counts. Hashes take a while, and so does memory that
    /// another processor has looked at: both are asked for here, where the decision waits for memory of its own.
    #[inline]
    pub(super) fn foresee_count(&self, asker: &Asker<'_>, decision: &mut Decision) {
        let Some(usage) = &self.usage else { return };
        usage.prepare();
        let Decision { edge, inner, whom, .. } = decision;
        let needs = Needs::of(edge.plan.steps.iter().chain(&inner.plan.steps));
        whom.learn(asker, self.subject_keys.current(), needs);
    }

    /// Counts what was decided, if anybody counts.
    #[inline]
    pub(super) fn record(&self, state: &State, asking: &Asking<'_>, decision: &Decision) {
        let ending = decision.ending();
        if let Some(recent) = &self.recent {
            remember(recent, (state, asking), decision);
        }
        if let Some(figures) = &self.figures {
            figures.count(ending, decision.source());
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

    /// Counts what was charged to whom the caller names.
    #[inline]
    pub(super) fn count_charge(&self, admitted: bool, source: Source) {
        if let Some(figures) = &self.figures {
            figures.count(if admitted { Ending::Allowed } else { Ending::Limited }, source);
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
        let mut other = None;
        let whom = match &decision.whom {
            // It was refused before any limit was asked.
            Whom { many: 0, .. } => {
                let whom: &mut Whom = other.get_or_insert_default();
                whom.learn(&self.asker(state, asking), self.subject_keys.current(), Needs::default());
                whom
            }
            known => known,
        };
        let mut met: SmallVec<[Met; 4]> = SmallVec::new();
        for part in decision.parts().filter(Part::is_limit) {
            let (about, step) = (part.planned.about, part.step);
            let (who, period, cost) = (whom.place(about), step.algorithm.period(), step.action.cost());
            met.push(Met { limit: about.counted, who, period, cost });
        }
        let cost = asking.extras.cost.map_or(1, NonZeroU64::get).saturating_mul(times.get());
        usage.count(&Noted {
            at: decision.at,
            allowed: decision.allowed(),
            times: u32::try_from(times.get()).unwrap_or(u32::MAX),
            whole: Some(cost),
            subjects: &whom.ids[..whom.many],
            met: &met,
        });
    }

    /// Counts a run of messages that passed as one, if anybody counts.
    pub(super) fn count_run(&self, of: (&State, &Asking<'_>), decision: &Decision) {
        if let Some(usage) = &self.usage {
            let times = of.1.extras.message.and_then(|message| message.count);
            self.count(usage, of, decision, times.unwrap_or(NonZeroU64::MIN));
        }
    }

    /// Counts what limits of the policy were asked about keys that callers named, if anybody counts: which steps of `asked`
    /// are whose. Those are no requests: nothing else is known of them.
    pub(super) fn count_named(
        &self,
        (asked, allowed): (&Asked, bool),
        named: impl Iterator<Item = (Range<usize>, SubjectId)>,
    ) {
        let Some(usage) = &self.usage else { return };
        let parts: SmallVec<[Part<'_>; 4]> = asked.parts().collect();
        let (mut subjects, mut met) = (SmallVec::<[SubjectId; 4]>::new(), SmallVec::<[Met; 4]>::new());
        for (steps, subject) in named {
            // Fewer than a batch has steps.
            let who = subjects.len() as u16;
            subjects.push(subject);
            for part in parts.get(steps).into_iter().flatten().filter(|part| part.is_limit()) {
                let (limit, step) = (part.planned.about.counted, part.step);
                let (period, cost) = (step.algorithm.period(), step.action.cost());
                met.push(Met { limit, who, period, cost });
            }
        }
        if !met.is_empty() {
            let (at, whole) = (asked.outcome.at, None);
            usage.count(&Noted { at, allowed, times: 1, whole, subjects: &subjects, met: &met });
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

impl Default for Whom {
    fn default() -> Self {
        let nobody = SubjectId::from_raw(SubjectKind::Address, [0; 2]);
        Self { ids: [nobody; 3], many: 0, address: 0, tenant: 0 }
    }
}

impl Whom {
    /// Nobody was worked out yet.
    pub(crate) const fn clear(&mut self) {
        self.many = 0;
    }

    /// Works out whom limits that count by `needs` are about.
    #[inline(always)]
    fn learn(&mut self, asker: &Asker<'_>, key: &SubjectKey, needs: Needs) {
        (self.many, self.address, self.tenant) = (1, 0, 0);
        match asker.naming_user(key) {
            Some(user) => {
                self.ids[0] = user.id(SubjectKind::User);
                if needs.address {
                    self.ids[1] = asker.naming_address(key).id(SubjectKind::Address);
                    (self.many, self.address) = (2, 1);
                }
            }
            None => self.ids[0] = asker.naming_address(key).id(SubjectKind::Address),
        }
        if needs.tenant
            && let Some(tenant) = asker.naming_tenant(key)
        {
            // With two of them, what is between is of another decision: no limit refers to it.
            self.ids[2] = tenant.id(SubjectKind::Tenant);
            (self.many, self.tenant) = (3, 2);
        }
    }

    /// Whom a limit counts by, as far as that has a name; the client where it has none.
    #[inline]
    fn place(&self, about: &About) -> u16 {
        match about.counts_by() {
            CountsBy::Address => self.address,
            CountsBy::Tenant => self.tenant,
            CountsBy::Client => 0,
        }
    }
}

/// Whom limits ask for beside the client.
#[derive(Clone, Copy, Default)]
struct Needs {
    address: bool,
    tenant: bool,
}

impl Needs {
    #[inline]
    fn of<'a>(planned: impl Iterator<Item = &'a Planned>) -> Self {
        planned.fold(Self::default(), |needs, planned| match planned.about.counts_by() {
            CountsBy::Address => Self { address: true, ..needs },
            CountsBy::Tenant => Self { tenant: true, ..needs },
            CountsBy::Client => needs,
        })
    }
}

/// Whom a limit is counted for.
enum CountsBy {
    Client,
    Address,
    Tenant,
}

impl About {
    #[inline]
    const fn counts_by(&self) -> CountsBy {
        match (self.blames, self.layer) {
            (Blames::Address, _) | (_, Layer::Edge) => CountsBy::Address,
            (Blames::Nobody, Layer::Tenant) => CountsBy::Tenant,
            _ => CountsBy::Client,
        }
    }
}

impl Part<'_> {
    /// True if it is a limit itself, and no more of what stands beside it.
    fn is_limit(&self) -> bool {
        matches!(self.planned.role, Role::Limit | Role::Graced)
    }
}
