//! Explain: what a decision was made of, limit by limit.

use std::time::Duration;

use threshold_core::{Clock, Consistency, Ledger, Mode, Rate, Retry, Source, Store, StoreError, SubjectId};

use super::decide::Part;
use super::select::{self, Plan, Planned, Request, Risks, Role, Selecting, Skipped};
use super::standings::Held;
use super::subject::Asker;
use super::{Asking, Decision, Engine, Extras, Reason};
use crate::identify::{Facts, Identity};
use crate::policy::Layer;
use crate::route::Path;

/// All limits of a policy, as one request meets them.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Explanation {
    /// The routes that match.
    pub routes: Vec<String>,
    /// The limits that have a part in it, in the order in which they are judged.
    pub considered: Vec<Considered>,
    /// The others, and why they have none.
    pub skipped: Vec<(&'static str, Skipped)>,
    /// When the request would pass: the longest wait.
    pub passes: Retry,
    /// What is held against the user and the address.
    pub held: Vec<(SubjectId, Held)>,
    /// What would refuse it before any limit is asked: a list, a ban or a cooldown.
    pub refused: Option<Reason>,
    /// True if the policy lists it as bound by nothing.
    pub exempt: bool,
}

/// One limit's part in a decision.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Considered {
    /// The limit's id.
    pub limit: &'static str,
    /// Its layer.
    pub layer: Layer,
    /// Where the answer came from.
    pub source: Source,
    /// The prefix, if this is its count of the client's larger network.
    pub network: Option<u8>,
    /// True if this is the gate that keeps out who was over.
    pub gate: bool,
    /// True if this is its count under the secret before.
    pub previous_secret: bool,
    /// True if nothing was left of it, and grace let the request pass.
    pub grace: bool,
    /// The key, as the store knows it: a keyed hash.
    pub key: String,
    /// Its rate.
    pub rate: Rate,
    /// What the request costs.
    pub cost: u64,
    /// Whether a refusal counts.
    pub mode: Mode,
    /// What was left before.
    pub before: u64,
    /// What is left.
    pub after: u64,
    /// When it lets the request pass.
    pub retry: Retry,
    /// How long until it is as new.
    pub reset: Duration,
}

impl Decision {
    /// Every limit that had a part in it.
    #[must_use]
    pub fn considered(&self) -> Vec<Considered> {
        self.parts().map(|part| Considered::new(&part, self.inner.outcome.source)).collect()
    }
}

impl Considered {
    fn new(part: &Part<'_>, source: Source) -> Self {
        let Planned { about, role } = *part.planned;
        let (verdict, cost) = (part.verdict, part.step.action.cost());
        Self {
            limit: about.limit,
            layer: about.layer,
            source: source_of(part, source),
            network: match role {
                Role::Network(prefix) => Some(prefix),
                _ => None,
            },
            gate: matches!(role, Role::Gate | Role::PreviousGate),
            previous_secret: matches!(role, Role::Previous | Role::PreviousGate),
            key: format!("{:032x}", part.step.key.hash()),
            rate: about.rate,
            cost,
            mode: part.step.mode,
            grace: role == Role::Graced,
            before: verdict.remaining + if part.charged && role != Role::Graced { cost } else { 0 },
            after: verdict.remaining,
            retry: verdict.retry,
            reset: verdict.reset.into(),
        }
    }
}

/// Where the answer about one limit came from, where that of all of them is `source`.
fn source_of(part: &Part<'_>, source: Source) -> Source {
    match part.step.sharing.consistency {
        _ if part.planned.about.layer == Layer::Edge => Source::Local,
        Consistency::Local => Source::Local,
        // Of several, that of all is the one that is worth least.
        Consistency::Exact if source == Source::Leased || source == Source::Local => Source::Exact,
        Consistency::Leased if source < Source::Leased || source == Source::Local => Source::Leased,
        Consistency::Exact | Consistency::Leased => source,
    }
}

impl<S: Store, C: Clock, L: Ledger> Engine<S, C, L> {
    fn held_against(&self, asker: &Asker<'_>) -> Vec<(SubjectId, Held)> {
        let keys = self.subject_keys.all();
        let ids = keys.flat_map(|key| asker.user_id(key).into_iter().chain([asker.address_id(key)]));
        ids.filter_map(|id| Some((id, self.standings.find(&id)?))).collect()
    }

    /// Says what [`decide`](Self::decide) would do now and why, and charges nothing.
    ///
    /// # Errors
    ///
    /// If the store did not answer. A path that cannot be read is explained by [`Decision`] alone.
    pub async fn explain(
        &self,
        facts: &Facts<'_>,
        identity: &Identity<'_>,
        extras: Extras<'_>,
    ) -> Result<Explanation, StoreError> {
        let state = self.state.load();
        let Ok(path) = Path::read(facts.path) else { return Ok(Explanation::none()) };
        let matched = state.rules.frame.routes.matches(facts.method, facts.host, &path);
        let asking = Asking { facts, identity, extras };
        let mut decision = Decision::default();
        decision.begin(self.edge.now(), identity);
        let mut request = Request::new(&state.rules.frame, &asking, (&path, &matched), decision.at);
        self.believe(&state, &mut request);
        let held = self.held_against(&request.asker);
        let risks = self.meet(&state, &request, &mut decision);
        let refused = decision.refusal();
        if risks.is_none() && refused.is_none() {
            return Ok(Explanation { held, passes: Retry::Now, exempt: true, ..Explanation::none() });
        }
        let ids = request.asker.ids(&self.subject_keys);
        (request.ids, request.risks) = (&ids, risks.unwrap_or(Risks::LOW));
        let first = refused.as_ref().map_or(Retry::Now, |refusal| refusal.retry);
        let (edge, inner) = (&mut decision.edge, &mut decision.inner);
        select::edge(&state, &request, &mut edge.plan);
        select::inner(&state, &request, &mut inner.plan);
        let mut selecting = Selecting::new(&state.overrides, &request);
        let mut why_not = |rule| selecting.try_add(rule, &mut Plan::default()).err();
        let skipped = state.rules.limits().filter_map(|rule| Some((rule.name, why_not(rule)?))).collect();
        edge.outcome = self.edge.peek_now(&edge.plan.batch);
        inner.outcome = self.store.peek(&inner.plan.batch).await?;
        let names = state.rules.frame.routes.names().enumerate();
        Ok(Explanation {
            routes: names
                .filter(|(index, _)| matched.contains(*index))
                .map(|(_, name)| name.to_owned())
                .collect(),
            passes: first.max(edge.outcome.retry).max(inner.outcome.retry),
            considered: decision.considered(),
            skipped,
            held,
            refused: refused.map(|refusal| refusal.reason),
            exempt: false,
        })
    }
}

impl Reason {
    /// A word for it.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Limit(_) => "limit",
            Self::Path(_) => "path",
            Self::Listed => "listed",
            Self::Banned { .. } => "banned",
            Self::Cooldown { .. } => "cooldown",
        }
    }
}

impl Explanation {
    fn none() -> Self {
        Self {
            routes: Vec::new(),
            considered: Vec::new(),
            skipped: Vec::new(),
            passes: Retry::Never,
            held: Vec::new(),
            refused: None,
            exempt: false,
        }
    }
}
