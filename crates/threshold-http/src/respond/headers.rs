//! The headers that show a client what is left: those of the IETF draft, and those that came before it.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
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
    #[inline]
    pub fn each(&self, mut add: impl FnMut(&str, &[u8])) {
        if let Some(quota) = &self.quota {
            show_bytes(quota, None, self.at, self.shown, &mut add);
        }
        if self.warned {
            add(WARNING.as_str(), b"true");
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

/// Shows what is left of `quota` at `at`, and of what a refusal asks to wait.
pub(super) fn show(
    quota: &Quota,
    retry: Option<Duration>,
    at: Timestamp,
    shown: Shown,
    mut add: impl FnMut(HeaderName, HeaderValue),
) {
    // One piece of memory for all values.
    let mut text = Text(BytesMut::with_capacity(96));
    let fixed = fixed(quota);
    add(RATE_LIMIT_POLICY, fixed.policy.clone());
    left(quota, retry, &mut text);
    add(RATE_LIMIT, text.value());
    if shown.legacy {
        add(LIMIT, fixed.capacity.clone());
        text.number(quota.remaining);
        add(REMAINING, text.value());
        text.number(reset_at(quota, retry, at));
        add(RESET, text.value());
    }
}

/// The same as names and values, for surfaces that write headers into something else.
#[inline]
pub fn show_bytes(
    quota: &Quota,
    retry: Option<Duration>,
    at: Timestamp,
    shown: Shown,
    add: &mut impl FnMut(&str, &[u8]),
) {
    let mut text = Text(Vec::with_capacity(96));
    let fixed = fixed(quota);
    add(RATE_LIMIT_POLICY.as_str(), fixed.policy.as_bytes());
    left(quota, retry, &mut text);
    add(RATE_LIMIT.as_str(), &text.0);
    if shown.legacy {
        add(LIMIT.as_str(), fixed.capacity.as_bytes());
        let mut number = itoa::Buffer::new();
        add(REMAINING.as_str(), number.format(quota.remaining).as_bytes());
        add(RESET.as_str(), number.format(reset_at(quota, retry, at)).as_bytes());
    }
}

/// The second at which it is as new, or at which a refusal says to come again.
fn reset_at(quota: &Quota, retry: Option<Duration>, at: Timestamp) -> u64 {
    at.plus(span(retry.unwrap_or(quota.reset))).as_micros().div_ceil(1_000_000)
}

/// What is the same in every answer that shows a limit.
struct Fixed {
    limit: &'static str,
    numbers: (u64, Option<Duration>, bool),
    policy: HeaderValue,
    capacity: HeaderValue,
}

/// How many a thread keeps.
const KEPT: usize = 64;

thread_local! {
    static FIXED: RefCell<Vec<Rc<Fixed>>> = const { RefCell::new(Vec::new()) };
}

/// Writes what is the same in every answer, or takes it from where it was written before.
fn fixed(quota: &Quota) -> Rc<Fixed> {
    let numbers = (quota.capacity, quota.window, quota.bytes);
    let write = || {
        let mut text = Text(BytesMut::with_capacity(64));
        policy(quota, &mut text);
        let policy = text.value();
        text.number(quota.capacity);
        Rc::new(Fixed { limit: quota.limit, numbers, policy, capacity: text.value() })
    };
    let kept = FIXED.try_with(|kept| {
        let mut kept = kept.borrow_mut();
        // Names last for ever, so that their places tell them apart.
        let known = kept.iter().find(|one| std::ptr::eq(one.limit, quota.limit) && one.numbers == numbers);
        if let Some(known) = known {
            return Rc::clone(known);
        }
        let new = write();
        if kept.len() == KEPT {
            kept.clear();
        }
        kept.push(Rc::clone(&new));
        new
    });
    kept.unwrap_or_else(|_| write())
}

fn span(duration: Duration) -> Span {
    Span::from_micros(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX))
}

/// `"id";q=100;w=60`.
fn policy(quota: &Quota, text: &mut Text<impl BufMut>) {
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
fn left(quota: &Quota, retry: Option<Duration>, text: &mut Text<impl BufMut>) {
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
struct Text<B>(B);

impl<B: BufMut> Text<B> {
    #[inline]
    fn pieces(&mut self, pieces: &[&str]) -> &mut Self {
        pieces.iter().for_each(|piece| self.0.put_slice(piece.as_bytes()));
        self
    }

    #[inline]
    fn number(&mut self, number: u64) -> &mut Self {
        self.0.put_slice(itoa::Buffer::new().format(number).as_bytes());
        self
    }
}

impl Text<BytesMut> {
    /// What was written since the last value.
    fn value(&mut self) -> HeaderValue {
        let bytes: Bytes = self.0.split().freeze();
        HeaderValue::from_maybe_shared(bytes).unwrap_or_else(|_| HeaderValue::from_static(""))
    }
}
