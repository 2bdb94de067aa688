//! What was written down: violations, standings, and who changed what.

use serde_json::{Value as Json, json};
use threshold::SubjectId;
use threshold::ledger::{Audit, Query, Record, Standing, ViolationRecord};
use threshold_http::Answer;

use super::ask;
use super::call::{Call, Order, Plain, failed, whom};
use super::sanctions;
use crate::documents;

/// What was violated, the oldest first unless told.
pub(super) async fn violations(call: &Call) -> Result<Json, Box<Answer>> {
    call.params.only(&["client", "limit", "after", "order"])?;
    let (subjects, order) = (call.filter(Plain::Client)?, call.order()?);
    let query = |subject, from| match order {
        Order::Oldest => Query::Violations { subject, after: from },
        Order::Newest => Query::LatestViolations { subject, before: from },
    };
    let told = |record: &Record| match record {
        Record::Violation(violation) => Some(violation_document(violation)),
        _ => None,
    };
    call.ordered_page(order, &subjects, query, told).await
}

/// What is held against somebody.
pub(super) async fn standing(call: &Call) -> Result<Json, Box<Answer>> {
    call.params.only(&[])?;
    let mut all = Vec::new();
    for subject in call.ids(&whom(call.name(), Plain::Client)?) {
        all.push(standing_of(call, subject).await?);
    }
    Ok(json!({ "subjects": all }))
}

/// What is held against one subject.
pub(super) async fn standing_of(call: &Call, subject: SubjectId) -> Result<Json, Box<Answer>> {
    let engine = &call.admin.engine;
    let page = ask::read(&**engine, &Query::Standing(subject)).await.map_err(failed)?;
    let standing = page.records.into_iter().find_map(|record| match record {
        Record::Standing(standing) => Some(standing),
        _ => None,
    });
    let now = engine.now();
    let in_force = sanctions::of(call, subject, true).await?;
    let documents: Vec<Json> = in_force.iter().map(|one| documents::sanction(one, now)).collect();
    let mut document = standing_document(call, standing.as_ref());
    document["subject"] = json!(subject.to_string());
    document["sanctions"] = json!(documents);
    Ok(document)
}

fn standing_document(call: &Call, standing: Option<&Standing>) -> Json {
    let (rules, now) = (call.admin.engine.rules(), call.admin.engine.now());
    let score = rules.reputation().map(|reputation| {
        let score = standing.map(|standing| standing.score).unwrap_or_default();
        let points = score.points(reputation, now);
        (points, reputation.risk(points).name())
    });
    json!({
        "strikes": standing.map_or(0, |standing| standing.strikes.parts().0),
        "violations": standing.map_or(0, |standing| standing.violations),
        "reputationScore": score.map(|(points, _)| points),
        "riskLevel": score.map(|(_, risk)| risk),
        "firstSeen": standing.map(|standing| standing.first_seen.to_string()),
        "lastViolation": standing.map(|standing| standing.last_seen.to_string()),
    })
}

/// Who changed what, the oldest first unless told.
pub(super) async fn audit(call: &Call) -> Result<Json, Box<Answer>> {
    call.params.only(&["limit", "after", "order"])?;
    let order = call.order()?;
    let told = |record: &Record| match record {
        Record::Audit(audit) => Some(audit_document(audit)),
        _ => None,
    };
    let query = |_, from| match order {
        Order::Oldest => Query::Audit { after: from },
        Order::Newest => Query::LatestAudit { before: from },
    };
    call.ordered_page(order, &[None], query, told).await
}

fn audit_document(audit: &Audit) -> Json {
    json!({
        "id": audit.id.to_string(),
        "at": audit.at.to_string(),
        "by": audit.by,
        "action": audit.action,
        "target": audit.target,
        "before": audit.before,
        "after": audit.after,
    })
}

pub(super) fn violation_document(violation: &ViolationRecord) -> Json {
    let country =
        violation.country.map(|letters| letters.iter().copied().map(char::from).collect::<String>());
    json!({
        "id": violation.id.to_string(),
        "subject": violation.subject.to_string(),
        "limit": violation.limit,
        "kind": violation.kind.name(),
        "at": violation.at.to_string(),
        "count": violation.count,
        "allowed": violation.allowed,
        "windowSeconds": violation.window.as_secs_ceil(),
        "fingerprint": violation.fingerprint,
        "userAgent": violation.user_agent,
        "country": country,
        "details": violation.details,
    })
}
