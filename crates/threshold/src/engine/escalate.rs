//! Escalate: what follows a refusal beyond the refusal. A strike, perhaps a sanction, and on the first rungs grace.
//!
//! Only limits of users and endpoints lead here, and only where the policy has a ladder or reputation. What is attempted is
//! measured against the limit as the policy has it, not against what a bad name has left of it: else a bad name would
//! breed itself.

use std::num::NonZeroU64;

use threshold_core::ledger::{Entry, SanctionKind, Strike, Struck, Worse, Written};
use threshold_core::standing::{Ladder, Tally, Violation};
use threshold_core::{
    Action, Algorithm, AlgorithmKind, Batch, Clock, Consistency, Ledger, Outcome, Rate, Retry, Span, Step,
    Store, StoreError, SubjectId, SubjectKey, Timestamp, Verdict,
};

use super::decide::{Asked, Decision, Part, Refused};
use super::meet::together;
use super::names::{About, Blames};
use super::rules::evidence;
use super::select::{Plan, Role};
use super::standings::{Counting, Held};
use super::subject::Asker;
use super::{Asking, Engine, State};
use crate::event::{Escalation, Event};
use crate::route::Path;

/// What stands beside a limit's key: the count of refusals, and what would be left of the limit without a bad name.
const REFUSALS: u64 = 1;
const BASE: u64 = 2;
pub(super) const BESIDE: [u64; 2] = [REFUSALS, BASE];

/// More than anybody can be refused in one window.
const UNCOUNTABLE: u64 = 1 << 50;

/// A limit that was exceeded, as the policy has it, and whose fault that is.
#[derive(Clone, Copy)]
struct Offence {
    subject: SubjectId,
    /// The subject under the secret before.
    before: Option<SubjectId>,
    at: Timestamp,
    about: &'static About,
    step: Step,
    /// The capacity, and how much of it is used.
    allowed: u64,
    passed: u64,
}

/// How much was refused in the limit's window, before this request and with it.
#[derive(Clone, Copy)]
struct Refusals {
    before: u64,
    now: u64,
}

impl<S: Store, C: Clock, L: Ledger> Engine<S, C, L> {
    /// What follows a refusal by the layers behind the edge.
    #[cold]
    pub(super) async fn escalate(
        &self,
        state: &State,
        asking: &Asking<'_>,
        decision: &mut Decision,
    ) -> Result<(), StoreError> {
        // Only what is refused by the limit itself: what others refuse would count for nobody.
        let refuses: Vec<bool> = decision.inner.parts().map(|part| part.refuses()).collect();
        let base = self.try_base_of(&decision.inner.plan, |place| refuses.get(place) == Some(&true));
        if !state.rules.response.is_none() {
            let asker = self.asker(state, asking);
            let blamed = |key: &SubjectKey, blames| blamed(&asker, key, blames);
            if let Some(offence) = self.offence(decision, &base, blamed)
                && self.hold(state, asking, &offence, decision).await
                && let Some(ladder) = state.rules.response.ladder.as_deref()
            {
                self.grant_grace(ladder, decision).await?;
            }
        }
        match decision.refused {
            Some(Refused::Inner) => self.close_gates(decision).await,
            _ => Ok(()),
        }
    }

    /// Asks what the limits would say that a bad name has made smaller, had it not: each attempt counts there as it would
    /// for anybody. In this process alone.
    #[cold]
    pub(super) fn try_base(&self, plan: &Plan) {
        self.try_base_of(plan, |_| true);
    }

    fn try_base_of(&self, plan: &Plan, wanted: impl Fn(usize) -> bool) -> Vec<(usize, Verdict)> {
        let steps = plan.batch.steps();
        let scaled = plan.scaled.iter().filter(|(place, _)| wanted(*place));
        let tried = scaled.filter_map(|(place, algorithm)| {
            let step = steps.get(*place)?;
            let (_, verdict) = self.edge.act_now(&step.key.beside(BASE), algorithm, step.action);
            Some((*place, verdict))
        });
        tried.collect()
    }

    /// The first limit that refuses, would refuse anybody, and has somebody to blame.
    fn offence(
        &self,
        decision: &Decision,
        base: &[(usize, Verdict)],
        blamed: impl Fn(&SubjectKey, Blames) -> Option<SubjectId>,
    ) -> Option<Offence> {
        decision.inner.parts().enumerate().filter(|(_, part)| part.is_offence()).find_map(|(place, part)| {
            let about = part.planned.about;
            let subject = blamed(self.subject_keys.current(), about.blames)?;
            let before = self.subject_keys.previous().and_then(|key| blamed(key, about.blames));
            let unscaled = base.iter().find(|(tried, _)| *tried == place);
            let verdict = unscaled.map_or(part.verdict, |(_, verdict)| verdict);
            let (allowed, passed) = (verdict.limit, verdict.limit.saturating_sub(verdict.remaining));
            let offence =
                Offence { subject, before, at: decision.at, about, step: *part.step, allowed, passed };
            (!verdict.admitted()).then_some(offence)
        })
    }

    /// Counts the refusal, in this process alone.
    fn count_refusal(&self, offence: &Offence) -> Refusals {
        let cost = offence.step.action.cost().clamp(1, UNCOUNTABLE);
        let counted = NonZeroU64::new(cost).unwrap_or(NonZeroU64::MIN);
        let Some(window) = window(UNCOUNTABLE, offence.step.algorithm.period()) else {
            return Refusals { before: 0, now: cost };
        };
        let key = offence.step.key.beside(REFUSALS);
        let (_, verdict) = self.edge.act_now(&key, &window, Action::Consume(counted));
        let now = UNCOUNTABLE - verdict.remaining;
        Refusals { before: now.saturating_sub(cost), now }
    }

    /// Holds the offence against its subject. True if grace may let the request pass.
    async fn hold(
        &self,
        state: &State,
        asking: &Asking<'_>,
        offence: &Offence,
        decision: &mut Decision,
    ) -> bool {
        let refusals = self.count_refusal(offence);
        let kind = offence.kind(refusals.now);
        let strikes = if refusals.before == 0 {
            let entry = self.strike(state, asking, offence, (kind, refusals.now));
            match self.struck(state, offence, entry, decision).await {
                Some(strikes) => strikes,
                None => return false,
            }
        } else {
            if offence.kind(refusals.before) < kind {
                self.worsen(offence, (kind, refusals.now)).await;
            }
            match self.known_strikes(offence) {
                Some(strikes) => strikes,
                None => return false,
            }
        };
        let ladder = state.rules.response.ladder.as_deref();
        ladder.and_then(|ladder| ladder.rung(&strikes, decision.at)).is_some_and(|rung| rung.warn)
    }

    /// The strikes, if that of this window is among them: while it is being written nobody knows which rung it is.
    fn known_strikes(&self, offence: &Offence) -> Option<Tally> {
        let strikes = self.held_against_id(offence).unwrap_or_default().strikes;
        let window = offence.step.algorithm.period();
        (offence.at < strikes.last().plus(window)).then_some(strikes)
    }

    fn held_against_id(&self, offence: &Offence) -> Option<Held> {
        let before = offence.before.and_then(|id| self.standings.find(&id));
        together(self.standings.find(&offence.subject), before)
    }

    fn strike(
        &self,
        state: &State,
        asking: &Asking<'_>,
        offence: &Offence,
        (kind, count): (Violation, u64),
    ) -> Entry {
        let response = &state.rules.response;
        let routes = Path::read(asking.facts.path).map_or_else(
            |_| String::new(),
            |path| {
                let matched = state.rules.frame.routes.matches(asking.facts.method, asking.facts.host, &path);
                let names = state.rules.frame.routes.names().enumerate();
                let names = names.filter(|(index, _)| matched.contains(*index)).map(|(_, name)| name);
                names.collect::<Vec<_>>().join(", ")
            },
        );
        let details = if routes.is_empty() { String::new() } else { format!("route {routes}") };
        let from = (asking.facts, &state.rules.identifier);
        let key = self.subject_keys.current();
        Entry::Strike(Strike {
            subject: offence.subject,
            before: offence.before,
            limit: offence.about.limit.to_owned(),
            window: offence.step.algorithm.period(),
            at: offence.at,
            evidence: evidence(
                response,
                from,
                key,
                (kind, offence.passed.saturating_add(count), offence.allowed),
                details,
            ),
            ladder: response.ladder.clone(),
            reputation: response.reputation,
        })
    }

    /// Writes the strike down and does what follows from it; none if it could not be written.
    async fn struck(
        &self,
        state: &State,
        offence: &Offence,
        entry: Entry,
        decision: &mut Decision,
    ) -> Option<Tally> {
        let written = self.write(&[entry]).await;
        let Ok([Written::Struck(struck)]) = written.as_deref() else {
            // Not written down, it was no strike: the next refusal tries again.
            self.edge.reset_now(&[offence.step.key.beside(REFUSALS)]);
            return None;
        };
        let counting = self.counting(state, decision.at);
        self.standings.stand(&struck.standing, &counting);
        struck.imposed.iter().for_each(|sanction| self.standings.sanction(sanction, &counting));
        if struck.fresh {
            self.announce(state, offence, struck, &counting);
        } else {
            // Another node has struck. What followed counts here as well; if it cannot be read now, then a little later.
            let _ = self.refresh().await;
        }
        let held = self.held_against_id(offence).unwrap_or_default();
        let sanctioned =
            decision.sanctioned(held.until(SanctionKind::Ban), held.until(SanctionKind::Cooldown));
        (!sanctioned).then_some(struck.standing.strikes)
    }

    fn announce(&self, state: &State, offence: &Offence, struck: &Struck, counting: &Counting<'_>) {
        let rung = state.rules.response.ladder.as_deref();
        let rung = rung.and_then(|ladder| ladder.rung(&struck.standing.strikes, counting.now));
        let subject = offence.subject;
        let held = self.standings.find(&subject).unwrap_or_default();
        let ban = held.until(SanctionKind::Ban);
        self.tell(&Event::AbuseEscalation(Escalation {
            at: counting.now,
            subject,
            limit: offence.about.limit,
            violation: struck.kind,
            strikes: struck.standing.strikes.parts().0,
            log: rung.is_some_and(|rung| rung.log),
            shadowed: counting.now < held.until(SanctionKind::Shadow),
            banned_until: (counting.now < ban).then_some(ban),
        }));
        for sanction in &struck.imposed {
            self.tell(&Event::SanctionImposed {
                at: counting.now,
                subject,
                kind: sanction.kind,
                until: sanction.until,
                reason: sanction.reason.clone(),
                author: sanction.author.clone(),
            });
        }
    }

    async fn worsen(&self, offence: &Offence, (kind, count): (Violation, u64)) {
        let Offence { subject, at, passed, .. } = *offence;
        let count = passed.saturating_add(count);
        let (limit, window) = (offence.about.limit.to_owned(), offence.step.algorithm.period());
        // What is lost here is a word in a record, not a strike.
        let _ = self.write(&[Entry::Worse(Worse { subject, limit, window, at, kind, count })]).await;
    }

    /// Asks again with the limits that are over raised by their grace, and lets the request pass if that is enough.
    async fn grant_grace(&self, ladder: &Ladder, decision: &mut Decision) -> Result<(), StoreError> {
        let Some(batch) = decision.inner.raised(|capacity| ladder.grace(capacity)) else { return Ok(()) };
        let outcome = self.store.apply(&batch).await?;
        if outcome.admitted() {
            decision.inner.passed_by_grace(batch, outcome);
            (decision.refused, decision.warned) = (None, true);
        }
        Ok(())
    }
}

impl Offence {
    /// What kind of violation it is after so many were refused. One that is not beyond the limit by the numbers is so by
    /// when they came.
    fn kind(&self, refused: u64) -> Violation {
        Violation::of(self.passed.saturating_add(refused), self.allowed)
    }
}

impl Decision {
    /// Takes sanctions into account that came into force with this request; true if there are some.
    fn sanctioned(&mut self, ban: Timestamp, cooldown: Timestamp) -> bool {
        let until = ban.max(cooldown);
        let wait = Retry::After(until.since(self.at)).max(self.inner.outcome.retry);
        if self.at < ban {
            (self.refused, self.floor) = (Some(Refused::Banned(ban)), wait);
        } else if self.at < cooldown {
            self.inner.outcome.retry = wait;
        }
        self.at < until
    }
}

impl Asked {
    /// The batch with the limits that are over raised by `grace`; none if something else refuses as well, or if there is
    /// no grace.
    fn raised(&self, grace: impl Fn(u64) -> u64) -> Option<Batch> {
        let mut batch = Batch::default();
        for part in self.parts() {
            let mut step = *part.step;
            if part.refuses() {
                // Slices of a raised limit would last beyond the one request that grace is for.
                if step.sharing.consistency == Consistency::Leased {
                    return None;
                }
                let grace =
                    Some(grace(step.algorithm.capacity())).filter(|grace| *grace > 0 && part.is_offence())?;
                // At least one request, where each costs the same.
                let least = if part.planned.about.bytes { 1 } else { step.action.cost() };
                step.algorithm = step.algorithm.raised(grace.max(least))?;
            }
            batch.push(step).ok()?;
        }
        Some(batch)
    }

    /// Takes over what came of the raised limits. To who asks they are used up.
    fn passed_by_grace(&mut self, batch: Batch, outcome: Outcome) {
        let before = std::mem::replace(&mut self.outcome, outcome);
        let steps = self.plan.steps.iter_mut().zip(&mut self.outcome.verdicts);
        for ((planned, verdict), before) in steps.zip(&before.verdicts) {
            if !before.admitted() && verdict.admitted() {
                (verdict.limit, verdict.remaining, planned.role) = (before.limit, 0, Role::Graced);
            }
        }
        self.plan.batch = batch;
    }
}

impl Part<'_> {
    /// True if a limit itself is over, and it blames somebody for that.
    fn is_offence(&self) -> bool {
        let own = matches!(self.planned.role, Role::Limit | Role::Previous);
        own && self.planned.about.blames != Blames::Nobody && self.refuses() && self.is_over()
    }
}

/// Whom a limit's refusal is held against, named by `key`.
fn blamed(asker: &Asker<'_>, key: &SubjectKey, blames: Blames) -> Option<SubjectId> {
    let claimed = asker.user().is_some_and(|(_, proven)| !proven);
    match blames {
        Blames::Nobody => None,
        // Somebody else may have used up what is counted by a mere name.
        Blames::User if claimed => None,
        Blames::Address => Some(asker.address_id(key)),
        Blames::User | Blames::UserAtAddress => {
            Some(asker.user_id(key).unwrap_or_else(|| asker.address_id(key)))
        }
    }
}

/// A window of its own from the first charge on.
fn window(count: u64, period: Span) -> Option<Algorithm> {
    Algorithm::new(AlgorithmKind::FixedWindow, &Rate::new(count, period).ok()?).ok()
}
