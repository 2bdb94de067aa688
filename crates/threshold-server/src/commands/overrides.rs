//! `threshold overrides`: which limits have other rates, for whom and until when.

use serde_json::json;
use threshold::Timestamp;
use threshold::engine::Override;
use threshold::ledger::{Change, Query, Record};

use super::ledger::{Desk, Failed, ended, on_ledger};
use super::served;
use crate::Ended;
use crate::cli::{Overrides, OverridesAdd, OverridesLift, OverridesList};
use crate::config::{self, Access};
use crate::documents;
use crate::output::{Output, left, table};

/// Does what is asked about overrides.
pub(crate) fn overrides(overrides: &Overrides, output: &mut Output) -> Ended {
    if let Some(ended) = served::overrides(overrides, output) {
        return ended;
    }
    match overrides {
        Overrides::List(asked) => {
            on_ledger(&asked.listing.place, Access::Existing, output, async |desk| list(asked, desk).await)
        }
        Overrides::Add(asked) => {
            on_ledger(&asked.acting.place, Access::Make, output, async |desk| add(asked, desk).await)
        }
        Overrides::Lift(asked) => {
            on_ledger(&asked.acting.place, Access::Existing, output, async |desk| lift(asked, desk).await)
        }
    }
}

async fn list(asked: &OverridesList, mut desk: Desk<'_>) -> Result<Ended, Failed> {
    let now = desk.source.now();
    let records = desk.source.read(|after| Query::Overrides { after }).await?;
    let one = |record| if let Record::Override { change, .. } = record { Some(change) } else { None };
    let mut overrides: Vec<Override> = records.into_iter().filter_map(one).collect();
    overrides.retain(|one| asked.all || !is_over(one, now));
    if asked.listing.json {
        desk.json(&overrides.iter().map(|one| documents::overriding(one, now)).collect());
    } else if overrides.is_empty() {
        desk.line("No limit has another rate than its policy says.");
    } else {
        let rows: Vec<_> = overrides.iter().map(|one| row(one, now)).collect();
        let headings = ["ID", "LIMIT", "RATE", "ALLOWANCE", "FOR", "PRIORITY", "STATE", "UNTIL"];
        table(headings, &rows, desk.output);
    }
    Ok(Ended::Well)
}

async fn add(asked: &OverridesAdd, mut desk: Desk<'_>) -> Result<Ended, Failed> {
    let (by, at) = (config::operator(asked.acting.by.as_deref())?, desk.source.now());
    let one = Override {
        id: asked.id.clone(),
        limit: asked.limit.clone(),
        subject: asked.favoured.whom().map(|whom| desk.source.id(&whom)),
        rate: asked.rate,
        burst_allowance: asked.allowance,
        enabled: !asked.off,
        priority: asked.priority,
        expires: asked.span.map(|span| at.plus(span)),
    };
    desk.check(&one)?;
    let changed = desk.source.change((&by, at), vec![Change::SetOverride(one.clone())]).await? == [true];
    if asked.acting.json {
        desk.json(&json!({ "changed": changed, "override": documents::overriding(&one, at) }));
    } else {
        let off = if one.enabled { "" } else { ", switched off" };
        let (id, limit, rate, end) = (&one.id, &one.limit, &one.rate, end(&one, at));
        desk.line(&format!("set override {id}: {limit} at {rate} for {}, {end}{off}", whom(&one)));
    }
    Ok(ended(changed))
}

async fn lift(asked: &OverridesLift, mut desk: Desk<'_>) -> Result<Ended, Failed> {
    let (by, at, id) = (config::operator(asked.acting.by.as_deref())?, desk.source.now(), &asked.id);
    let change = Change::RemoveOverride(id.clone());
    let changed = desk.source.change((&by, at), vec![change]).await? == [true];
    if asked.acting.json {
        desk.json(&json!({ "changed": changed, "id": id }));
    } else if changed {
        desk.line(&format!("removed override {id}"));
    } else {
        desk.line(&format!(
            "nothing to lift for override {id}; `threshold overrides list` says what there is"
        ));
    }
    Ok(ended(changed))
}

fn is_over(one: &Override, now: Timestamp) -> bool {
    one.expires.is_some_and(|end| end <= now)
}

fn whom(one: &Override) -> String {
    one.subject.map_or_else(|| "everyone".to_owned(), |subject| subject.to_string())
}

fn end(one: &Override, now: Timestamp) -> String {
    match one.expires {
        Some(end) => format!("until {end} ({})", left(end, now)),
        None => "until it is removed".to_owned(),
    }
}

fn row(one: &Override, now: Timestamp) -> [String; 8] {
    let until = one.expires.map(|end| format!("{end} ({})", left(end, now)));
    let state = if one.enabled { "on" } else { "off" };
    [
        one.id.clone(),
        one.limit.clone(),
        one.rate.to_string(),
        one.burst_allowance.to_string(),
        whom(one),
        one.priority.to_string(),
        state.to_owned(),
        until.unwrap_or_else(|| "it is removed".to_owned()),
    ]
}
