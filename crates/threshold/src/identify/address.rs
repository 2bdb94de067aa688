//! Addresses: how a text becomes one, whose address a request comes from, and what of it names a subject.

use std::net::IpAddr;

use super::cidr::{Cidr, mask};
use super::doubt::Doubt;
use super::facts::{Facts, Headers, Single, single};
use super::hops::{Grammar, walk};
use super::rules::ClientIp;
use super::{forwarded, hops};

/// An address as a subject: its family and the bits that count, ready to be part of a key.
///
/// IPv4 counts whole, as four bytes. IPv6 counts up to a prefix, because whoever has one address has all of its
/// network; the prefix is inside, so that a network and the larger one around it stay two subjects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AddressKey {
    bytes: [u8; 17],
    length: u8,
}

impl AddressKey {
    /// The bytes: a part of a key.
    #[must_use]
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

/// The subject that `client` belongs to when `ipv6_prefix` bits of an IPv6 address count.
#[must_use]
#[inline]
pub fn address_key(client: IpAddr, ipv6_prefix: u8) -> AddressKey {
    let mut bytes = [0; 17];
    match client.to_canonical() {
        IpAddr::V4(address) => {
            bytes[..4].copy_from_slice(&address.octets());
            AddressKey { bytes, length: 4 }
        }
        IpAddr::V6(address) => {
            bytes[0] = ipv6_prefix;
            bytes[1..].copy_from_slice(&(address.to_bits() & mask(ipv6_prefix)).to_be_bytes());
            // Behind the prefix there are only zeros.
            AddressKey { bytes, length: if ipv6_prefix <= 64 { 9 } else { 17 } }
        }
    }
}

/// The client's address as a trusted peer tells it; nothing if it tells none.
pub(super) fn client(facts: &Facts<'_>, rule: &ClientIp, trusted: &[Cidr]) -> Result<Option<IpAddr>, Doubt> {
    let trusts = |address| trusted.iter().any(|network| network.contains(address));
    match rule {
        ClientIp::Peer => Ok(None),
        ClientIp::Forwarded => walk(facts.headers, "forwarded", forwarded::GRAMMAR, &trusts),
        ClientIp::XForwardedFor => walk(facts.headers, "x-forwarded-for", PLAIN, &trusts),
        ClientIp::CfConnectingIp => alone(facts.headers, "cf-connecting-ip"),
        ClientIp::Header(name) => alone(facts.headers, name),
    }
}

/// The list of `X-Forwarded-For`: addresses and commas.
const PLAIN: Grammar = Grammar { last_comma: hops::last_comma, read: plain };

/// The address in a header that holds one.
fn alone(headers: &dyn Headers, name: &str) -> Result<Option<IpAddr>, Doubt> {
    match single(headers, name) {
        Single::Absent => Ok(None),
        Single::One(text) => plain(text).map(Some).ok_or(Doubt::ForwardedUnreadable),
        Single::Repeated => Err(Doubt::ForwardedRepeated),
    }
}

/// `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]` or `[2001:db8::1]:80`.
fn plain(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text).ok()?;
    // First without a port: the end of an IPv6 address looks like one.
    let bare = text.parse().ok().map(|address: IpAddr| address.to_canonical());
    bare.or_else(|| with_port(text, is_port))
}

/// An address with a port, IPv6 in brackets. The standard parsers refuse what is not spelled out: octal and
/// short IPv4 addresses, and zones of IPv6, which mean something on one machine only.
pub(super) fn with_port(text: &str, is_port: fn(&str) -> bool) -> Option<IpAddr> {
    let (address, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (inside, port) = rest.split_once(']')?;
            (IpAddr::V6(inside.parse().ok()?), port)
        }
        None => {
            let (before, port) = text.split_at(text.find(':').unwrap_or(text.len()));
            (IpAddr::V4(before.parse().ok()?), port)
        }
    };
    let readable = port.is_empty() || port.strip_prefix(':').is_some_and(is_port);
    readable.then(|| address.to_canonical())
}

/// A port as digits.
pub(super) fn is_port(text: &str) -> bool {
    let digits = text.len() <= 5 && text.bytes().all(|byte| byte.is_ascii_digit());
    digits && text.parse::<u16>().is_ok()
}
