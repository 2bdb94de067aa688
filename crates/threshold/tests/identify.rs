//! Who is asking: the client's address, the tenant and the user, and what is never believed.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "identify/account.rs"]
mod account;
#[path = "identify/address.rs"]
mod address;
#[path = "identify/corpus.rs"]
mod corpus;
#[cfg(feature = "jwt")]
#[path = "identify/jwt.rs"]
mod jwt;
#[path = "identify/rules.rs"]
mod rules;
#[path = "identify/tenant.rs"]
mod tenant;
#[path = "identify/user.rs"]
mod user;

use std::net::IpAddr;

use threshold::Timestamp;
use threshold::identify::{Doubt, Facts, Headers, Identifier, IdentityRules, UserKind};

/// A peer that [`behind_proxies`] trusts.
const PROXY: &str = "10.0.0.1";
/// A peer that nobody trusts.
const STRANGER: &str = "203.0.113.9";
const NOW: Timestamp = Timestamp::from_micros(1_800_000_000_000_000);

/// What a test looks at.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    client: IpAddr,
    tenant: Option<String>,
    tier: Option<String>,
    user: Option<String>,
    kind: Option<UserKind>,
    doubts: Vec<Doubt>,
}

/// Rules that trust 10.0.0.0/8.
fn behind_proxies() -> IdentityRules {
    IdentityRules { trusted_proxies: vec!["10.0.0.0/8".parse().unwrap()], ..IdentityRules::default() }
}

fn facts<'a>(peer: &str, headers: &'a dyn Headers) -> Facts<'a> {
    Facts { peer: ip(peer), method: "GET", host: None, path: "/", bytes: None, headers }
}

fn see(rules: IdentityRules, facts: &Facts<'_>) -> Seen {
    see_with(&Identifier::new(rules).unwrap(), facts)
}

fn see_with(identifier: &Identifier, facts: &Facts<'_>) -> Seen {
    let identity = identifier.identify(facts, NOW);
    Seen {
        client: identity.client,
        tenant: identity.tenant.map(Into::into),
        tier: identity.tier.map(Into::into),
        user: identity.user.map(Into::into),
        kind: identity.user_kind,
        doubts: identity.doubts.to_vec(),
    }
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}
