//! What the Worker says, or what keeps it from saying anything, in the words of a store.

use bytes::Bytes;
use hyper::StatusCode;
use threshold_core::{StoreError, StoreErrorKind};

/// Why there is no answer. Several callers may be told of it.
#[derive(Clone, Debug)]
pub(super) struct Trouble {
    pub(super) kind: StoreErrorKind,
    pub(super) detail: String,
}

impl Trouble {
    pub(super) fn new(kind: StoreErrorKind, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into() }
    }

    pub(super) fn unavailable(detail: impl Into<String>) -> Self {
        Self::new(StoreErrorKind::Unavailable, detail)
    }

    /// What keeps a connection from being made, and what to do about it.
    pub(super) fn not_connected(error: &std::io::Error, tls: bool) -> Self {
        let said = error.to_string();
        let has = |words: &str| said.contains(words);
        let (kind, remedy) = match error.kind() {
            std::io::ErrorKind::ConnectionRefused => {
                (StoreErrorKind::Unavailable, "see that it runs and listens there")
            }
            _ if has("failed to lookup address") => {
                (StoreErrorKind::Unavailable, "check the name of the host in the URL")
            }
            _ if has("invalid peer certificate") => (
                StoreErrorKind::Misconfigured,
                "name the certificate of the authority that vouches for it, ?ca=FILE",
            ),
            _ if tls => (
                StoreErrorKind::Unavailable,
                "see that it speaks TLS there; write durable-object+http:// if not",
            ),
            _ => (
                StoreErrorKind::Unavailable,
                "see that it speaks plain HTTP there; write durable-object+https:// for TLS",
            ),
        };
        Self::new(kind, format!("{said}; {remedy}"))
    }

    /// What a status other than success means.
    pub(super) fn refused(status: StatusCode, body: &Bytes) -> Self {
        let problem: Option<serde_json::Value> = serde_json::from_slice(body).ok();
        let detail = problem.as_ref().and_then(|problem| problem.get("detail")?.as_str());
        let text = String::from_utf8_lossy(body);
        let said = beginning(detail.unwrap_or(&text));
        let (kind, remedy) = match status.as_u16() {
            401 | 403 => (
                StoreErrorKind::Misconfigured,
                "; give the Worker's token, durable-object+https://TOKEN@HOST",
            ),
            409 => (StoreErrorKind::Misconfigured, ""),
            400 | 411 | 413 if detail.is_some() => {
                (StoreErrorKind::Misconfigured, "; deploy the Worker of this version")
            }
            429 => (StoreErrorKind::Unavailable, ""),
            300..=499 => (
                StoreErrorKind::Misconfigured,
                "; see that the URL names the Worker of workers/durable-object, with the path it is routed at",
            ),
            500 if detail.is_some() => (StoreErrorKind::Misconfigured, ""),
            _ => (StoreErrorKind::Unavailable, ""),
        };
        Self::new(kind, format!("the Worker answered {}: {said}{remedy}", status.as_u16()))
    }

    /// An answer that makes no sense.
    pub(super) fn nonsense(what: &str) -> Self {
        let detail = format!(
            "it answered {what}; see that what answers there is the Worker of workers/durable-object"
        );
        Self::new(StoreErrorKind::Corrupt, detail)
    }

    pub(super) fn during(&self, operation: &'static str) -> StoreError {
        StoreError::new(self.kind, operation, self.detail.clone())
    }
}

/// As much of what somebody said as is worth telling: it goes into logs, for every caller.
fn beginning(said: &str) -> &str {
    const MOST: usize = 200;
    said.char_indices().nth(MOST).map_or(said, |(end, _)| &said[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_stranger_says_is_cut_short() {
        let long = "é".repeat(1_000_000);
        for body in [long.clone(), format!("x{long}"), format!("{{\"detail\":\"x{long}\"}}")] {
            let trouble = Trouble::refused(StatusCode::BAD_GATEWAY, &Bytes::from(body));
            assert!(trouble.detail.len() < 600, "{}", trouble.detail.len());
        }
        let short = Trouble::refused(StatusCode::BAD_GATEWAY, &Bytes::from_static(b"no"));
        assert_eq!(short.detail, "the Worker answered 502: no");
    }
}
