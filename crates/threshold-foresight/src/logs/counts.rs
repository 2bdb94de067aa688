//! What became of the lines: numbers, and a few samples of those that are no requests.

use std::fmt;
use std::net::IpAddr;

use threshold::Timestamp;

/// How many samples of each kind are kept.
pub const SAMPLES: usize = 5;
/// How many characters of a line are shown.
const SHOWN: usize = 120;

/// Why a line is no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It does not have the shape of its format.
    Shape,
    /// There is no address of a client where it should be.
    Address,
    /// There is a name where the client's address should be.
    HostName,
    /// Its time cannot be read.
    Time,
    /// Its request line is none: a client that spoke no HTTP, or closed before it said anything.
    Request,
    /// It is longer than any line is read.
    TooLong,
    /// The archive ends in the middle of it.
    Cut,
}

impl Reason {
    /// All there are.
    pub const ALL: [Self; 7] =
        [Self::Shape, Self::Address, Self::HostName, Self::Time, Self::Request, Self::TooLong, Self::Cut];

    /// What to do about it.
    #[must_use]
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::Shape => "name its format with `--format`, or leave `--strict` out to pass such lines over",
            Self::Address => {
                "have the server log the client's address, or name its field with `--fields client=…`"
            }
            Self::HostName => "have the server log addresses (Apache: `HostnameLookups Off`)",
            Self::Time => {
                "have the server log times as its format has them, or name the field with `--fields time=…`"
            }
            Self::Request => "leave `--strict` out to pass such lines over",
            Self::TooLong => "leave `--strict` out: no server accepts a request that long",
            Self::Cut => "fetch the archive again, or leave `--strict` out to use what came before",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Shape => "not of this format",
            Self::Address => "no address of a client",
            Self::HostName => "a host name instead of an address",
            Self::Time => "no time that can be read",
            Self::Request => "no request line",
            Self::TooLong => "too long",
            Self::Cut => "cut off",
        })
    }
}

/// What is wrong with a line, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Broken {
    pub(super) reason: Reason,
    /// The byte of the line that it is about, counted from zero.
    pub(super) at: usize,
    /// What was expected there.
    pub(super) what: &'static str,
}

/// A line that was counted, as it may be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The name of its source.
    pub source: String,
    /// Its number in there, from one.
    pub line: u64,
    /// The byte that is wrong, from one, where it is about one.
    pub column: Option<usize>,
    /// What is wrong.
    pub what: String,
    /// The beginning of the line, without anything that a terminal would act on.
    pub excerpt: String,
    /// When it was, where that could be read.
    pub at: Option<Timestamp>,
    /// Who it was, where that could be read.
    pub client: Option<IpAddr>,
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.source, self.line)?;
        if let Some(column) = self.column {
            write!(f, ":{column}")?;
        }
        write!(f, ": {}: {}", self.what, self.excerpt)
    }
}

/// How many there were, and the first few of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// How many.
    pub count: u64,
    /// The first [`SAMPLES`].
    pub samples: Vec<Sample>,
}

impl Count {
    /// Counts one, and makes a sample of it if there are few yet.
    pub(super) fn add(&mut self, sample: impl FnOnce() -> Sample) {
        self.count += 1;
        if self.samples.len() < SAMPLES {
            self.samples.push(sample());
        }
    }
}

/// What became of all lines.
///
/// `lines` is the sum of `requests`, `empty`, `comments`, `out_of_time` and everything `broken`, but for one line of each source
/// that may be read and not yet given. `out_of_order` and `repaired` are requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Lines that were read.
    pub lines: u64,
    /// Requests that were given.
    pub requests: u64,
    /// Lines with nothing in them.
    pub empty: u64,
    /// Lines that speak of the log: `#Fields`, a table's first row.
    pub comments: u64,
    /// Requests with bytes that are no UTF-8, which stand as U+FFFD.
    pub repaired: u64,
    /// Requests older than one that was given before, given at the time of that one.
    pub out_of_order: Count,
    /// Lines whose time is so far from that of the lines around them that they were left out.
    pub out_of_time: Count,
    /// Sources that ended early because their archive is damaged.
    pub damaged: Count,
    broken: [Count; Reason::ALL.len()],
}

impl Counts {
    /// Lines that are no requests for this reason.
    #[must_use]
    pub fn broken(&self, reason: Reason) -> &Count {
        &self.broken[reason as usize]
    }

    /// All lines that are no requests.
    #[must_use]
    pub fn all_broken(&self) -> u64 {
        self.broken.iter().map(|count| count.count).sum()
    }

    pub(super) fn broken_mut(&mut self, reason: Reason) -> &mut Count {
        &mut self.broken[reason as usize]
    }
}

/// The beginning of a line, harmless: what moves a cursor, hides or turns text around is shown by its number.
pub(super) fn excerpt(line: &[u8]) -> String {
    // Four bytes are the longest character.
    let text = String::from_utf8_lossy(&line[..line.len().min(4 * SHOWN)]);
    let mut shown = String::new();
    let mut length = 0;
    for character in text.chars() {
        let plain = matches!(character, '"' | '\'' | '\\');
        let spelled: String = if plain { character.into() } else { character.escape_debug().collect() };
        length += spelled.chars().count();
        if length > SHOWN {
            shown.push('…');
            return shown;
        }
        shown.push_str(&spelled);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_does_nothing_to_a_terminal() {
        assert_eq!(excerpt(b"GET \"/\" \\ '"), "GET \"/\" \\ '");
        assert_eq!(excerpt(b"\x1b[31m\0\r\x07"), "\\u{1b}[31m\\0\\r\\u{7}");
        assert_eq!(excerpt("\u{202e}\u{9b}\u{200b}é".as_bytes()), "\\u{202e}\\u{9b}\\u{200b}é");
        assert_eq!(excerpt(b"\xff"), "\u{fffd}");
    }

    #[test]
    fn an_excerpt_is_short() {
        assert_eq!(excerpt(&[b'x'; 120]), "x".repeat(120));
        assert_eq!(excerpt(&[b'x'; 121]), format!("{}…", "x".repeat(120)));
        assert!(excerpt(&[0; 10_000]).chars().count() <= 121);
    }

    #[test]
    fn every_reason_has_a_place_of_its_own() {
        let mut counts = Counts::default();
        for (index, reason) in Reason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, index);
            counts.broken_mut(reason).count += 1;
            assert_eq!(counts.broken(reason).count, 1);
        }
        assert_eq!(counts.all_broken(), 7);
    }
}
