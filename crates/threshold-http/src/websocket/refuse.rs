//! The gate that every refused message comes to: what is told, to whom, and what becomes of the connection.

use serde_json::{Value as Json, json};
use threshold::engine::{Decision, Reason};
use threshold::policy::OnExceed;
use threshold::{Retry, Timestamp};

/// The code that a connection is closed with whose client is banned.
const POLICY_VIOLATION: u16 = 1008;

/// What a hook is told about a message that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Exceeded {
    /// `payload` or `rate`.
    pub kind: &'static str,
    /// The connection, by the number it was given.
    pub client_id: String,
    /// The type of the message, as it said.
    pub message_type: Option<String>,
    /// The limit that refused it, if the policy has it.
    pub limit_id: Option<&'static str>,
    /// What it asked for: its cost, or its bytes.
    pub observed: u64,
    /// What there is at most.
    pub limit: u64,
    /// When the same message passes, rounded up; none if it never does.
    pub retry_after_ms: Option<u64>,
}

/// A message that does not go on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refused {
    /// What the hook was told; none if no limit refused it.
    pub exceeded: Option<Exceeded>,
    /// What is to be done.
    pub then: Then,
}

/// What is to be done about a message that does not go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Then {
    /// Nothing.
    Nothing,
    /// Send this to the client.
    Send(String),
    /// Close the connection with this code and reason.
    Close(u16, &'static str),
}

/// Why a message does not go on.
pub(super) enum Why<'d> {
    /// It is larger than this.
    Payload(u64),
    /// The connection sends faster than this allows.
    Pace(u64, Retry),
    /// The connection has sent so many.
    Lifetime(u64),
    /// The engine says so.
    Decision(&'d Decision),
    /// It cannot be read in one way only, or costs nothing.
    Invalid(&'static str),
    /// Nobody can say.
    Unavailable,
}

/// What is said about a message.
pub(super) struct Said<'a> {
    pub(super) client_id: u128,
    pub(super) kind: Option<&'a str>,
    /// The id by which its sender knows it.
    pub(super) id: Option<&'a str>,
    pub(super) bytes: u64,
}

/// What an envelope says.
struct Told<'a> {
    code: &'static str,
    message: &'static str,
    details: Json,
    /// When to try again; none if that cannot help.
    retry_after_ms: Option<u64>,
    id: Option<&'a str>,
    at: Timestamp,
}

impl Why<'_> {
    /// What a hook is told; none if no limit is to blame.
    pub(super) fn exceeded(&self, said: &Said<'_>) -> Option<Exceeded> {
        let (kind, limit_id, observed, limit) = match self {
            Self::Payload(most) => ("payload", None, said.bytes, *most),
            Self::Pace(most, _) => ("rate", None, 1, *most),
            Self::Lifetime(most) => ("rate", None, most.saturating_add(1), *most),
            Self::Decision(decision) => {
                let quota = decision.quota();
                let id = quota.as_ref().map(|quota| quota.limit);
                let parts = decision.considered();
                let refusing = parts.iter().find(|part| Some(part.limit) == id && part.retry != Retry::Now);
                ("rate", id, refusing.map_or(1, |part| part.cost), quota.map_or(0, |quota| quota.capacity))
            }
            Self::Invalid(_) | Self::Unavailable => return None,
        };
        Some(Exceeded {
            kind,
            client_id: format!("{:032x}", said.client_id),
            message_type: said.kind.map(str::to_owned),
            limit_id,
            observed,
            limit,
            retry_after_ms: self.retry_after_ms(),
        })
    }

    /// What is to be done, where `on_exceed` and `close_code` were asked for.
    pub(super) fn then(
        &self,
        said: &Said<'_>,
        at: Timestamp,
        (on_exceed, close_code): (OnExceed, u16),
    ) -> Then {
        if self.is_abuse() {
            return Then::Close(POLICY_VIOLATION, "banned");
        }
        match (on_exceed, self) {
            (_, Self::Invalid(_) | Self::Unavailable) | (OnExceed::Send, _) => {
                Then::Send(self.envelope(said, at))
            }
            (OnExceed::Close, Self::Payload(_)) => Then::Close(close_code, "message too large"),
            (OnExceed::Close, _) => Then::Close(close_code, "rate limit exceeded"),
            (OnExceed::Custom, _) => Then::Nothing,
        }
    }

    /// True if its sender is not wanted at all.
    fn is_abuse(&self) -> bool {
        let Self::Decision(decision) = self else { return false };
        let reason = decision.refusal().map(|refusal| refusal.reason);
        matches!(reason, Some(Reason::Banned { .. } | Reason::Listed))
    }

    fn retry_after_ms(&self) -> Option<u64> {
        let retry = match self {
            Self::Payload(_) | Self::Lifetime(_) | Self::Invalid(_) => Retry::Never,
            Self::Pace(_, retry) => *retry,
            Self::Decision(decision) => decision.refusal().map_or(Retry::Now, |refusal| refusal.retry),
            Self::Unavailable => return Some(1_000),
        };
        match retry {
            Retry::Now => Some(0),
            Retry::After(span) => Some(span.as_micros().div_ceil(1_000)),
            Retry::Never => None,
        }
    }

    fn envelope(&self, said: &Said<'_>, at: Timestamp) -> String {
        let retry_after_ms = self.retry_after_ms();
        let (code, message) = match (self, retry_after_ms) {
            (Self::Invalid(what), _) => ("INVALID_ARGUMENT", *what),
            (Self::Unavailable, _) => ("UNAVAILABLE", "limits cannot be checked just now"),
            (Self::Payload(_), _) => ("FAILED_PRECONDITION", "the message is larger than allowed"),
            (Self::Lifetime(_), _) => ("FAILED_PRECONDITION", "the connection has sent all that it may"),
            (_, None) => ("FAILED_PRECONDITION", "the message costs more than its limit ever allows"),
            (_, Some(_)) => ("RESOURCE_EXHAUSTED", "too many messages"),
        };
        let details = self.exceeded(said).map_or(Json::Null, |exceeded| {
            json!({
                "type": exceeded.kind, "messageType": exceeded.message_type, "limitId": exceeded.limit_id,
                "observed": exceeded.observed, "limit": exceeded.limit,
            })
        });
        Told { code, message, details, retry_after_ms, id: said.id, at }.envelope()
    }
}

impl Told<'_> {
    fn envelope(&self) -> String {
        let meta = match self.id {
            Some(id) => json!({ "timestamp": self.at.as_micros() / 1_000, "correlationId": id }),
            None => json!({ "timestamp": self.at.as_micros() / 1_000 }),
        };
        let payload = json!({
            "code": self.code, "message": self.message, "details": self.details,
            "retryable": self.retry_after_ms.is_some(), "retryAfterMs": self.retry_after_ms,
        });
        json!({ "type": "ERROR", "meta": meta, "payload": payload }).to_string()
    }
}
