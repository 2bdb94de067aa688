//! The headers that show a client what is left: those of the IETF draft, and those that came before it.

use std::cell::RefCell;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::HeaderName;
use http::{HeaderMap, HeaderValue};
use threshold::engine::{Decision, Quota};
use threshold::{Span, Timestamp};

use super::{Shown, whole_seconds};

const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");
const WARNING: HeaderName = HeaderName::from_static("x-ratelimit-warning");

/// The largest integer that a structured field holds.
const LARGEST: u64 = 999_999_999_999_999;

/// What the headers begin with that came before the draft.
const LEGACY: &str = "x-ratelimit-";

/// What is to be added to the application's answer to an allowed request.
#[derive(Clone, Debug)]
pub struct Notes {
    quota: Option<Quota>,
    at: Timestamp,
    warned: bool,
    shown: Shown,
}

impl Notes {
    /// What `decision` lets a client know.
    #[must_use]
    pub fn new(decision: &Decision, shown: Shown) -> Self {
        Self { quota: decision.quota(), at: decision.at(), warned: decision.warned(), shown }
    }

    /// Shows each of them, for who writes headers as bytes.
    pub fn each(&self, mut add: impl FnMut(HeaderName, HeaderValue)) {
        if let Some(quota) = &self.quota {
            show(quota, None, self.at, self.shown, &mut add);
        }
        if self.warned {
            add(WARNING, HeaderValue::from_static("true"));
        }
    }

    /// Adds them to an answer that may have been through another limiter: lists grow, and what names one limit stays that
    /// of the one closer to the application.
    pub fn add_to(&self, headers: &mut HeaderMap) {
        let legacy = |name: &HeaderName| name.as_str().starts_with(LEGACY) && *name != WARNING;
        let others = headers.keys().any(legacy);
        // At once, so that it grows once: six here, and one more for the id that a gateway adds.
        headers.reserve(7);
        if let Some(quota) = &self.quota {
            show(quota, None, self.at, self.shown, |name, value| {
                if !others || !legacy(&name) {
                    headers.append(name, value);
                }
            });
        }
        if self.warned {
            headers.insert(WARNING, HeaderValue::from_static("true"));
        }
    }
}

/// Shows what is left of `quota` at `at`, and of what a refusal asks to wait: for surfaces that hand headers on.
pub fn show(
    quota: &Quota,
    retry: Option<Duration>,
    at: Timestamp,
    shown: Shown,
    mut add: impl FnMut(HeaderName, HeaderValue),
) {
    // One piece of memory for all values.
    let mut text = Text(BytesMut::with_capacity(96));
    let Fixed { policy, capacity, .. } = fixed(quota);
    add(RATE_LIMIT_POLICY, policy);
    left(quota, retry, &mut text);
    add(RATE_LIMIT, text.value());
    if shown.legacy {
        add(LIMIT, capacity);
        text.number(quota.remaining);
        add(REMAINING, text.value());
        let reset = at.plus(span(retry.unwrap_or(quota.reset)));
        text.number(reset.as_micros().div_ceil(1_000_000));
        add(RESET, text.value());
    }
}

/// What is the same in every answer that shows a limit.
#[derive(Clone)]
struct Fixed {
    limit: &'static str,
    numbers: (u64, Option<Duration>, bool),
    policy: HeaderValue,
    capacity: HeaderValue,
}

/// How many a thread keeps.
const KEPT: usize = 64;

thread_local! {
    static FIXED: RefCell<Vec<Fixed>> = const { RefCell::new(Vec::new()) };
}

/// Writes what is the same in every answer, or takes it from where it was written before.
fn fixed(quota: &Quota) -> Fixed {
    let numbers = (quota.capacity, quota.window, quota.bytes);
    let write = || {
        let mut text = Text(BytesMut::with_capacity(64));
        policy(quota, &mut text);
        let policy = text.value();
        text.number(quota.capacity);
        Fixed { limit: quota.limit, numbers, policy, capacity: text.value() }
    };
    let kept = FIXED.try_with(|kept| {
        let mut kept = kept.borrow_mut();
        // Names last for ever, so that their places tell them apart.
        let known = kept.iter().find(|one| std::ptr::eq(one.limit, quota.limit) && one.numbers == numbers);
        if let Some(known) = known {
            return known.clone();
        }
        let new = write();
        if kept.len() == KEPT {
            kept.clear();
        }
        kept.push(new.clone());
        new
    });
    kept.unwrap_or_else(|_| write())
}

fn span(duration: Duration) -> Span {
    Span::from_micros(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX))
}

/// `"id";q=100;w=60`.
fn policy(quota: &Quota, text: &mut Text) {
    text.pieces(&["\"", quota.limit, "\";q="]).number(quota.capacity.min(LARGEST));
    match quota.window {
        Some(window) => text.pieces(&[";w="]).number(whole_seconds(window).min(LARGEST)),
        None => text.pieces(&[";qu=\"concurrent-requests\""]),
    };
    if quota.bytes {
        text.pieces(&[";qu=\"content-bytes\""]);
    }
}

/// `"id";r=50;t=30`; the time is that until one more is allowed, and never beyond what a refusal asks to wait.
fn left(quota: &Quota, retry: Option<Duration>, text: &mut Text) {
    text.pieces(&["\"", quota.limit, "\";r="]).number(quota.remaining.min(LARGEST));
    let next = match (quota.next, retry) {
        (Some(next), Some(retry)) => Some(next.min(retry)),
        (next, retry) => next.or(retry),
    };
    if let Some(next) = next {
        text.pieces(&[";t="]).number(next.as_secs() + u64::from(next.subsec_nanos() > 0));
    }
}

/// Values written one after the other into one piece of memory.
struct Text(BytesMut);

impl Text {
    fn pieces(&mut self, pieces: &[&str]) -> &mut Self {
        pieces.iter().for_each(|piece| self.0.extend_from_slice(piece.as_bytes()));
        self
    }

    fn number(&mut self, number: u64) -> &mut Self {
        self.0.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
        self
    }

    /// What was written since the last value.
    fn value(&mut self) -> HeaderValue {
        let bytes: Bytes = self.0.split().freeze();
        HeaderValue::from_maybe_shared(bytes).unwrap_or_else(|_| HeaderValue::from_static(""))
    }
}
