//! Meet: what lists and standing say of who asks, before any limit is asked.

use std::time::Duration;

use threshold_core::ledger::SanctionKind;
use threshold_core::standing::Risk;
use threshold_core::{
    Clock, Ledger, Retry, Store, StoreError, SubjectId, SubjectKey, SubjectKind, Timestamp,
};

use super::decide::{Decision, Refused};
use super::rules::{Listed, Lists};
use super::select::{self, Plan, Request, Risks};
use super::standings::Held;
use super::subject::Asker;
use super::{Asking, Engine, State};
use crate::route::Path;

/// What an answer that is held back takes at least, and at most that much more.
const DELAY: Duration = Duration::from_secs(1);
const JITTER_MICROS: u64 = 2_000_000;

impl<S: Store, C: Clock, L: Ledger> Engine<S, C, L> {
    /// Plans anew for somebody that something is held against; false if it is refused for that.
    #[cold]
    pub(super) fn reconsider(
        &self,
        state: &State,
        request: &mut Request<'_>,
        decision: &mut Decision,
    ) -> bool {
        let risks = self.weigh(state, &request.asker, decision);
        if risks != Some(Risks::LOW) {
            decision.edge.plan.clear();
            decision.inner.plan.clear();
        }
        let Some(risks) = risks else { return false };
        if risks != Risks::LOW {
            request.risks = risks;
            self.plan(state, request, decision);
        }
        true
    }

    /// Applies lists and sanctions: how much who asks is trusted; none if there is nothing more to ask.
    pub(super) fn meet(
        &self,
        state: &State,
        request: &Request<'_>,
        decision: &mut Decision,
    ) -> Option<Risks> {
        match &state.rules.lists {
            Some(lists) if !obey(lists, request, decision) => None,
            _ => self.weigh(state, &request.asker, decision),
        }
    }

    /// False if nothing is held against who asks: the common case, answered without a lock.
    #[inline]
    pub(super) fn may_be_held(&self, asker: &Asker<'_>) -> bool {
        let may_hold = |key: &SubjectKey| {
            let address = || Some(asker.naming_address(key).low());
            let user = || Some(asker.naming_user(key)?.low());
            // Both are asked, not one after the other: neither waits for the other's memory.
            self.standings.may_hold(SubjectKind::Address, address)
                | self.standings.may_hold(SubjectKind::User, user)
        };
        may_hold(self.subject_keys.current()) || self.subject_keys.previous().is_some_and(may_hold)
    }

    /// What follows from what is held against the user and the address.
    #[cold]
    pub(super) fn weigh(&self, state: &State, asker: &Asker<'_>, decision: &mut Decision) -> Option<Risks> {
        let now = decision.at;
        let (mut user, mut address) = (None, None);
        for key in self.subject_keys.all() {
            address = together(address, self.standings.find(&asker.address_id(key)));
            user = together(user, asker.user_id(key).and_then(|id| self.standings.find(&id)));
        }
        if user.is_none() && address.is_none() {
            return Some(Risks::LOW);
        }
        let (of_user, of_address) = (user.unwrap_or_default(), address.unwrap_or_default());
        let all = of_user.and(&of_address);
        let [cooldown, shadow, ban] = SanctionKind::ALL.map(|kind| all.until(kind));
        if now < ban || now < cooldown {
            decision.refused =
                Some(if now < ban { Refused::Banned(ban) } else { Refused::Cooldown(cooldown) });
            decision.floor = Retry::After(ban.max(cooldown).since(now));
            return None;
        }
        if now < shadow {
            let subject = asker.address_id(self.subject_keys.current());
            decision.delay = self.delay(&subject, now.as_micros());
        }
        let reputation = state.rules.response.reputation.as_ref();
        let risk = |held: &Held| {
            reputation.map_or(Risk::Low, |reputation| reputation.risk(held.score.points(reputation, now)))
        };
        let proven = asker.user().map(|(_, proven)| proven);
        Some(Risks {
            user: proven.filter(|proven| *proven).map(|_| risk(&of_user)),
            address: risk(&of_address),
            claimed: proven == Some(false),
        })
    }

    /// When a request that a sanction refused passes, as far as limits have a say in it: whoever waits as long as told must
    /// not be refused again.
    #[cold]
    pub(super) async fn foresee(
        &self,
        state: &State,
        asking: &Asking<'_>,
        until: Timestamp,
        decision: &mut Decision,
    ) -> Result<(), StoreError> {
        // No limit makes anybody wait for longer than that.
        if until.since(decision.at) >= state.rules.longest {
            return Ok(());
        }
        if let Some((edge, inner)) = self.plan_anyway(state, asking, decision.at) {
            let inner = self.store.wait(&inner.batch).await?;
            let wait = inner.max(self.edge.peek_now(&edge.batch).retry);
            // A cost that never fits is none of the sanction's business.
            decision.floor = if wait == Retry::Never { decision.floor } else { decision.floor.max(wait) };
        }
        Ok(())
    }

    /// A request that another layer refused was charged at the edge: whoever waits as long as told must pass there too.
    #[cold]
    pub(super) fn mind_edge(&self, decision: &mut Decision) {
        if !decision.allowed() && !decision.edge.plan.steps.is_empty() {
            let wait = self.edge.peek_now(&decision.edge.plan.batch).retry;
            decision.floor = decision.floor.max(wait);
        }
    }

    /// A request that the edge refused was not asked of the other layers: whoever waits as long as told must pass there
    /// too.
    #[cold]
    pub(super) async fn mind_inner(&self, decision: &mut Decision) -> Result<(), StoreError> {
        if !decision.inner.plan.steps.is_empty() {
            let wait = self.store.wait(&decision.inner.plan.batch).await?;
            // A cost that never fits is none of the edge's business.
            decision.floor = if wait == Retry::Never { decision.floor } else { decision.floor.max(wait) };
        }
        Ok(())
    }

    /// The plans of the edge and the other layers for who is sanctioned.
    fn plan_anyway(&self, state: &State, asking: &Asking<'_>, now: Timestamp) -> Option<(Plan, Plan)> {
        let path = Path::read(asking.facts.path).ok()?;
        let matched = state.rules.frame.routes.matches(asking.facts.method, asking.facts.host, &path);
        let mut request = Request::new(&state.rules.frame, asking, (&path, &matched), now);
        self.believe(state, &mut request);
        let ids = request.asker.ids(&self.subject_keys);
        request.ids = &ids;
        let mut plans = (Plan::default(), Plan::default());
        select::edge(state, &request, &mut plans.0);
        select::inner(state, &request, &mut plans.1);
        Some(plans)
    }

    /// A delay that nobody can foretell, of one to three seconds.
    fn delay(&self, subject: &SubjectId, salt: u64) -> Duration {
        let jitter = self.subject_keys.draw(subject, salt) % (JITTER_MICROS + 1);
        DELAY + Duration::from_micros(jitter)
    }
}

/// Does what the lists say; false if there is nothing more to ask.
#[cold]
pub(super) fn obey(lists: &Lists, request: &Request<'_>, decision: &mut Decision) -> bool {
    let listed = lists.judge(&request.asker, request.asking.identity.tenant.as_deref());
    if listed == Listed::Denied {
        decision.refused = Some(Refused::Listed);
    }
    listed == Listed::No
}

/// What is held against one that is known by two ids.
#[inline]
pub(super) fn together(one: Option<Held>, other: Option<Held>) -> Option<Held> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.and(&other)),
        (one, other) => one.or(other),
    }
}
