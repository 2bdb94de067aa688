//! Answers: what a client is told, in one place for every surface.
//!
//! | case | status | `error` | headers |
//! | --- | --- | --- | --- |
//! | allowed | the application's | – | `RateLimit`, `RateLimit-Policy`, `X-RateLimit-*` of the tightest limit |
//! | allowed, warned | the application's | – | + `X-RateLimit-Warning: true` |
//! | held back | the application's, later | – | as allowed |
//! | edge or user limit | 429 | `rate_limited`, or the limit's own | + `Retry-After` |
//! | tenant limit | 429 | `tenant_rate_limited` (`category`) | + `Retry-After` |
//! | endpoint limit | 429 | `endpoint_rate_limited` (`endpoint`, `limit`, `period`) | + `Retry-After` |
//! | cooldown | 429 | `rate_limited` | `Retry-After` |
//! | ban | 429, or 403 for good | `banned` | `Retry-After`, `X-RateLimit-Banned: true` |
//! | login refused | 429 | `too_many_requests` (`message`) | `Retry-After` |
//! | cost never fits | 413 for bytes, else 422 | `cost_exceeds_capacity` | no `Retry-After` |
//! | the store fails | 503 | `temporarily_unavailable` | `Retry-After` |
//! | the path is no path | 400 | `bad_path` | – |
//!
//! `Retry-After` is whole seconds, rounded up, at least 1: who obeys it and is alone is admitted.

mod grpc;
mod headers;

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use http_body_util::Full;
use serde_json::{Map, Value as Json, json};
use threshold::engine::{Decision, Quota, Reason, Refusal, RefusedBy};
use threshold::policy::Layer;
use threshold::{Rate, Retry, Span, Timestamp};

pub use grpc::is_grpc;
pub use headers::{Notes, show_bytes};

/// What a surface may show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The `X-RateLimit` headers too.
    pub legacy: bool,
}

impl Default for Shown {
    fn default() -> Self {
        Self { legacy: true }
    }
}

/// An answer that is not the application's: a problem as RFC 9457 has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    problem: Map<String, Json>,
    retry_after: Option<Duration>,
}

/// The problem types that are registered for limits.
const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";
const REDUCED_CAPACITY: &str = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity";
const ABNORMAL_USAGE: &str = "https://iana.org/assignments/http-problem-types#abnormal-usage-detected";

/// How long to wait for a store that fails.
const STORE_RETRY: Duration = Duration::from_secs(1);

impl Answer {
    /// An answer of `status` with a code for programs and a sentence for people.
    #[must_use]
    pub fn new(status: StatusCode, error: &str, detail: &str) -> Self {
        let mut answer = Self::of_type("about:blank", status, error);
        answer.put("detail", json!(detail));
        answer
    }

    fn of_type(kind: &str, status: StatusCode, error: &str) -> Self {
        let title = match kind {
            QUOTA_EXCEEDED => "Request cannot be satisfied as assigned quota has been exceeded",
            REDUCED_CAPACITY => "Request cannot be satisfied due to temporary server capacity constraints",
            ABNORMAL_USAGE => "Request not satisfied due to detection of abnormal request pattern",
            _ => status.canonical_reason().unwrap_or("Error"),
        };
        let problem = [
            ("type", json!(kind)),
            ("title", json!(title)),
            ("status", json!(status.as_u16())),
            ("error", json!(error)),
        ];
        let problem = problem.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let mut answer = Self { status, headers: HeaderMap::new(), problem, retry_after: None };
        answer.headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        answer
    }

    /// What a refused request is told; none if `decision` allows it.
    #[must_use]
    pub fn refused(decision: &Decision, shown: Shown) -> Option<Self> {
        let refusal = decision.refusal()?;
        let mut answer = match &refusal.reason {
            Reason::Limit(by) if refusal.retry == Retry::Never => never(by),
            Reason::Limit(by) => over(by),
            Reason::Path(error) => Self::new(StatusCode::BAD_REQUEST, "bad_path", &error.to_string()),
            Reason::Cooldown { .. } => {
                let mut answer = Self::of_type(QUOTA_EXCEEDED, StatusCode::TOO_MANY_REQUESTS, "rate_limited");
                answer.put("detail", json!("too many requests went over their limits"));
                answer
            }
            Reason::Banned { .. } => banned(StatusCode::TOO_MANY_REQUESTS),
            Reason::Listed => banned(StatusCode::FORBIDDEN),
            _ => Self::new(StatusCode::FORBIDDEN, "refused", "this request is refused"),
        };
        if let Some(quota) = decision.quota() {
            answer.show(&quota, decision.retry_after(), decision.at(), shown);
        }
        if let Retry::After(span) = refusal.retry {
            answer.retry_after(span.into(), Some(decision.at()));
            answer.put("remaining", json!(decision.quota().map_or(0, |quota| quota.remaining)));
        }
        Some(answer)
    }

    /// What a request over the limit called `limit` is told, as far as that is known before it comes: for those who enforce
    /// a limit in our place.
    #[must_use]
    pub fn over_limit(limit: &str, error: &str, rate: Rate) -> Self {
        let answer = Self::of_type(QUOTA_EXCEEDED, StatusCode::TOO_MANY_REQUESTS, error);
        let answer = answer.with("detail", format!("the limit {limit} allows {rate}"));
        answer.with("violated-policies", json!([limit]))
    }

    /// What a request is told that was to be held back and found no place: an ordinary refusal.
    #[must_use]
    pub fn no_place(decision: &Decision, shown: Shown) -> Self {
        let (mut answer, wait) = match decision.as_if_refused() {
            Some((by, quota)) => {
                let wait = quota.next.filter(|next| !next.is_zero()).unwrap_or_else(|| decision.delay());
                let mut answer = over(&by);
                answer.show(&quota, Some(wait), decision.at(), shown);
                (answer, wait)
            }
            None => {
                let answer = Self::of_type(QUOTA_EXCEEDED, StatusCode::TOO_MANY_REQUESTS, "rate_limited");
                (answer.with("detail", "there were too many requests"), decision.delay())
            }
        };
        answer.put("remaining", json!(0));
        answer.retry_after(wait, Some(decision.at()));
        answer
    }

    /// What a refused login is told: the same for every account and every reason.
    #[must_use]
    pub fn login(retry_after: Duration) -> Self {
        let mut answer = Self::of_type(QUOTA_EXCEEDED, StatusCode::TOO_MANY_REQUESTS, "too_many_requests");
        answer.put("detail", json!("there were too many attempts to log in"));
        answer.put("message", json!("Too many login attempts. Please try again later."));
        answer.put("remaining", json!(0));
        answer.retry_after(retry_after, None);
        answer
    }

    /// What a request is told while no decision can be made.
    #[must_use]
    pub fn unavailable() -> Self {
        let status = StatusCode::SERVICE_UNAVAILABLE;
        let mut answer = Self::of_type(REDUCED_CAPACITY, status, "temporarily_unavailable");
        answer.put("detail", json!("limits cannot be checked just now"));
        answer.retry_after(STORE_RETRY, None);
        answer
    }

    /// What a request is told whose body went on after its quota of bytes was used up, at `at`.
    #[must_use]
    pub fn out_of_bytes(refusal: &Refusal, at: Timestamp) -> Self {
        let Reason::Limit(by) = &refusal.reason else { return Self::unavailable() };
        let mut answer = if refusal.retry == Retry::Never { never(by) } else { over(by) };
        if let Retry::After(span) = refusal.retry {
            answer.retry_after(span.into(), Some(at));
            answer.put("remaining", json!(0));
        }
        answer
    }

    /// What a request is told whose body is larger than `most` bytes.
    #[must_use]
    pub fn body_too_large(most: u64) -> Self {
        let detail = format!("the body is larger than {most} bytes; send less");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", &detail)
    }

    /// The same answer with another member in its body.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Json>) -> Self {
        self.put(name, value.into());
        self
    }

    /// The status.
    #[must_use]
    pub const fn status(&self) -> StatusCode {
        self.status
    }

    /// The headers, those of the body left out.
    #[must_use]
    pub const fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// The body.
    #[must_use]
    pub const fn problem(&self) -> &Map<String, Json> {
        &self.problem
    }

    /// The same answer in HTTP.
    #[must_use]
    pub fn into_response(self) -> Response<Full<Bytes>> {
        let body = Json::Object(self.problem).to_string();
        let mut response = Response::new(Full::from(body));
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers;
        let kind = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        response
    }

    /// The same answer in the protocol of the request: gRPC clients look for its own status.
    #[must_use]
    pub fn into_response_to(self, request: &HeaderMap) -> Response<Full<Bytes>> {
        if is_grpc(request) { self.into_grpc_response() } else { self.into_response() }
    }

    /// The same answer in gRPC.
    #[must_use]
    pub fn into_grpc_response(self) -> Response<Full<Bytes>> {
        grpc::response(self)
    }

    fn put(&mut self, name: &str, value: Json) {
        self.problem.insert(name.to_owned(), value);
    }

    fn show(&mut self, quota: &Quota, retry: Option<Duration>, at: Timestamp, shown: Shown) {
        headers::show(quota, retry, at, shown, |name, value| drop(self.headers.insert(name, value)));
    }

    fn retry_after(&mut self, wait: Duration, at: Option<Timestamp>) {
        let seconds = whole_seconds(wait);
        self.retry_after = Some(wait);
        self.headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        self.put("retryAfter", json!(seconds));
        if let Some(at) = at {
            self.put("resetAt", json!(at.plus(Span::from_secs(seconds)).to_string()));
        }
    }
}

/// Over a limit for now.
fn over(by: &RefusedBy) -> Answer {
    let mut answer = Answer::over_limit(by.limit, by.error, by.rate);
    match by.layer {
        Layer::Tenant => {
            by.category.into_iter().for_each(|category| answer.put("category", json!(category)));
        }
        Layer::Endpoint => {
            answer.put("endpoint", json!(by.routes.unwrap_or("*")));
            answer.put("limit", json!(by.rate.count()));
            answer.put("period", json!(by.rate.period().to_string()));
        }
        Layer::Edge | Layer::User => {}
    }
    answer
}

/// Over a limit for good: it costs more than the limit holds.
fn never(by: &RefusedBy) -> Answer {
    let status = if by.bytes { StatusCode::PAYLOAD_TOO_LARGE } else { StatusCode::UNPROCESSABLE_ENTITY };
    let detail = format!("this costs more than the limit {} ever allows ({}); send less", by.limit, by.rate);
    Answer::new(status, "cost_exceeds_capacity", &detail).with("violated-policies", json!([by.limit]))
}

fn banned(status: StatusCode) -> Answer {
    let mut answer = Answer::of_type(ABNORMAL_USAGE, status, "banned");
    answer.put("detail", json!("requests of this client are refused"));
    answer.headers.insert("x-ratelimit-banned", HeaderValue::from_static("true"));
    answer
}

/// Whole seconds, rounded up, at least 1.
#[must_use]
pub fn whole_seconds(wait: Duration) -> u64 {
    (wait.as_secs() + u64::from(wait.subsec_nanos() > 0)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_whole_seconds_rounded_up() {
        let seconds = [0, 1, 999_999_999, 1_000_000_000, 1_000_000_001].map(Duration::from_nanos);
        assert_eq!(seconds.map(whole_seconds), [1, 1, 1, 1, 2]);
    }

    #[test]
    fn a_problem_says_what_is_wrong_to_programs_and_people() {
        let answer = Answer::new(StatusCode::BAD_GATEWAY, "upstream_unreachable", "nobody answers");
        let response = answer.into_response();
        assert_eq!(response.status(), 502);
        assert_eq!(response.headers()["content-type"], "application/problem+json");
        assert_eq!(response.headers()["cache-control"], "no-store");
    }
}
