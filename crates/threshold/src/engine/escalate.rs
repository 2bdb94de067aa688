//! Escalate: what follows a refusal beyond the refusal. A strike, perhaps a sanction, and on the first rungs grace.
//!
//! Only limits of users and endpoints lead here, and only where the policy has a ladder or reputation. What is attempted is
//! measured against the limit as the policy has it, not against what a bad name has left of it: else a bad name would
//! breed itself.

use std::num::NonZeroU64;

use threshold_core::ledger::{Entry, SanctionKind, Strike, Struck, Worse, Written};
use threshold_core::standing::{Tally, Violation};
use threshold_core::{
    Action, Algorithm, AlgorithmKind, Batch, Clock, Ledger, Outcome, Rate, Retry, Span, Step, Store,
    StoreError, SubjectId, Timestamp,
};

use super::decide::{Asked, Decision, Part, Refused};
use super::names::{About, Blames};
use super::rules::evidence;
use super::select::Role;
use super::standings::Counting;
use super::subject::Asker;
use super::{Asking, Engine, State};
use crate::event::{Escalation, Event};
use crate::route::Path;

/// What stands beside a limit's key: the count of refusals, and the grace.
const REFUSALS: u64 = 1;
const GRACE: u64 = 2;

/// More than anybody can be refused in one window.
const UNCOUNTABLE: u64 = 1 << 50;

/// The limit that is held against somebody.
#[derive(Clone, Copy)]
struct Offence {
    /// Whom, and when.
    subject: SubjectId,
    at: Timestamp,
    about: &'static About,
    step: Step,
    /// The limit's capacity as the policy has it, and what a bad name has left of it.
    base: u64,
    left: u64,
}

/// How much was attempted under a limit in its window, before this request and with it.
#[derive(Clone, Copy)]
struct Attempted {
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
        let (asker, _) = self.asker(state, asking);
        if !state.rules.response.is_none()
            && let Some(offence) = decision.inner.offence(decision.at, |blames| self.blamed(&asker, blames))
        {
            let attempted = self.count_refusal(&offence);
            if self.hold(state, asking, (offence, attempted), decision).await {
                self.grant_grace(state, decision).await?;
            }
        }
        match decision.refused {
            Some(Refused::Inner) => self.close_gates(decision).await,
            _ => Ok(()),
        }
    }

    /// Whom a limit's refusal is held against.
    fn blamed(&self, asker: &Asker<'_>, blames: Blames) -> SubjectId {
        let key = self.subject_keys.current();
        let user = if blames == Blames::User { asker.user_id(key) } else { None };
        user.unwrap_or_else(|| asker.address_id(key))
    }

    /// Counts the refusal in this process, and says how much that makes together with what was admitted.
    fn count_refusal(&self, offence: &Offence) -> Attempted {
        let cost = offence.step.action.cost();
        let key = offence.step.key.beside(REFUSALS);
        let counted = NonZeroU64::new(cost.min(UNCOUNTABLE)).unwrap_or(NonZeroU64::MIN);
        let Some(window) = window(UNCOUNTABLE, offence.step.algorithm.period()) else {
            return Attempted { before: offence.left, now: offence.left.saturating_add(cost) };
        };
        let (_, verdict) = self.edge.act_now(&key, &window, Action::Consume(counted));
        let refused = UNCOUNTABLE - verdict.remaining;
        let now = offence.left.saturating_add(refused);
        Attempted { before: now.saturating_sub(counted.get()), now }
    }

    /// Holds the offence against the subject, as far as it is one. True if grace may let the request pass.
    async fn hold(
        &self,
        state: &State,
        asking: &Asking<'_>,
        (offence, attempted): (Offence, Attempted),
        decision: &mut Decision,
    ) -> bool {
        let Some(kind) = attempted.kind(attempted.now, offence.base) else { return false };
        let was = attempted.kind(attempted.before, offence.base);
        let strikes = if was.is_none() {
            let entry = self.strike(state, asking, &offence, (kind, attempted.now));
            match self.struck(state, &offence, entry, decision).await {
                Some(strikes) => strikes,
                None => return false,
            }
        } else {
            if was < Some(kind) {
                self.worsen(&offence, (kind, attempted.now)).await;
            }
            self.standings.find(&offence.subject).map_or_else(Tally::default, |held| held.strikes)
        };
        let ladder = state.rules.response.ladder.as_deref();
        ladder.and_then(|ladder| ladder.rung(&strikes, decision.at)).is_some_and(|rung| rung.warn)
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
            limit: offence.about.limit.to_owned(),
            window: offence.step.algorithm.period(),
            at: offence.at,
            evidence: evidence(response, from, key, (kind, count, offence.base), details),
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
        if let Some(held) = self.standings.find(&offence.subject) {
            decision.sanctioned(held.until(SanctionKind::Ban), held.until(SanctionKind::Cooldown));
        }
        Some(struck.standing.strikes)
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
        let Offence { subject, at, .. } = *offence;
        let (limit, window) = (offence.about.limit.to_owned(), offence.step.algorithm.period());
        // What is lost here is a word in a record, not a strike.
        let _ = self.write(&[Entry::Worse(Worse { subject, limit, window, at, kind, count })]).await;
    }

    /// Asks again with grace in the place of the limits that are over, and lets the request pass if there is some left.
    async fn grant_grace(&self, state: &State, decision: &mut Decision) -> Result<(), StoreError> {
        let Some(ladder) = state.rules.response.ladder.as_deref() else { return Ok(()) };
        let Some(batch) = decision.inner.gracious(|count| ladder.grace(count)) else { return Ok(()) };
        let outcome = self.store.apply(&batch).await?;
        if outcome.admitted() {
            decision.inner.passed_by_grace(outcome);
            (decision.refused, decision.warned) = (None, true);
        }
        Ok(())
    }

    async fn close_gates(&self, decision: &mut Decision) -> Result<(), StoreError> {
        match decision.inner.close() {
            Some(gates) => self.store.apply(&gates).await.map(|_| ()),
            None => Ok(()),
        }
    }
}

impl Attempted {
    /// What kind of violation so many attempts are; none if the limit as the policy has it allows them.
    fn kind(self, attempts: u64, base: u64) -> Option<Violation> {
        (attempts > base).then(|| Violation::of(attempts, base))
    }
}

impl Decision {
    /// Takes sanctions into account that came into force with this request.
    fn sanctioned(&mut self, ban: Timestamp, cooldown: Timestamp) {
        if self.at < ban {
            self.refused = Some(Refused::Banned(ban));
        } else if self.at < cooldown {
            let wait = Retry::After(cooldown.since(self.at));
            self.inner.outcome.retry = self.inner.outcome.retry.max(wait);
        }
    }
}

impl Asked {
    /// The first limit that refuses and has somebody to blame.
    fn offence(&self, at: Timestamp, blamed: impl Fn(Blames) -> SubjectId) -> Option<Offence> {
        let to_blame = |(_, part): &(usize, Part<'_>)| part.is_offence();
        let (place, part) = self.parts().enumerate().find(to_blame)?;
        let left = part.verdict.limit;
        let scaled = self.plan.scaled.iter().find(|(scaled, _)| *scaled == place);
        let base = scaled.map_or(left, |(_, base)| *base);
        let about = part.planned.about;
        Some(Offence { subject: blamed(about.blames), at, about, step: *part.step, base, left })
    }

    /// The batch with grace in the place of the limits that are over; none if something else refuses as well.
    fn gracious(&self, grace: impl Fn(u64) -> u64) -> Option<Batch> {
        let mut batch = Batch::default();
        for part in self.parts() {
            let mut step = *part.step;
            if part.refuses() {
                let count = part.planned.about.rate.count().min(part.verdict.limit);
                step.algorithm =
                    window(grace(count), step.algorithm.period()).filter(|_| part.is_offence())?;
                step.key = step.key.beside(GRACE);
            }
            batch.push(step).ok()?;
        }
        Some(batch)
    }

    /// Takes over the outcome with grace. The limits that are over still say so.
    fn passed_by_grace(&mut self, mut outcome: Outcome) {
        for (new, old) in outcome.verdicts.iter_mut().zip(&self.outcome.verdicts) {
            if !old.admitted() {
                *new = *old;
            }
        }
        self.outcome = outcome;
    }
}

impl Part<'_> {
    /// True if a limit itself is over, and somebody is to blame for it.
    fn is_offence(&self) -> bool {
        let own = matches!(self.planned.role, Role::Limit | Role::Previous)
            && self.planned.about.blames != Blames::Nobody;
        own && self.refuses() && self.is_over()
    }
}

/// A window of its own from the first charge on; none for a count that is none.
fn window(count: u64, period: Span) -> Option<Algorithm> {
    Algorithm::new(AlgorithmKind::FixedWindow, &Rate::new(count, period).ok()?).ok()
}
