//! How the server is: what `/readyz` answers.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use serde_json::{Value as Json, json};

/// What is known of the server's parts.
#[derive(Debug, Default)]
pub(crate) struct Health {
    started: AtomicBool,
    stopping: AtomicBool,
    ledger_fails: AtomicBool,
    /// The place in [`ARCHIVE`] of how the archive is.
    archive: AtomicU8,
    /// How many policies have been in force, the first included.
    policies: AtomicU64,
    /// True if the policy's file is not the one in force, because it is broken.
    refused: AtomicBool,
}

/// How an archive can be.
const ARCHIVE: [&str; 3] = ["none", "ok", "failing"];

/// How the server is at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) ready: bool,
    status: &'static str,
    ledger: &'static str,
    archive: &'static str,
    policies: u64,
    policy: &'static str,
}

impl Health {
    pub(crate) fn started(&self) {
        self.started.store(true, Ordering::Release);
    }

    pub(crate) fn stopping(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    pub(crate) fn ledger(&self, fails: bool) {
        self.ledger_fails.store(fails, Ordering::Release);
    }

    /// There is an archive, which fails or does not.
    pub(crate) fn archive(&self, fails: bool) {
        self.archive.store(1 + u8::from(fails), Ordering::Release);
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

    pub(crate) fn report(&self) -> Report {
        let (started, stopping) =
            (self.started.load(Ordering::Acquire), self.stopping.load(Ordering::Acquire));
        let status = match (started, stopping) {
            (_, true) => "stopping",
            (true, false) => "ready",
            (false, false) => "starting",
        };
        // A ledger that fails keeps no decision from being made, so it is told and no reason to be taken out of service.
        let ledger = if self.ledger_fails.load(Ordering::Acquire) { "failing" } else { "ok" };
        let policy = if self.refused.load(Ordering::Acquire) { "last good one" } else { "current" };
        let policies = self.policies.load(Ordering::Acquire);
        let archive =
            ARCHIVE.get(usize::from(self.archive.load(Ordering::Acquire))).copied().unwrap_or_default();
        Report { ready: status == "ready", status, ledger, archive, policies, policy }
    }
}

impl Report {
    pub(crate) fn to_json(self) -> Json {
        let Self { status, ledger, archive, policies, policy, .. } = self;
        json!({ "status": status, "ledger": ledger, "archive": archive, "policy": policy, "policiesLoaded": policies })
    }
}
