//! The headers that show a client what is left: those of the IETF draft, and those that came before it.

use std::fmt::Write as _;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::HeaderValue;
use http::header::HeaderName;
use threshold::Span;
use threshold::engine::{Decision, Quota};

use super::{Shown, whole_seconds};

const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");
const WARNING: HeaderName = HeaderName::from_static("x-ratelimit-warning");

/// The largest integer that a structured field holds.
const LARGEST: u64 = 999_999_999_999_999;

/// A header and its value.
type Line = (HeaderName, HeaderValue);

/// What is added to the application's answer to an allowed request.
#[must_use]
pub fn annotate(decision: &Decision, shown: Shown) -> Vec<Line> {
    let mut lines = quota(decision, shown);
    if decision.warned() {
        lines.push((WARNING, HeaderValue::from_static("true")));
    }
    lines
}

/// What is left of the tightest limit.
pub(super) fn quota(decision: &Decision, shown: Shown) -> Vec<Line> {
    let Some(quota) = decision.quota() else { return Vec::new() };
    let retry = decision.retry_after();
    // One piece of memory for all values.
    let mut text = Text(BytesMut::with_capacity(160));
    let mut lines = Vec::with_capacity(6);
    lines.push((RATE_LIMIT_POLICY, text.value(|text| policy(&quota, text))));
    lines.push((RATE_LIMIT, text.value(|text| left(&quota, retry, text))));
    if shown.legacy {
        lines.push((LIMIT, text.value(|text| write!(text, "{}", quota.capacity))));
        lines.push((REMAINING, text.value(|text| write!(text, "{}", quota.remaining))));
        let reset = span(retry.unwrap_or(quota.reset));
        let reset = decision.at().plus(reset).as_micros().div_ceil(1_000_000);
        lines.push((RESET, text.value(|text| write!(text, "{reset}"))));
    }
    lines
}

fn span(duration: Duration) -> Span {
    Span::from_micros(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX))
}

/// `"id";q=100;w=60`.
fn policy(quota: &Quota, text: &mut BytesMut) -> std::fmt::Result {
    write!(text, "\"{}\";q={}", quota.limit, quota.capacity.min(LARGEST))?;
    match quota.window {
        Some(window) => write!(text, ";w={}", whole_seconds(window).min(LARGEST))?,
        None => text.write_str(";qu=\"concurrent-requests\"")?,
    }
    if quota.bytes { text.write_str(";qu=\"content-bytes\"") } else { Ok(()) }
}

/// `"id";r=50;t=30`; the time is that until one more is allowed, and never beyond what a refusal asks to wait.
fn left(quota: &Quota, retry: Option<Duration>, text: &mut BytesMut) -> std::fmt::Result {
    write!(text, "\"{}\";r={}", quota.limit, quota.remaining.min(LARGEST))?;
    let next = match (quota.next, retry) {
        (Some(next), Some(retry)) => Some(next.min(retry)),
        (next, retry) => next.or(retry),
    };
    match next {
        Some(next) => write!(text, ";t={}", next.as_secs() + u64::from(next.subsec_nanos() > 0)),
        None => Ok(()),
    }
}

/// Values written one after the other into one piece of memory.
struct Text(BytesMut);

impl Text {
    fn value(&mut self, write: impl FnOnce(&mut BytesMut) -> std::fmt::Result) -> HeaderValue {
        // Memory never refuses to be written to.
        let _ = write(&mut self.0);
        let bytes: Bytes = self.0.split().freeze();
        HeaderValue::from_maybe_shared(bytes).unwrap_or_else(|_| HeaderValue::from_static(""))
    }
}
