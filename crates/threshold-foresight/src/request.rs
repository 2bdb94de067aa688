//! One request: of the past, as a log has it, or of a scenario.

use std::fmt::{self, Write as _};
use std::net::{IpAddr, Ipv6Addr};

use threshold::Timestamp;

/// A request, when it came and what is known of it. It borrows from the line that it was read from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Request<'a> {
    /// When it came.
    pub at: Timestamp,
    /// The client's address, as whoever wrote the log saw it.
    pub client: IpAddr,
    /// The method.
    pub method: &'a str,
    /// The host that it named.
    pub host: Option<&'a str>,
    /// The path and the query, as sent.
    pub target: &'a str,
    /// The length of its body, where that is known.
    pub bytes: Option<u64>,
    /// What it was answered with.
    pub status: Option<u16>,
    /// The browser or program that sent it, by its own word.
    pub agent: Option<&'a str>,
    /// The user, by the word of whoever wrote the log.
    pub user: Option<&'a str>,
    /// The tenant, by the same word.
    pub tenant: Option<&'a str>,
    /// The account that a login names.
    pub account: Option<&'a str>,
    /// The header fields that the log has, without those that are above: `host` and `user-agent`.
    pub headers: Headers<'a>,
}

/// Writes what the subject of an address is called: the address, or its network of IPv6.
pub(crate) fn name_network(name: &mut String, client: IpAddr, prefix: u8) {
    name.clear();
    // Into a string nothing fails.
    let _ = match client.to_canonical() {
        IpAddr::V4(client) => write!(name, "{client}"),
        IpAddr::V6(client) => {
            let host = u128::MAX.checked_shr(prefix.into()).unwrap_or(0);
            write!(name, "{}/{prefix}", Ipv6Addr::from_bits(client.to_bits() & !host))
        }
    };
}

/// Writes what a user is called, within its tenant where there is one.
pub(crate) fn name_user(name: &mut String, user: &str, tenant: Option<&str>) {
    name.clear();
    name.push_str(user);
    if let Some(tenant) = tenant {
        name.push_str(" of ");
        name.push_str(tenant);
    }
}

/// The longest name that is kept whole: a line may have one of 64 KiB, and a log as many of them as it likes.
const LONGEST_NAME: usize = 120;

/// The beginning of a name or a path, if it is too long to be kept whole.
pub(crate) fn short(name: &str) -> &str {
    let end = (0..=LONGEST_NAME.min(name.len())).rev().find(|end| name.is_char_boundary(*end));
    &name[..end.unwrap_or(0)]
}

/// Header fields: names in lower case, and values.
///
/// They are found in a line, or given as pairs. A line's are kept as places in its text: pairs would borrow from whoever
/// holds both the text and them.
#[derive(Clone, Copy, Default)]
pub struct Headers<'a>(Kind<'a>);

#[derive(Clone, Copy)]
enum Kind<'a> {
    Pairs(&'a [(&'a str, &'a str)]),
    Places { texts: [&'a str; 2], places: &'a [(Piece, Piece)] },
}

/// A piece of one of two texts: a line, and what was written beside it because the line has it in another spelling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) start: u32,
    pub(crate) end: u32,
    pub(crate) text: Text,
}

/// Where a piece is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Text {
    Line,
    Beside,
}

impl Piece {
    /// What it says. A piece that is not of these texts is empty.
    pub(crate) fn of(self, texts: [&str; 2]) -> &str {
        texts[self.text as usize].get(self.start as usize..self.end as usize).unwrap_or_default()
    }
}

impl<'a> Headers<'a> {
    /// None.
    pub const NONE: Self = Self(Kind::Pairs(&[]));

    /// The fields whose names and values are pieces of two texts.
    pub(crate) const fn places(texts: [&'a str; 2], places: &'a [(Piece, Piece)]) -> Self {
        Self(Kind::Places { texts, places })
    }

    /// How many there are.
    #[must_use]
    pub const fn len(self) -> usize {
        match self.0 {
            Kind::Pairs(pairs) => pairs.len(),
            Kind::Places { places, .. } => places.len(),
        }
    }

    /// True where there are none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Names and values, in the order of the log.
    pub fn iter(self) -> impl Iterator<Item = (&'a str, &'a str)> {
        (0..self.len()).map(move |index| match self.0 {
            Kind::Pairs(pairs) => pairs[index],
            Kind::Places { texts, places } => (places[index].0.of(texts), places[index].1.of(texts)),
        })
    }

    /// The first value of the field `name`, whose letters may be of either case.
    #[must_use]
    pub fn get(self, name: &str) -> Option<&'a str> {
        self.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

impl Default for Kind<'_> {
    fn default() -> Self {
        Self::Pairs(&[])
    }
}

impl<'a> From<&'a [(&'a str, &'a str)]> for Headers<'a> {
    fn from(pairs: &'a [(&'a str, &'a str)]) -> Self {
        Self(Kind::Pairs(pairs))
    }
}

impl threshold::identify::Headers for Headers<'_> {
    fn each<'h>(&'h self, name: &str, visit: &mut dyn FnMut(&'h [u8])) {
        let named = self.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
        named.for_each(|(_, value)| visit(value.as_bytes()));
    }
}

impl PartialEq for Headers<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl fmt::Debug for Headers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}
