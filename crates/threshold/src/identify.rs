//! The first stage: from what the wire said to who is asking.
//!
//! [`Facts`] are what a request said, [`IdentityRules`] are whom the operator believes, and an [`Identifier`]
//! makes an [`Identity`] of both. It believes nothing that the sender could have made up:
//!
//! - The client's address is the peer's, unless the peer is a trusted proxy. Only then is the one configured
//!   header read, from the right, up to the first hop that is not a trusted proxy. What cannot be read falls
//!   back to the peer.
//! - Headers that name a tenant or a user are read only if a trusted proxy sent them.
//! - A token counts only if it is signed with the configured key and algorithm, and only while it lasts.
//!
//! What was claimed and not believed is a [`Doubt`]: an event, never a refusal.
//!
//! Whether a tenant exists is not asked here. A host or a path names whatever tenant the sender likes; the
//! next stage looks it up and takes everything unknown as one unknown tenant.
//!
//! Ids are taken as they are spelled, but for hosts, which come in lower case: `Alice` and `alice` may well be
//! two users to the issuer of a token. Names that people type are another matter: see [`fold_account`].

mod account;
mod address;
mod cidr;
mod cookie;
mod doubt;
mod error;
mod facts;
mod forwarded;
mod hops;
#[cfg(feature = "jwt")]
mod jwt;
#[cfg(not(feature = "jwt"))]
#[path = "identify/no_jwt.rs"]
mod jwt;
mod rules;
mod tenant;
mod tier;
mod user;

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;

use threshold_core::Timestamp;

pub use account::fold_account;
pub(crate) use account::strip;
pub use address::{AddressKey, address_key};
pub(crate) use cidr::Networks;
pub use cidr::{Cidr, CidrError};
pub use doubt::{BadId, BadToken, Doubt, Doubts};
pub use error::IdentityError;
pub(crate) use facts::is_token;
pub use facts::{Facts, Headers};
pub use rules::{
    ClientIp, IdentityRules, JwtKey, JwtRules, TenantSource, TierSource, TokenSource, UserSource,
};
use user::Also;
pub use user::UserKind;

/// The longest id of a tenant, a user or an account.
pub const MAX_ID_BYTES: usize = 256;
/// The longest token that is looked at.
pub const MAX_TOKEN_BYTES: usize = 16 * 1024;

/// Recognises the senders of requests by checked rules.
pub struct Identifier {
    trusted: Vec<Cidr>,
    client_ip: ClientIp,
    ipv6_prefix: u8,
    ipv6_aggregates: Vec<u8>,
    tenant: Option<TenantSource>,
    tier: Option<TierSource>,
    users: Vec<user::Source>,
}

/// Who sent a request, as far as it could prove.
#[derive(Clone)]
pub struct Identity<'a> {
    /// The client's address. IPv4 inside IPv6 is unwrapped.
    pub client: IpAddr,
    /// The tenant that the request names.
    pub tenant: Option<Cow<'a, str>>,
    /// Whether a verified token or a trusted proxy named the tenant; if not, only the request did.
    pub tenant_verified: bool,
    /// The tier that a verified token or a trusted proxy names.
    pub tier: Option<Cow<'a, str>>,
    /// The user's id. Without one the request is anonymous.
    pub user: Option<Cow<'a, str>>,
    /// How the user was recognised.
    pub user_kind: Option<UserKind>,
    /// What was claimed and not believed.
    pub doubts: Doubts,
}

impl Identifier {
    /// Checks `rules` and makes them ready.
    pub fn new(rules: IdentityRules) -> Result<Self, IdentityError> {
        check_prefixes(&rules)?;
        if let ClientIp::Header(name) = &rules.client_ip {
            user::checked(name.clone(), "header")?;
        }
        let tenant = rules.tenant.map(tenant::source).transpose()?;
        let tier = rules.tier.map(tier::source).transpose()?;
        let claims = claims(tenant.as_ref(), tier.as_ref());
        if !rules.user.iter().any(|source| matches!(source, UserSource::Jwt(_))) {
            let without = claims.tenant.as_ref().map(|_| "tenant").or(claims.tier.as_ref().map(|_| "tier"));
            without.map_or(Ok(()), |what| Err(IdentityError::ClaimWithoutToken(what)))?;
        }
        let users = user::sources(rules.user, &claims)?;
        Ok(Self {
            trusted: rules.trusted_proxies,
            client_ip: rules.client_ip,
            ipv6_prefix: rules.ipv6_prefix,
            ipv6_aggregates: rules.ipv6_aggregates,
            tenant,
            tier,
            users,
        })
    }

    /// Who sent the request. `now` judges whether a token still lasts.
    #[must_use]
    pub fn identify<'a>(&self, facts: &Facts<'a>, now: Timestamp) -> Identity<'a> {
        let mut doubts = Doubts::new();
        let (client, doubt) = self.client(facts);
        doubts.extend(doubt);
        let question = user::Question { facts, trusted: self.trusts(facts.peer), now };
        let user = user::find(&self.users, question, &mut doubts);
        let (user, user_kind, claimed) = match user {
            Some(user) => (Some(user.id), Some(user.kind), user.also),
            None => (None, None, Also::default()),
        };
        let tenant = self.tenant.as_ref().map(|source| tenant::find(source, question, claimed.tenant));
        let tenant = tenant.and_then(|found| doubt::settle(found, &mut doubts));
        let tier = self.tier.as_ref().map(|source| tier::find(source, question, claimed.tier));
        let tier = tier.and_then(|found| doubt::settle(found, &mut doubts));
        let tenant_verified = tenant.is_some() && self.tenant.as_ref().is_some_and(tenant::is_verified);
        Identity { client, tenant, tenant_verified, tier, user, user_kind, doubts }
    }

    /// The client's address alone, and what was doubtful about it: enough to turn somebody away at the edge
    /// before anything dearer is looked at.
    #[must_use]
    pub fn client(&self, facts: &Facts<'_>) -> (IpAddr, Option<Doubt>) {
        let peer = facts.peer.to_canonical();
        if !self.trusts(peer) {
            return (peer, None);
        }
        match address::client(facts, &self.client_ip, &self.trusted) {
            Ok(client) => (client.unwrap_or(peer), None),
            Err(doubt) => (peer, Some(doubt)),
        }
    }

    /// Whether `peer` is a trusted proxy.
    #[must_use]
    pub fn trusts(&self, peer: IpAddr) -> bool {
        self.trusted.iter().any(|network| network.contains(peer))
    }

    /// The headers that are read only if a trusted proxy sent them, the lists of hops left out.
    pub(crate) fn believed_headers(&self) -> impl Iterator<Item = &str> {
        let client = match &self.client_ip {
            ClientIp::CfConnectingIp => Some("cf-connecting-ip"),
            ClientIp::Header(name) => Some(name.as_str()),
            ClientIp::Peer | ClientIp::Forwarded | ClientIp::XForwardedFor => None,
        };
        let tenant = match &self.tenant {
            Some(TenantSource::Header(name)) => Some(name.as_str()),
            _ => None,
        };
        let tier = match &self.tier {
            Some(TierSource::Header(name)) => Some(name.as_str()),
            _ => None,
        };
        let users = self.users.iter().filter_map(user::Source::proxy_header);
        [client, tenant, tier].into_iter().flatten().chain(users)
    }

    /// The subject that the client's address belongs to.
    #[must_use]
    pub fn address_key(&self, client: IpAddr) -> AddressKey {
        address_key(client, self.ipv6_prefix)
    }

    /// The larger subjects around it, in the order of the rules. IPv4 has none.
    pub fn aggregate_keys(&self, client: IpAddr) -> impl Iterator<Item = AddressKey> {
        let client = client.to_canonical();
        let prefixes = if client.is_ipv6() { self.ipv6_aggregates.as_slice() } else { &[] };
        prefixes.iter().map(move |prefix| address_key(client, *prefix))
    }
}

/// The claims that a token may name a tenant and a tier in.
fn claims(tenant: Option<&TenantSource>, tier: Option<&TierSource>) -> Also<String> {
    let tenant = match tenant {
        Some(TenantSource::JwtClaim(name)) => Some(name.clone()),
        _ => None,
    };
    let tier = match tier {
        Some(TierSource::JwtClaim(name)) => Some(name.clone()),
        _ => None,
    };
    Also { tenant, tier }
}

fn check_prefixes(rules: &IdentityRules) -> Result<(), IdentityError> {
    let prefix = rules.ipv6_prefix;
    if !(1..=128).contains(&prefix) {
        return Err(IdentityError::Prefix(prefix));
    }
    match rules.ipv6_aggregates.iter().find(|aggregate| !(1..prefix).contains(*aggregate)) {
        Some(&aggregate) => Err(IdentityError::Aggregate { aggregate, prefix }),
        None => Ok(()),
    }
}

/// Says how many sources there are and nothing of what is in them: some hold secrets.
impl fmt::Debug for Identifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identifier")
            .field("trusted", &self.trusted)
            .field("client_ip", &self.client_ip)
            .field("tenant", &self.tenant)
            .field("users", &self.users.len())
            .finish_non_exhaustive()
    }
}

/// Shows no id that is a credential.
impl fmt::Debug for Identity<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let secret = self.user_kind.is_some_and(UserKind::secret);
        let user = self.user.as_deref().map(|id| if secret { ".." } else { id });
        f.debug_struct("Identity")
            .field("client", &self.client)
            .field("tenant", &self.tenant)
            .field("tenant_verified", &self.tenant_verified)
            .field("user", &user)
            .field("user_kind", &self.user_kind)
            .field("doubts", &self.doubts)
            .finish()
    }
}
