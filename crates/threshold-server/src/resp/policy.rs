//! `THRESHOLD.CONSUME`, `THRESHOLD.PEEK` and `THRESHOLD.RESET`: limits of the policy on keys that callers name.

use std::num::NonZeroU64;

use threshold::engine::{Charge, ChargeError, Charged, Chosen, Engine};
use threshold::policy::Layer;
use threshold::{Clock, Ledger, MAX_COUNT, Retry, Span, Store};

use super::Answering;
use super::parse::Words;
use super::write::{self, Version, quoted};

/// The longest key.
const KEY_BYTES: usize = 1_024;
/// What is said when no decision could be made.
pub(super) const UNAVAILABLE: &str = "UNAVAILABLE the store does not answer; try again in a second";

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Consume,
    Peek,
    Reset,
}

/// A question that makes sense.
struct Question {
    limit: String,
    key: String,
    cost: NonZeroU64,
    tier: Option<String>,
}

impl Verb {
    const fn usage(self) -> &'static str {
        match self {
            Self::Consume => "THRESHOLD.CONSUME limit key [cost] [TIER tier]",
            Self::Peek => "THRESHOLD.PEEK limit key [cost] [TIER tier]",
            Self::Reset => "THRESHOLD.RESET limit key [TIER tier]",
        }
    }
}

/// Has a question answered.
pub(super) fn ask<'e, S: Store, C: Clock, L: Ledger>(
    engine: &'e Engine<S, C, L>,
    version: Version,
    verb: Verb,
    words: &Words<'_>,
) -> Result<Answering<'e>, String> {
    let question = read(verb, words)?;
    Ok(Box::pin(async move {
        let mut out = Vec::new();
        let by = Chosen::Limit(&question.limit, question.tier.as_deref());
        let charge = Charge { by, key: &question.key, cost: question.cost };
        let charged = match verb {
            Verb::Consume => engine.charge(std::slice::from_ref(&charge)).await,
            Verb::Peek => engine.peek_charges(std::slice::from_ref(&charge)).await,
            Verb::Reset => engine.reset_charge(&charge).await.map(|()| Vec::new()),
        };
        match charged {
            Ok(all) => match all.first() {
                Some(charged) => reply(&mut out, version, charged),
                None => write::simple(&mut out, "OK"),
            },
            Err(ChargeError::Store(_)) => write::error(&mut out, UNAVAILABLE),
            Err(error) => write::error(&mut out, &format!("ERR {error}")),
        }
        out
    }))
}

fn read(verb: Verb, words: &Words<'_>) -> Result<Question, String> {
    let usage = || format!("ERR wrong number of arguments; write {}", verb.usage());
    let [limit, key, rest @ ..] = &words[1..] else { return Err(usage()) };
    if key.is_empty() || key.len() > KEY_BYTES {
        return Err(format!("ERR key must have 1 to {KEY_BYTES} bytes, not {}", key.len()));
    }
    let is_tier = |word: &[u8]| word.eq_ignore_ascii_case(b"TIER");
    let (cost, tier) = match rest {
        [] => (None, None),
        [word, tier] if is_tier(word) => (None, Some(tier)),
        [cost] if verb != Verb::Reset => (Some(cost), None),
        [cost, word, tier] if verb != Verb::Reset && is_tier(word) => (Some(cost), Some(tier)),
        _ => return Err(usage()),
    };
    let cost = match cost {
        None => NonZeroU64::MIN,
        Some(cost) => number(cost).ok_or_else(|| {
            format!("ERR cost must be a whole number from 1 to {MAX_COUNT}, not {}", quoted(cost))
        })?,
    };
    let tier = tier.map(|tier| text("tier", tier)).transpose()?;
    Ok(Question { limit: text("limit", limit)?, key: text("key", key)?, cost, tier })
}

/// Names in policies, and keys of their limits, are text.
pub(super) fn text(name: &str, word: &[u8]) -> Result<String, String> {
    let text = std::str::from_utf8(word);
    text.map(str::to_owned).map_err(|_| format!("ERR {name} must be UTF-8, not {}", quoted(word)))
}

/// A whole number of at least 1.
pub(super) fn number(word: &[u8]) -> Option<NonZeroU64> {
    let number: NonZeroU64 = std::str::from_utf8(word).ok()?.parse().ok()?;
    (number.get() <= MAX_COUNT).then_some(number)
}

fn reply(out: &mut Vec<u8>, version: Version, charged: &Charged) {
    let mut pairs = Pairs::begin(out, version, 10);
    pairs.boolean("allowed", charged.allowed);
    pairs.boolean("charged", charged.charged);
    pairs.text("limit", Some(charged.limit));
    pairs.text("layer", charged.layer.map(Layer::word));
    pairs.number("capacity", Some(charged.capacity));
    pairs.number("remaining", Some(charged.remaining));
    pairs.number("retry_after_ms", retry_after_ms(charged.retry));
    pairs.number("reset_after_ms", Some(milliseconds(Span::from(charged.reset))));
    pairs.text("source", Some(charged.source.name()));
    pairs.text("receipt", charged.receipt.map(|receipt| receipt.to_string()).as_deref());
}

/// Whole milliseconds, rounded up: 0 if it passes now, none if it never does.
pub(super) fn retry_after_ms(retry: Retry) -> Option<u64> {
    match retry {
        Retry::Now => Some(0),
        Retry::After(span) => Some(milliseconds(span)),
        Retry::Never => None,
    }
}

const fn milliseconds(span: Span) -> u64 {
    span.as_micros().div_ceil(1_000)
}

/// Names with values.
pub(super) struct Pairs<'o> {
    out: &'o mut Vec<u8>,
    version: Version,
}

impl<'o> Pairs<'o> {
    /// Begins `count` of them.
    pub(super) fn begin(out: &'o mut Vec<u8>, version: Version, count: usize) -> Self {
        write::map(out, version, count);
        Self { out, version }
    }

    pub(super) fn boolean(&mut self, name: &str, value: bool) {
        write::bulk(self.out, name.as_bytes());
        write::boolean(self.out, self.version, value);
    }

    pub(super) fn number(&mut self, name: &str, value: Option<u64>) {
        write::bulk(self.out, name.as_bytes());
        match value {
            Some(value) => write::integer(self.out, i64::try_from(value).unwrap_or(i64::MAX)),
            None => write::null(self.out, self.version),
        }
    }

    pub(super) fn text(&mut self, name: &str, value: Option<&str>) {
        write::bulk(self.out, name.as_bytes());
        match value {
            Some(value) => write::bulk(self.out, value.as_bytes()),
            None => write::null(self.out, self.version),
        }
    }

    pub(super) fn texts(&mut self, name: &str, values: &[&str]) {
        write::bulk(self.out, name.as_bytes());
        write::array(self.out, values.len());
        values.iter().for_each(|value| write::bulk(self.out, value.as_bytes()));
    }
}
