//! How the server is: what `/readyz` answers.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use serde_json::{Value as Json, json};
use threshold::Timestamp;
use threshold::node::{ComponentName, ComponentState, Strategy, Transition};
use tokio::sync::watch;

use crate::alerts::Readings;

/// What is known of the server's parts.
#[derive(Debug, Default)]
pub(crate) struct Health {
    started: AtomicBool,
    stopping: AtomicBool,
    changes: watch::Sender<()>,
    ledger_fails: AtomicBool,
    store_fails: AtomicBool,
    cache: Part,
    archive: Part,
    /// Counts and events that the archive had no room for.
    archive_dropped: AtomicU64,
    /// The place in [`Strategy::ALL`] of what decisions are made by.
    strategy: AtomicU8,
    /// How many policies have been in force, the first included.
    policies: AtomicU64,
    /// True if the policy's file is not the one in force, because it is broken.
    refused: AtomicBool,
}

/// A part that there need not be.
#[derive(Debug, Default)]
struct Part(AtomicU8);

impl Part {
    /// It is there, and fails or does not.
    fn set(&self, fails: bool) {
        self.0.store(1 + u8::from(fails), Ordering::Release);
    }

    fn name(&self) -> &'static str {
        ["none", "ok", "failing"]
            .get(usize::from(self.0.load(Ordering::Acquire)))
            .copied()
            .unwrap_or_default()
    }
}

/// How the server is at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) ready: bool,
    status: &'static str,
    strategy: Strategy,
    store: &'static str,
    cache: &'static str,
    ledger: &'static str,
    archive: &'static str,
    policies: u64,
    policy: &'static str,
}

impl Health {
    pub(crate) fn started(&self) {
        self.started.store(true, Ordering::Release);
        self.changes.send_replace(());
    }

    pub(crate) fn stopping(&self) {
        self.stopping.store(true, Ordering::Release);
        self.changes.send_replace(());
    }

    /// Tells of it when the server becomes ready, and when it is on its way out.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    /// True once it is on its way out.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    pub(crate) fn ledger(&self, fails: bool) {
        self.ledger_fails.store(fails, Ordering::Release);
    }

    /// There is an archive, which fails or does not.
    pub(crate) fn archive(&self, fails: bool) {
        self.archive.set(fails);
    }

    /// The archive had no room for so many more.
    pub(crate) fn archive_dropped(&self, dropped: u64) {
        self.archive_dropped.fetch_add(dropped, Ordering::AcqRel);
    }

    /// What alarms are raised by, as far as it is known here.
    pub(crate) fn readings(&self, at: Timestamp) -> Readings {
        let level = |fails: &AtomicBool| u64::from(fails.load(Ordering::Acquire));
        Readings {
            at,
            store_down: level(&self.store_fails),
            ledger_failing: level(&self.ledger_fails),
            archive_dropped: self.archive_dropped.load(Ordering::Acquire),
            ..Readings::default()
        }
    }

    /// There is a second store.
    pub(crate) fn cached(&self) {
        self.cache.set(false);
    }

    /// What decisions are made by.
    pub(crate) fn strategy(&self, strategy: Strategy) {
        let place = Strategy::ALL.iter().position(|known| *known == strategy).unwrap_or_default();
        self.strategy.store(u8::try_from(place).unwrap_or_default(), Ordering::Release);
    }

    /// A store went down or came up.
    pub(crate) fn transition(&self, transition: &Transition) {
        let fails = transition.state == ComponentState::Down;
        match transition.component {
            ComponentName::Store => self.store_fails.store(fails, Ordering::Release),
            ComponentName::Cache => self.cache.set(fails),
        }
        self.strategy(transition.strategy);
    }

    /// Another policy is in force.
    pub(crate) fn policy(&self) {
        self.policies.fetch_add(1, Ordering::AcqRel);
        self.refused.store(false, Ordering::Release);
    }

    /// A policy was refused.
    pub(crate) fn refused(&self) {
        self.refused.store(true, Ordering::Release);
    }

    /// Whether each component answers, as far as there is one.
    pub(crate) fn components(&self) -> Vec<(&'static str, bool)> {
        let Report { store, cache, ledger, archive, .. } = self.report();
        let all = [("store", store), ("cache", cache), ("ledger", ledger), ("archive", archive)];
        all.into_iter()
            .filter(|(_, state)| *state != "none")
            .map(|(name, state)| (name, state == "ok"))
            .collect()
    }

    /// How many policies have been in force, and whether the one in force is that of its file.
    pub(crate) fn policies(&self) -> (u64, bool) {
        (self.policies.load(Ordering::Acquire), !self.refused.load(Ordering::Acquire))
    }

    pub(crate) fn report(&self) -> Report {
        let (started, stopping) =
            (self.started.load(Ordering::Acquire), self.stopping.load(Ordering::Acquire));
        let status = match (started, stopping) {
            (_, true) => "stopping",
            (true, false) => "ready",
            (false, false) => "starting",
        };
        // What fails keeps no decision from being made: each limit says what it does then. So it is told, and no reason to be
        // taken out of service.
        let part = |fails: &AtomicBool| if fails.load(Ordering::Acquire) { "failing" } else { "ok" };
        let (ledger, store) = (part(&self.ledger_fails), part(&self.store_fails));
        let (cache, archive) = (self.cache.name(), self.archive.name());
        let strategy = usize::from(self.strategy.load(Ordering::Acquire));
        let strategy = Strategy::ALL.get(strategy).copied().unwrap_or_default();
        let policy = if self.refused.load(Ordering::Acquire) { "last good one" } else { "current" };
        let policies = self.policies.load(Ordering::Acquire);
        let ready = status == "ready";
        Report { ready, status, strategy, store, cache, ledger, archive, policies, policy }
    }
}

impl Report {
    pub(crate) fn to_json(self) -> Json {
        let Self { status, strategy, store, cache, ledger, archive, policies, policy, .. } = self;
        json!({
            "status": status, "strategy": strategy.name(), "store": store, "cache": cache, "ledger": ledger,
            "archive": archive, "policy": policy, "policiesLoaded": policies,
        })
    }
}
