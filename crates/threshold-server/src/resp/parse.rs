//! Commands out of bytes: arrays of bulk strings as programs send them, and lines as people type them.
//!
//! Nothing is copied and nothing is kept between two looks: a command that has not come whole is looked at again when more
//! of it is there. What clients send has one level, so nesting is an error like any other.

use std::borrow::Cow;
use std::fmt;

use smallvec::SmallVec;

/// The most bytes of a command.
pub(crate) const COMMAND_BYTES: usize = 64 * 1024;
/// The most words of a command.
pub(crate) const WORDS: usize = 1_024;
/// The longest count or length, with its mark and its end: `$9223372036854775807\r\n` is one.
const HEADER_BYTES: usize = 32;

/// The words of a command, where they stand; those that were quoted are written out.
pub(crate) type Words<'a> = SmallVec<[Cow<'a, [u8]>; 8]>;

/// What bytes begin with.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Parsed {
    /// A part of a command, of which at least so many bytes have to be there.
    Partial(usize),
    /// A command of so many bytes. It may have no words, and is then to be passed over.
    Command(usize),
    /// Nobody knows where the next command begins.
    Lost(Lost),
}

/// Why nobody knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// The number of words is none, or too large.
    Count,
    /// The length of a word is none, or too large.
    Length,
    /// A word begins with something else than its length.
    Mark(u8),
    /// A word is longer or shorter than its length.
    End,
    /// A line has a quote too many.
    Quotes,
    /// There is no end to it.
    Large(usize),
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Protocol error: ")?;
        match self {
            Self::Count => write!(f, "invalid multibulk length; a command has at most {WORDS} words"),
            Self::Length => write!(f, "invalid bulk length; a command has at most {COMMAND_BYTES} bytes"),
            Self::Mark(found) => write!(f, "expected '$', got '{}'", found.escape_ascii()),
            Self::End => f.write_str("a word does not end where its length says"),
            Self::Quotes => f.write_str("unbalanced quotes in request"),
            Self::Large(most) => write!(f, "a command has at most {most} bytes; send less as one"),
        }
    }
}

/// Reads the first command of `bytes` into `words`. It may have at most `most` bytes.
pub(crate) fn parse<'a>(bytes: &'a [u8], most: usize, words: &mut Words<'a>) -> Parsed {
    words.clear();
    let parsed = match bytes.first() {
        None => Ok(Parsed::Partial(1)),
        Some(b'*') => array(bytes, most, words),
        Some(_) => line(bytes, words),
    };
    match parsed {
        Err(lost) => Parsed::Lost(lost),
        Ok(Parsed::Partial(least)) if least > most => Parsed::Lost(Lost::Large(most)),
        Ok(Parsed::Command(used)) if used > most => Parsed::Lost(Lost::Large(most)),
        Ok(parsed) => parsed,
    }
}

/// `*2\r\n$4\r\nPING\r\n$2\r\nhi\r\n`
#[inline]
fn array<'a>(bytes: &'a [u8], most: usize, words: &mut Words<'a>) -> Result<Parsed, Lost> {
    let Some((count, mut at)) = header(bytes, 0).map_err(|()| Lost::Count)? else {
        return Ok(Parsed::Partial(bytes.len() + 1));
    };
    let count = match count {
        // Nothing is asked for.
        ..=0 => return Ok(Parsed::Command(at)),
        _ => usize::try_from(count).ok().filter(|count| *count <= WORDS).ok_or(Lost::Count)?,
    };
    for _ in 0..count {
        match bytes.get(at) {
            None => return Ok(Parsed::Partial(at + 1)),
            Some(b'$') => {}
            Some(other) => return Err(Lost::Mark(*other)),
        }
        let Some((length, from)) = header(bytes, at).map_err(|()| Lost::Length)? else {
            return Ok(Parsed::Partial(bytes.len() + 1));
        };
        let length = usize::try_from(length).ok().filter(|length| *length <= most).ok_or(Lost::Length)?;
        let to = from + length;
        match bytes.get(to..to + 2) {
            None => return Ok(Parsed::Partial(to + 2)),
            Some(b"\r\n") => {}
            Some(_) => return Err(Lost::End),
        }
        words.push(Cow::Borrowed(&bytes[from..to]));
        at = to + 2;
    }
    Ok(Parsed::Command(at))
}

/// The number behind the mark at `at`, and where its line ends; none if that has not come.
#[inline]
fn header(bytes: &[u8], at: usize) -> Result<Option<(i64, usize)>, ()> {
    // One or two digits are the rule.
    let rest = &bytes[at + 1..];
    match rest {
        [a @ b'0'..=b'9', b'\r', b'\n', ..] => return Ok(Some((i64::from(a - b'0'), at + 4))),
        [a @ b'0'..=b'9', b @ b'0'..=b'9', b'\r', b'\n', ..] => {
            return Ok(Some((i64::from(a - b'0') * 10 + i64::from(b - b'0'), at + 5)));
        }
        _ => {}
    }
    let Some(end) = rest.iter().take(HEADER_BYTES).position(|byte| *byte == b'\n') else {
        return if rest.len() < HEADER_BYTES { Ok(None) } else { Err(()) };
    };
    let digits = rest[..end].strip_suffix(b"\r").ok_or(())?;
    let number = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()).ok_or(())?;
    Ok(Some((number, at + 1 + end + 1)))
}

/// A line as somebody types it: words between spaces, in quotes where they hold some.
fn line<'a>(bytes: &'a [u8], words: &mut Words<'a>) -> Result<Parsed, Lost> {
    let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else {
        return Ok(Parsed::Partial(bytes.len() + 1));
    };
    let mut rest = &bytes[..end];
    rest = rest.strip_suffix(b"\r").unwrap_or(rest);
    loop {
        rest = rest.trim_ascii_start();
        if rest.is_empty() {
            return Ok(Parsed::Command(end + 1));
        }
        if words.len() == WORDS {
            return Err(Lost::Count);
        }
        let plain = rest.iter().position(|byte| byte.is_ascii_whitespace() || matches!(byte, b'"' | b'\''));
        let plain = plain.unwrap_or(rest.len());
        match rest.get(plain) {
            Some(b'"' | b'\'') => {
                let (word, after) = quoted(rest)?;
                words.push(Cow::Owned(word));
                rest = after;
            }
            _ => {
                words.push(Cow::Borrowed(&rest[..plain]));
                rest = &rest[plain..];
            }
        }
    }
}

/// A word with quotes in it, and what comes behind it.
fn quoted(line: &[u8]) -> Result<(Vec<u8>, &[u8]), Lost> {
    let (mut word, mut rest, mut quote) = (Vec::new(), line, None);
    loop {
        let Some((&byte, behind)) = rest.split_first() else {
            return if quote.is_some() { Err(Lost::Quotes) } else { Ok((word, rest)) };
        };
        rest = behind;
        match (quote, byte) {
            (None, b'"' | b'\'') => quote = Some(byte),
            (None, byte) if byte.is_ascii_whitespace() => return Ok((word, rest)),
            (Some(open), byte) if byte == open => {
                // A closing quote ends the word.
                return match rest.first() {
                    Some(next) if !next.is_ascii_whitespace() => Err(Lost::Quotes),
                    _ => Ok((word, rest)),
                };
            }
            (Some(b'"'), b'\\') => {
                let (byte, behind) = escaped(rest)?;
                word.push(byte);
                rest = behind;
            }
            (Some(b'\''), b'\\') if rest.first() == Some(&b'\'') => {
                word.push(b'\'');
                rest = &rest[1..];
            }
            (_, byte) => word.push(byte),
        }
    }
}

/// What stands behind a backslash.
fn escaped(rest: &[u8]) -> Result<(u8, &[u8]), Lost> {
    if let [b'x', high, low, behind @ ..] = rest
        && let (Some(high), Some(low)) = (hexadecimal(*high), hexadecimal(*low))
    {
        return Ok((high * 16 + low, behind));
    }
    let (&byte, behind) = rest.split_first().ok_or(Lost::Quotes)?;
    let byte = match byte {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 0x08,
        b'a' => 0x07,
        other => other,
    };
    Ok((byte, behind))
}

fn hexadecimal(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

/// Reads all of `bytes` as a connection does, and sees that what the parser says is so.
pub(crate) fn fuzz(bytes: &[u8]) {
    let mut rest = bytes;
    let mut words = Words::new();
    loop {
        let parsed = parse(rest, COMMAND_BYTES, &mut words);
        match parsed {
            Parsed::Command(used) => {
                assert!((1..=rest.len().min(COMMAND_BYTES)).contains(&used), "a command has its bytes");
                assert!(words.len() <= WORDS && words.iter().map(|word| word.len()).sum::<usize>() < used);
                // The same from no more than its own bytes, and not from fewer.
                let mut again = Words::new();
                assert_eq!(parse(&rest[..used], COMMAND_BYTES, &mut again), Parsed::Command(used));
                assert_eq!(words, again, "what follows changes nothing");
                let fewer = parse(&rest[..used - 1], COMMAND_BYTES, &mut again);
                assert_eq!(fewer, Parsed::Partial(used), "its last byte is needed, and known to be");
                rest = &rest[used..];
            }
            Parsed::Partial(least) => {
                assert!(least > rest.len() && least <= COMMAND_BYTES, "it waits for more, and not for ever");
                return;
            }
            Parsed::Lost(lost) => {
                assert!(!lost.to_string().contains(['\r', '\n']), "an error is one line");
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests;
