//! Logs with a row of values in each line: CSV, and CloudFront's columns between tabs.

use memchr::memchr;

use super::counts::{Broken, Reason};
use super::draft::{Draft, in_line};
use super::fields::{Role, Take};
use super::found::Found;
use super::text::decode;
use super::time::Times;

/// What each column says.
#[derive(Clone, Debug)]
pub(super) struct Table {
    columns: Vec<Option<Take>>,
    takes: Vec<(Take, String)>,
    separator: u8,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    /// With the row of names, which may come again where files were put together.
    Csv {
        names: Vec<u8>,
    },
    CloudFront,
}

/// CloudFront's columns for a file that has lost its first lines.
const CLOUDFRONT: &str = "date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status cs(Referer) \
    cs(User-Agent) cs-uri-query cs(Cookie) x-edge-result-type x-edge-request-id x-host-header cs-protocol cs-bytes \
    time-taken x-forwarded-for";

/// What is missing where a value goes on in the next line.
pub(super) const CLOSING_QUOTE: &str = "a closing quote";

const SEPARATORS: [u8; 4] = [b',', b';', b'\t', b'|'];

impl Table {
    pub(super) fn cloudfront(takes: Vec<(Take, String)>) -> Self {
        let columns = columns(CLOUDFRONT.split_whitespace(), &takes);
        Self { columns, takes, separator: b'\t', kind: Kind::CloudFront }
    }

    /// A table whose first row is this. Columns are called by the names in it, or by their numbers, and then it may be a row
    /// like all others. What is missing is said if the columns are not enough for a request.
    pub(super) fn csv(first: &[u8], takes: Vec<(Take, String)>) -> Result<Self, Vec<&'static str>> {
        let count = |separator: &u8| first.iter().filter(|byte| *byte == separator).count();
        let separator = SEPARATORS.into_iter().rev().max_by_key(count).unwrap_or(b',');
        let names: Vec<String> =
            row(first, separator).map(|name| String::from_utf8_lossy(&name).trim().to_owned()).collect();
        let numbered: Vec<String> = (1..=names.len()).map(|number| number.to_string()).collect();
        let mut columns = columns(names.iter().map(String::as_str), &takes);
        let by_number = self::columns(numbered.iter().map(String::as_str), &takes);
        columns.iter_mut().zip(by_number).for_each(|(column, number)| *column = number.or(column.take()));
        let table = Self { columns, takes, separator, kind: Kind::Csv { names: first.to_vec() } };
        let missing = table.missing();
        if missing.is_empty() { Ok(table) } else { Err(missing) }
    }

    fn missing(&self) -> Vec<&'static str> {
        let has =
            |role| self.columns.iter().flatten().any(|take| matches!(take, Take::Role(is, _) if *is == role));
        let needed = [
            ("time", has(Role::Time)),
            ("client", has(Role::Client)),
            ("target or request", has(Role::Target) || has(Role::Request)),
        ];
        needed.into_iter().filter(|(_, has)| !has).map(|(name, _)| name).collect()
    }

    /// Looks at a comment, which may say what the columns are.
    pub(super) fn comment(&mut self, line: &[u8]) {
        if let (Kind::CloudFront, Some(names)) = (&self.kind, line.strip_prefix(b"#Fields:")) {
            let names = String::from_utf8_lossy(names);
            self.columns = columns(names.split_whitespace(), &self.takes);
        }
    }

    /// True for a row of names, which may come again.
    pub(super) fn is_names(&self, line: &[u8]) -> bool {
        let Kind::Csv { names } = &self.kind else { return false };
        names == line && (!self.is_numbered() || self.time_is_none(line))
    }

    fn is_numbered(&self) -> bool {
        let by_number = |(take, name): &(Take, String)| {
            matches!(take, Take::Role(Role::Time, _)) && name.bytes().all(|byte| byte.is_ascii_digit())
        };
        self.takes.iter().any(by_number)
    }

    /// A first row that has no time where times are is one of names.
    fn time_is_none(&self, line: &[u8]) -> bool {
        let column = self.columns.iter().position(|take| matches!(take, Some(Take::Role(Role::Time, _))));
        let value = column.and_then(|column| row(line, self.separator).nth(column)).unwrap_or_default();
        Times::default().any(&value).is_none()
    }

    pub(super) fn parse(&self, line: &[u8], times: &mut Times, draft: &mut Draft) -> Result<(), Broken> {
        let (mut found, mut at, mut count) = (Found::default(), 0, 0);
        while at <= line.len() {
            let value = self.value(line, at)?;
            if let Some(Some(take)) = self.columns.get(count) {
                let piece = match (&self.kind, take) {
                    _ if value.doubled => undoubled(&line[value.start..value.end], draft),
                    (Kind::CloudFront, Take::Role(Role::Agent, _) | Take::Header(_)) => {
                        decoded(&line[value.start..value.end], draft)
                    }
                    _ => in_line(value.start..value.end),
                };
                found.take(take, piece, line, draft);
            }
            (at, count) = (value.next, count + 1);
        }
        // A row that is cut has fewer values; one more than there are names is a separator that nobody quoted.
        if count < self.columns.len() || matches!(self.kind, Kind::Csv { .. }) && count > self.columns.len() {
            return Err(Broken {
                reason: Reason::Shape,
                at: line.len(),
                what: "as many values as there are columns",
            });
        }
        found.finish(line, times, draft)
    }

    /// The value that begins at `at`.
    fn value(&self, line: &[u8], at: usize) -> Result<Value, Broken> {
        let rest = &line[at..];
        if !matches!(self.kind, Kind::Csv { .. }) || rest.first() != Some(&b'"') {
            let end = memchr(self.separator, rest).map_or(line.len(), |length| at + length);
            return Ok(Value { start: at, end, next: end + 1, doubled: false });
        }
        let (end, doubled) =
            closing(line, at + 1).ok_or(Broken { reason: Reason::Shape, at, what: CLOSING_QUOTE })?;
        match line.get(end + 1) {
            None => Ok(Value { start: at + 1, end, next: line.len() + 1, doubled }),
            Some(byte) if *byte == self.separator => Ok(Value { start: at + 1, end, next: end + 2, doubled }),
            Some(_) => Err(Broken { reason: Reason::Shape, at: end + 1, what: "a separator behind a quote" }),
        }
    }
}

struct Value {
    start: usize,
    end: usize,
    next: usize,
    /// It has quotes in it, each of which is written twice.
    doubled: bool,
}

/// The quote that ends a value, and whether there are others in it.
fn closing(line: &[u8], mut at: usize) -> Option<(usize, bool)> {
    let mut doubled = false;
    loop {
        at += memchr(b'"', line.get(at..)?)?;
        if line.get(at + 1) != Some(&b'"') {
            return Some((at, doubled));
        }
        (at, doubled) = (at + 2, true);
    }
}

fn undoubled(text: &[u8], draft: &mut Draft) -> crate::request::Piece {
    let (start, beside) = draft.writing();
    let mut rest = text;
    while let Some(quote) = memchr(b'"', rest) {
        beside.extend_from_slice(&rest[..=quote]);
        rest = rest.get(quote + 2..).unwrap_or_default();
    }
    beside.extend_from_slice(rest);
    draft.since(start)
}

fn decoded(text: &[u8], draft: &mut Draft) -> crate::request::Piece {
    let (start, beside) = draft.writing();
    decode(text, b'%', beside);
    draft.since(start)
}

/// What to do with each of the columns that are called so.
fn columns<'a>(names: impl Iterator<Item = &'a str>, takes: &[(Take, String)]) -> Vec<Option<Take>> {
    let take = |name: &str| {
        takes.iter().find(|(_, field)| field.eq_ignore_ascii_case(name)).map(|(take, _)| take.clone())
    };
    names.map(take).collect()
}

/// The values of a row of names.
fn row(line: &[u8], separator: u8) -> impl Iterator<Item = Vec<u8>> {
    let unquoted = |value: &[u8]| value.trim_ascii().iter().copied().filter(|byte| *byte != b'"').collect();
    line.split(move |byte| *byte == separator).map(unquoted)
}
