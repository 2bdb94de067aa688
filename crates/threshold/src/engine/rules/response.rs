//! What abuse is answered with, made ready: lists, ladder, reputation, and what is written down about a violation.

use std::collections::HashSet;
use std::sync::Arc;

use threshold_core::ledger::Evidence;
use threshold_core::standing::{Ladder, LadderError, Looks, Reputation, ReputationError, Violation};
use threshold_core::{Rate, Span, Subject, SubjectKey, SubjectKind};

use super::super::subject::Asker;
use crate::identify::{Facts, Identifier, Networks};
use crate::policy::{self, Addresses, Policy};

/// The longest user agent that is written down.
const MOST_AGENT: usize = 256;

/// What follows when somebody goes over again and again.
pub(crate) struct Response {
    pub(crate) ladder: Option<Arc<Ladder>>,
    pub(crate) reputation: Option<Reputation>,
    /// The header in which a trusted proxy names the client's country.
    country: Option<String>,
    /// What events show of an address.
    pub(crate) addresses: Addresses,
}

/// Who is bound by nothing, and who is refused.
pub(crate) struct Lists {
    allow: List,
    deny: List,
}

struct List {
    networks: Networks,
    users: HashSet<String>,
    tenants: HashSet<String>,
}

/// What the lists say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listed {
    /// Nothing.
    No,
    /// No limit binds it.
    Allowed,
    /// It is refused.
    Denied,
}

impl Response {
    pub(super) fn new(policy: &Policy, reputation: Option<Reputation>) -> Result<Self, LadderError> {
        let country = policy.reputation.as_ref().and_then(|reputation| reputation.country.as_ref());
        Ok(Self {
            ladder: policy.ladder.as_ref().map(policy::Ladder::ready).transpose()?.map(Arc::new),
            reputation,
            country: country.map(|name| name.value.clone()),
            addresses: policy.privacy.as_ref().map_or(Addresses::Hash, |privacy| privacy.addresses),
        })
    }

    /// True if refusals lead to nothing more.
    pub(crate) const fn is_none(&self) -> bool {
        self.ladder.is_none() && self.reputation.is_none()
    }
}

pub(super) fn reputation(policy: &Policy) -> Result<Option<Reputation>, ReputationError> {
    let Some(written) = &policy.reputation else { return Ok(None) };
    let bound =
        |placed: &Option<policy::Placed<u8>>, default| placed.as_ref().map_or(default, |bound| bound.value);
    let bounds = [bound(&written.low, 75), bound(&written.medium, 50), bound(&written.high, 25)];
    let shares = [written.medium_share.0, written.high_share.0, written.critical_share.0];
    let recovery = written.recovery.or_else(|| Rate::new(1, Span::HOUR).ok());
    recovery.map(|recovery| Reputation::new(written.violation, recovery, bounds, shares)).transpose()
}

impl Lists {
    pub(super) fn new(lists: &policy::Lists) -> Self {
        let list = |networks: &[_], users: &[String], tenants: &[String]| List {
            networks: Networks::new(networks),
            users: users.iter().cloned().collect(),
            tenants: tenants.iter().cloned().collect(),
        };
        Self {
            allow: list(&lists.allow, &lists.allow_users, &lists.allow_tenants),
            deny: list(&lists.deny, &lists.deny_users, &lists.deny_tenants),
        }
    }

    /// What they say of who asks. Who is on both is refused. A user is let pass only on a proven name, and refused on a
    /// name alone.
    pub(crate) fn judge(&self, asker: &Asker<'_>) -> Listed {
        match () {
            () if self.deny.names(asker, false) => Listed::Denied,
            () if self.allow.names(asker, true) => Listed::Allowed,
            () => Listed::No,
        }
    }
}

impl List {
    fn names(&self, asker: &Asker<'_>, proven: bool) -> bool {
        self.networks.contains(asker.client())
            || (!self.users.is_empty() && asker.is_named(&self.users, proven))
            || asker.tenant().is_some_and(|tenant| self.tenants.contains(tenant))
    }
}

/// What is known about a violation in which `count` met a limit of `allowed`.
pub(crate) fn evidence(
    response: &Response,
    (facts, identifier): (&Facts<'_>, &Identifier),
    key: &SubjectKey,
    (kind, count, allowed): (Violation, u64, u64),
    details: String,
) -> Evidence {
    let header = |name: &str| {
        let mut found = None;
        facts.headers.each(name, &mut |value| found = found.or(Some(value)));
        found
    };
    // Of no kind that a ledger keeps: it only tells clients apart.
    let hash = |parts: &[&[u8]]| key.id(SubjectKind::Device, &Subject::new(parts)).halves()[0];
    let agent = header("user-agent");
    let rest = ["accept-language", "accept-encoding", "accept"].map(|name| header(name).unwrap_or_default());
    let country = response.country.as_ref().filter(|_| identifier.trusts(facts.peer));
    let looks = Looks {
        country: country.and_then(|name| header(name)).and_then(letters),
        agent: agent.map(|agent| hash(&[agent]) as u32),
    };
    let [language, encoding, accept] = rest;
    let fingerprint = agent.map(|agent| format!("{:016x}", hash(&[agent, language, encoding, accept])));
    Evidence { kind, count, allowed, looks, fingerprint, user_agent: agent.map(text), details }
}

/// What was sent, as text that is safe to write down.
fn text(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes.get(..MOST_AGENT).unwrap_or(bytes));
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Two letters that name a country.
fn letters(text: &[u8]) -> Option<[u8; 2]> {
    match text {
        [a, b] if a.is_ascii_alphabetic() && b.is_ascii_alphabetic() => {
            Some([a.to_ascii_uppercase(), b.to_ascii_uppercase()])
        }
        _ => None,
    }
}
