//! What is asked, and requests of nobody: what callers name themselves, limits and keys alike, enters the path of a decision at the plan.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::LazyLock;

use threshold_core::Timestamp;

use super::Extras;
use super::rules::Frame;
use super::select::{Request, Risks};
use super::subject::Asker;
use crate::identify::{Doubts, Facts, Identity};
use crate::route::{Matches, Path};

/// A request and who sent it.
#[derive(Clone, Copy)]
pub(super) struct Asking<'a> {
    pub(super) facts: &'a Facts<'a>,
    pub(super) identity: &'a Identity<'a>,
    pub(super) extras: Extras<'a>,
}

const NOBODY: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

static IDENTITY: LazyLock<Identity<'static>> = LazyLock::new(|| Identity {
    client: NOBODY,
    tenant: None,
    tenant_verified: false,
    tier: None,
    user: None,
    user_kind: None,
    doubts: Doubts::new(),
});
static PATH: LazyLock<Path<'static>> = LazyLock::new(|| Path::read("/").expect("this is a path"));
static ROUTES: Matches = Matches::NONE;

/// The facts of no request.
pub(super) fn facts() -> Facts<'static> {
    Facts { peer: NOBODY, method: "", host: None, path: "/", bytes: None, headers: &() }
}

impl<'a> Asking<'a> {
    /// Nobody asks, about no request.
    pub(super) fn nobody(facts: &'a Facts<'a>) -> Self {
        Self { facts, identity: &IDENTITY, extras: Extras::default() }
    }
}

impl<'a> Request<'a> {
    /// No request, in the terms of `frame`: whom it is about and what it costs is to be filled in.
    pub(super) fn nobody(frame: &Frame, asking: &'a Asking<'a>, now: Timestamp) -> Self {
        let asker = Asker::new(frame, asking.identity, &asking.extras);
        let (ids, risks) = (&[][..], Risks::LOW);
        let (path, routes, ledger_tier, charge) = (&*PATH, &ROUTES, None, None);
        Self { asking, path, asker, ledger_tier, ids, risks, routes, now, charge, varies: true }
    }
}
