//! One request of a visitor.

use std::net::IpAddr;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST, USER_AGENT};
use http::{Method, Request};
use http_body_util::Full;

/// What is asked, and by whom: a proxy that the policy trusts says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Visit {
    pub(super) address: IpAddr,
    pub(super) tenant: &'static str,
    pub(super) user: Option<String>,
    pub(super) agent: &'static str,
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) body: String,
}

impl Visit {
    /// The request, to whoever is called `host`.
    pub(super) fn request(self, host: &str) -> http::Result<Request<Full<Bytes>>> {
        let request = Request::builder()
            .method(self.method)
            .uri(self.path)
            .header(HOST, host)
            .header(USER_AGENT, self.agent)
            .header("x-forwarded-for", self.address.to_string())
            .header("x-tenant", self.tenant)
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        let request = match self.user {
            Some(user) => request.header("x-user", user),
            None => request,
        };
        request.body(Full::new(Bytes::from(self.body)))
    }
}
