//! Doubts: what a request claimed and was not believed.

use std::fmt;

use smallvec::SmallVec;

/// Something a request claimed about its sender that was not believed.
///
/// A doubt never decides anything: the request goes on as whoever it proved to be. It is an event to count and
/// to log, because many doubts mean an attack or a wrong setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Doubt {
    /// A trusted proxy handed on an address that cannot be read. The client is the peer.
    ForwardedUnreadable,
    /// The client's address lies deeper in a list than we look. The client is the peer.
    ForwardedTooLong,
    /// A header that names one address came more than once. The client is the peer.
    ForwardedRepeated,
    /// Somebody who is no trusted proxy sent a header that names a tenant or a user. It was ignored.
    UntrustedIdentityHeader,
    /// What names the tenant cannot be a tenant's id. The request has no tenant.
    BadTenant(BadId),
    /// What names the tier cannot be a tier's name. The request is of no tier of its own.
    BadTier(BadId),
    /// What names the user cannot be a user's id. That source named nobody.
    BadUser(BadId),
    /// A token was sent that proves nothing. Nobody is named by it.
    BadToken(BadToken),
}

/// The doubts about one request, each once. Without tokens there are never more than fit beside each other.
pub type Doubts = SmallVec<[Doubt; 8]>;

/// Why something cannot be an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BadId {
    /// Longer than [`MAX_ID_BYTES`](super::MAX_ID_BYTES).
    TooLong,
    /// Not UTF-8, or with control characters in it.
    NotText,
    /// Not spelled as its place demands: a host with odd characters, a path segment that is encoded.
    Malformed,
    /// There are several, and they differ.
    Repeated,
}

/// Why a token proves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BadToken {
    /// Longer than [`MAX_TOKEN_BYTES`](super::MAX_TOKEN_BYTES).
    TooLong,
    /// Not a signed token, or one that demands extensions nobody here understands.
    Malformed,
    /// There are several, and they differ.
    Repeated,
    /// Signed with another algorithm than the configured one.
    Algorithm,
    /// The signature does not match.
    Signature,
    /// It has no time of expiry, and so would be good for ever.
    NoExpiry,
    /// Its time is over.
    Expired,
    /// Its time has not come.
    NotYetValid,
    /// Issued by somebody else.
    Issuer,
    /// Meant for somebody else.
    Audience,
    /// It has no claim that could be a user's id.
    Claim,
}

impl Doubt {
    /// A short name for metrics and logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ForwardedUnreadable => "forwarded_unreadable",
            Self::ForwardedTooLong => "forwarded_too_long",
            Self::ForwardedRepeated => "forwarded_repeated",
            Self::UntrustedIdentityHeader => "untrusted_identity_header",
            Self::BadTenant(_) => "bad_tenant",
            Self::BadTier(_) => "bad_tier",
            Self::BadUser(_) => "bad_user",
            Self::BadToken(_) => "bad_token",
        }
    }
}

impl BadId {
    /// A short name for metrics and logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TooLong => "too_long",
            Self::NotText => "not_text",
            Self::Malformed => "malformed",
            Self::Repeated => "repeated",
        }
    }
}

impl BadToken {
    /// A short name for metrics and logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TooLong => "too_long",
            Self::Malformed => "malformed",
            Self::Repeated => "repeated",
            Self::Algorithm => "algorithm",
            Self::Signature => "signature",
            Self::NoExpiry => "no_expiry",
            Self::Expired => "expired",
            Self::NotYetValid => "not_yet_valid",
            Self::Issuer => "issuer",
            Self::Audience => "audience",
            Self::Claim => "claim",
        }
    }
}

/// The name, and the reason behind a colon: `bad_token:expired`.
impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match self {
            Self::BadTenant(reason) | Self::BadUser(reason) => write!(f, ":{}", reason.name()),
            Self::BadToken(reason) => write!(f, ":{}", reason.name()),
            _ => Ok(()),
        }
    }
}

/// What was found; nothing, and a note, if it was not believed.
pub(super) fn settle<T>(found: Result<Option<T>, Doubt>, doubts: &mut Doubts) -> Option<T> {
    found.unwrap_or_else(|doubt| {
        note(doubts, doubt);
        None
    })
}

/// Adds a doubt unless it is there already: the same one twice says nothing new.
pub(super) fn note(doubts: &mut Doubts, doubt: Doubt) {
    if !doubts.contains(&doubt) {
        doubts.push(doubt);
    }
}
