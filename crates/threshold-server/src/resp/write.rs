//! Replies as bytes, in both versions of the protocol.

/// The version of the protocol that a client speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Version {
    #[default]
    Two,
    Three,
}

impl Version {
    /// Its number.
    pub(super) const fn number(self) -> u8 {
        match self {
            Self::Two => 2,
            Self::Three => 3,
        }
    }
}

/// A word of ours, such as `OK`.
pub(super) fn simple(out: &mut Vec<u8>, word: &str) {
    piece(out, b'+', word.as_bytes());
}

/// An error: a code, and what is wrong with its remedy. Whatever it quotes, it is one line.
#[cold]
pub(super) fn error(out: &mut Vec<u8>, text: &str) {
    out.push(b'-');
    out.extend(text.bytes().map(|byte| if byte.is_ascii_control() { b' ' } else { byte }));
    out.extend_from_slice(b"\r\n");
}

pub(super) fn integer(out: &mut Vec<u8>, number: i64) {
    piece(out, b':', itoa::Buffer::new().format(number).as_bytes());
}

pub(super) fn bulk(out: &mut Vec<u8>, bytes: &[u8]) {
    head(out, b'$', bytes.len());
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

pub(super) fn null(out: &mut Vec<u8>, version: Version) {
    out.extend_from_slice(match version {
        Version::Two => b"$-1\r\n",
        Version::Three => b"_\r\n",
    });
}

/// True or false, which the older version has no words for.
pub(super) fn boolean(out: &mut Vec<u8>, version: Version, value: bool) {
    out.extend_from_slice(match (version, value) {
        (Version::Two, true) => b":1\r\n",
        (Version::Two, false) => b":0\r\n",
        (Version::Three, true) => b"#t\r\n",
        (Version::Three, false) => b"#f\r\n",
    });
}

/// The head of a list of `length`.
pub(super) fn array(out: &mut Vec<u8>, length: usize) {
    head(out, b'*', length);
}

/// The head of `length` pairs: a list of names and values in the older version.
pub(super) fn map(out: &mut Vec<u8>, version: Version, length: usize) {
    match version {
        Version::Two => head(out, b'*', 2 * length),
        Version::Three => head(out, b'%', length),
    }
}

fn head(out: &mut Vec<u8>, mark: u8, length: usize) {
    piece(out, mark, itoa::Buffer::new().format(length).as_bytes());
}

#[inline]
fn piece(out: &mut Vec<u8>, mark: u8, text: &[u8]) {
    out.push(mark);
    out.extend_from_slice(text);
    out.extend_from_slice(b"\r\n");
}

/// What somebody sent, as an error may quote it: readable, on one line and not long.
pub(super) fn quoted(bytes: &[u8]) -> String {
    const MOST: usize = 64;
    let short = &bytes[..bytes.len().min(MOST)];
    let more = if bytes.len() > MOST { "..." } else { "" };
    format!("'{}{more}'", short.escape_ascii())
}
