//! The `Forwarded` header, RFC 7239.
//!
//! An element is a list of pairs such as `for="[2001:db8::17]:4711";proto=https`. Two things are taken that the
//! RFC would have in quotes, because proxies send them and they can be read in one way only: ports and IPv6
//! addresses in brackets. White space may stand around the pairs.

use std::net::IpAddr;

use super::address::{is_port, with_port};
use super::facts::{is_token_byte, trim};
use super::hops::{Grammar, Unbalanced};

/// The list of `Forwarded`.
pub(super) const GRAMMAR: Grammar = Grammar { last_comma, read };

/// Longer than any address with a port.
const NODE_BYTES: usize = 64;

/// The last comma outside of quotes, found from the right: what an attacker wrote on the left, be it half a
/// quoted string, cannot swallow what a proxy wrote on the right.
fn last_comma(text: &[u8]) -> Result<Option<usize>, Unbalanced> {
    let mut at = text.len();
    while at > 0 {
        at -= 1;
        match text[at] {
            b',' => return Ok(Some(at)),
            b'"' => at = opening_quote(&text[..at]).ok_or(Unbalanced)?,
            _ => {}
        }
    }
    Ok(None)
}

/// The last quote that is not escaped.
fn opening_quote(text: &[u8]) -> Option<usize> {
    let mut end = text.len();
    loop {
        let quote = text[..end].iter().rposition(|byte| *byte == b'"')?;
        let escapes = text[..quote].iter().rev().take_while(|byte| **byte == b'\\').count();
        if escapes % 2 == 0 {
            return Some(quote);
        }
        end = quote - escapes;
    }
}

/// The address behind `for`. An element without one, or with two, names nobody.
fn read(element: &[u8]) -> Option<IpAddr> {
    let mut node = None;
    let mut rest = element;
    loop {
        rest = trim(rest);
        match rest {
            [] => return node.and_then(address),
            [b';', after @ ..] => rest = after,
            _ => {
                let (name, value, after) = pair(rest)?;
                if name.eq_ignore_ascii_case(b"for") && node.replace(value).is_some() {
                    return None;
                }
                rest = after;
            }
        }
    }
}

/// The value of a pair, as it was written.
enum Value<'a> {
    Bare(&'a [u8]),
    /// Without the quotes, with the escapes.
    Quoted(&'a [u8]),
}

/// Splits `name=value` off; what follows is the end or a semicolon.
fn pair(text: &[u8]) -> Option<(&[u8], Value<'_>, &[u8])> {
    let (name, text) = text.split_at(text.iter().position(|byte| !is_token_byte(*byte))?);
    let text = text.strip_prefix(b"=")?;
    let (value, after) = match text.strip_prefix(b"\"") {
        Some(text) => quoted(text)?,
        None => bare(text)?,
    };
    let after = trim(after);
    let ends = after.first().is_none_or(|byte| *byte == b';');
    (!name.is_empty() && ends).then_some((name, value, after))
}

fn bare(text: &[u8]) -> Option<(Value<'_>, &[u8])> {
    let allowed = |byte: &u8| is_token_byte(*byte) || b":[]".contains(byte);
    let end = text.iter().position(|byte| !allowed(byte)).unwrap_or(text.len());
    (end > 0).then(|| (Value::Bare(&text[..end]), &text[end..]))
}

fn quoted(text: &[u8]) -> Option<(Value<'_>, &[u8])> {
    let mut at = 0;
    loop {
        match text.get(at)? {
            b'"' => return Some((Value::Quoted(&text[..at]), &text[at + 1..])),
            b'\\' => at += 1,
            _ => {}
        }
        let control = text.get(at).is_none_or(|byte| byte.is_ascii_control() && *byte != b'\t');
        if control {
            return None;
        }
        at += 1;
    }
}

/// The address of a node. `unknown` and hidden names such as `_proxy` are legal, but no addresses.
fn address(node: Value<'_>) -> Option<IpAddr> {
    let mut buffer = [0; NODE_BYTES];
    let node = match node {
        Value::Bare(text) => text,
        Value::Quoted(text) => unescape(text, &mut buffer)?,
    };
    with_port(std::str::from_utf8(node).ok()?, |port| is_port(port) || is_hidden_port(port))
}

/// Without escapes. Nothing if it does not fit, as then it is no address either.
fn unescape<'b>(text: &[u8], buffer: &'b mut [u8; NODE_BYTES]) -> Option<&'b [u8]> {
    let mut length = 0;
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        let byte = if *byte == b'\\' { bytes.next()? } else { byte };
        *buffer.get_mut(length)? = *byte;
        length += 1;
    }
    Some(&buffer[..length])
}

/// A proxy may hide the port: `_` and some letters.
fn is_hidden_port(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    text.strip_prefix('_').is_some_and(|name| !name.is_empty() && name.bytes().all(allowed))
}
