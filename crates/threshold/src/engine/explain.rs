//! Explain: what a decision was made of, limit by limit.

use std::time::Duration;

use threshold_core::{Action, Clock, Mode, Outcome, Rate, Retry, Step, Store, StoreError, Verdict};

use super::decide::Asked;
use super::select::{Plan, Planned, Request, Role, Selecting, Skipped};
use super::subject::Asker;
use super::{Decision, Engine, Extras};
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
}

/// One limit's part in a decision.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Considered {
    /// The limit's id.
    pub limit: &'static str,
    /// Its layer.
    pub layer: Layer,
    /// The prefix, if this is its count of the client's larger network.
    pub network: Option<u8>,
    /// True if this is the gate that keeps out who was over.
    pub gate: bool,
    /// True if this is its count under the secret before.
    pub previous_secret: bool,
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
        self.edge.considered().chain(self.inner.considered()).collect()
    }
}

impl Asked {
    fn considered(&self) -> impl Iterator<Item = Considered> {
        let charged = self.outcome.as_ref().is_some_and(|outcome| outcome.charged);
        self.verdicts().map(move |(index, verdict)| {
            considered(&self.plan.steps[index], &self.plan.batch.steps()[index], verdict, charged)
        })
    }
}

fn considered(planned: &Planned, step: &Step, verdict: &Verdict, charged: bool) -> Considered {
    let cost = match step.action {
        Action::Consume(cost) | Action::Acquire(_, cost) => cost.get(),
        _ => 0,
    };
    let taken = if charged && verdict.admitted() { cost } else { 0 };
    Considered {
        limit: planned.about.limit,
        layer: planned.about.layer,
        network: match planned.role {
            Role::Network(prefix) => Some(prefix),
            _ => None,
        },
        gate: planned.role == Role::Gate,
        previous_secret: planned.role == Role::Previous,
        key: format!("{:032x}", step.key.hash()),
        rate: planned.about.rate,
        cost,
        mode: step.mode,
        before: verdict.remaining + taken,
        after: verdict.remaining,
        retry: verdict.retry,
        reset: verdict.reset.into(),
    }
}

impl<S: Store, C: Clock> Engine<S, C> {
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
        let state = self.state.load_full();
        let Ok(path) = Path::read(facts.path) else { return Ok(Explanation::none()) };
        let matched = state.rules.routes.matches(facts.method, facts.host, &path);
        let request = Request {
            asker: Asker::new(&state.rules, identity, extras.account),
            routes: &|route| matched.contains(route),
            bytes: facts.bytes,
            permit: extras.permit,
            now: self.edge.now(),
        };
        let (mut edge, mut inner) = (Plan::default(), Plan::default());
        let (mut selecting, mut skipped) = (Selecting::new(&state.overrides, &request), Vec::new());
        for rule in state.rules.limits() {
            let plan = if rule.layer == Layer::Edge { &mut edge } else { &mut inner };
            let why_not = selecting.try_add(rule, plan).err();
            skipped.extend(why_not.map(|why| (rule.name, why)));
        }
        let edge_outcome = self.edge.peek_now(&edge.batch);
        let inner_outcome = self.store.peek(&inner.batch).await?;
        let names = state.rules.routes.names().enumerate();
        Ok(Explanation {
            routes: names
                .filter(|(index, _)| matched.contains(*index))
                .map(|(_, name)| name.to_owned())
                .collect(),
            passes: edge_outcome.retry.max(inner_outcome.retry),
            considered: all([(edge, edge_outcome), (inner, inner_outcome)]),
            skipped,
        })
    }
}

fn all(asked: [(Plan, Outcome); 2]) -> Vec<Considered> {
    let asked = asked.map(|(plan, outcome)| Asked { plan, outcome: Some(outcome) });
    asked.iter().flat_map(Asked::considered).collect()
}

impl Explanation {
    fn none() -> Self {
        Self { routes: Vec::new(), considered: Vec::new(), skipped: Vec::new(), passes: Retry::Never }
    }
}
