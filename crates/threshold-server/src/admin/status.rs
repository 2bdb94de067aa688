//! How the parts are, and what an operator can have them do.

use serde::Deserialize;
use serde_json::{Value as Json, json};
use threshold::Span;
use threshold::node::{ComponentName, ComponentState, ComponentStats, Strategy};
use threshold_http::Answer;

use super::ask;
use super::call::{Call, failed, unavailable};
use super::{Admin, Noted};
use crate::api::read::unprocessable;
use crate::archive::Tended;

/// What a counter takes in memory at least: so many fit at most.
const ENTRY_BYTES: usize = 32;
/// How many counters are looked at for those that are over.
const SWEPT: usize = 1_000_000;

/// How the parts are.
pub(super) fn status(call: &Call) -> Json {
    let admin = &*call.admin;
    let node = admin.stores.node.as_ref().map(|node| node.stats());
    let store = node.as_ref().map_or_else(well, |node| component(&node.store));
    let cache = node.as_ref().and_then(|node| node.cache.as_ref()).map_or_else(none, component);
    let archive = admin.archive.as_ref().map_or_else(none, |archive| component(&archive.stats()));
    let pinned = admin.stores.node.as_ref().and_then(|node| node.pinned());
    let (subjects, not_kept) = admin.engine.standing_figures();
    json!({
        "currentStrategy": node.as_ref().map_or(Strategy::Full, |node| node.strategy).name(),
        "pinnedStrategy": pinned.map(Strategy::name),
        "components": {
            "store": store,
            "cache": cache,
            "ledger": component(&admin.engine.ledger_stats()),
            "archive": archive,
        },
        "memoryStore": memory(admin),
        "standings": { "subjects": subjects, "notKept": not_kept },
        "health": admin.health.report().to_json(),
    })
}

/// The store in memory, or what this node counts in memory while the store is gone.
fn memory(admin: &Admin) -> Json {
    let (entries, bytes, most) = match (&admin.stores.memory, &admin.stores.node) {
        (Some(memory), _) => {
            let stats = memory.stats();
            (stats.keys, stats.bytes, stats.max_bytes)
        }
        (None, Some(node)) => {
            let (keys, bytes) = node.stats().shares;
            (keys, bytes, node.max_share_bytes())
        }
        (None, None) => (0, 0, 0),
    };
    json!({ "entries": entries, "maxEntries": most / ENTRY_BYTES, "bytes": bytes, "maxBytes": most })
}

fn component(stats: &ComponentStats) -> Json {
    let status = if stats.state == ComponentState::Up { "healthy" } else { "failing" };
    json!({ "status": status, "latency": milliseconds(stats.latency), "failures": stats.failures })
}

/// One that fails only with the process.
fn well() -> Json {
    json!({ "status": "healthy", "latency": 0.0, "failures": 0 })
}

fn none() -> Json {
    json!({ "status": "none", "latency": null, "failures": 0 })
}

#[expect(clippy::cast_precision_loss, reason = "no latency is that long")]
fn milliseconds(span: Span) -> f64 {
    span.as_micros() as f64 / 1_000.0
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Recover {
    component: Component,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Component {
    Store,
    Cache,
    Ledger,
    Archive,
}

/// Has a component that was given up tried at once.
pub(super) async fn recover(call: &Call) -> Result<Json, Box<Answer>> {
    call.params.only(&[])?;
    let admin = &*call.admin;
    let Recover { component } = call.question()?;
    let (name, was_down) = match component {
        Component::Store => ("store", recover_store(admin, ComponentName::Store)?),
        Component::Cache => ("cache", recover_store(admin, ComponentName::Cache)?),
        Component::Ledger => ("ledger", admin.engine.recover_ledger()),
        Component::Archive => {
            let archive = admin.archive.as_ref().ok_or_else(|| missing("archive"))?;
            ("archive", archive.recover())
        }
    };
    let before = if was_down { "failing" } else { "healthy" }.to_owned();
    let noted = Noted { action: "recover", target: name, before, after: "tried".to_owned() };
    let audited = admin.note(call.by(), noted).await;
    Ok(json!({ "component": name, "wasFailing": was_down, "audited": audited }))
}

fn recover_store(admin: &Admin, name: ComponentName) -> Result<bool, Box<Answer>> {
    let node = admin.stores.node.as_ref().ok_or_else(|| missing(name.name()))?;
    let stats = node.stats();
    let stats = match name {
        ComponentName::Store => Some(stats.store),
        ComponentName::Cache => stats.cache,
    };
    let was_down = stats.ok_or_else(|| missing(name.name()))?.state == ComponentState::Down;
    node.recover(name);
    Ok(was_down)
}

fn missing(name: &str) -> Box<Answer> {
    let detail =
        format!("there is no {name} that could fail; rate-limit-status says which components there are");
    unprocessable("no_component", &detail)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Pin {
    strategy: Option<String>,
}

/// Has the node decide by one strategy, or by what there is.
pub(super) async fn pin(call: &Call) -> Result<Json, Box<Answer>> {
    call.params.only(&[])?;
    let admin = &*call.admin;
    let Pin { strategy } = call.question()?;
    let strategy: Option<Strategy> = strategy
        .map(|name| name.parse())
        .transpose()
        .map_err(|error| unprocessable("no_strategy", &format!("{error}")))?;
    let node = admin.stores.node.as_ref().ok_or_else(|| {
        let detail = "the store is in memory, so there is nothing to choose from; name another with --store";
        unprocessable("no_strategy", detail)
    })?;
    let before = node.pinned();
    if !node.pin(strategy) {
        let detail =
            "there is no second store to decide by; name one with --cache, or choose another strategy";
        return Err(unprocessable("no_strategy", detail));
    }
    admin.health.strategy(node.strategy());
    let shown = |pinned: Option<Strategy>| pinned.map_or("", Strategy::name).to_owned();
    let noted = Noted { action: "pin", target: "strategy", before: shown(before), after: shown(strategy) };
    let audited = admin.note(call.by(), noted).await;
    Ok(json!({
        "pinnedStrategy": strategy.map(Strategy::name), "currentStrategy": node.strategy().name(),
        "audited": audited,
    }))
}

/// Forgets what is over, and writes what waits for the archive.
pub(super) async fn maintain(call: &Call) -> Result<Json, Box<Answer>> {
    call.params.only(&[])?;
    call.question::<Nothing>()?;
    let admin = &*call.admin;
    let swept = ask::sweep_store(&*admin.engine, SWEPT).await.map_err(failed)?;
    let forgotten = ask::sweep_ledger(&*admin.engine).await.map_err(failed)?;
    let archived = match &admin.archive {
        Some(archive) => archive.tend().await.map_err(|why| unavailable(&why))?,
        None => None,
    };
    let after = format!("{} counters and {forgotten} records forgotten", swept.dropped);
    let count = |counted: fn(Tended) -> usize| archived.map(counted);
    let noted =
        Noted { action: "maintain", target: "store, ledger and archive", before: String::new(), after };
    let audited = admin.note(call.by(), noted).await;
    Ok(json!({
        "counters": { "seen": swept.seen, "dropped": swept.dropped },
        "ledgerRecords": forgotten,
        "archivedRows": count(|archived| archived.rows),
        "archivedEvents": count(|archived| archived.events),
        "archiveDaysRemoved": count(|archived| archived.days),
        "archiveObjectsRemoved": count(|archived| archived.objects),
        "audited": audited,
    }))
}

/// An object with nothing in it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}
