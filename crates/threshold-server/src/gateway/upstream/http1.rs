//! HTTP/1.1 as it is spoken to applications: one request at a time on a connection, driven by the task that waits for the
//! answer.
//!
//! | module | holds |
//! | --- | --- |
//! | `request` | a request as bytes: its head, and its body in pieces |
//! | `response` | the head of an answer, and where its body ends |
//! | `chunks` | bodies that come in chunks |
//! | `exchange` | one request and its answer on one connection |
//!
//! All but `exchange` are pure: bytes in, bytes out.

mod chunks;
mod exchange;
mod request;
mod response;

use http::header::{self, HeaderName};

use crate::gateway::headers::{HOP, OURS};
use crate::gateway::lines::LONGEST;

pub(in crate::gateway) use exchange::{Arriving, Exchange, Head};
pub(super) use exchange::{Failed, Link};
pub(in crate::gateway) use request::Outgoing;
pub(in crate::gateway) use response::only_of_hop;

/// The most headers of an answer.
const MAX_HEADERS: usize = 100;
/// The longest head of an answer, and the longest trailers.
const MAX_HEAD: usize = LONGEST;

/// What an application sent is not HTTP/1.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed(pub(super) &'static str);

/// Whether a header may come behind a body: what frames and routes a message, belongs to one hop or is for the gateway to
/// say comes before it or not at all.
fn may_trail(name: &HeaderName) -> bool {
    let before = [
        header::CONTENT_LENGTH,
        header::HOST,
        header::TRAILER,
        header::AUTHORIZATION,
        header::COOKIE,
        header::SET_COOKIE,
    ];
    !before.contains(name) && !HOP.contains(name) && !OURS.contains(name)
}
