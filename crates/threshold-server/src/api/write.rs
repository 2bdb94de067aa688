//! JSON on its way out.

use std::fmt::Write as _;

use bytes::Bytes;
use http::Response;
use http::header::{self, HeaderValue};
use http_body_util::Full;
use serde_json::{Value as Json, json};
use threshold::engine::{Charge, Charged, Chosen, Considered, Decision, Explanation, Quota, Reason};
use threshold::policy::Layer;
use threshold::{Mode, Retry, Source, Span, Timestamp};
use threshold_http::Answer;

use super::answer::Answered;

/// A document with status 200.
pub(super) fn document(text: impl Into<Bytes>) -> Answered {
    let mut response = Response::new(Full::new(text.into()));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// What stands in front of every decision, as it is told to programs.
pub(super) struct Told<'a> {
    pub(super) decision: &'a Decision,
}

impl Told<'_> {
    /// The answer to a request that may go on.
    pub(super) fn allowed(&self, explanation: Option<&Explanation>) -> String {
        let quota = self.decision.quota();
        let mut text = String::with_capacity(256);
        text.push_str(match (self.decision.delay().is_zero(), self.decision.warned()) {
            (false, _) => r#"{"allowed":true,"action":"slow""#,
            (true, true) => r#"{"allowed":true,"action":"warn""#,
            (true, false) => r#"{"allowed":true,"action":"allow""#,
        });
        match &quota {
            Some(quota) => {
                // Names of limits hold nothing that JSON would have to escape.
                for piece in
                    [r#","limit":""#, quota.limit, r#"","layer":""#, quota.layer.word(), r#"","remaining":"#]
                {
                    text.push_str(piece);
                }
                text.push_str(itoa::Buffer::new().format(quota.remaining));
            }
            None => text.push_str(r#","limit":null,"layer":null,"remaining":null"#),
        }
        text.push_str(r#","retryAfterMs":0,"resetAt":"#);
        match &quota {
            Some(quota) => reset_at(self.decision.at(), quota, &mut text),
            None => text.push_str("null"),
        }
        text.push_str(r#","source":""#);
        text.push_str(source(self.decision, quota.as_ref()));
        text.push_str(r#"","warnings":"#);
        match self.decision.doubts().is_empty() && !self.decision.warned() {
            true => text.push_str("[]"),
            false => text.push_str(&self.warnings().to_string()),
        }
        text.push_str(r#","delayMs":"#);
        let delay = u64::try_from(self.decision.delay().as_millis()).unwrap_or(u64::MAX);
        text.push_str(itoa::Buffer::new().format(delay));
        if let Some(explanation) = explanation {
            text.push_str(r#","explanation":"#);
            text.push_str(&self.explained(explanation).to_string());
        }
        text.push('}');
        text
    }

    /// What a refusal says beside the problem.
    pub(super) fn refused(&self, explanation: Option<&Explanation>) -> Vec<(&'static str, Json)> {
        let quota = self.decision.quota();
        let retry = self.decision.refusal().map_or(Retry::Now, |refusal| refusal.retry);
        let mut members = vec![
            ("allowed", json!(false)),
            ("action", json!("deny")),
            ("limit", json!(quota.as_ref().map(|quota| quota.limit))),
            ("layer", json!(quota.as_ref().map(|quota| quota.layer.word()))),
            ("remaining", json!(quota.as_ref().map(|quota| quota.remaining))),
            ("retryAfterMs", retry_after_ms(retry)),
            ("source", json!(source(self.decision, quota.as_ref()))),
            ("warnings", self.warnings()),
            ("delayMs", json!(0)),
        ];
        let reset = match retry {
            Retry::After(span) => Some(self.decision.at().plus(span)),
            _ => None,
        };
        members.push(("resetAt", json!(reset.map(|at| at.to_string()))));
        members.extend(explanation.map(|explanation| ("explanation", self.explained(explanation))));
        members
    }

    fn warnings(&self) -> Json {
        let doubts = self.decision.doubts().iter().map(|doubt| doubt.name());
        doubts.chain(self.decision.warned().then_some("over_limit")).collect()
    }

    fn explained(&self, explanation: &Explanation) -> Json {
        let own = self.decision.considered();
        told(explanation, if own.is_empty() { &explanation.considered } else { &own })
    }
}

/// What would be decided, and why.
pub(crate) fn explained(explanation: &Explanation) -> Json {
    let mut told = told(explanation, &explanation.considered);
    told["refused"] = json!(explanation.refused.as_ref().map(Reason::name));
    told
}

fn told(explanation: &Explanation, considered: &[Considered]) -> Json {
    json!({
        "routes": explanation.routes,
        "considered": considered.iter().map(|one| json!({
            "limit": one.limit,
            "layer": one.layer.word(),
            "source": one.source.name(),
            "key": one.key,
            "rate": one.rate.to_string(),
            "cost": one.cost,
            "enforced": one.mode == Mode::Enforce,
            "before": one.before,
            "after": one.after,
            "retryAfterMs": retry_after_ms(one.retry),
            "gate": one.gate,
            "grace": one.grace,
            "network": one.network,
            "previousSecret": one.previous_secret,
        })).collect::<Vec<_>>(),
        "skipped": explanation.skipped.iter().map(|(limit, why)| json!({
            "limit": limit, "because": why.name(),
        })).collect::<Vec<_>>(),
        "held": explanation.held.iter().map(|(subject, _)| subject.to_string()).collect::<Vec<_>>(),
        "exempt": explanation.exempt,
        "passesAfterMs": retry_after_ms(explanation.passes),
    })
}

/// What came of one charge.
pub(super) fn charged(one: &Charged) -> Json {
    json!({
        "allowed": one.allowed,
        "charged": one.charged,
        "limit": one.limit,
        "layer": one.layer.map(Layer::word),
        "capacity": one.capacity,
        "remaining": one.remaining,
        "retryAfterMs": retry_after_ms(one.retry),
        "resetAt": one.at.plus(Span::from(one.reset)).to_string(),
        "source": one.source.name(),
        "receipt": one.receipt.map(|receipt| receipt.to_string()),
    })
}

/// What came of one charge of several that could not be decided, though others were. Whether it was charged is not known: a
/// store that does not answer may have done it.
pub(super) fn undecided(charge: &Charge<'_>, answer: &Answer) -> Json {
    let problem = answer.problem();
    let seconds = problem.get("retryAfter").and_then(Json::as_u64);
    json!({
        "allowed": false,
        "charged": null,
        "limit": if let Chosen::Limit(limit, _) = charge.by { limit } else { "adhoc" },
        "error": problem.get("error"),
        "detail": problem.get("detail"),
        "retryAfterMs": seconds.map(|seconds| seconds.saturating_mul(1_000)),
    })
}

/// Whole milliseconds, rounded up: 0 if it passes now, null if it never does.
pub(super) fn retry_after_ms(retry: Retry) -> Json {
    match retry {
        Retry::Now => json!(0),
        Retry::After(span) => json!(span.as_micros().div_ceil(1_000)),
        Retry::Never => Json::Null,
    }
}

fn source(decision: &Decision, quota: Option<&Quota>) -> &'static str {
    match quota {
        Some(quota) if quota.layer == Layer::Edge => Source::Local.name(),
        _ => decision.source().name(),
    }
}

fn reset_at(at: Timestamp, quota: &Quota, text: &mut String) {
    let _ = write!(text, "\"{}\"", at.plus(Span::from(quota.reset)));
}
