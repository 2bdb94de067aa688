//! One source: its lines, read one after the other until there is a request to give.

use std::collections::VecDeque;
use std::ops::Range;

use super::archive::{Archive, Watch, is_too_wide, unpack};
use super::counts::{Broken, Counts, Reason, Sample, excerpt};
use super::draft::Draft;
use super::format::Format;
use super::lines::{Lines, Next};
use super::order::{FOLLOWERS, Order, Verdict};
use super::parser::{LOOKED_AT, Line, Parser, detect};
use super::{LogError, Options, Source};
use crate::request::Request;

/// A source while it is read.
pub(super) struct Stream {
    pub(super) name: String,
    pub(super) size: Option<u64>,
    pub(super) archive: Archive,
    pub(super) watch: Watch,
    pub(super) format: Option<Format>,
    pub(super) detected: bool,
    pub(super) line_count: u64,
    pub(super) request_count: u64,
    lines: Lines,
    parser: Option<Parser>,
    order: Order,
    /// The line that was read last.
    line: Range<usize>,
    draft: Draft,
    /// Its time, until it is given or left out.
    waiting: Option<u64>,
    /// Lines that leapt ahead, and how many of them are believed: then all of them are, until they are given.
    held: VecDeque<Held>,
    believed: usize,
}

/// A line that leapt ahead, kept while the next ones are read over it.
struct Held {
    line: Vec<u8>,
    number: u64,
    draft: Draft,
    at: u64,
}

/// What all sources share.
pub(super) struct Shared<'a> {
    pub(super) options: &'a Options,
    pub(super) counts: &'a mut Counts,
}

impl Stream {
    pub(super) fn open(source: Source, shared: &mut Shared<'_>) -> Result<Self, LogError> {
        let Source { name, bytes: size, read } = source;
        let unpacked = unpack(read).map_err(|error| LogError::Read { source_name: name.clone(), error })?;
        let mut stream = Self {
            name,
            size,
            archive: unpacked.archive,
            watch: unpacked.watch,
            format: None,
            detected: false,
            line_count: 0,
            request_count: 0,
            lines: Lines::new(unpacked.read),
            parser: None,
            order: Order::new(shared.options.jump, Vec::new()),
            line: 0..0,
            draft: Draft::default(),
            waiting: None,
            held: VecDeque::new(),
            believed: 0,
        };
        stream.look(shared)?;
        Ok(stream)
    }

    /// Looks at the first lines, which say what the format is and what time it is.
    fn look(&mut self, shared: &mut Shared<'_>) -> Result<(), LogError> {
        self.lines.head(LOOKED_AT);
        while self.lines.begins_too_long() {
            let next = self.lines.next();
            self.not_a_line(next, shared)?;
            self.lines.head(LOOKED_AT);
        }
        let head = self.lines.head(LOOKED_AT);
        if !head.iter().any(|line| line.first() != Some(&b'#')) {
            return Ok(());
        }
        let (format, parser) = choose(&self.name, &head, shared.options)?;
        let (_, times) = parser.try_on(&head);
        self.order = Order::new(shared.options.jump, times);
        self.detected = shared.options.format.is_none();
        (self.format, self.parser) = (Some(format), Some(parser));
        Ok(())
    }

    /// The time of the request that would be given next. None at the end.
    pub(super) fn head(&self) -> Option<u64> {
        self.next_held().map(|held| held.at).or(self.waiting)
    }

    fn next_held(&self) -> Option<&Held> {
        self.held.front().filter(|_| self.believed > 0)
    }

    /// Forgets what was given, and reads on until there is something to give, or nothing any more.
    pub(super) fn advance(&mut self, shared: &mut Shared<'_>) -> Result<(), LogError> {
        match self.believed {
            0 => self.waiting = None,
            _ => {
                self.held.pop_front();
                self.believed -= 1;
            }
        }
        if self.believed > 0 {
            return Ok(());
        }
        // The line that confirmed those before it is judged only now.
        if let Some(at) = self.waiting.take()
            && self.settle(at, shared)?
        {
            return Ok(());
        }
        while self.read_request(shared)? {
            if let Some(at) = self.draft.at
                && self.settle(at, shared)?
            {
                return Ok(());
            }
        }
        self.end(shared)
    }

    /// Decides about a request that was read. True if there is something to give.
    fn settle(&mut self, at: u64, shared: &mut Shared<'_>) -> Result<bool, LogError> {
        while self.held.back().is_some_and(|held| !self.order.confirms(held.at, at))
            && let Some(held) = self.held.pop_back()
        {
            self.out_of_time(&held.line, (held.number, held.at), &held.draft, shared)?;
        }
        if self.held.len() == FOLLOWERS {
            self.believe_held();
            self.waiting = Some(at);
            return Ok(true);
        }
        let verdict = if self.held.is_empty() { self.order.judge(at) } else { Verdict::Hold };
        match verdict {
            Verdict::Give => self.waiting = Some(at),
            Verdict::Leave => {
                let line = self.lines.bytes(&self.line).to_vec();
                self.out_of_time(&line, (self.lines.number(), at), &self.draft, shared)?;
            }
            Verdict::Hold => {
                let (line, draft) = (self.lines.bytes(&self.line).to_vec(), self.draft.clone());
                self.held.push_back(Held { line, number: self.lines.number(), draft, at });
            }
        }
        Ok(self.waiting.is_some())
    }

    fn believe_held(&mut self) {
        self.held.iter().for_each(|held| self.order.believe(held.at));
        self.believed = self.held.len();
    }

    /// Nothing follows lines that are still held. They speak for each other; the last one has nobody.
    fn end(&mut self, shared: &mut Shared<'_>) -> Result<(), LogError> {
        let before = self.held.len().checked_sub(2).map(|place| self.held[place].at);
        if self.held.back().is_some_and(|last| !self.order.ends_with(before, last.at))
            && let Some(last) = self.held.pop_back()
        {
            self.out_of_time(&last.line, (last.number, last.at), &last.draft, shared)?;
        }
        self.believe_held();
        Ok(())
    }

    /// Reads on until a line is a request. False at the end.
    fn read_request(&mut self, shared: &mut Shared<'_>) -> Result<bool, LogError> {
        loop {
            let line = match self.lines.next() {
                Next::Line(line) => line,
                Next::End => return self.ended(shared).map(|()| false),
                next => {
                    self.not_a_line(next, shared)?;
                    continue;
                }
            };
            self.line = line;
            self.line_count += 1;
            shared.counts.lines += 1;
            let bytes = self.lines.bytes(&self.line);
            if bytes.is_empty() {
                shared.counts.empty += 1;
                continue;
            }
            let parser = match &mut self.parser {
                Some(parser) => parser,
                None if bytes.first() == Some(&b'#') => {
                    shared.counts.comments += 1;
                    continue;
                }
                parser => {
                    let (format, chosen) = choose(&self.name, &[bytes], shared.options)?;
                    (self.format, self.detected) = (Some(format), shared.options.format.is_none());
                    parser.insert(chosen)
                }
            };
            match parser.read(&mut self.lines, &mut self.line, &mut self.draft) {
                Ok(Line::Request) => return Ok(true),
                Ok(Line::Comment) => shared.counts.comments += 1,
                Err(broken) => self.broken(broken, shared)?,
            }
        }
    }

    /// Counts a line that was too long or is cut.
    fn not_a_line(&mut self, next: Next, shared: &mut Shared<'_>) -> Result<(), LogError> {
        let (range, reason, what) = match next {
            Next::TooLong(range) => (range, Reason::TooLong, "64 KiB at most"),
            Next::Cut(range) => (range, Reason::Cut, "the rest of the archive"),
            Next::Line(_) | Next::End => return Ok(()),
        };
        self.line = range;
        self.line_count += 1;
        shared.counts.lines += 1;
        self.draft.clear();
        self.broken(Broken { reason, at: 0, what }, shared)
    }

    fn broken(&self, broken: Broken, shared: &mut Shared<'_>) -> Result<(), LogError> {
        let sample = || {
            let mut sample = self.sample(self.lines.bytes(&self.line), self.lines.number(), &self.draft);
            sample.column = (broken.at > 0 || broken.reason != Reason::Cut).then_some(broken.at + 1);
            sample.what = format!("{}, expected {}", broken.reason, broken.what);
            sample
        };
        if shared.options.strict {
            return Err(LogError::Line { sample: Box::new(sample()), remedy: broken.reason.remedy() });
        }
        shared.counts.broken_mut(broken.reason).add(sample);
        Ok(())
    }

    fn out_of_time(
        &self,
        line: &[u8],
        (number, at): (u64, u64),
        draft: &Draft,
        shared: &mut Shared<'_>,
    ) -> Result<(), LogError> {
        let sample = || {
            let mut sample = self.sample(line, number, draft);
            let at = threshold::Timestamp::from_micros(at);
            sample.what = format!("its time, {at}, is far from that of the lines around it");
            sample
        };
        if shared.options.strict {
            let remedy = "mend the line, or leave `--strict` out to pass such lines over";
            return Err(LogError::Line { sample: Box::new(sample()), remedy });
        }
        shared.counts.out_of_time.add(sample);
        Ok(())
    }

    /// The source gives no more: because it ended, or because it cannot be read on.
    fn ended(&mut self, shared: &mut Shared<'_>) -> Result<(), LogError> {
        let Some(error) = self.lines.failure() else { return Ok(()) };
        if self.watch.failed() {
            return Err(LogError::Read { source_name: self.name.clone(), error });
        }
        let what = self.archive.trouble(&error);
        if shared.options.strict && is_too_wide(&error) {
            return Err(LogError::TooWide { source_name: self.name.clone(), what });
        }
        if shared.options.strict {
            return Err(LogError::Damaged { source_name: self.name.clone(), archive: self.archive, error });
        }
        let mut sample = self.sample(b"", self.lines.number(), &Draft::default());
        sample.what = what;
        shared.counts.damaged.add(|| sample);
        Ok(())
    }

    fn sample(&self, line: &[u8], number: u64, draft: &Draft) -> Sample {
        Sample {
            source: self.name.clone(),
            line: number,
            column: None,
            what: String::new(),
            excerpt: excerpt(line),
            at: draft.at.map(threshold::Timestamp::from_micros),
            client: draft.client,
        }
    }

    /// A sample of what is given next, which is older than what was given before.
    pub(super) fn out_of_order(&self, latest: u64) -> Sample {
        let mut sample = self.given();
        let behind = latest.saturating_sub(self.head().unwrap_or(latest));
        sample.what = format!("{} older than a request before it", threshold::Span::from_micros(behind));
        sample
    }

    fn given(&self) -> Sample {
        match self.next_held() {
            Some(held) => self.sample(&held.line, held.number, &held.draft),
            None => self.sample(self.lines.bytes(&self.line), self.lines.number(), &self.draft),
        }
    }

    /// What is given next, at a time that may be later than its own; and whether it had to be repaired.
    pub(super) fn request(&mut self, at: u64) -> (Request<'_>, bool) {
        self.request_count += 1;
        match self.held.front_mut().filter(|_| self.believed > 0) {
            Some(held) => held.draft.request(&held.line, at),
            None => self.draft.request(self.lines.bytes(&self.line), at),
        }
    }
}

/// The format that the options name, or the one that the first lines have.
fn choose(name: &str, head: &[&[u8]], options: &Options) -> Result<(Format, Parser), LogError> {
    let first = head.iter().find(|line| line.first() != Some(&b'#')).copied().unwrap_or_default();
    let Some(format) = options.format else {
        return detect(head, options)
            .ok_or_else(|| LogError::Unrecognised { source_name: name.to_owned(), excerpt: excerpt(first) });
    };
    let parser = Parser::new(format, options, first).map_err(|missing| LogError::Columns {
        source_name: name.to_owned(),
        missing: missing.join(", "),
        excerpt: excerpt(first),
    })?;
    Ok((format, parser))
}
