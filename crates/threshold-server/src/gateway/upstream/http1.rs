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

pub(in crate::gateway) use exchange::{Arriving, Exchange};
pub(super) use exchange::{Failed, Head, Link};
pub(super) use request::Outgoing;

/// The most headers of an answer.
const MAX_HEADERS: usize = 100;
/// The longest head of an answer, and the longest trailers.
const MAX_HEAD: usize = 64 * 1024;

/// What an application sent is not HTTP/1.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed(pub(super) &'static str);
