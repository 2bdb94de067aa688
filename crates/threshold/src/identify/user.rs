//! The user: the first source that names one.

use std::borrow::Cow;

use smallvec::SmallVec;
use threshold_core::Timestamp;

use super::cookie::cookie;
use super::doubt::{BadId, BadToken, Doubt, Doubts, note};
use super::error::IdentityError;
use super::facts::{Facts, Headers, Single, is_token, single, trim};
use super::jwt::{Named, Verifier};
use super::rules::{TokenSource, UserSource};
use super::{MAX_ID_BYTES, MAX_TOKEN_BYTES};

/// How a user was recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UserKind {
    /// By a verified token.
    Token,
    /// By a trusted proxy.
    Proxy,
    /// By the value of a cookie.
    Cookie,
    /// By the value of an API key.
    ApiKey,
}

impl UserKind {
    /// Whether somebody we trust vouches for the id. If not, it is only what the request said: anybody may
    /// say the same, so it must share no key with a verified id, and must not be banned.
    #[must_use]
    pub const fn verified(self) -> bool {
        matches!(self, Self::Token | Self::Proxy)
    }

    /// Whether the id is a credential itself: never to be shown, only hashed.
    #[must_use]
    pub const fn secret(self) -> bool {
        matches!(self, Self::Cookie | Self::ApiKey)
    }
}

/// A user source, ready for use.
pub(super) enum Source {
    Token(Box<Verifier>, TokenSource),
    Proxy(String),
    Cookie(String),
    ApiKey(String),
}

impl Source {
    /// The header that a trusted proxy names the user in.
    pub(super) fn proxy_header(&self) -> Option<&str> {
        match self {
            Self::Proxy(name) => Some(name),
            Self::Token(..) | Self::Cookie(_) | Self::ApiKey(_) => None,
        }
    }
}

/// A user, and what else was said in the same breath.
pub(super) struct User<'a> {
    pub(super) id: Cow<'a, str>,
    pub(super) kind: UserKind,
    /// What its token also names.
    pub(super) also: Also<String>,
}

/// What a token may name beside the user; the claims that do, or what they say.
#[derive(Clone, Default)]
pub(super) struct Also<T> {
    pub(super) tenant: Option<T>,
    pub(super) tier: Option<T>,
}

/// What a source is asked with.
#[derive(Clone, Copy)]
pub(super) struct Question<'q, 'a> {
    pub(super) facts: &'q Facts<'a>,
    /// Whether the peer may speak for others.
    pub(super) trusted: bool,
    pub(super) now: Timestamp,
}

/// Makes the sources ready. `also` are the claims of a token that name more than the user.
pub(super) fn sources(rules: Vec<UserSource>, also: &Also<String>) -> Result<Vec<Source>, IdentityError> {
    rules.into_iter().map(|rule| source(rule, also)).collect()
}

fn source(rule: UserSource, also: &Also<String>) -> Result<Source, IdentityError> {
    Ok(match rule {
        UserSource::Jwt(rules) => {
            let from = match &rules.from {
                TokenSource::Bearer => TokenSource::Bearer,
                TokenSource::Cookie(name) => TokenSource::Cookie(checked(name.clone(), "cookie")?),
                TokenSource::Header(name) => TokenSource::Header(checked(name.clone(), "header")?),
            };
            Source::Token(Box::new(Verifier::new(&rules, also)?), from)
        }
        UserSource::Header(name) => Source::Proxy(checked(name, "header")?),
        UserSource::Cookie(name) => Source::Cookie(checked(name, "cookie")?),
        UserSource::ApiKey { header } => Source::ApiKey(checked(header, "header")?),
    })
}

/// The name, if a header or a cookie can have it.
pub(super) fn checked(name: String, of: &'static str) -> Result<String, IdentityError> {
    if is_token(&name) { Ok(name) } else { Err(IdentityError::Name(name, of)) }
}

/// Asks one source after the other.
///
/// A token that proves nothing may still be good for another key, as when keys are rotated; but nobody who
/// sends one becomes a user by anything less than a token.
pub(super) fn find<'a>(
    sources: &[Source],
    question: Question<'_, 'a>,
    doubts: &mut Doubts,
) -> Option<User<'a>> {
    let mut bad = SmallVec::<[BadToken; 4]>::new();
    for source in sources {
        if !bad.is_empty() && !matches!(source, Source::Token(..)) {
            continue;
        }
        match source.ask(question) {
            Ok(Some(user)) => return Some(user),
            Ok(None) => {}
            Err(Doubt::BadToken(reason)) => bad.push(reason),
            Err(doubt) => note(doubts, doubt),
        }
    }
    bad.into_iter().for_each(|reason| note(doubts, Doubt::BadToken(reason)));
    None
}

impl Source {
    fn ask<'a>(&self, question: Question<'_, 'a>) -> Result<Option<User<'a>>, Doubt> {
        let headers = question.facts.headers;
        match self {
            Self::Token(verifier, from) => by_token(verifier, from, question).map_err(Doubt::BadToken),
            Self::Proxy(name) => named(from_proxy(question, name)?, UserKind::Proxy).map_err(Doubt::BadUser),
            Self::Cookie(name) => named(cookie(headers, name), UserKind::Cookie).map_err(Doubt::BadUser),
            Self::ApiKey(name) => named(api_key(headers, name), UserKind::ApiKey).map_err(Doubt::BadUser),
        }
    }
}

fn by_token<'a>(
    verifier: &Verifier,
    from: &TokenSource,
    question: Question<'_, 'a>,
) -> Result<Option<User<'a>>, BadToken> {
    let token = match token(question.facts.headers, from) {
        Single::Absent => return Ok(None),
        Single::One(token) if token.len() > MAX_TOKEN_BYTES => return Err(BadToken::TooLong),
        Single::One(token) => token,
        Single::Repeated => return Err(BadToken::Repeated),
    };
    let Named { user, also } = verifier.verify(token, question.now)?;
    check(&user).map_err(|_| BadToken::Claim)?;
    Ok(Some(User { id: Cow::Owned(user), kind: UserKind::Token, also }))
}

fn token<'a>(headers: &'a dyn Headers, from: &TokenSource) -> Single<'a> {
    match from {
        TokenSource::Bearer => bearer(headers),
        TokenSource::Cookie(name) => cookie(headers, name),
        TokenSource::Header(name) => single(headers, name),
    }
}

/// Another scheme in `Authorization` is somebody else's business, not a bad token.
fn bearer(headers: &dyn Headers) -> Single<'_> {
    let found = single(headers, "authorization");
    let Single::One(value) = found else {
        return found;
    };
    match scheme_and_rest(value) {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case(b"bearer") => Single::One(token),
        _ => Single::Absent,
    }
}

fn api_key<'a>(headers: &'a dyn Headers, name: &str) -> Single<'a> {
    match single(headers, name) {
        // A scheme has many spellings (`bearer`, `BEARER`); the key behind it has one.
        Single::One(value) if name.eq_ignore_ascii_case("authorization") => {
            Single::One(scheme_and_rest(value).map_or(value, |(_, key)| key))
        }
        found => found,
    }
}

fn scheme_and_rest(value: &[u8]) -> Option<(&[u8], &[u8])> {
    let space = value.iter().position(|byte| *byte == b' ' || *byte == b'\t')?;
    Some((&value[..space], trim(&value[space..])))
}

/// A header that only a trusted proxy may send.
pub(super) fn from_proxy<'a>(question: Question<'_, 'a>, name: &str) -> Result<Single<'a>, Doubt> {
    match single(question.facts.headers, name) {
        Single::Absent => Ok(Single::Absent),
        found if question.trusted => Ok(found),
        _ => Err(Doubt::UntrustedIdentityHeader),
    }
}

fn named(found: Single<'_>, kind: UserKind) -> Result<Option<User<'_>>, BadId> {
    let id = id(found)?;
    Ok(id.map(|id| User { id: Cow::Borrowed(id), kind, also: Also::default() }))
}

/// What was found, if it can be an id.
pub(super) fn id(found: Single<'_>) -> Result<Option<&str>, BadId> {
    match found {
        Single::Absent => Ok(None),
        Single::Repeated => Err(BadId::Repeated),
        // Before anything looks at every byte.
        Single::One(value) if value.len() > MAX_ID_BYTES => Err(BadId::TooLong),
        Single::One(value) => {
            let id = std::str::from_utf8(value).map_err(|_| BadId::NotText)?;
            check(id).map(|()| Some(id))
        }
    }
}

/// Control characters would let an id write lines of its own into a log.
pub(super) fn check(id: &str) -> Result<(), BadId> {
    match id {
        "" => Err(BadId::Malformed),
        id if id.len() > MAX_ID_BYTES => Err(BadId::TooLong),
        id if id.chars().any(char::is_control) => Err(BadId::NotText),
        _ => Ok(()),
    }
}
