//! Who is kept out: listed, imposed, lifted.

use serde::Deserialize;
use serde_json::{Value as Json, json};
use threshold::SubjectId;
use threshold::ledger::{Change, Query, Record, Sanction, SanctionKind};
use threshold_http::Answer;

use super::ask;
use super::call::{Call, Plain, failed, whom};
use crate::api::read::{bad, given, unprocessable};
use crate::cli::values;
use crate::documents;

/// Those that are in force, or all that are kept.
pub(super) async fn list(call: &Call) -> Result<Json, Box<Answer>> {
    call.params.only(&["client", "kind", "active", "limit", "after"])?;
    let now = call.admin.engine.now();
    let active_at = call.params.flag("active", true)?.then_some(now);
    let only = call.params.get("kind").map(kind).transpose()?;
    let subjects = call.filter(Plain::Client)?;
    let query = |subject, after| Query::Sanctions { subject, active_at, after };
    let told = |record: &Record| match record {
        Record::Sanction(sanction) if only.is_none_or(|only| only == sanction.kind) => {
            Some(documents::sanction(sanction, now))
        }
        _ => None,
    };
    call.page(&subjects, query, told).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Impose {
    client: String,
    #[serde(default, deserialize_with = "given")]
    kind: Option<String>,
    #[serde(rename = "for")]
    span: String,
    reason: String,
}

/// Keeps somebody out, or extends what is in force.
pub(super) async fn impose(call: &Call) -> Result<Json, Box<Answer>> {
    call.params.only(&[])?;
    let asked: Impose = call.question()?;
    let subject = call.id(&whom(&asked.client, Plain::Client)?);
    let kind = asked.kind.as_deref().map_or(Ok(SanctionKind::Ban), kind)?;
    let span = values::span(&asked.span).map_err(|what| bad("bad_request", &format!("`for`: {what}")))?;
    let reason = values::reason(&asked.reason).map_err(|what| bad("bad_request", &what))?;
    if !subject.can_be_sanctioned() {
        let detail = "only addresses and users can be kept out; name one of those";
        return Err(unprocessable("not_sanctionable", detail));
    }
    let until = call.admin.engine.now().plus(span);
    let change = Change::Impose { subject, kind, until, reason };
    let changed = ask::operate(&*call.admin.engine, call.by(), change).await.map_err(failed)?;
    let mut in_force = of(call, subject, true).await?;
    in_force.retain(|sanction| sanction.kind == kind);
    told(call, changed, &in_force)
}

/// Lets somebody in again.
pub(super) async fn lift(call: &Call) -> Result<Json, Box<Answer>> {
    call.params.only(&["kind"])?;
    let only = call.params.get("kind").map(kind).transpose()?;
    let (mut changed, mut lifted) = (false, Vec::new());
    for subject in call.ids(&whom(call.name(), Plain::Client)?) {
        let mut before = of(call, subject, true).await?;
        before.retain(|sanction| only.is_none_or(|only| only == sanction.kind));
        let change = Change::Lift { subject, kind: only };
        changed |= ask::operate(&*call.admin.engine, call.by(), change).await.map_err(failed)?;
        let after = of(call, subject, false).await?;
        lifted.extend(after.into_iter().filter(|one| before.iter().any(|before| before.id == one.id)));
    }
    told(call, changed, &lifted)
}

fn told(call: &Call, changed: bool, sanctions: &[Sanction]) -> Result<Json, Box<Answer>> {
    let now = call.admin.engine.now();
    let documents: Vec<Json> = sanctions.iter().map(|sanction| documents::sanction(sanction, now)).collect();
    Ok(json!({ "changed": changed, "sanctions": documents }))
}

/// The sanctions of a subject, as many as fit on a page of the ledger.
pub(super) async fn of(call: &Call, subject: SubjectId, active: bool) -> Result<Vec<Sanction>, Box<Answer>> {
    let active_at = active.then(|| call.admin.engine.now());
    let query = Query::Sanctions { subject: Some(subject), active_at, after: 0 };
    let page = ask::read(&*call.admin.engine, &query).await.map_err(failed)?;
    let sanction = |record| if let Record::Sanction(sanction) = record { Some(sanction) } else { None };
    Ok(page.records.into_iter().filter_map(sanction).collect())
}

fn kind(name: &str) -> Result<SanctionKind, Box<Answer>> {
    let known = SanctionKind::ALL.into_iter().find(|kind| kind.name() == name);
    known.ok_or_else(|| bad("bad_request", "`kind` is ban, shadow or cooldown"))
}
