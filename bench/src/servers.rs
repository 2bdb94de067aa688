//! Servers as processes of their own, one core for the server that is measured and one for its load: what the
//! comparisons over a network share.

pub(crate) mod load;
mod others;
pub(crate) mod ours;
pub(crate) mod places;
pub(crate) mod report;
mod request;
pub(crate) mod rounds;
pub(crate) mod service;
pub(crate) mod tools;

use std::path::Path;

pub(crate) use request::Request;

/// For wrk and for our own clients.
pub(crate) const CONNECTIONS: usize = 32;

/// Throughput of one server in one round.
pub(crate) struct Flow {
    /// Requests or messages in a second.
    pub(crate) rate: f64,
    /// Processor time that the server used for each, in microseconds.
    pub(crate) cost: f64,
}

/// A command line out of its words.
pub(crate) fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

/// A path as a word of a command line.
pub(crate) fn text(path: &Path) -> String {
    path.display().to_string()
}
