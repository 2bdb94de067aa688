//! Access logs become requests.
//!
//! A [`Source`] is whatever can be read: a file, a pipe. What it is packed as ([`Archive`]) and written in ([`Format`]) is
//! told by what is in it. [`Logs`] gives the requests of several sources in the order of time, one at a time, and keeps a
//! buffer of a fixed size for each source and nothing else: logs may be of any length.
//!
//! Nothing in a log is an error unless [`Options::strict`] says so. What is no request is counted ([`Counts`]), and a few samples
//! of it are kept. Bytes that are no UTF-8 do not lose a line: they stand as U+FFFD in the request.
//!
//! **Times.** Requests are given at times that never go back. One that is a little older than one before it is given at the time of
//! that one, and counted. A line that leaps ahead by more than [`Options::jump`] is held until three more lines of its source
//! show that time went on there; otherwise it is left out, as is one that is further behind. At the end of a log, where
//! nothing follows, and at its beginning, a leap of up to 24 times that is believed.

mod address;
mod alb;
mod archive;
mod clf;
mod counts;
mod draft;
mod envoy;
mod fields;
mod format;
mod found;
mod haproxy;
mod json;
mod lines;
mod order;
mod parser;
mod stream;
mod table;
mod target;
mod text;
mod time;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;
use std::io::{self, Read};

use threshold::Span;

pub use archive::Archive;
pub use counts::{Count, Counts, Reason, SAMPLES, Sample};
pub use fields::{BadFields, Fields};
pub use format::{Format, UnknownFormat};
use stream::{Shared, Stream};

use crate::request::Request;

/// Something to read a log from.
pub struct Source {
    /// What it is called: the path of a file, or `-`.
    pub name: String,
    /// Its size, where that is known.
    pub bytes: Option<u64>,
    /// What is in it.
    pub read: Box<dyn Read + Send>,
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").field("name", &self.name).field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

/// How logs are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The format of all sources; told by their first lines if it is not given.
    pub format: Option<Format>,
    /// Which field says what, where fields have names.
    pub fields: Fields,
    /// True if the first line that is no request is an error.
    pub strict: bool,
    /// How far time may jump from one line to the next before it has to be confirmed.
    pub jump: Span,
    /// How many seconds ahead of UTC times without a zone are: HAProxy writes such.
    pub ahead_secs: i32,
}

impl Default for Options {
    fn default() -> Self {
        Self { format: None, fields: Fields::default(), strict: false, jump: Span::HOUR, ahead_secs: 0 }
    }
}

/// Why logs cannot be read, or not be read on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The source itself failed.
    #[error("{source_name}: it cannot be read: {error}")]
    Read {
        /// The name of the source.
        source_name: String,
        /// Why.
        error: io::Error,
    },
    /// No format fits the first lines.
    #[error(
        "{source_name}: its first lines are of no format that is known: {excerpt}\n\
             name one with `--format`, of {}; for other JSON lines and tables say which field is which: \
             `--format json --fields time=ts,client=ip,method=verb,target=url`",
        Format::names()
    )]
    Unrecognised {
        /// The name of the source.
        source_name: String,
        /// The first line.
        excerpt: String,
    },
    /// A table does not have the columns that a request needs.
    #[error(
        "{source_name}: no column for {missing} in the first row: {excerpt}\n\
             name the columns, or their numbers if that row has no names: `--fields time=1,client=2,target=4`"
    )]
    Columns {
        /// The name of the source.
        source_name: String,
        /// What there is no column for.
        missing: String,
        /// The first row.
        excerpt: String,
    },
    /// A field map for a format whose fields have no names.
    #[error(
        "the fields of `{format}` have fixed places, so that `--fields` has no meaning for it; leave one of them out"
    )]
    FieldsOfPlaces {
        /// The format.
        format: Format,
    },
    /// A line is no request, and the options are strict.
    #[error("{sample}\n{remedy}")]
    Line {
        /// The line.
        sample: Box<Sample>,
        /// What to do about it.
        remedy: &'static str,
    },
    /// An archive needs more memory than is given to it, and the options are strict.
    #[error("{source_name}: {what}")]
    TooWide {
        /// The name of the source.
        source_name: String,
        /// What it needs, and what to do about that.
        what: String,
    },
    /// An archive is damaged, and the options are strict.
    #[error(
        "{source_name}: the {archive} archive is damaged: {error}\n\
             fetch it again, or leave `--strict` out to use what came before"
    )]
    Damaged {
        /// The name of the source.
        source_name: String,
        /// What it is packed as.
        archive: Archive,
        /// What the decoder says.
        error: io::Error,
    },
}

/// What is known of a source by now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceInfo<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its size, where that is known.
    pub size: Option<u64>,
    /// How much of it was read, as it is packed.
    pub read: u64,
    /// What it is packed as.
    pub archive: Archive,
    /// What it is written in. None if there was no line to tell it by.
    pub format: Option<Format>,
    /// True if that was told by its lines.
    pub detected: bool,
    /// Its lines.
    pub lines: u64,
    /// Its requests.
    pub requests: u64,
}

/// The requests of some sources, in the order of time.
pub struct Logs {
    options: Options,
    counts: Counts,
    streams: Vec<Stream>,
    /// The time of what each source would give next, the earliest first.
    heads: BinaryHeap<Reverse<(u64, usize)>>,
    /// The sources whose next request is not known: all of them at first, and the one that gave the last.
    behind: Vec<usize>,
    /// The time of the last request.
    latest: u64,
}

impl Logs {
    /// Looks at the first lines of each source.
    ///
    /// # Errors
    ///
    /// If a source cannot be read, if its format is not known, or if the options contradict each other.
    pub fn open(sources: Vec<Source>, options: Options) -> Result<Self, LogError> {
        if let Some(format) =
            options.format.filter(|format| !format.has_names() && !options.fields.is_empty())
        {
            return Err(LogError::FieldsOfPlaces { format });
        }
        let mut counts = Counts::default();
        let mut shared = Shared { options: &options, counts: &mut counts };
        let open = |source| Stream::open(source, &mut shared);
        let streams = sources.into_iter().map(open).collect::<Result<Vec<_>, _>>()?;
        let behind = (0..streams.len()).collect();
        Ok(Self { options, counts, streams, heads: BinaryHeap::new(), behind, latest: 0 })
    }

    /// The next request. None when all sources have ended.
    ///
    /// # Errors
    ///
    /// If a source cannot be read on, or if a line is no request and the options are strict.
    #[expect(clippy::should_implement_trait, reason = "what it gives borrows from it")]
    pub fn next(&mut self) -> Result<Option<Request<'_>>, LogError> {
        while let Some(index) = self.behind.pop() {
            let mut shared = Shared { options: &self.options, counts: &mut self.counts };
            self.streams[index].advance(&mut shared)?;
            self.heads.extend(self.streams[index].head().map(|at| Reverse((at, index))));
        }
        let Some(Reverse((at, index))) = self.heads.pop() else { return Ok(None) };
        self.behind.push(index);
        let stream = &mut self.streams[index];
        self.counts.requests += 1;
        if at < self.latest {
            self.counts.out_of_order.add(|| stream.out_of_order(self.latest));
        }
        self.latest = self.latest.max(at);
        let (request, repaired) = stream.request(self.latest);
        self.counts.repaired += u64::from(repaired);
        Ok(Some(request))
    }

    /// What became of the lines that were read by now.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// What is known of each source by now.
    pub fn sources(&self) -> impl Iterator<Item = SourceInfo<'_>> {
        self.streams.iter().map(|stream| SourceInfo {
            name: &stream.name,
            size: stream.size,
            read: stream.watch.bytes(),
            archive: stream.archive,
            format: stream.format,
            detected: stream.detected,
            lines: stream.line_count,
            requests: stream.request_count,
        })
    }
}

impl fmt::Debug for Logs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sources: Vec<_> = self.sources().collect();
        f.debug_struct("Logs")
            .field("sources", &sources)
            .field("counts", &self.counts)
            .finish_non_exhaustive()
    }
}
