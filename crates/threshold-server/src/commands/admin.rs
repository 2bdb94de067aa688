//! `threshold status`, `threshold audit` and `threshold maintenance`: what a running server says and does.

use std::collections::VecDeque;
use std::path::Path;

use http::Method;
use serde_json::{Value, json};

use crate::Ended;
use crate::cli::{AdminPlace, Audit, Maintenance, Status};
use crate::output::{Output, Style, harmless, harmless_json, table};
use crate::remote::Remote;

/// Says how a server's parts are.
pub(crate) fn status(asked: &Status, output: &mut Output) -> Ended {
    asking(&asked.place, output, async |remote, output| {
        let status = remote.get("rate-limit-status").await?;
        match asked.place.json {
            true => print(&status, output),
            false => show(&status, output),
        }
        let components = status["components"].as_object().into_iter().flatten();
        let failing = components.into_iter().any(|(_, component)| component["status"] == "failing");
        Ok(if failing { Ended::Unchanged } else { Ended::Well })
    })
}

fn show(status: &Value, output: &mut Output) {
    let names = ["store", "cache", "ledger", "archive"];
    let rows: Vec<_> = names.map(|name| component(name, &status["components"][name])).into();
    table(["COMPONENT", "STATUS", "LATENCY", "FAILURES"], &rows, output);
    let memory = &status["memoryStore"];
    let pinned = status["pinnedStrategy"].as_str().map_or("", |_| " (pinned)");
    output.line("");
    output.line(&harmless(&format!("strategy  {}{pinned}", text(&status["currentStrategy"]))));
    output.line(&format!(
        "memory    {} counters of at most {}",
        text(&memory["entries"]),
        text(&memory["maxEntries"])
    ));
    output.line(&format!("standing  {} subjects", text(&status["standings"]["subjects"])));
    output.line(&harmless(&format!("policy    {}", text(&status["health"]["policy"]))));
}

fn component(name: &str, about: &Value) -> [String; 4] {
    let latency = about["latency"].as_f64().map_or_else(String::new, |latency| format!("{latency:.2} ms"));
    [name.to_owned(), text(&about["status"]), latency, text(&about["failures"])]
}

/// Has a server tidy up.
pub(crate) fn maintenance(asked: &Maintenance, output: &mut Output) -> Ended {
    asking(&asked.place, output, async |remote, output| {
        let done = remote.patient().ask(Method::POST, "maintenance", Some(json!({}))).await?;
        if asked.place.json {
            print(&done, output);
            return Ok(Ended::Well);
        }
        let count = |name: &str| done[name].as_u64().unwrap_or(0);
        output.line(&format!("counters  {} forgotten", text(&done["counters"]["dropped"])));
        output.line(&format!("ledger    {} records forgotten", count("ledgerRecords")));
        if !done["archivedRows"].is_null() {
            let (rows, events) = (count("archivedRows"), count("archivedEvents"));
            let (days, objects) = (count("archiveDaysRemoved"), count("archiveObjectsRemoved"));
            let removed = format!("{days} days and {objects} objects removed");
            output.line(&format!("archive   {rows} rows and {events} events written, {removed}"));
        }
        Ok(Ended::Well)
    })
}

/// Says who changed what.
pub(crate) fn audit(asked: &Audit, output: &mut Output) -> Ended {
    asking(&asked.place, output, async |remote, output| {
        let (most, mut entries) = (usize::try_from(asked.rows).unwrap_or(usize::MAX), VecDeque::new());
        let mut after = Some("0".to_owned());
        while let Some(from) = after {
            let mut page = remote.get(&format!("audit?limit=1000&after={from}")).await?;
            if let Value::Array(items) = page["items"].take() {
                entries.extend(items);
            }
            entries.drain(..entries.len().saturating_sub(most));
            after = page["next"].as_str().map(str::to_owned);
        }
        if asked.place.json {
            print(&entries.into_iter().collect(), output);
        } else if entries.is_empty() {
            output.line("Nothing was changed.");
        } else {
            let row = |entry: &Value| {
                ["at", "by", "action", "target", "before", "after"].map(|name| text(&entry[name]))
            };
            let rows: Vec<_> = entries.iter().map(row).collect();
            table(["AT", "BY", "ACTION", "TARGET", "BEFORE", "AFTER"], &rows, output);
        }
        Ok(Ended::Well)
    })
}

pub(super) fn asking(
    place: &AdminPlace,
    output: &mut Output,
    work: impl AsyncFnOnce(&Remote, &mut Output) -> Result<Ended, String>,
) -> Ended {
    with_server((place.admin.as_deref(), place.token_file.as_deref()), output, work)
}

/// Has `work` done with the server at an address, with the token of a file, and tells what went wrong.
pub(super) fn with_server(
    (url, token_file): (Option<&str>, Option<&Path>),
    output: &mut Output,
    work: impl AsyncFnOnce(&Remote, &mut Output) -> Result<Ended, String>,
) -> Ended {
    let done = Remote::new(url, token_file).and_then(|remote| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| format!("no runtime could be started: {error}; try again"))?;
        runtime.block_on(work(&remote, output))
    });
    done.unwrap_or_else(|what| {
        output.labelled(Style::Error, "error", &harmless(&what));
        Ended::NotRun
    })
}

pub(super) fn print(document: &Value, output: &mut Output) {
    output.line(&harmless_json(&format!("{document:#}")));
}

pub(super) fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
