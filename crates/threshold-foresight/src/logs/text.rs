//! What the text formats have in common: fields between spaces, quotes and their escapes.

use std::ops::Range;

use memchr::{memchr, memchr2};

use super::counts::{Broken, Reason};
use super::draft::{Draft, in_line};
use crate::request::Piece;

/// Goes through a line from left to right.
#[derive(Clone, Debug)]
pub(super) struct Cursor<'a> {
    pub(super) line: &'a [u8],
    pub(super) at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(line: &'a [u8]) -> Self {
        Self { line, at: 0 }
    }

    pub(super) fn rest(&self) -> &'a [u8] {
        self.line.get(self.at..).unwrap_or_default()
    }

    pub(super) fn slice(&self, range: &Range<usize>) -> &'a [u8] {
        self.line.get(range.clone()).unwrap_or_default()
    }

    /// Passes over what must come next.
    pub(super) fn pass(&mut self, what: &'static str) -> Result<(), Broken> {
        if !self.rest().starts_with(what.as_bytes()) {
            return Err(self.broken(Reason::Shape, what));
        }
        self.at += what.len();
        Ok(())
    }

    /// The bytes before `end`, which is passed over.
    pub(super) fn until(&mut self, end: u8, what: &'static str) -> Result<Range<usize>, Broken> {
        let length = memchr(end, self.rest()).ok_or_else(|| self.broken(Reason::Shape, what))?;
        let range = self.at..self.at + length;
        self.at = range.end + 1;
        Ok(range)
    }

    /// The field before the next space, or before the end of the line.
    pub(super) fn field(&mut self, what: &'static str) -> Result<Range<usize>, Broken> {
        let length = memchr(b' ', self.rest()).unwrap_or(self.rest().len());
        if length == 0 {
            return Err(self.broken(Reason::Shape, what));
        }
        let range = self.at..self.at + length;
        self.at = (range.end + 1).min(self.line.len());
        Ok(range)
    }

    /// What is between two quotes, of which the first is next; a backslash takes its meaning from the byte behind it.
    /// The space that follows is passed over.
    pub(super) fn quoted(&mut self, what: &'static str) -> Result<Quoted, Broken> {
        self.pass("\"").map_err(|broken| Broken { what, ..broken })?;
        let (start, mut at, mut escaped) = (self.at, self.at, false);
        loop {
            let rest = self.line.get(at..).unwrap_or_default();
            let found =
                memchr2(b'"', b'\\', rest).ok_or_else(|| self.broken(Reason::Shape, "a closing quote"))?;
            if rest[found] == b'"' {
                let range = start..at + found;
                self.at = range.end + 1;
                if self.line.get(self.at) == Some(&b' ') {
                    self.at += 1;
                }
                return Ok(Quoted { range, escaped });
            }
            (at, escaped) = (at + found + 2, true);
        }
    }

    pub(super) fn broken(&self, reason: Reason, what: &'static str) -> Broken {
        Broken { reason, at: self.at, what }
    }
}

/// What was between two quotes.
#[derive(Clone, Debug)]
pub(super) struct Quoted {
    pub(super) range: Range<usize>,
    escaped: bool,
}

impl Quoted {
    /// Without its escapes.
    pub(super) fn piece(&self, line: &[u8], draft: &mut Draft) -> Piece {
        if !self.escaped {
            return in_line(self.range.clone());
        }
        let (start, beside) = draft.writing();
        unescape(line.get(self.range.clone()).unwrap_or_default(), beside);
        draft.since(start)
    }

    /// The same; none where the server had nothing to say, which it writes as a dash.
    pub(super) fn said(&self, line: &[u8], draft: &mut Draft) -> Option<Piece> {
        let nothing = matches!(line.get(self.range.clone()), None | Some(b"-" | b""));
        (!nothing).then(|| self.piece(line, draft))
    }
}

/// A field that is not quoted; none for a dash.
pub(super) fn said(line: &[u8], range: Range<usize>) -> Option<Piece> {
    let nothing = matches!(line.get(range.clone()), None | Some(b"-" | b""));
    (!nothing).then(|| in_line(range))
}

/// Undoes the escapes of nginx (`\x22`) and Apache (`\"`, `\\`, `\n`, `\xc3`). What is no escape of theirs stays as it is.
fn unescape(mut text: &[u8], out: &mut Vec<u8>) {
    while let Some(at) = memchr(b'\\', text) {
        out.extend_from_slice(&text[..at]);
        let (byte, length) = match &text[at + 1..] {
            [b'x' | b'X', high, low, ..] if hex(*high, *low).is_some() => (hex(*high, *low), 4),
            [b'n', ..] => (Some(b'\n'), 2),
            [b't', ..] => (Some(b'\t'), 2),
            [b'r', ..] => (Some(b'\r'), 2),
            [b'b', ..] => (Some(8), 2),
            [b'v', ..] => (Some(11), 2),
            [b'f', ..] => (Some(12), 2),
            [byte @ (b'"' | b'\\'), ..] => (Some(*byte), 2),
            _ => (Some(b'\\'), 1),
        };
        out.extend(byte);
        text = &text[at + length..];
    }
    out.extend_from_slice(text);
}

/// Undoes `%20` and, with HAProxy's sign, `#20`. A sign that is followed by no number stays as it is.
pub(super) fn decode(mut text: &[u8], sign: u8, out: &mut Vec<u8>) {
    while let Some(at) = memchr(sign, text) {
        out.extend_from_slice(&text[..at]);
        let byte = match &text[at + 1..] {
            [high, low, ..] => hex(*high, *low),
            _ => None,
        };
        out.push(byte.unwrap_or(sign));
        text = &text[at + if byte.is_some() { 3 } else { 1 }..];
    }
    out.extend_from_slice(text);
}

/// A byte of two hexadecimal digits.
fn hex(high: u8, low: u8) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    u8::try_from(digit(high)? * 16 + digit(low)?).ok()
}

/// A whole number, of digits only.
pub(super) fn number(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 19 {
        return None;
    }
    text.iter()
        .try_fold(0, |value: u64, byte| byte.is_ascii_digit().then(|| value * 10 + u64::from(byte - b'0')))
}

/// A status: three digits.
pub(super) fn status(text: &[u8]) -> Option<u16> {
    let value = (text.len() == 3).then(|| number(text)).flatten()?;
    u16::try_from(value).ok()
}

/// A status, or what stands for none: `-`, `0`, `-1`.
pub(super) fn is_status(text: &[u8]) -> bool {
    matches!(text, b"-" | b"0" | b"-1") || status(text).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quoted(line: &str) -> Option<(Vec<u8>, usize)> {
        let mut draft = Draft::default();
        let mut cursor = Cursor::new(line.as_bytes());
        let quoted = cursor.quoted("a request").ok()?;
        let piece = quoted.piece(line.as_bytes(), &mut draft);
        Some((draft.bytes_of(line.as_bytes(), piece).to_vec(), cursor.at))
    }

    #[test]
    fn escapes_are_undone() {
        let undone =
            |line, text: &[u8]| assert_eq!(quoted(line).map(|(text, _)| text), Some(text.to_vec()), "{line}");
        undone(r#""plain""#, b"plain");
        undone(r#""a\x22b\x5Cc""#, br#"a"b\c"#);
        undone(r#""a\"b\\" x"#, br#"a"b\"#);
        undone(r#""\n\t\r\b\v\f""#, b"\n\t\r\x08\x0b\x0c");
        undone(r#""\xc3\xA9""#, "é".as_bytes());
        undone(r#""\q\x1""#, br"\q\x1");
        assert_eq!(quoted(r#""open"#), None);
        assert_eq!(quoted(r#""open\""#), None);
        assert_eq!(quoted(r#""open\"#), None);
        assert_eq!(quoted("none"), None);
    }

    #[test]
    fn encoded_bytes_are_decoded() {
        let decoded = |text: &[u8], sign| {
            let mut out = Vec::new();
            decode(text, sign, &mut out);
            String::from_utf8_lossy(&out).into_owned()
        };
        assert_eq!(decoded(b"Mozilla/5.0%20(X11)%", b'%'), "Mozilla/5.0 (X11)%");
        assert_eq!(decoded(b"/a#22b#zz#", b'#'), "/a\"b#zz#");
    }

    #[test]
    fn numbers_are_digits() {
        assert_eq!(number(b"18446744073709551615"), None);
        assert_eq!(number(b"9999999999999999999"), Some(9_999_999_999_999_999_999));
        assert_eq!(number(b""), None);
        assert_eq!(number(b"-1"), None);
        assert_eq!(status(b"200"), Some(200));
        assert_eq!(status(b"2000"), None);
    }
}
