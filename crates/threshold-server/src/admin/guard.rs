//! Who is let in: by the host and the page that it comes from, by its token, and by how often it asks.

use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::Full;
use threshold::{MemoryStore, RateLimiter};
use threshold_http::Answer;
use tokio::sync::watch;

use super::tokens::{Caller, Made, Scope, TokenChange, Tokens};
use crate::keys::bearer_of;

/// How many wrong tokens an address may show, and how often a token may be used.
const WRONG: &str = "10/min";
const CALLS: &str = "600/min";
/// What is remembered of those, in bytes.
const ROOM: usize = 4 << 20;

/// Lets callers in or keeps them out.
pub(super) struct Guard {
    tokens: Tokens,
    wrong: RateLimiter<MemoryStore>,
    calls: RateLimiter<MemoryStore>,
    /// Told when tokens were made or revoked.
    changed: watch::Sender<()>,
}

/// What is told to who is kept out.
pub(super) type Refused = Box<Response<Full<Bytes>>>;

impl Guard {
    pub(super) fn new(tokens: Tokens) -> Result<Self, String> {
        let failed = |error: String| format!("--admin: {error}; try again");
        let store =
            MemoryStore::builder().max_bytes(ROOM).build().map_err(|error| failed(error.to_string()))?;
        let limiter = |id, rate| {
            let built = RateLimiter::builder(id).rate(rate).store(store.clone()).build();
            built.map_err(|error| failed(error.to_string()))
        };
        let (wrong, calls) = (limiter("admin-wrong", WRONG)?, limiter("admin-calls", CALLS)?);
        Ok(Self { tokens, wrong, calls, changed: watch::Sender::new(()) })
    }

    /// Who asks, if it may do what needs `scope`.
    ///
    /// A right token is let in however many wrong ones came from its address: nobody can keep an operator out by showing
    /// wrong ones, and tokens are too long to be found by trying.
    pub(super) fn admit(&self, peer: IpAddr, headers: &HeaderMap, scope: Scope) -> Result<Caller, Refused> {
        let shown = headers.get(header::AUTHORIZATION).and_then(|value| bearer_of(value.as_bytes()));
        let Some(token) = shown else {
            let detail = "this needs a token; send `Authorization: Bearer TOKEN`, and make one with `threshold token create`";
            return Err(unauthorized(detail));
        };
        let Some(caller) = self.tokens.find(token) else { return Err(self.refuse_wrong(peer)) };
        if caller.scope < scope {
            let (needed, has) = (scope.name(), caller.scope.name());
            let detail = format!(
                "this needs a token of scope `{needed}`, and {:?} has `{has}`; make one with `threshold token create --scope {needed}`",
                caller.name
            );
            let answer = Answer::new(StatusCode::FORBIDDEN, "insufficient_scope", &detail);
            return Err(Box::new(answer.with("scope", needed).into_response()));
        }
        match over(&self.calls, &caller.name) {
            Some(wait) => Err(too_many(&format!("a token may be used {CALLS}"), wait)),
            None => Ok(caller),
        }
    }

    /// Whether somebody at `peer` may read what is open to this machine and needs a token elsewhere, such as metrics.
    pub(super) fn admit_near(&self, peer: IpAddr, headers: &HeaderMap) -> Result<(), Refused> {
        if peer.is_loopback() {
            // A page in a browser on this machine may not either.
            return is_from_here(headers, &[]);
        }
        self.admit(peer, headers, Scope::Read).map(drop)
    }

    /// Makes a token where there is none, to be shown once.
    pub(super) fn first_token(&self) -> Option<Made> {
        self.tokens.make_first()
    }

    /// Which tokens were made and revoked since the last time this was asked.
    pub(super) fn token_changes(&self) -> Vec<TokenChange> {
        let changes = self.tokens.changes();
        if !changes.is_empty() {
            self.changed.send_replace(());
        }
        changes
    }

    /// Says when tokens were made or revoked.
    pub(super) fn watch(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Whether `caller`, who was let in, still would be.
    pub(super) fn knows(&self, caller: &Caller) -> bool {
        self.tokens.knows(caller)
    }

    fn refuse_wrong(&self, peer: IpAddr) -> Refused {
        match over(&self.wrong, &peer.to_string()) {
            Some(wait) => too_many("there were too many wrong tokens from this address", wait),
            None => unauthorized("there is no such token; `threshold token list` says which there are"),
        }
    }
}

/// How long to wait, if one more is one too many.
fn over(limiter: &RateLimiter<MemoryStore>, key: &str) -> Option<Duration> {
    match limiter.consume_now(key, 1) {
        Ok(decision) if decision.allowed() => None,
        Ok(decision) => Some(decision.retry_after().unwrap_or_default()),
        Err(_) => Some(Duration::ZERO),
    }
}

/// Keeps out pages of strangers: those that a browser was led to by a name that is not ours, and those of other origins.
pub(super) fn is_from_here(headers: &HeaderMap, known: &[String]) -> Result<(), Refused> {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    if !is_own_host(host, known) {
        let detail = "this host is not known here; ask by an address or by localhost, or list the name in `admin_hosts` of [server]";
        return Err(forbidden("foreign_host", detail));
    }
    let own = |origin: &HeaderValue| {
        let origin = origin.to_str().unwrap_or_default();
        let of_scheme =
            |scheme: &str| origin.strip_prefix(scheme).is_some_and(|rest| rest.eq_ignore_ascii_case(host));
        of_scheme("http://") || of_scheme("https://")
    };
    if headers.get_all(header::ORIGIN).iter().all(own) {
        return Ok(());
    }
    Err(forbidden(
        "foreign_origin",
        "pages of other origins are not answered; ask from a page of this host, or without a page",
    ))
}

/// An address, localhost or one of the `known` names: a name that somebody else chose may be led here by its owner.
fn is_own_host(host: &str, known: &[String]) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => {
            return rest.split_once(']').is_some_and(|(address, _)| address.parse::<IpAddr>().is_ok());
        }
        None => host.split(':').next().unwrap_or_default().trim_end_matches('.'),
    };
    name.parse::<IpAddr>().is_ok()
        || name.eq_ignore_ascii_case("localhost")
        || known.iter().any(|known| known.eq_ignore_ascii_case(name))
}

fn unauthorized(detail: &str) -> Refused {
    let mut response = Answer::new(StatusCode::UNAUTHORIZED, "unauthorized", detail).into_response();
    response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    Box::new(response)
}

fn forbidden(error: &str, detail: &str) -> Refused {
    Box::new(Answer::new(StatusCode::FORBIDDEN, error, detail).into_response())
}

fn too_many(what: &str, wait: Duration) -> Refused {
    // Rounded up: who comes back then comes late enough.
    let seconds = wait.as_secs() + 1;
    let detail = format!("{what}; wait {seconds} s");
    let answer = Answer::new(StatusCode::TOO_MANY_REQUESTS, "too_many_requests", &detail);
    let mut response = answer.with("retryAfter", seconds).into_response();
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    Box::new(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(host: &str, origin: Option<&str>) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, HeaderValue::from_str(host).unwrap());
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, HeaderValue::from_str(origin).unwrap());
        }
        is_from_here(&headers, &["admin.example".to_owned()]).is_ok()
    }

    #[test]
    fn hosts_are_addresses_or_names_that_are_known() {
        for host in [
            "127.0.0.1:8083",
            "[::1]:8083",
            "[::1]",
            "localhost",
            "LOCALHOST:1",
            "10.0.0.7",
            "Admin.Example:80",
        ] {
            assert!(ask(host, None), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "127.0.0.1.evil.example:8083",
            "[evil]",
            "localhost.evil.example",
            "[::1",
            ":8083",
        ] {
            assert!(!ask(host, None), "{host}");
        }
    }

    #[test]
    fn this_machine_may_look_without_a_token_and_others_may_not() {
        let folder = threshold_testkit::folder::Folder::new();
        let tokens = Tokens::open(folder.path(), None).unwrap();
        let made = tokens.make_first();
        let guard = Guard::new(tokens).unwrap();
        let mut headers = HeaderMap::new();
        let (near, far) = (IpAddr::from([127, 0, 0, 1]), IpAddr::from([192, 0, 2, 7]));
        headers.insert(header::HOST, HeaderValue::from_static("localhost:8083"));
        assert!(guard.admit_near(near, &headers).is_ok());
        // A name that somebody has pointed at this machine.
        let foreign = HeaderMap::from_iter([(header::HOST, HeaderValue::from_static("evil.example"))]);
        assert!(guard.admit_near(near, &foreign).is_err_and(|refused| refused.status() == 403));
        assert!(guard.admit_near(far, &headers).is_err_and(|refused| refused.status() == 401));
        let token = format!("Bearer {}", made.unwrap().token);
        headers.insert(header::AUTHORIZATION, HeaderValue::from_str(&token).unwrap());
        assert!(guard.admit_near(far, &headers).is_ok());
    }

    #[test]
    fn origins_are_those_of_the_host() {
        assert!(ask("127.0.0.1:8083", Some("http://127.0.0.1:8083")));
        assert!(ask("admin.example", Some("https://admin.example")));
        for origin in [
            "null",
            "",
            "http://127.0.0.1:8080",
            "http://localhost:8083",
            "https://evil.example",
            "127.0.0.1:8083",
        ] {
            assert!(!ask("127.0.0.1:8083", Some(origin)), "{origin}");
        }
    }
}
