//! Requests that the server makes by itself: to webhooks, whose addresses are looked at first, and to S3.
//!
//! One connection for each request, one answer of a bounded size, no redirects. A name is resolved once, here; the
//! connection goes to the addresses that were found then, so that nobody can put another in their place.

mod address;
mod guard;
mod send;
mod url;

#[cfg(test)]
pub(crate) use guard::Resolve;
pub(crate) use guard::{Blocked, Guard, system};
pub(crate) use send::{Asked, Failure, send};
pub(crate) use url::Url;
