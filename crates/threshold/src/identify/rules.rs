//! Rules: how an operator wants senders to be recognised. Plain data, checked by [`Identifier::new`].
//!
//! [`Identifier::new`]: super::Identifier::new

use std::fmt;

use super::cidr::Cidr;

/// How to recognise the sender of a request. The default believes nothing but the socket.
#[derive(Clone, Debug)]
pub struct IdentityRules {
    /// Who may speak for others: addresses of proxies that overwrite or extend the headers below.
    pub trusted_proxies: Vec<Cidr>,
    /// Where a trusted proxy writes the client's address.
    pub client_ip: ClientIp,
    /// How many leading bits of an IPv6 address are one subject. A home or a server gets 64 of its own.
    pub ipv6_prefix: u8,
    /// Shorter prefixes that are subjects too, against senders who own many networks: 56, 48.
    pub ipv6_aggregates: Vec<u8>,
    /// What names the tenant.
    pub tenant: Option<TenantSource>,
    /// What names the tenant's tier, for tenants that no table knows.
    pub tier: Option<TierSource>,
    /// What names the user: the first source that names one is taken.
    pub user: Vec<UserSource>,
}

/// Where a trusted proxy writes the client's address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ClientIp {
    /// Nowhere: the client is the peer.
    #[default]
    Peer,
    /// The list in `Forwarded`, RFC 7239.
    Forwarded,
    /// The list in `X-Forwarded-For`.
    XForwardedFor,
    /// The one address in `CF-Connecting-IP`.
    CfConnectingIp,
    /// The one address in a header of this name.
    Header(String),
}

/// What names the tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TenantSource {
    /// The labels of the host in front of a base domain; without one, the first label of at least three.
    HostLabel {
        /// The base domain, such as `grove.place`.
        of: Option<String>,
    },
    /// A header that a trusted proxy sets.
    Header(String),
    /// A segment of the path, counted from 0.
    PathSegment(usize),
    /// A claim of the verified token that names the user.
    JwtClaim(String),
}

/// What names the tier. Both are believed: a request alone cannot choose its tier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TierSource {
    /// A header that a trusted proxy sets.
    Header(String),
    /// A claim of the verified token that names the user.
    JwtClaim(String),
}

/// What names the user.
#[derive(Clone, Debug)]
pub enum UserSource {
    /// A signed token.
    Jwt(JwtRules),
    /// A header that a trusted proxy sets.
    Header(String),
    /// The value of a cookie. Whoever knows it is that user: let it be unguessable.
    Cookie(String),
    /// The value of a header that holds a key. Whoever knows it is that user.
    ApiKey {
        /// The header's name. In `Authorization` the scheme in front of the key is left out.
        header: String,
    },
}

/// Which tokens are believed, and what they say.
#[derive(Clone, Debug)]
pub struct JwtRules {
    /// The claim that names the user: a string or an integer.
    pub claim: String,
    /// The key, and with it the one algorithm that is accepted.
    pub key: JwtKey,
    /// How far the issuer's clock may be from ours, in seconds.
    pub leeway_secs: u64,
    /// The issuer that a token must name, if any.
    pub issuer: Option<String>,
    /// The audience that a token must name, if any.
    pub audience: Option<String>,
    /// Where the token is.
    pub from: TokenSource,
}

/// A key that verifies tokens. Its `Debug` form never shows a secret.
#[derive(Clone, PartialEq, Eq)]
pub enum JwtKey {
    /// HMAC with SHA-256: the secret.
    Hs256(Vec<u8>),
    /// RSA with SHA-256: the public key in PEM.
    Rs256(String),
    /// ECDSA on P-256 with SHA-256: the public key in PEM.
    Es256(String),
    /// Ed25519: the public key in PEM.
    EdDsa(String),
}

/// Where a token is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TokenSource {
    /// `Authorization: Bearer …`
    #[default]
    Bearer,
    /// The value of a cookie.
    Cookie(String),
    /// The value of a header.
    Header(String),
}

impl Default for IdentityRules {
    fn default() -> Self {
        Self {
            trusted_proxies: Vec::new(),
            client_ip: ClientIp::Peer,
            ipv6_prefix: 64,
            ipv6_aggregates: Vec::new(),
            tenant: None,
            tier: None,
            user: Vec::new(),
        }
    }
}

impl JwtRules {
    /// Tokens signed with `key`, in `Authorization`, that name the user in `sub`; a minute of leeway.
    #[must_use]
    pub fn new(key: JwtKey) -> Self {
        Self {
            claim: "sub".to_owned(),
            key,
            leeway_secs: 60,
            issuer: None,
            audience: None,
            from: TokenSource::Bearer,
        }
    }
}

impl JwtKey {
    /// The algorithm's name, as tokens spell it.
    #[must_use]
    pub const fn algorithm(&self) -> &'static str {
        match self {
            Self::Hs256(_) => "HS256",
            Self::Rs256(_) => "RS256",
            Self::Es256(_) => "ES256",
            Self::EdDsa(_) => "EdDSA",
        }
    }
}

impl fmt::Debug for JwtKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JwtKey({}, ..)", self.algorithm())
    }
}
