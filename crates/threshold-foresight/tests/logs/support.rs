//! Logs read to their end.

use std::io::Cursor;
use std::net::IpAddr;

use threshold_foresight::Request;
use threshold_foresight::logs::{Counts, Format, LogError, Logs, Options, Source};

/// A request that borrows from nothing.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Seen {
    pub(crate) micros: u64,
    pub(crate) client: IpAddr,
    pub(crate) method: String,
    pub(crate) host: Option<String>,
    pub(crate) target: String,
    pub(crate) bytes: Option<u64>,
    pub(crate) status: Option<u16>,
    pub(crate) agent: Option<String>,
    pub(crate) user: Option<String>,
    pub(crate) tenant: Option<String>,
    pub(crate) account: Option<String>,
    pub(crate) headers: Vec<(String, String)>,
}

impl From<Request<'_>> for Seen {
    fn from(request: Request<'_>) -> Self {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        Self {
            micros: request.at.as_micros(),
            client: request.client,
            method: request.method.to_owned(),
            host: owned(request.host),
            target: request.target.to_owned(),
            bytes: request.bytes,
            status: request.status,
            agent: owned(request.agent),
            user: owned(request.user),
            tenant: owned(request.tenant),
            account: owned(request.account),
            headers: request
                .headers
                .iter()
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
        }
    }
}

impl Seen {
    /// A `GET` of `target` that nothing else is known of.
    pub(crate) fn get(time: &str, client: &str, target: &str) -> Self {
        Self {
            micros: micros(time),
            client: client.parse().unwrap(),
            method: "GET".to_owned(),
            host: None,
            target: target.to_owned(),
            bytes: None,
            status: None,
            agent: None,
            user: None,
            tenant: None,
            account: None,
            headers: Vec::new(),
        }
    }
}

/// Hours and minutes of one day: `20:42:51.123`.
pub(crate) fn micros(time: &str) -> u64 {
    /// Midnight of the 16th of November 2026.
    const DAY: u64 = 1_794_787_200_000_000;
    let (clock, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let seconds = clock.split(':').fold(0, |sum, part| sum * 60 + part.parse::<u64>().unwrap());
    DAY + seconds * 1_000_000 + format!("{fraction:0<6}").parse::<u64>().unwrap()
}

/// What came of some logs.
#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) requests: Vec<Seen>,
    pub(crate) counts: Counts,
    pub(crate) formats: Vec<Option<Format>>,
}

pub(crate) fn source(name: &str, bytes: impl Into<Vec<u8>>) -> Source {
    let bytes = bytes.into();
    Source { name: name.to_owned(), bytes: Some(bytes.len() as u64), read: Box::new(Cursor::new(bytes)) }
}

pub(crate) fn read_all(sources: Vec<Source>, options: Options) -> Result<Read, LogError> {
    let mut logs = Logs::open(sources, options)?;
    let mut requests: Vec<Seen> = Vec::new();
    while let Some(request) = logs.next()? {
        requests.push(request.into());
    }
    assert!(requests.is_sorted_by_key(|request| request.micros), "time never goes back");
    assert!(logs.next()?.is_none(), "an end is an end");
    let counts = logs.counts().clone();
    let left =
        counts.requests + counts.empty + counts.comments + counts.out_of_time.count + counts.all_broken();
    assert_eq!(counts.lines, left, "every line is counted once: {counts:?}");
    assert_eq!(counts.requests, requests.len() as u64);
    assert_eq!(logs.sources().map(|source| source.lines).sum::<u64>(), counts.lines);
    assert_eq!(logs.sources().map(|source| source.requests).sum::<u64>(), counts.requests);
    assert!(logs.sources().all(|source| source.size.is_none_or(|size| source.read <= size)));
    let formats = logs.sources().map(|source| source.format).collect();
    Ok(Read { requests, counts, formats })
}

/// Reads one log as it comes, with nothing said about it.
pub(crate) fn read(bytes: impl Into<Vec<u8>>) -> Read {
    read_all(vec![source("access.log", bytes)], Options::default()).unwrap()
}

/// Reads one log in a format that is said.
pub(crate) fn read_as(format: Format, bytes: impl Into<Vec<u8>>) -> Read {
    let options = Options { format: Some(format), ..Options::default() };
    read_all(vec![source("access.log", bytes)], options).unwrap()
}

/// A line of the combined format at a time of that day.
pub(crate) fn combined(time: &str, target: &str) -> String {
    format!("192.0.2.1 - - [16/Nov/2026:{time} +0000] \"GET {target} HTTP/1.1\" 200 5 \"-\" \"-\"\n")
}
