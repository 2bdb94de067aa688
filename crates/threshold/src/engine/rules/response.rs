//! What abuse is answered with, made ready: lists, ladder, reputation, and what is written down about a violation.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use threshold_core::ledger::{Evidence, Retention};
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
    pub(crate) country: Option<String>,
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
    /// By tenant; those of any tenant under none.
    users: HashMap<Option<String>, HashSet<String>>,
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

/// How long what is kept: as long as the policy says, and never shorter than it counts.
pub(super) fn retention(policy: &Policy, response: &Response) -> Retention {
    let ready_made = Retention::default();
    let violations = policy.privacy.as_ref().and_then(|privacy| privacy.keep_violations);
    let lapse = response.ladder.as_ref().map_or(Span::ZERO, |ladder| ladder.lapse());
    let recovery = response.reputation.as_ref().map_or(Span::ZERO, Reputation::recovery);
    let failures = policy.login.as_ref().map_or(Span::ZERO, |login| login.lapse);
    Retention {
        violations: violations.unwrap_or(ready_made.violations),
        standings: ready_made.standings.max(lapse).max(recovery),
        failures: ready_made.failures.max(failures),
        ..ready_made
    }
}

impl Lists {
    pub(super) fn new(lists: &policy::Lists) -> Self {
        let list = |networks: &[_], names: &[String], tenants: &[String]| {
            let mut users: HashMap<Option<String>, HashSet<String>> = HashMap::new();
            for name in names {
                // An empty tenant is none: so that users without one may have slashes in their names.
                let (tenant, user) =
                    name.split_once('/').map_or((None, name.as_str()), |(tenant, user)| (Some(tenant), user));
                users.entry(tenant.map(str::to_owned)).or_default().insert(user.to_owned());
            }
            List { networks: Networks::new(networks), users, tenants: tenants.iter().cloned().collect() }
        };
        Self {
            allow: list(&lists.allow, &lists.allow_users, &lists.allow_tenants),
            deny: list(&lists.deny, &lists.deny_users, &lists.deny_tenants),
        }
    }

    /// What they say of who asks. Who is on both is refused. A user is let pass only on a proven name and a tenant that is
    /// believed, and refused on a name alone.
    pub(crate) fn judge(&self, asker: &Asker<'_>, claimed_tenant: Option<&str>) -> Listed {
        match () {
            () if self.deny.names(asker, claimed_tenant, false) => Listed::Denied,
            () if self.allow.names(asker, asker.tenant(), true) => Listed::Allowed,
            () => Listed::No,
        }
    }
}

impl List {
    fn names(&self, asker: &Asker<'_>, tenant: Option<&str>, proven: bool) -> bool {
        self.networks.contains(asker.client())
            || (!self.users.is_empty() && self.names_user(asker, tenant, proven))
            || tenant.is_some_and(|tenant| self.tenants.contains(tenant))
    }

    fn names_user(&self, asker: &Asker<'_>, tenant: Option<&str>, proven: bool) -> bool {
        let Some((user, _)) = asker.user().filter(|(_, is_proven)| *is_proven || !proven) else {
            return false;
        };
        let of = Some(tenant.unwrap_or_default().to_owned());
        [None, of].iter().any(|of| self.users.get(of).is_some_and(|users| users.contains(user)))
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
    text.chars().map(|c| if c.is_control() || is_unseen(c) { ' ' } else { c }).collect()
}

/// True for characters that change how the text around them is shown.
const fn is_unseen(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
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
