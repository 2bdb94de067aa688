//! The tenant that a request names.

use std::borrow::Cow;
use std::net::Ipv4Addr;

use super::MAX_ID_BYTES;
use super::doubt::{BadId, Doubt};
use super::error::IdentityError;
use super::rules::TenantSource;
use super::user::{Question, check, checked, from_proxy, id};

/// The source, if it can name anybody, with its base domain in the one spelling that hosts are compared with.
pub(super) fn source(rule: TenantSource) -> Result<TenantSource, IdentityError> {
    match rule {
        TenantSource::HostLabel { of: Some(base) } => {
            let domain = base.trim_matches('.').to_ascii_lowercase();
            if !is_host(&domain) {
                return Err(IdentityError::BaseDomain(base));
            }
            Ok(TenantSource::HostLabel { of: Some(domain) })
        }
        TenantSource::Header(name) => checked(name, "header").map(TenantSource::Header),
        TenantSource::JwtClaim(name) if name.is_empty() => Err(IdentityError::Claim("tenant")),
        rule => Ok(rule),
    }
}

/// The tenant's id. `claimed` is what the user's token says.
pub(super) fn find<'a>(
    source: &TenantSource,
    question: Question<'_, 'a>,
    claimed: Option<String>,
) -> Result<Option<Cow<'a, str>>, Doubt> {
    let facts = question.facts;
    let found = match source {
        TenantSource::HostLabel { of } => facts.host.map_or(Ok(None), |host| by_host(host, of.as_deref())),
        TenantSource::Header(name) => id(from_proxy(question, name)?).map(|id| id.map(Cow::Borrowed)),
        TenantSource::PathSegment(index) => by_path(facts.path, *index).map(|id| id.map(Cow::Borrowed)),
        TenantSource::JwtClaim(_) => claimed.map(|id| check(&id).map(|()| Cow::Owned(id))).transpose(),
    };
    found.map_err(Doubt::BadTenant)
}

/// Whether somebody we trust vouches for what the source says.
pub(super) fn is_verified(source: &TenantSource) -> bool {
    matches!(source, TenantSource::Header(_) | TenantSource::JwtClaim(_))
}

/// The labels in front of the base domain; without one, the first label of at least three.
fn by_host<'a>(host: &'a str, base: Option<&str>) -> Result<Option<Cow<'a, str>>, BadId> {
    let Some(name) = host_name(host) else {
        return Ok(None);
    };
    let labels = match base {
        Some(base) => in_front_of(name, base),
        None => first_of_three(name),
    };
    match labels {
        None => Ok(None),
        Some(labels) if labels.len() > MAX_ID_BYTES => Err(BadId::TooLong),
        Some(labels) if !is_host(labels) => Err(BadId::Malformed),
        Some(labels) => Ok(Some(lower_case(labels))),
    }
}

/// The host without its port and the dot at the end; nothing for addresses, which belong to no tenant.
fn host_name(host: &str) -> Option<&str> {
    let name = host.split_once(':').map_or(host, |(name, _)| name);
    let name = name.strip_suffix('.').unwrap_or(name);
    let is_address = host.starts_with('[') || name.parse::<Ipv4Addr>().is_ok();
    (!is_address).then_some(name)
}

fn in_front_of<'a>(name: &'a str, base: &str) -> Option<&'a str> {
    let at = name.len().checked_sub(base.len())?;
    let (front, end) = (name.get(..at)?, name.get(at..)?);
    if end.eq_ignore_ascii_case(base) { front.strip_suffix('.') } else { None }
}

fn first_of_three(name: &str) -> Option<&str> {
    let (first, rest) = name.split_once('.')?;
    rest.contains('.').then_some(first)
}

/// Labels of letters, digits, hyphens and underscores, none of them empty.
fn is_host(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    name.split('.').all(|label| !label.is_empty() && label.bytes().all(allowed))
}

/// Hosts are the same in any case. Almost all come in lower case, and then nothing is copied.
fn lower_case(name: &str) -> Cow<'_, str> {
    if name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Cow::Owned(name.to_ascii_lowercase());
    }
    Cow::Borrowed(name)
}

/// A segment of the path as it was sent.
///
/// A path that an application could read in another way names nobody: one tenant's requests would be charged
/// to another one.
fn by_path(path: &str, index: usize) -> Result<Option<&str>, BadId> {
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let Some(path) = path.strip_prefix('/') else {
        return Ok(None);
    };
    let Some(segment) = path.split('/').nth(index) else {
        return Ok(None);
    };
    let at_the_end = segment.is_empty() && path.split('/').count() == index + 1;
    if at_the_end {
        return Ok(None);
    }
    let doubled = path.split('/').take(index + 1).any(str::is_empty);
    let encoded = segment.contains(['%', ';', '\\']);
    if doubled || encoded || climbs(path) {
        return Err(BadId::Malformed);
    }
    check(segment).map(|()| Some(segment))
}

/// Whether the path has a segment `.` or `..`, plain or encoded, behind plain or encoded slashes.
fn climbs(path: &str) -> bool {
    let mut bytes = path.as_bytes();
    let (mut dots, mut others) = (0, 0);
    let is_dots = |dots, others| others == 0 && (dots == 1 || dots == 2);
    while let Some((byte, rest)) = decoded(bytes) {
        match byte {
            b'/' | b'\\' if is_dots(dots, others) => return true,
            b'/' | b'\\' => (dots, others) = (0, 0),
            b'.' => dots += 1,
            _ => others += 1,
        }
        bytes = rest;
    }
    is_dots(dots, others)
}

/// The first byte, decoded once, and what follows it.
fn decoded(bytes: &[u8]) -> Option<(u8, &[u8])> {
    let hex = |digit: u8| char::from(digit).to_digit(16);
    match bytes {
        [b'%', high, low, rest @ ..] if hex(*high).is_some() && hex(*low).is_some() => {
            let byte = hex(*high)? * 16 + hex(*low)?;
            Some((u8::try_from(byte).ok()?, rest))
        }
        [first, rest @ ..] => Some((*first, rest)),
        [] => None,
    }
}
