//! The API for programs and for people.

use std::sync::LazyLock;

use bytes::Bytes;
use http::Response;
use http::header::{self, HeaderValue};
use http_body_util::Full;

use super::answer::Answered;
use super::write;

const DOCUMENT: &str = include_str!("openapi.json");

/// The OpenAPI document.
pub(super) fn document() -> Answered {
    static TEXT: LazyLock<Bytes> =
        LazyLock::new(|| DOCUMENT.replace("{version}", env!("CARGO_PKG_VERSION")).into());
    write::document(TEXT.clone())
}

/// A page that shows it.
pub(super) fn page() -> Answered {
    let mut response = Response::new(Full::new(Bytes::from_static(include_bytes!("docs.html"))));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    // Nothing but the page itself and what it asks of this server.
    let only_ours =
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'";
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(only_ours));
    response
}
