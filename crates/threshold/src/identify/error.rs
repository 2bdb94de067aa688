//! Rules that cannot work, each with what to do about it.

use super::cidr::CidrError;

/// Why rules cannot recognise anybody.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IdentityError {
    /// Not a network.
    #[error(transparent)]
    Cidr(#[from] CidrError),
    /// A prefix that no IPv6 address has.
    #[error("ipv6_prefix is {0}, but a prefix has 1 to 128 bits; write 64 unless you know better")]
    Prefix(u8),
    /// An aggregate that is no shorter than the prefix it aggregates.
    #[error(
        "ipv6_aggregates has {aggregate}, which is not shorter than ipv6_prefix = {prefix}; use shorter ones, such as [56, 48]"
    )]
    Aggregate {
        /// The aggregate.
        aggregate: u8,
        /// The prefix.
        prefix: u8,
    },
    /// A header or a cookie that nobody can send.
    #[error("{0:?} cannot be the name of a {1}; use letters, digits and hyphens, such as \"x-{1}\"")]
    Name(String, &'static str),
    /// A base domain that is none.
    #[error("{0:?} is not a base domain; write it without scheme, port and path, such as \"example.com\"")]
    BaseDomain(String),
    /// A claim without a name.
    #[error("the {0} claim has no name; name the claim that holds the id, such as \"sub\"")]
    Claim(&'static str),
    /// A tenant or a tier from a token, without a token.
    #[error("the {0} is a claim of a token, but no token is verified; add a jwt source to user")]
    ClaimWithoutToken(&'static str),
    /// A key that verifies nothing.
    #[error("the {algorithm} key cannot be used: {problem}; {remedy}")]
    Key {
        /// The key's algorithm.
        algorithm: &'static str,
        /// What is wrong.
        problem: &'static str,
        /// What to do.
        remedy: &'static str,
    },
    /// Tokens are not part of this build.
    #[error("this build cannot verify tokens; build with the feature \"jwt\", or name users another way")]
    TokensNotBuilt,
}
