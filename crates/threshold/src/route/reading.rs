//! The ways in which servers read one spelling of a path.

use smallvec::SmallVec;

/// Room for one or several readings. Longer ones go to the heap.
type Buffer = SmallVec<[u8; 256]>;

/// Stands for a `/` that does not separate. Paths hold no NUL and literals no control characters, so it can
/// only be matched by `*` and `**`.
const KEPT_SLASH: u8 = 0;

/// How one family of servers reads a path.
struct Reading {
    /// Whether `%2f`, and `%5c` where `\` does, separate segments.
    escapes_separate: bool,
    /// Whether `\` separates segments.
    backslash_separates: bool,
    /// Whether `;` and what follows it are cut from a segment.
    cut_parameters: bool,
    /// Whether `.` and `..` are resolved.
    resolve_dots: bool,
    /// Whether `..` after `//` takes back only the empty segment, and `//` at the start introduces a host.
    empty_is_a_segment: bool,
}

/// First comes the one that the rest of the product calls the path.
const READINGS: [Reading; 4] = [
    Reading {
        escapes_separate: true,
        backslash_separates: true,
        cut_parameters: true,
        resolve_dots: true,
        empty_is_a_segment: false,
    },
    // nginx, Apache, Go's path cleaning.
    Reading {
        escapes_separate: true,
        backslash_separates: false,
        cut_parameters: false,
        resolve_dots: true,
        empty_is_a_segment: false,
    },
    // What the URL standard prescribes, and so every JavaScript runtime does.
    Reading {
        escapes_separate: false,
        backslash_separates: true,
        cut_parameters: false,
        resolve_dots: true,
        empty_is_a_segment: true,
    },
    // Routers that split what they are given: axum, Express.
    Reading {
        escapes_separate: false,
        backslash_separates: false,
        cut_parameters: false,
        resolve_dots: false,
        empty_is_a_segment: false,
    },
];

/// A path in the readings that differ, one behind the other.
#[derive(Clone, Debug)]
pub(super) struct Readings {
    bytes: Buffer,
    /// Where each reading ends.
    ends: SmallVec<[usize; READINGS.len()]>,
}

impl Readings {
    /// Reads `raw`, whose escapes are known to be valid: in every way if it is `doubtful`, else in the first.
    pub(super) fn of(raw: &[u8], doubtful: bool) -> Self {
        let mut readings = Self { bytes: Buffer::new(), ends: SmallVec::new() };
        let ways = if doubtful { &READINGS[..] } else { &READINGS[..1] };
        for way in ways {
            readings.add(raw, way);
        }
        readings
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(&0).chain(&self.ends);
        starts.zip(&self.ends).map(|(&start, &end)| &self.bytes[start..end])
    }

    /// The reading that is the path's normal form.
    pub(super) fn first(&self) -> &[u8] {
        self.iter().next().unwrap_or_default()
    }

    /// Adds one reading, unless it equals an earlier one.
    fn add(&mut self, raw: &[u8], way: &Reading) {
        let start = self.bytes.len();
        Reader { out: &mut self.bytes, start, segment: start, way }.read(raw);
        if self.iter().any(|earlier| earlier == &self.bytes[start..]) {
            self.bytes.truncate(start);
        } else {
            self.ends.push(self.bytes.len());
        }
    }
}

/// Writes one reading to the end of a buffer, each segment with a `/` before it.
struct Reader<'a> {
    out: &'a mut Buffer,
    /// Where the reading starts.
    start: usize,
    /// Where the segment in work starts, with its `/`.
    segment: usize,
    way: &'a Reading,
}

impl Reader<'_> {
    fn read(&mut self, raw: &[u8]) {
        let raw = if self.way.empty_is_a_segment { after_host(raw) } else { raw };
        let mut in_parameters = false;
        self.out.push(b'/');
        for (byte, escaped) in decoded(raw) {
            if self.separates(byte, escaped) {
                self.end_segment();
                in_parameters = false;
            } else if in_parameters || (byte == b';' && self.way.cut_parameters) {
                in_parameters = true;
            } else {
                self.out.push(if byte == b'/' { KEPT_SLASH } else { byte });
            }
        }
        self.end_segment();
        // Every segment starts with the `/` that ends the one before, so one is left over.
        self.out.truncate(self.segment);
    }

    fn separates(&self, byte: u8, escaped: bool) -> bool {
        let separator = byte == b'/' || (byte == b'\\' && self.way.backslash_separates);
        separator && (!escaped || self.way.escapes_separate)
    }

    /// Keeps or drops the segment in work, and begins the next.
    fn end_segment(&mut self) {
        match &self.out[self.segment + 1..] {
            b"" if !self.way.empty_is_a_segment => self.out.truncate(self.segment),
            b"." if self.way.resolve_dots => self.out.truncate(self.segment),
            b".." if self.way.resolve_dots => self.take_back(),
            _ => {}
        }
        self.segment = self.out.len();
        self.out.push(b'/');
    }

    /// Drops the segment in work and the one before it.
    fn take_back(&mut self) {
        let before = &self.out[self.start..self.segment];
        let parent = before.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
        self.out.truncate(self.start + parent);
    }
}

/// What follows the host, if two separators at the start introduce one.
fn after_host(raw: &[u8]) -> &[u8] {
    let is_separator = |byte: &u8| matches!(byte, b'/' | b'\\');
    let leading = raw.iter().take_while(|byte| is_separator(byte)).count();
    // The first separator of an ordinary path would otherwise count as an empty segment.
    let Some(host) = raw.get(leading..).filter(|_| leading > 1) else {
        return raw.get(1..).unwrap_or_default();
    };
    let end = host.iter().position(is_separator);
    end.map_or(b"", |end| &host[end + 1..])
}

/// The bytes of `raw` with escapes decoded, and whether each was one. A broken escape stands for itself.
pub(super) fn decoded(raw: &[u8]) -> impl Iterator<Item = (u8, bool)> {
    let mut rest = raw;
    std::iter::from_fn(move || {
        let (&byte, after) = rest.split_first()?;
        let escape = (byte == b'%').then(|| escape(after)).flatten();
        rest = if escape.is_some() { &after[2..] } else { after };
        Some((escape.unwrap_or(byte), escape.is_some()))
    })
}

/// The byte that two hexadecimal digits stand for.
pub(super) fn escape(digits: &[u8]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let [high, low, ..] = digits else { return None };
    Some(digit(*high)? << 4 | digit(*low)?)
}

/// The segments of a path. None is empty.
#[derive(Clone, Debug)]
pub struct Segments<'a> {
    rest: &'a [u8],
}

impl<'a> Segments<'a> {
    pub(super) const fn of(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }
}

impl<'a> Iterator for Segments<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        while let [b'/', rest @ ..] = self.rest {
            self.rest = rest;
        }
        let rest = self.rest;
        if rest.is_empty() {
            return None;
        }
        let length = rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len());
        self.rest = &rest[length..];
        Some(&rest[..length])
    }
}
