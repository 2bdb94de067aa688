//! One request: of the past, as a log has it, or of a scenario.

use std::net::IpAddr;

use threshold::Timestamp;

/// A request, when it came and what is known of it. It borrows from the line that it was read from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Request<'a> {
    /// When it came.
    pub at: Timestamp,
    /// The client's address, as whoever wrote the log saw it.
    pub client: IpAddr,
    /// The method.
    pub method: &'a str,
    /// The host that it named.
    pub host: Option<&'a str>,
    /// The path and the query, as sent.
    pub target: &'a str,
    /// The length of its body, where that is known.
    pub bytes: Option<u64>,
    /// What it was answered with.
    pub status: Option<u16>,
    /// The browser or program that sent it, by its own word.
    pub agent: Option<&'a str>,
    /// The user, by the word of whoever wrote the log.
    pub user: Option<&'a str>,
    /// The tenant, by the same word.
    pub tenant: Option<&'a str>,
    /// The account that a login names.
    pub account: Option<&'a str>,
    /// The header fields that the log has, by their names.
    pub headers: &'a [(&'a str, &'a str)],
}
