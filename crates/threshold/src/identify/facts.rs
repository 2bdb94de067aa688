//! Facts: what the wire said about a request, as it said it.

use std::net::IpAddr;

/// What is known of a request before anybody asks who sent it. Nothing in here is believed yet.
#[derive(Clone, Copy)]
pub struct Facts<'a> {
    /// The other end of the connection: the one address that cannot be forged.
    pub peer: IpAddr,
    /// The method.
    pub method: &'a str,
    /// The host the request names, with or without a port.
    pub host: Option<&'a str>,
    /// The path as it was sent, still encoded.
    pub path: &'a str,
    /// The declared length of the body.
    pub bytes: Option<u64>,
    /// The header fields.
    pub headers: &'a dyn Headers,
}

/// Header fields, wherever they are kept.
///
/// `Sync`, so that facts may be held by a future that moves between threads.
pub trait Headers: Sync {
    /// Shows the value of every field line called `name`, in the order of the wire. Case does not matter.
    ///
    /// The values live as long as the headers, so that an identity can borrow from them.
    fn each<'h>(&'h self, name: &str, visit: &mut dyn FnMut(&'h [u8]));
}

/// No headers at all.
impl Headers for () {
    fn each<'h>(&'h self, _: &str, _: &mut dyn FnMut(&'h [u8])) {}
}

/// A field line: its name and its value.
type Line<N, V> = (N, V);

impl<N: AsRef<str> + Sync, V: AsRef<[u8]> + Sync> Headers for &[Line<N, V>] {
    fn each<'h>(&'h self, name: &str, visit: &mut dyn FnMut(&'h [u8])) {
        each_of(self, name, visit);
    }
}

impl<N: AsRef<str> + Sync, V: AsRef<[u8]> + Sync, const COUNT: usize> Headers for [Line<N, V>; COUNT] {
    fn each<'h>(&'h self, name: &str, visit: &mut dyn FnMut(&'h [u8])) {
        each_of(self, name, visit);
    }
}

impl<N: AsRef<str> + Sync, V: AsRef<[u8]> + Sync> Headers for Vec<Line<N, V>> {
    fn each<'h>(&'h self, name: &str, visit: &mut dyn FnMut(&'h [u8])) {
        each_of(self, name, visit);
    }
}

fn each_of<'h, N: AsRef<str>, V: AsRef<[u8]>>(
    lines: &'h [Line<N, V>],
    name: &str,
    visit: &mut dyn FnMut(&'h [u8]),
) {
    let named = lines.iter().filter(|(other, _)| other.as_ref().eq_ignore_ascii_case(name));
    named.for_each(|(_, value)| visit(value.as_ref()));
}

/// The field lines of a header that may come only once.
pub(super) enum Single<'a> {
    /// No line, or an empty one: a proxy that clears a header often leaves its name.
    Absent,
    /// The one line, without the white space around it.
    One(&'a [u8]),
    /// Several lines. Which one the application believes is anybody's guess, so none is taken.
    Repeated,
}

/// Reads a header that may come only once.
pub(super) fn single<'a>(headers: &'a dyn Headers, name: &str) -> Single<'a> {
    let mut found = Single::Absent;
    let mut lines = 0_usize;
    headers.each(name, &mut |value| {
        lines += 1;
        let value = trim(value);
        found = match lines {
            1 if value.is_empty() => Single::Absent,
            1 => Single::One(value),
            _ => Single::Repeated,
        };
    });
    found
}

/// Without the optional white space of HTTP, which is spaces and tabs only.
pub(super) fn trim(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = text {
        text = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = text {
        text = rest;
    }
    text
}

/// Whether `text` can be the name of a header or a cookie: a token of RFC 9110.
pub(crate) fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(is_token_byte)
}

pub(super) fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
