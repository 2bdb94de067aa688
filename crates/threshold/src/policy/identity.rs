//! Who is asking, as it is written.

use serde_json::{Value as Json, json};
use toml::de::DeValue;

use super::decode::{Decode, Node, Placed, Reader, Several};
use super::table::table;
use crate::identify::{Cidr, ClientIp};

table! {
    /// Who is asking: where a request's address, tenant and user are read.
    pub struct Identity {
        /// Who may speak for a client: only their word about its address is believed.
        trusted_proxies: Vec<Cidr> = default(Vec::new()),
        /// Where a trusted proxy says the client's address: `peer`, `forwarded`, `x-forwarded-for`,
        /// `cf-connecting-ip` or another header.
        client_ip: Placed<ClientIp> = optional,
        /// How many bits of an IPv6 address make one client.
        ipv6_prefix: Placed<u8> = optional,
        /// Larger IPv6 networks that are counted as well, each with how many times the limit it may use.
        ipv6_aggregates: Vec<Aggregate> = default(Vec::new()),
        /// Where the tenant is read.
        tenant: Placed<Tenant> = optional,
        /// Where the tier is read, if not in the table of tenants: from a verified claim or a trusted proxy.
        tier: Placed<Claimed> = optional,
        /// The tier of tenants that nobody vouches for.
        unknown_tier: Placed<String> = optional,
        /// Where the user is read; the first that is there counts.
        user: Several<Placed<User>> = optional,
    }
}

table! {
    /// A larger network of IPv6 addresses.
    pub struct Aggregate {
        /// Its prefix: 56 or 48.
        prefix: Placed<u8> = required,
        /// How many times the limit it may use.
        times: Placed<u32> = required,
    }
}

table! {
    /// Where the tenant is read: one of these.
    pub struct Tenant {
        /// The first label of the host; `true`, or the domain it stands before.
        host_label: HostLabel = optional,
        /// A header from a trusted proxy.
        header: String = optional,
        /// A segment of the path, from 0.
        path_segment: u8 = optional,
        /// A claim of the verified token.
        jwt_claim: String = optional,
    }
}

table! {
    /// Where the tier is read: one of these.
    pub struct Claimed {
        /// A header from a trusted proxy.
        header: String = optional,
        /// A claim of the verified token.
        jwt_claim: String = optional,
    }
}

table! {
    /// Where the user is read: one of these.
    pub struct User {
        /// A token that is verified.
        jwt: Placed<Jwt> = optional,
        /// A header from a trusted proxy.
        header: String = optional,
        /// A cookie.
        cookie: String = optional,
        /// A header with an API key.
        api_key: String = optional,
    }
}

table! {
    /// A JSON Web Token.
    pub struct Jwt {
        /// The claim that names the user.
        claim: String = default("sub".to_owned()),
        /// `HS256` (the default), `RS256`, `ES256` or `EdDSA`; no other is accepted.
        algorithm: JwtAlgorithm = default(JwtAlgorithm::Hs256),
        /// The secret of `HS256`, best as `${NAME}`.
        secret: String = optional,
        /// The environment variable that holds the secret.
        secret_env: Placed<String> = optional,
        /// The public key in PEM, for the others.
        public_key: String = optional,
        /// Who must have issued it.
        issuer: String = optional,
        /// Whom it must be for.
        audience: String = optional,
        /// How far clocks may differ.
        leeway: threshold_core::Span = optional,
        /// A cookie to read it from instead of the `Authorization` header.
        cookie: String = optional,
        /// Another header to read it from.
        header: String = optional,
    }
}

super::table::words! {
    /// How a token is signed.
    pub enum JwtAlgorithm {
        /// HMAC with SHA-256.
        Hs256 = "HS256",
        /// RSA with SHA-256.
        Rs256 = "RS256",
        /// ECDSA on P-256.
        Es256 = "ES256",
        /// Ed25519.
        EdDsa = "EdDSA",
    }
}

/// The first label of the host, alone or before a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostLabel {
    /// Not read.
    No,
    /// The first of at least three labels.
    First,
    /// What stands before this domain.
    Before(String),
}

impl Decode for HostLabel {
    fn decode(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        match node.value {
            DeValue::Boolean(true) => Some(Self::First),
            DeValue::Boolean(false) => Some(Self::No),
            DeValue::String(_) => String::decode(node, reader).map(Self::Before),
            _ => node.expected("true, or a domain such as \"grove.place\"", reader),
        }
    }

    fn schema() -> Json {
        json!({ "anyOf": [{ "type": "boolean" }, { "type": "string", "minLength": 1 }] })
    }
}

impl Decode for ClientIp {
    fn decode(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        let text = node.text("`peer` or the name of a header", reader)?.to_ascii_lowercase();
        match text.as_str() {
            "peer" => Some(Self::Peer),
            "forwarded" => Some(Self::Forwarded),
            "x-forwarded-for" => Some(Self::XForwardedFor),
            "cf-connecting-ip" => Some(Self::CfConnectingIp),
            name if is_header_name(name) => Some(Self::Header(text)),
            _ => node.expected("`peer` or the name of a header", reader),
        }
    }

    fn schema() -> Json {
        json!({ "type": "string", "examples": ["peer", "forwarded", "x-forwarded-for", "cf-connecting-ip"] })
    }
}

/// True for what may stand before the colon of a header.
fn is_header_name(name: &str) -> bool {
    let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    !name.is_empty() && name.chars().all(token)
}
