//! The path of a request, brought to the form that routes are matched against.

use std::fmt;

use super::reading::{Readings, Segments, escape};

/// The longest path that is looked at, in bytes as sent.
const MAX_PATH: usize = 8 * 1024;

/// The path of one request, checked and normalised; [the module](super) says how.
///
/// A path that needs no decoding is borrowed as it is. Others are kept in place, and on the heap only if they
/// are long.
#[derive(Clone, Debug)]
pub struct Path<'a> {
    form: Form<'a>,
    /// The host of a target in absolute form: the server may go by it instead of the `Host` header.
    authority: Option<&'a [u8]>,
}

#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "a box would be the allocation that this avoids")]
enum Form<'a> {
    /// As sent: its segments, the empty ones left out, are already normal.
    Sent(&'a [u8]),
    Read(Readings),
    /// The `*` of `OPTIONS *`: the server as a whole.
    Asterisk,
}

/// A request path that is refused: the column and what the client can do.
///
/// The path itself is not part of the message: it comes from outside and may not suit a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("request path, column {column}: {kind}")]
pub struct PathError {
    /// The column in the request target, counted in bytes from 1.
    pub column: usize,
    /// What is wrong there.
    pub kind: PathErrorKind,
}

/// Why a request path is refused, with the remedy in its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathErrorKind {
    /// More than 8 KiB.
    #[error("the path is longer than {MAX_PATH} bytes; send long values in the query or the body")]
    TooLong,
    /// Neither `/path` nor `http://host/path` nor `*`.
    #[error("a request target starts with `/` or with a scheme and a host; send \"/api/posts\"")]
    NotAPath,
    /// `%` without two hexadecimal digits.
    #[error("`%` needs two hexadecimal digits after it; send the character `%` itself as %25")]
    InvalidEscape,
    /// An escape of an escape, which servers decode once or twice.
    #[error("the path is still escaped after decoding it once; send it escaped once only, `a` not as %2561")]
    DoubleEncoding,
    /// NUL, line ends and the like.
    #[error("control characters are not allowed in a path, nor as escapes such as %00; leave them out")]
    ControlCharacter,
}

impl<'a> Path<'a> {
    /// Reads a request target: `/path?query`, `http://host/path`, or `*`.
    ///
    /// # Errors
    ///
    /// A path that servers could understand in a way that cannot be known here is refused. Refuse the request
    /// then (400): taken for a request of no route, it would get past the route's limits.
    #[inline]
    pub fn read<T: AsRef<[u8]> + ?Sized>(target: &'a T) -> Result<Self, PathError> {
        let target = target.as_ref();
        match read_plain(target) {
            Some(plain) => Ok(Self { form: Form::Sent(plain), authority: None }),
            None => Self::read_other(target),
        }
    }

    fn read_other(target: &'a [u8]) -> Result<Self, PathError> {
        if target == b"*" {
            return Ok(Self { form: Form::Asterisk, authority: None });
        }
        let Some((authority, start)) = split_authority(target) else {
            return Err(PathError { column: 1, kind: PathErrorKind::NotAPath });
        };
        let form = form(path_part(&target[start..]));
        let form = form.map_err(|(at, kind)| PathError { column: start + at + 1, kind })?;
        Ok(Self { form, authority })
    }

    /// The segments of the normal form. `OPTIONS *` has none.
    #[must_use]
    pub fn segments(&self) -> Segments<'_> {
        Segments::of(match &self.form {
            Form::Sent(bytes) => bytes,
            Form::Read(readings) => readings.first(),
            Form::Asterisk => b"",
        })
    }

    /// Whether all servers agree on what the path means, as far as [the four readings](super) go.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        match &self.form {
            Form::Sent(_) | Form::Asterisk => true,
            Form::Read(readings) => readings.iter().nth(1).is_none(),
        }
    }

    pub(super) fn is_asterisk(&self) -> bool {
        matches!(self.form, Form::Asterisk)
    }

    pub(super) const fn authority(&self) -> Option<&'a [u8]> {
        self.authority
    }

    /// Calls `visit` with the segments of each way to read the path.
    pub(super) fn each_reading(&self, mut visit: impl FnMut(Segments<'_>)) {
        match &self.form {
            Form::Sent(bytes) => visit(Segments::of(bytes)),
            Form::Read(readings) => readings.iter().for_each(|reading| visit(Segments::of(reading))),
            Form::Asterisk => {}
        }
    }
}

impl fmt::Display for Path<'_> {
    /// The normal form. Bytes that are not UTF-8 are replaced.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_asterisk() {
            return f.write_str("*");
        }
        let mut segments = self.segments().peekable();
        if segments.peek().is_none() {
            return f.write_str("/");
        }
        segments.try_for_each(|segment| write!(f, "/{}", String::from_utf8_lossy(segment)))
    }
}

/// The host, if the target names one, and where the path starts.
fn split_authority(target: &[u8]) -> Option<(Option<&[u8]>, usize)> {
    if matches!(target.first()?, b'/' | b'\\') {
        return Some((None, 0));
    }
    let colon = target.iter().position(|byte| *byte == b':')?;
    let authority = target[colon..].strip_prefix(b"://")?;
    if !is_scheme(&target[..colon]) {
        return None;
    }
    let end = authority.iter().position(|byte| matches!(byte, b'/' | b'\\' | b'?' | b'#'));
    let end = end.unwrap_or(authority.len());
    Some((Some(&authority[..end]), colon + 3 + end))
}

fn is_scheme(text: &[u8]) -> bool {
    let other = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    text.first().is_some_and(u8::is_ascii_alphabetic) && text.iter().all(other)
}

/// What comes before the query and the fragment.
fn path_part(target: &[u8]) -> &[u8] {
    let end = target.iter().position(|byte| matches!(byte, b'?' | b'#'));
    &target[..end.unwrap_or(target.len())]
}

/// The path at the start of `target`, if a glance shows that all servers read it as it stands. Most paths are like
/// that.
#[inline]
fn read_plain(target: &[u8]) -> Option<&[u8]> {
    let end = target.iter().position(|byte| !PLAIN[usize::from(*byte)]).unwrap_or(target.len());
    let ends = target.get(end).is_none_or(|byte| matches!(byte, b'?' | b'#'));
    let starts = target.first() == Some(&b'/') && target.get(1) != Some(&b'/');
    (starts && ends && end <= MAX_PATH).then(|| &target[..end])
}

/// Bytes that mean nothing but themselves anywhere in a path.
const PLAIN: [bool; 256] = {
    let mut plain = [true; 256];
    let mut byte = 0;
    while byte < 128 {
        plain[byte] = !(byte as u8).is_ascii_control()
            && !matches!(byte as u8, b'%' | b'\\' | b';' | b'.' | b'?' | b'#');
        byte += 1;
    }
    plain
};

/// An error and the byte at which it was met.
type Met<T> = Result<T, (usize, PathErrorKind)>;

fn form(raw: &[u8]) -> Met<Form<'_>> {
    if raw.len() > MAX_PATH {
        return Err((MAX_PATH, PathErrorKind::TooLong));
    }
    let mut scan = Scan::default();
    while scan.at < raw.len() {
        scan.step(raw)?;
    }
    let doubtful = scan.doubtful || raw.starts_with(b"//") || has_dot_segment(raw);
    if doubtful || scan.escaped {
        return Ok(Form::Read(Readings::of(raw, doubtful)));
    }
    Ok(Form::Sent(raw))
}

fn has_dot_segment(raw: &[u8]) -> bool {
    Segments::of(raw).any(|segment| matches!(segment, b"." | b".."))
}

/// One look at every byte of a path.
#[derive(Default)]
struct Scan {
    at: usize,
    escaped: bool,
    /// Whether a byte was met that servers read in different ways.
    doubtful: bool,
    /// The last two bytes, decoded: with the next they may be an escape again.
    last: [u8; 2],
}

impl Scan {
    fn step(&mut self, raw: &[u8]) -> Met<()> {
        let start = self.at;
        let escaped = raw[start] == b'%';
        let byte = match raw[start] {
            b'%' => escape(&raw[start + 1..]).ok_or((start, PathErrorKind::InvalidEscape))?,
            byte => byte,
        };
        if byte.is_ascii_control() {
            return Err((start, PathErrorKind::ControlCharacter));
        }
        if self.last[0] == b'%' && escape(&[self.last[1], byte]).is_some() {
            return Err((start, PathErrorKind::DoubleEncoding));
        }
        self.last = [self.last[1], byte];
        self.escaped |= escaped;
        self.doubtful |= matches!(byte, b'\\' | b';') || (escaped && matches!(byte, b'/' | b'.'));
        self.at += if escaped { 3 } else { 1 };
        Ok(())
    }
}
