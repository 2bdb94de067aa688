//! What the ledger has, as JSON: one shape, whether it is told by the admin API or by a command.

use serde_json::{Map, Value, json};
use threshold::Timestamp;
use threshold::engine::Override;
use threshold::ledger::{Author, Erased, Failures, RecordClass, Sanction};

/// A sanction.
pub(crate) fn sanction(sanction: &Sanction, now: Timestamp) -> Value {
    let (imposed_by, operator, limit, strikes) = match &sanction.author {
        Author::Ladder { limit, strikes } => ("ladder", None, Some(limit), Some(strikes)),
        Author::Operator(name) => ("operator", Some(name), None, None),
    };
    json!({
        // Numbers that may be large are texts, which every reader of JSON keeps whole.
        "id": sanction.id.to_string(),
        "subject": sanction.subject.to_string(),
        "kind": sanction.kind.name(),
        "from": sanction.from.to_string(),
        "until": sanction.until.to_string(),
        "inForce": sanction.is_active(now),
        "reason": sanction.reason,
        "imposedBy": imposed_by,
        "operator": operator,
        "limit": limit,
        "strikes": strikes,
        "liftedAt": sanction.lifted.as_ref().map(|lifted| lifted.at.to_string()),
        "liftedBy": sanction.lifted.as_ref().map(|lifted| &lifted.by),
    })
}

/// An override.
pub(crate) fn overriding(one: &Override, now: Timestamp) -> Value {
    json!({
        "id": one.id,
        "limit": one.limit,
        "rate": one.rate.to_string(),
        "subject": one.subject.map(|subject| subject.to_string()),
        "allowance": one.burst_allowance,
        "priority": one.priority,
        "enabled": one.enabled,
        "expires": one.expires.map(|end| end.to_string()),
        "inForce": one.enabled && one.expires.is_none_or(|end| now < end),
    })
}

/// Failed logins that lock somebody out.
pub(crate) fn lockout(failures: &Failures) -> Value {
    json!({
        "account": failures.account.to_string(),
        "source": failures.source.to_string(),
        "failures": failures.tally.parts().0,
        "lockedUntil": failures.locked_until.to_string(),
    })
}

/// How much of the ledger was forgotten.
pub(crate) fn erased(erased: &Erased) -> Value {
    let count = |class: RecordClass| (class.name().to_owned(), json!(erased.of(class)));
    let mut counts: Map<String, Value> = RecordClass::ALL.into_iter().map(count).collect();
    counts.insert("auditRedacted".to_owned(), json!(erased.redacted));
    Value::Object(counts)
}
