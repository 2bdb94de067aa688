//! The tier that a verified token or a trusted proxy names.

use std::borrow::Cow;

use super::doubt::Doubt;
use super::error::IdentityError;
use super::rules::TierSource;
use super::user::{Question, check, checked, from_proxy, id};

/// The source, if it can name anything.
pub(super) fn source(rule: TierSource) -> Result<TierSource, IdentityError> {
    match rule {
        TierSource::Header(name) => checked(name, "header").map(TierSource::Header),
        TierSource::JwtClaim(name) if name.is_empty() => Err(IdentityError::Claim("tier")),
        rule => Ok(rule),
    }
}

/// The tier's name. `claimed` is what the user's token says.
pub(super) fn find<'a>(
    source: &TierSource,
    question: Question<'_, 'a>,
    claimed: Option<String>,
) -> Result<Option<Cow<'a, str>>, Doubt> {
    let found = match source {
        TierSource::Header(name) => id(from_proxy(question, name)?).map(|id| id.map(Cow::Borrowed)),
        TierSource::JwtClaim(_) => claimed.map(|id| check(&id).map(|()| Cow::Owned(id))).transpose(),
    };
    found.map_err(Doubt::BadTier)
}
