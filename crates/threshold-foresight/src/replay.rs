//! Replay: requests decided by a policy at the times when they came.
//!
//! The engine is the real one, over a store, a ledger and a clock of its own: what it counts and whom it strikes is felt
//! nowhere else. Its counters begin empty, and nothing is held against anybody.
//!
//! What a log does not have is passed over: how long requests took, and with that limits of how many at the same time; bytes
//! that were not declared; what logins came to; messages of WebSockets.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use threshold::engine::{Decision, Engine, Explanation, Extras, Reason, RefusedBy, Rules, Secrets};
use threshold::event::Event;
use threshold::figures::Ending;
use threshold::identify::{Facts, Identity, UserKind};
use threshold::ledger::SanctionKind;
use threshold::{ManualClock, MemoryStats, MemoryStore, MemoryStoreError, Secret};

use crate::Request;

/// How much the counters of one policy may take, in each of its two stores.
const BYTES: usize = 256 << 20;
/// How many requests come between two looks at what is over, and how many counters are looked at then.
const TURN: u64 = 4_096;
const SWEPT: usize = 2 * TURN as usize;

/// A policy that is tried.
pub struct Replay {
    engine: Engine<MemoryStore<ManualClock>, ManualClock>,
    rules: Arc<Rules>,
    clock: ManualClock,
    /// A place for decisions, which are large.
    decision: Decision,
    imposed: Arc<Imposed>,
    asked: u64,
}

/// What a request came to.
pub struct Judged<'a> {
    /// Who asked.
    pub identity: Identity<'a>,
    /// The decision.
    pub decision: &'a Decision,
    /// The number of the route, among [`Rules::routes`].
    pub route: Option<usize>,
    /// True if the request brought a ban on whoever sent it.
    pub brought_ban: bool,
    /// True if no decision could be made: its limits are closed while the store is gone.
    pub unavailable: bool,
}

impl Judged<'_> {
    /// What it came to. Who finds no store meets a limit that is closed.
    #[must_use]
    pub fn ending(&self) -> Ending {
        if self.unavailable { Ending::Limited } else { self.decision.ending() }
    }

    /// The limit that refused it, if one did.
    pub(crate) fn refusing(&self) -> Option<RefusedBy> {
        match self.decision.refusal().map(|refusal| refusal.reason) {
            Some(Reason::Limit(by)) if !self.unavailable => Some(by),
            _ => None,
        }
    }

    /// What refused it: a limit's id, or a word for what else it was.
    #[must_use]
    pub fn refused_by(&self) -> &'static str {
        match self.decision.refusal().map(|refusal| refusal.reason) {
            _ if self.unavailable => "store",
            Some(Reason::Limit(by)) => by.limit,
            Some(reason) => reason.name(),
            None => "nothing",
        }
    }
}

/// Sanctions that were imposed.
#[derive(Debug, Default)]
pub(crate) struct Imposed {
    strikes: AtomicU64,
    cooldowns: AtomicU64,
    shadows: AtomicU64,
    bans: AtomicU64,
}

/// How many sanctions were imposed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sanctions {
    /// Strikes.
    pub strikes: u64,
    /// Times that somebody has to wait, whatever the limits say.
    pub cooldowns: u64,
    /// Times that somebody's answers are held back.
    pub shadows: u64,
    /// Bans.
    pub bans: u64,
}

/// The secret that keys and names are made with here. It is no secret: it keeps two runs alike.
#[must_use]
pub fn secrets() -> Secrets {
    Secrets::new(Secret::from_text("foresight"))
}

impl Replay {
    /// Tries `rules`, which were made ready under [`secrets`].
    ///
    /// # Errors
    ///
    /// If there is no memory for its counters.
    pub fn new(rules: Rules) -> Result<Self, MemoryStoreError> {
        let clock = ManualClock::default();
        let memory = || MemoryStore::builder().max_bytes(BYTES).clock(clock.clone()).build();
        let imposed = Arc::new(Imposed::default());
        let heard = Arc::clone(&imposed);
        let engine =
            Engine::new(rules, secrets(), memory()?, memory()?).telling(move |event| heard.hear(event));
        let (rules, decision) = (engine.rules(), Decision::default());
        Ok(Self { engine, rules, clock, decision, imposed, asked: 0 })
    }

    /// Decides about the next request. They come by their times.
    pub fn ask<'a>(&'a mut self, request: &'a Request<'a>) -> Judged<'a> {
        self.clock.set(request.at);
        let facts = facts(request);
        let identity = identify(&self.rules, &facts, request);
        let extras = Extras { account: request.account, ..Extras::default() };
        let bans = self.imposed.bans.load(Ordering::Relaxed);
        self.engine.decide_into(&facts, &identity, extras, &mut self.decision);
        self.asked += 1;
        if self.asked.is_multiple_of(TURN) {
            self.engine.sweep_now(SWEPT);
        }
        let brought_ban = self.imposed.bans.load(Ordering::Relaxed) > bans;
        Judged {
            identity,
            decision: &self.decision,
            route: self.rules.route(&facts),
            brought_ban,
            unavailable: false,
        }
    }

    /// Says what would become of a request now and why, and charges nothing. None if its path cannot be read.
    #[must_use]
    pub fn explain(&self, request: &Request<'_>) -> Option<Explanation> {
        self.clock.set(request.at);
        let facts = facts(request);
        let identity = identify(&self.rules, &facts, request);
        let extras = Extras { account: request.account, ..Extras::default() };
        let asking = pin!(self.engine.explain(&facts, &identity, extras));
        // A store in memory waits for nothing, and does not fail.
        match asking.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(explanation)) => Some(explanation),
            Poll::Ready(Err(_)) | Poll::Pending => None,
        }
    }

    /// The policy.
    #[must_use]
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// What was imposed until now.
    #[must_use]
    pub fn sanctions(&self) -> Sanctions {
        self.imposed.counts()
    }

    /// True if its counters did not fit into memory.
    #[must_use]
    pub fn is_crowded(&self) -> bool {
        self.memory().iter().any(|memory| memory.shared_charges + memory.refused_for_room > 0)
    }

    /// What its counters take: those of the store and those of the edge.
    #[must_use]
    pub fn memory(&self) -> [MemoryStats; 2] {
        [self.engine.store().stats(), self.engine.edge_stats()]
    }
}

impl Imposed {
    pub(crate) fn hear(&self, event: &Event) {
        let counter = match event {
            Event::AbuseEscalation(_) => &self.strikes,
            Event::SanctionImposed { kind: SanctionKind::Cooldown, .. } => &self.cooldowns,
            Event::SanctionImposed { kind: SanctionKind::Shadow, .. } => &self.shadows,
            Event::SanctionImposed { kind: SanctionKind::Ban, .. } => &self.bans,
            _ => return,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// How many there were until now.
    pub(crate) fn counts(&self) -> Sanctions {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Imposed { strikes, cooldowns, shadows, bans } = self;
        Sanctions {
            strikes: count(strikes),
            cooldowns: count(cooldowns),
            shadows: count(shadows),
            bans: count(bans),
        }
    }
}

/// What is known of a request before anybody asks who sent it.
#[must_use]
pub fn facts<'a>(request: &'a Request<'a>) -> Facts<'a> {
    Facts {
        peer: request.client,
        method: request.method,
        host: request.host,
        path: request.target,
        bytes: request.bytes,
        headers: &request.headers,
    }
}

/// Who sent a request: as the policy recognises it, and where it recognises nobody, as the log says.
#[must_use]
pub fn identify<'a>(rules: &Rules, facts: &Facts<'a>, request: &Request<'a>) -> Identity<'a> {
    let mut identity = rules.identify(facts, request.at);
    if let (None, Some(user)) = (&identity.user, request.user) {
        identity.user = Some(user.into());
        identity.user_kind = Some(UserKind::Proxy);
    }
    if let (None, Some(tenant)) = (&identity.tenant, request.tenant) {
        identity.tenant = Some(tenant.into());
        identity.tenant_verified = true;
    }
    identity
}
