//! Lines of a source, in one buffer whose size never changes.

use std::io::{self, Read};
use std::ops::Range;

use memchr::memchr;

/// The longest line that is read. Servers cut request lines and headers at 8 or 16 KiB each.
pub(super) const LONGEST: usize = 64 * 1024;
/// Two of the longest lines, so that one is always followed by the beginning of the next.
const BUFFER: usize = 2 * LONGEST;
/// The most lines that are read as one. A quote that nobody closed is not followed through a whole file.
const MOST_JOINED: u64 = 32;
/// How much of a line that is too long is kept, to be shown.
const SHOWN: usize = 256;

/// What comes next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// A line, which is in the buffer until the next is asked for, without the end of the line.
    Line(Range<usize>),
    /// A line that was too long, and was passed over. What it began with is in the buffer.
    TooLong(Range<usize>),
    /// The source ended within a line because it is damaged.
    Cut(Range<usize>),
    End,
}

/// Reads lines. Their numbers are counted from one.
pub(super) struct Lines {
    read: Box<dyn Read + Send>,
    buffer: Box<[u8]>,
    /// What was read and not yet given.
    start: usize,
    end: usize,
    number: u64,
    state: State,
}

#[derive(Debug)]
enum State {
    Reading,
    Ended,
    /// The error that ended it, until it is told.
    Broken(Option<io::Error>),
}

impl Lines {
    pub(super) fn new(read: Box<dyn Read + Send>) -> Self {
        let buffer = vec![0; BUFFER].into_boxed_slice();
        Self { read, buffer, start: 0, end: 0, number: 0, state: State::Reading }
    }

    /// The number of the line that was given last.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// The bytes of a line that was given last.
    pub(super) fn bytes(&self, range: &Range<usize>) -> &[u8] {
        self.buffer.get(range.clone()).unwrap_or_default()
    }

    /// Why it ended early, told once.
    pub(super) fn failure(&mut self) -> Option<io::Error> {
        if let State::Broken(error) = &mut self.state { error.take() } else { None }
    }

    pub(super) fn next(&mut self) -> Next {
        let mut searched = 0;
        loop {
            let waiting = &self.buffer[self.start..self.end];
            if let Some(length) = memchr(b'\n', &waiting[searched..]).map(|at| at + searched) {
                return self.give(length, 1);
            }
            searched = waiting.len();
            if searched > LONGEST {
                return self.pass_over();
            }
            if !self.fill() {
                return self.last();
            }
        }
    }

    /// Reads on from the line that was given last, until it and those after it are one that `fits`: a value may have ends of
    /// lines in it. Says where they are, or where that line itself is now, and whether they are one. If not, the lines after
    /// it are given as if nobody had looked at them.
    pub(super) fn join(
        &mut self,
        line: &Range<usize>,
        mut fits: impl FnMut(&[u8]) -> bool,
    ) -> (Range<usize>, bool) {
        let (own, first) = (line.len(), self.start - line.start);
        // Back to its beginning, so that it stays when more is read.
        self.start = line.start;
        let mut length = first;
        for more in 1..MOST_JOINED {
            let Some(next) = self.end_after(length) else { break };
            let mut all = self.start..self.start + next;
            if self.buffer[all.clone()].last() == Some(&b'\r') {
                all.end -= 1;
            }
            if fits(&self.buffer[all.clone()]) {
                self.start = (self.start + next + 1).min(self.end);
                self.number += more;
                return (all, true);
            }
            length = next + 1;
        }
        let line = self.start..self.start + own;
        self.start += first;
        (line, false)
    }

    /// How long what waits is up to the first end of a line after `from`; none if that is too long, or there is no more.
    fn end_after(&mut self, from: usize) -> Option<usize> {
        let mut searched = from;
        loop {
            let waiting = &self.buffer[self.start..self.end];
            if let Some(at) = waiting.get(searched..).and_then(|rest| memchr(b'\n', rest)) {
                return Some(searched + at).filter(|length| *length <= LONGEST);
            }
            let whole = waiting.len();
            if whole > LONGEST {
                return None;
            }
            searched = whole.max(from);
            if !self.fill() {
                return Some(whole).filter(|whole| *whole > from);
            }
        }
    }

    /// Gives `length` bytes and passes over the `after` bytes that end the line.
    fn give(&mut self, length: usize, after: usize) -> Next {
        let mut line = self.start..self.start + length;
        self.start = line.end + after;
        self.number += 1;
        if line.len() > LONGEST {
            return Next::TooLong(line.start..line.start + SHOWN);
        }
        if self.buffer[line.clone()].last() == Some(&b'\r') {
            line.end -= 1;
        }
        Next::Line(line)
    }

    /// What is left when nothing follows: a line without an end, or nothing.
    fn last(&mut self) -> Next {
        let length = self.end - self.start;
        if length == 0 {
            return Next::End;
        }
        match (self.give(length, 0), &self.state) {
            (Next::Line(line), State::Broken(_)) => Next::Cut(line),
            (next, _) => next,
        }
    }

    /// Passes over a line whose end is not in the buffer. It is not kept, but for what it began with.
    fn pass_over(&mut self) -> Next {
        self.buffer.copy_within(self.start..self.start + SHOWN, 0);
        self.number += 1;
        loop {
            (self.start, self.end) = (SHOWN, SHOWN);
            if !self.fill() {
                return Next::TooLong(0..SHOWN);
            }
            if let Some(at) = memchr(b'\n', &self.buffer[self.start..self.end]) {
                self.start += at + 1;
                return Next::TooLong(0..SHOWN);
            }
        }
    }

    /// Reads on. False if there is no more.
    fn fill(&mut self) -> bool {
        if !matches!(self.state, State::Reading) {
            return false;
        }
        // What is shown of a line that is too long stays where it is, before the start.
        if self.end == self.buffer.len() {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        loop {
            match self.read.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.state = State::Ended,
                Ok(length) => {
                    self.end += length;
                    return true;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => self.state = State::Broken(Some(error)),
            }
            return false;
        }
    }

    /// The next lines, without taking them: as many of `most` as fit the buffer. A pipe is waited for until it has given
    /// them or has ended.
    pub(super) fn head(&mut self, most: usize) -> Vec<&[u8]> {
        let count = |lines: &Self| {
            memchr::memchr_iter(b'\n', &lines.buffer[lines.start..lines.end]).take(most).count()
        };
        while count(self) < most && self.end < self.buffer.len() && self.fill() {}
        // A mark of the byte order, which some editors put before everything else.
        if (self.start, self.number) == (0, 0) && self.buffer[..self.end].starts_with(b"\xef\xbb\xbf") {
            self.start = 3;
        }
        let whole = !matches!(self.state, State::Reading);
        let waiting = &self.buffer[self.start..self.end];
        let complete = waiting.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let waiting = if whole { waiting } else { &waiting[..complete] };
        let trim = |line| <[u8]>::strip_suffix(line, b"\r").unwrap_or(line);
        waiting.split(|byte| *byte == b'\n').map(trim).filter(|line| !line.is_empty()).take(most).collect()
    }

    /// True if the first line has no end within the buffer: whoever wants to see the first lines has to pass it over.
    pub(super) fn begins_too_long(&self) -> bool {
        self.end == self.buffer.len() && memchr(b'\n', &self.buffer[self.start..]).is_none()
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.buffer.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives few bytes at a time.
    struct Drip(io::Cursor<Vec<u8>>, usize);

    impl Read for Drip {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let length = buffer.len().min(self.1);
            self.0.read(&mut buffer[..length])
        }
    }

    fn read(bytes: &[u8], drip: usize) -> Vec<(u64, String)> {
        let mut lines = Lines::new(Box::new(Drip(io::Cursor::new(bytes.to_vec()), drip)));
        let mut all = Vec::new();
        loop {
            let text = match lines.next() {
                Next::Line(range) => String::from_utf8_lossy(lines.bytes(&range)).into_owned(),
                Next::TooLong(range) => format!("too long: {}", lines.bytes(&range)[0] as char),
                Next::Cut(_) => "cut".to_owned(),
                Next::End => return all,
            };
            assert_eq!(lines.capacity(), BUFFER);
            all.push((lines.number(), text));
        }
    }

    #[test]
    fn lines_end_as_they_do_on_any_system() {
        for drip in [1, 2, 3, 1000] {
            let all = read(b"one\r\ntwo\n\nlast", drip);
            let texts: Vec<_> = all.iter().map(|(_, text)| text.as_str()).collect();
            assert_eq!(texts, ["one", "two", "", "last"]);
            assert_eq!(all.last().map(|(number, _)| *number), Some(4));
            assert!(read(b"", drip).is_empty());
        }
    }

    #[test]
    fn a_line_of_the_longest_length_is_read_and_a_longer_one_passed_over() {
        for length in [LONGEST, LONGEST + 1, BUFFER - 1, BUFFER, BUFFER + 1, 10_000_000] {
            for end in ["\n", "\nafter\n", ""] {
                let bytes = format!("before\n{}{end}", "x".repeat(length));
                let all = read(bytes.as_bytes(), 100_000);
                let second = if length > LONGEST { "too long: x".to_owned() } else { "x".repeat(length) };
                assert_eq!(all[1], (2, second), "{length}");
                assert_eq!(all.get(2).is_some(), end.len() > 1, "{length}");
            }
        }
    }

    #[test]
    fn the_first_lines_are_seen_before_they_are_taken() {
        let mut lines = Lines::new(Box::new(Drip(io::Cursor::new(b"\xef\xbb\xbfa\n\nb\nc".to_vec()), 2)));
        assert_eq!(lines.head(9), [b"a", b"b", b"c"]);
        assert_eq!(lines.next(), Next::Line(3..4));
    }
}
