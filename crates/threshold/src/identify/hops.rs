//! The walk through a list of hops, from the hop next to us outwards.
//!
//! Every proxy adds its own peer on the right, so the right end was written by somebody we trust and the left
//! end by whoever likes to. The walk therefore reads from the right and never looks at anything to the left of
//! the first address that is not a trusted proxy's: that one is the client.

use std::net::IpAddr;

use super::doubt::Doubt;
use super::facts::{Headers, trim};

/// At most so many hops are looked at.
const MAX_HOPS: usize = 64;
/// At most so many bytes are looked at.
const MAX_BYTES: usize = 8 * 1024;

/// How a list is written.
#[derive(Clone, Copy)]
pub(super) struct Grammar {
    /// Where the last comma is that separates elements.
    pub(super) last_comma: fn(&[u8]) -> Result<Option<usize>, Unbalanced>,
    /// The address in one element.
    pub(super) read: fn(&[u8]) -> Option<IpAddr>,
}

/// A quote that has no partner: nobody can say where the element begins.
pub(super) struct Unbalanced;

/// The last comma of a list without quotes.
pub(super) fn last_comma(text: &[u8]) -> Result<Option<usize>, Unbalanced> {
    Ok(text.iter().rposition(|byte| *byte == b','))
}

/// The first hop from the right that is not trusted; the leftmost one if all are; nothing without a list.
pub(super) fn walk(
    headers: &dyn Headers,
    name: &str,
    grammar: Grammar,
    trusts: &dyn Fn(IpAddr) -> bool,
) -> Result<Option<IpAddr>, Doubt> {
    let mut hops = Hops { lines: Lines::of(headers, name), left: None, grammar, bytes: MAX_BYTES };
    let mut leftmost = None;
    for _ in 0..MAX_HOPS {
        let Some(element) = hops.next()? else {
            return Ok(leftmost);
        };
        let hop = (grammar.read)(trim(element)).ok_or(Doubt::ForwardedUnreadable)?;
        if !trusts(hop) {
            return Ok(Some(hop));
        }
        leftmost = Some(hop);
    }
    if hops.next()?.is_none() { Ok(leftmost) } else { Err(Doubt::ForwardedTooLong) }
}

/// The elements of a list, the last one first.
struct Hops<'a> {
    lines: Lines<'a>,
    /// What is left of the line that is being read.
    left: Option<&'a [u8]>,
    grammar: Grammar,
    /// How many bytes may still be looked at.
    bytes: usize,
}

impl<'a> Hops<'a> {
    fn next(&mut self) -> Result<Option<&'a [u8]>, Doubt> {
        let line = match self.left.take() {
            Some(left) => left,
            None => match self.lines.pop()? {
                Some(line) => line,
                None => return Ok(None),
            },
        };
        // An element is looked for within what may still be looked at, however long the line is.
        let hidden = line.len().saturating_sub(self.bytes);
        let comma = match (self.grammar.last_comma)(&line[hidden..]) {
            Ok(Some(comma)) => hidden + comma,
            Ok(None) if hidden == 0 => return Ok(Some(self.spend(line))),
            Err(Unbalanced) if hidden == 0 => return Err(Doubt::ForwardedUnreadable),
            Ok(None) | Err(Unbalanced) => return Err(Doubt::ForwardedTooLong),
        };
        self.left = Some(&line[..comma]);
        Ok(Some(self.spend(&line[comma + 1..])))
    }

    /// The comma counts too.
    fn spend(&mut self, element: &'a [u8]) -> &'a [u8] {
        self.bytes = self.bytes.saturating_sub(element.len() + 1);
        element
    }
}

/// The last field lines of one name. A ring, so that any number of lines is met with the same memory.
struct Lines<'a> {
    ring: [&'a [u8]; MAX_HOPS],
    /// How many lines there are, with those that fell out of the ring.
    count: usize,
    /// How many of those in the ring were not taken yet.
    kept: usize,
}

impl<'a> Lines<'a> {
    fn of(headers: &'a dyn Headers, name: &str) -> Self {
        let mut lines = Self { ring: [&[]; MAX_HOPS], count: 0, kept: 0 };
        headers.each(name, &mut |value| {
            lines.ring[lines.count % MAX_HOPS] = value;
            lines.count += 1;
        });
        lines.kept = lines.count.min(MAX_HOPS);
        lines
    }

    /// Takes the last line.
    fn pop(&mut self) -> Result<Option<&'a [u8]>, Doubt> {
        if self.kept == 0 {
            return if self.count == 0 { Ok(None) } else { Err(Doubt::ForwardedTooLong) };
        }
        self.kept -= 1;
        self.count -= 1;
        Ok(Some(self.ring[self.count % MAX_HOPS]))
    }
}
