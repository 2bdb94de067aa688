//! Logs with an object in each line. Only the fields that are wanted are looked at; the rest is passed over.

use memchr::memchr2;

use super::counts::{Broken, Reason};
use super::draft::{Draft, in_line};
use super::fields::{Role, Take};
use super::format::Format;
use super::found::Found;
use super::time::Times;
use crate::request::Piece;

/// The fields that are wanted, as they stand within each other.
#[derive(Clone, Debug)]
pub(super) struct Schema {
    nodes: Vec<Node>,
    /// Fields that are called `http_x_plan` are header fields: nginx.
    prefixed: bool,
}

#[derive(Clone, Debug, Default)]
struct Node {
    name: Box<[u8]>,
    take: Option<Take>,
    nodes: Vec<Node>,
}

impl Schema {
    pub(super) fn new(format: Format, takes: Vec<(Take, String)>) -> Self {
        let mut nodes = Vec::new();
        for (take, field) in takes {
            // Some loggers write `client.ip` as one name.
            if field.contains('.') {
                plant(&mut nodes, &[field.as_str()], take.clone());
            }
            plant(&mut nodes, &field.split('.').collect::<Vec<_>>(), take);
        }
        Self { nodes, prefixed: format == Format::NginxJson }
    }

    pub(super) fn parse(&self, line: &[u8], times: &mut Times, draft: &mut Draft) -> Result<(), Broken> {
        let mut reader = Reader { line, at: 0, found: Found::default(), draft };
        reader.expect(b'{', "an object")?;
        reader.object(&self.nodes, self.prefixed)?;
        reader.space();
        if reader.at < line.len() {
            return Err(reader.broken("the end of the line"));
        }
        let found = reader.found;
        found.finish(line, times, draft)
    }
}

fn plant(nodes: &mut Vec<Node>, path: &[&str], take: Take) {
    let Some((name, rest)) = path.split_first() else { return };
    let index = nodes.iter().position(|node| *node.name == *name.as_bytes()).unwrap_or_else(|| {
        nodes.push(Node { name: name.as_bytes().into(), ..Node::default() });
        nodes.len() - 1
    });
    match rest.is_empty() {
        false => plant(&mut nodes[index].nodes, rest, take),
        // A field may be wanted twice; the first that wants it has it.
        true => {
            nodes[index].take.get_or_insert(take);
        }
    }
}

/// The longest name of a header field that is kept.
const LONGEST_NAME: usize = 64;

struct Reader<'a> {
    line: &'a [u8],
    at: usize,
    found: Found,
    draft: &'a mut Draft,
}

impl Reader<'_> {
    /// An object, behind its brace. As deep as the wanted fields go, and no deeper.
    fn object(&mut self, nodes: &[Node], prefixed: bool) -> Result<(), Broken> {
        if self.ends(b'}') {
            return Ok(());
        }
        loop {
            let name = self.name()?;
            let node = nodes.iter().find(|node| *node.name == self.line[name.0..name.1]);
            match node {
                Some(node) => self.wanted(node)?,
                None if prefixed && self.line[name.0..name.1].starts_with(b"http_") => self.prefixed(name)?,
                None => self.skip()?,
            }
            if self.more()? {
                continue;
            }
            return Ok(());
        }
    }

    fn wanted(&mut self, node: &Node) -> Result<(), Broken> {
        if self.line.get(self.at) == Some(&b'{') {
            return match node.take {
                Some(Take::Headers) => self.headers(),
                _ if node.nodes.is_empty() => self.skip(),
                _ => {
                    self.at += 1;
                    self.object(&node.nodes, false)
                }
            };
        }
        let value = self.value()?;
        if let (Some(take), Some(value)) = (&node.take, value) {
            self.found.take(take, value, self.line, self.draft);
        }
        Ok(())
    }

    /// An object of header fields, by their names.
    fn headers(&mut self) -> Result<(), Broken> {
        self.at += 1;
        if self.ends(b'}') {
            return Ok(());
        }
        loop {
            let (start, end) = self.name()?;
            let value = self.value()?;
            self.header(start, end, value);
            if !self.more()? {
                return Ok(());
            }
        }
    }

    /// `http_x_plan`, whose name in the request was `X-Plan`.
    fn prefixed(&mut self, (start, end): (usize, usize)) -> Result<(), Broken> {
        let value = self.value()?;
        self.header(start + b"http_".len(), end, value);
        Ok(())
    }

    fn header(&mut self, start: usize, end: usize, value: Option<Piece>) {
        let Some(value) = value else { return };
        let spelled = |byte: &u8| if *byte == b'_' { b'-' } else { byte.to_ascii_lowercase() };
        let (mut name, length) = ([0; LONGEST_NAME], end.saturating_sub(start));
        if length > LONGEST_NAME {
            return;
        }
        name.iter_mut().zip(&self.line[start..end]).for_each(|(to, from)| *to = spelled(from));
        let take = Take::Role(Role::Agent, u8::MAX);
        match &name[..length] {
            // A field of its own goes before what stands among the headers.
            b"user-agent" => self.found.take(&take, value, self.line, self.draft),
            b"" => {}
            name if !matches!(self.draft.bytes_of(self.line, value), b"" | b"-") => {
                self.draft.header(name, value);
            }
            _ => {}
        }
    }

    /// The name of a field, and the colon behind it; the value is next.
    fn name(&mut self) -> Result<(usize, usize), Broken> {
        self.space();
        self.expect(b'"', "the name of a field")?;
        let (start, end, _) = self.string()?;
        self.space();
        self.expect(b':', "a colon")?;
        self.space();
        Ok((start, end))
    }

    /// True if another field follows, false if the object ends.
    fn more(&mut self) -> Result<bool, Broken> {
        if self.ends(b'}') {
            return Ok(false);
        }
        self.expect(b',', "a comma or a closing brace")?;
        Ok(true)
    }

    /// Passes over what ends an object or an array, if that is next.
    fn ends(&mut self, end: u8) -> bool {
        self.space();
        let ends = self.line.get(self.at) == Some(&end);
        self.at += usize::from(ends);
        ends
    }

    /// A value, or the first of an array. None for what has no text: null, and whatever has fields of its own.
    fn value(&mut self) -> Result<Option<Piece>, Broken> {
        match self.line.get(self.at) {
            Some(b'"') => {
                self.at += 1;
                let (start, end, escaped) = self.string()?;
                Ok(Some(if escaped { self.unescaped(start, end) } else { in_line(start..end) }))
            }
            Some(b'[') => {
                let (start, mut first) = (self.at, None);
                self.at += 1;
                self.space();
                if self.line.get(self.at).is_some_and(|byte| !matches!(byte, b'[' | b'{' | b']')) {
                    first = self.value()?;
                }
                self.at = start;
                self.skip()?;
                Ok(first)
            }
            Some(b'{') => self.skip().map(|()| None),
            _ => {
                let start = self.at;
                self.skip()?;
                Ok((&self.line[start..self.at] != b"null").then(|| in_line(start..self.at)))
            }
        }
    }

    /// Passes over a value, whatever is in it: no depth of it costs anything.
    fn skip(&mut self) -> Result<(), Broken> {
        let mut depth = 0_usize;
        loop {
            match self.line.get(self.at) {
                Some(b'"') => {
                    self.at += 1;
                    self.string()?;
                }
                Some(b'{' | b'[') => (self.at, depth) = (self.at + 1, depth + 1),
                Some(b'}' | b']') if depth > 0 => (self.at, depth) = (self.at + 1, depth - 1),
                Some(b',' | b':' | b' ' | b'\t') if depth > 0 => self.at += 1,
                Some(b'0'..=b'9' | b'a'..=b'z' | b'+' | b'-' | b'.' | b'E') => self.word(),
                _ => return Err(self.broken("a value")),
            }
            if depth == 0 {
                return Ok(());
            }
        }
    }

    /// A number, `true`, `false` or `null`.
    fn word(&mut self) {
        let of_words = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
        self.at += self.line[self.at..].iter().take_while(|byte| of_words(byte)).count();
    }

    /// A string, behind its quote: where it is, and whether it has escapes.
    fn string(&mut self) -> Result<(usize, usize, bool), Broken> {
        let (start, mut at, mut escaped) = (self.at, self.at, false);
        loop {
            let rest = self.line.get(at..).unwrap_or_default();
            let found = memchr2(b'"', b'\\', rest).ok_or_else(|| self.broken("a closing quote"))?;
            if rest[found] == b'"' {
                self.at = at + found + 1;
                return Ok((start, at + found, escaped));
            }
            (at, escaped) = (at + found + 2, true);
        }
    }

    fn unescaped(&mut self, start: usize, end: usize) -> Piece {
        let line = self.line;
        let (begin, beside) = self.draft.writing();
        unescape(&line[start..end], beside);
        self.draft.since(begin)
    }

    fn space(&mut self) {
        while matches!(self.line.get(self.at), Some(b' ' | b'\t')) {
            self.at += 1;
        }
    }

    fn expect(&mut self, byte: u8, what: &'static str) -> Result<(), Broken> {
        if self.line.get(self.at) != Some(&byte) {
            return Err(self.broken(what));
        }
        self.at += 1;
        Ok(())
    }

    fn broken(&self, what: &'static str) -> Broken {
        Broken { reason: Reason::Shape, at: self.at.min(self.line.len()), what }
    }
}

fn unescape(mut text: &[u8], out: &mut Vec<u8>) {
    while let Some(at) = memchr::memchr(b'\\', text) {
        out.extend_from_slice(&text[..at]);
        text = &text[at + 1..];
        let (character, length) = match text {
            [b'u', digits @ ..] => unicode(digits),
            [b'n', ..] => ('\n', 1),
            [b't', ..] => ('\t', 1),
            [b'r', ..] => ('\r', 1),
            [b'b', ..] => ('\u{8}', 1),
            [b'f', ..] => ('\u{c}', 1),
            // What is no escape of JSON stays, as nginx's `\x22` does in a format that somebody quoted by hand.
            [byte @ (b'"' | b'\\' | b'/'), ..] => (char::from(*byte), 1),
            _ => ('\\', 0),
        };
        out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        text = &text[length..];
    }
    out.extend_from_slice(text);
}

/// The character behind `\u`, which may be written as two halves, and the length of it all.
fn unicode(digits: &[u8]) -> (char, usize) {
    let four = |digits: &[u8]| {
        let digits = std::str::from_utf8(digits.get(..4)?).ok()?;
        u32::from_str_radix(digits, 16).ok()
    };
    let Some(first) = four(digits) else { return (char::REPLACEMENT_CHARACTER, 1) };
    if let Some(rest) = digits[4..].strip_prefix(b"\\u")
        && let (0xd800..=0xdbff, Some(second @ 0xdc00..=0xdfff)) = (first, four(rest))
    {
        let both = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
        return (char::from_u32(both).unwrap_or(char::REPLACEMENT_CHARACTER), 11);
    }
    (char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER), 5)
}
