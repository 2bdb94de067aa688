//! Addresses of applications.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use http::Uri;

/// Where an application is.
#[derive(Clone, Debug)]
pub(in crate::gateway) struct Target {
    pub(super) speaks: Speaks,
    /// The host's name or address, without brackets.
    pub(super) host: String,
    pub(super) port: u16,
    /// Its place among all that were ever named.
    pub(super) number: usize,
}

/// How an application is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Speaks {
    Http1,
    /// HTTP/1.1 within TLS.
    Tls,
    /// HTTP/2 from the first byte.
    Http2,
}

/// Where the instances of one application are; they take turns.
#[derive(Debug)]
pub(in crate::gateway) struct Targets {
    all: Vec<Target>,
    next: AtomicUsize,
}

impl Targets {
    pub(super) fn new(urls: &[&str]) -> Result<Self, String> {
        let all = urls.iter().map(|url| Target::read(url)).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { all, next: AtomicUsize::new(0) })
    }

    /// Whose turn it is.
    pub(super) fn turn(&self) -> usize {
        match self.all.len() {
            1 => 0,
            count => self.next.fetch_add(1, Ordering::Relaxed) % count,
        }
    }

    /// The one whose turn it is.
    pub(super) fn first(&self, turn: usize) -> &Target {
        &self.all[turn]
    }

    /// All of them, beginning with the one whose turn it is.
    pub(super) fn from(&self, turn: usize) -> impl Iterator<Item = &Target> {
        let (before, after) = self.all.split_at(turn);
        after.iter().chain(before)
    }
}

impl Target {
    fn read(url: &str) -> Result<Self, String> {
        let wrong =
            || format!("{url:?} is no address of an application; write one such as http://127.0.0.1:3000");
        let uri: Uri = url.parse().map_err(|_| wrong())?;
        let (speaks, port) = match uri.scheme_str() {
            Some("http") => (Speaks::Http1, 80),
            Some("https") => (Speaks::Tls, 443),
            Some("h2c") => (Speaks::Http2, 80),
            _ => return Err(wrong()),
        };
        let host = uri.host().ok_or_else(wrong)?.trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = uri.port_u16().unwrap_or(port);
        let number = number(speaks, &host, port);
        Ok(Self { speaks, host, port, number })
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let scheme = match self.speaks {
            Speaks::Http1 => "http",
            Speaks::Tls => "https",
            Speaks::Http2 => "h2c",
        };
        match self.host.contains(':') {
            true => write!(f, "{scheme}://[{}]:{}", self.host, self.port),
            false => write!(f, "{scheme}://{}:{}", self.host, self.port),
        }
    }
}

/// The number of an address: the same for the same one, so that connections outlive a change of the policy.
fn number(speaks: Speaks, host: &str, port: u16) -> usize {
    static ALL: Mutex<Vec<(Speaks, String, u16)>> = Mutex::new(Vec::new());
    let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    let same = |other: &(Speaks, String, u16)| other.0 == speaks && other.1 == host && other.2 == port;
    all.iter().position(same).unwrap_or_else(|| {
        all.push((speaks, host.to_owned(), port));
        all.len() - 1
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_shown_as_they_are_meant() {
        let shown = |url: &str| Target::read(url).map(|target| target.to_string());
        assert_eq!(shown("http://127.0.0.1:3000/"), Ok("http://127.0.0.1:3000".to_owned()));
        assert_eq!(shown("https://example.com"), Ok("https://example.com:443".to_owned()));
        assert_eq!(shown("h2c://[::1]:50051"), Ok("h2c://[::1]:50051".to_owned()));
        assert!(shown("ftp://x").is_err() && shown("x").is_err());
    }

    #[test]
    fn instances_take_turns_and_keep_their_numbers() {
        let targets = Targets::new(&["http://turn-a:1", "http://turn-b:1"]).unwrap();
        let order = || targets.from(targets.turn()).map(|target| target.host.clone()).collect::<Vec<_>>();
        assert_eq!([order(), order()], [["turn-a", "turn-b"], ["turn-b", "turn-a"]]);
        let again = Targets::new(&["http://turn-b:1"]).unwrap();
        assert_eq!(again.all[0].number, targets.all[1].number);
    }
}
