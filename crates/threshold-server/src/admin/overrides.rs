//! Other rates for limits.

use serde::Deserialize;
use serde_json::{Value as Json, json};
use threshold::Rate;
use threshold::engine::{Override, OverrideError};
use threshold::ledger::{Change, Query, Record};
use threshold::rate::MAX_COUNT;
use threshold_http::Answer;

use super::ask;
use super::call::{Call, Plain, failed, whom};
use crate::api::read::{bad, given, unprocessable};
use crate::cli::values;
use crate::documents;

/// Those that were not removed.
pub(super) async fn list(call: &Call) -> Result<Json, Box<Answer>> {
    call.params.only(&["limit", "after"])?;
    let now = call.admin.engine.now();
    let told = |record: &Record| match record {
        Record::Override { change, .. } => Some(documents::overriding(change, now)),
        _ => None,
    };
    call.page(&[None], |_, after| Query::Overrides { after }, told).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Set {
    limit: String,
    rate: String,
    #[serde(default, deserialize_with = "given")]
    client: Option<String>,
    #[serde(default)]
    allowance: u64,
    #[serde(default)]
    priority: i32,
    #[serde(rename = "for", default, deserialize_with = "given")]
    span: Option<String>,
    #[serde(default = "yes")]
    enabled: bool,
}

const fn yes() -> bool {
    true
}

/// Sets one, or changes the one of the same id.
pub(super) async fn set(call: &Call) -> Result<Json, Box<Answer>> {
    call.params.only(&[])?;
    let asked: Set = call.question()?;
    let wrong = |what: String| bad("bad_request", &what);
    let now = call.admin.engine.now();
    let span = asked.span.as_deref().map(values::span).transpose().map_err(wrong)?;
    let client = asked.client.as_deref().map(|client| whom(client, Plain::Client)).transpose()?;
    if asked.allowance > MAX_COUNT {
        return Err(wrong(format!("`allowance` is at most {MAX_COUNT}")));
    }
    let change = Override {
        id: values::name(call.name()).map_err(wrong)?,
        limit: asked.limit,
        subject: client.map(|client| call.id(&client)),
        rate: asked.rate.parse::<Rate>().map_err(|error| wrong(error.to_string()))?,
        burst_allowance: asked.allowance,
        enabled: asked.enabled,
        priority: i64::from(asked.priority),
        expires: span.map(|span| now.plus(span)),
    };
    match ask::set_override(&*call.admin.engine, call.by(), change.clone()).await {
        Ok(()) => Ok(json!({ "changed": true, "override": documents::overriding(&change, now) })),
        Err(OverrideError::Ledger(error)) => Err(failed(error)),
        Err(error) => Err(unprocessable("bad_override", &error.to_string())),
    }
}

/// Removes one.
pub(super) async fn remove(call: &Call) -> Result<Json, Box<Answer>> {
    call.params.only(&[])?;
    let id = values::name(call.name()).map_err(|what| bad("bad_request", &what))?;
    let change = Change::RemoveOverride(id);
    let changed = ask::operate(&*call.admin.engine, call.by(), change).await.map_err(failed)?;
    Ok(json!({ "changed": changed }))
}
