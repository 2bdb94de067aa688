//! `threshold analytics requests`: how many requests of whom met which limit, window by window.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::super::ledger::Failed;
use super::{Wanted, print_json, tell_missing};
use crate::archive::{Entry, MOST, Missing, Reading, in_parts};
use crate::cli::Asked;
use crate::output::{Output, Style, table};

/// The newest rows, how many older ones there are, and what is missing.
#[derive(Default)]
struct Newest {
    rows: BTreeSet<Newer>,
    older: u64,
    missing: Missing,
}

/// A row, in the order of the list.
#[derive(PartialEq, Eq)]
struct Newer(Entry);

impl Ord for Newer {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.order(&other.0).then_with(|| self.0.window.cmp(&other.0.window))
    }
}

impl PartialOrd for Newer {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

pub(super) fn requests(
    asked: &Asked,
    reading: &Reading,
    wanted: &Wanted,
    output: &mut Output,
) -> Result<(), Failed> {
    let most = usize::try_from(asked.rows).unwrap_or(usize::MAX);
    let Newest { rows, older, missing } = in_parts(MOST, |newest: &mut Newest, part| {
        let Newest { rows, older, .. } = newest;
        let keep = |entry| {
            rows.insert(Newer(entry));
            if rows.len() > most {
                rows.pop_first();
                *older += 1;
            }
            Ok(())
        };
        let missing = reading.each(part, |entry| wanted.has(entry), keep)?;
        newest.missing.note(part, missing);
        Ok(())
    })?;
    let rows: Vec<Entry> = rows.into_iter().map(|Newer(entry)| entry).collect();
    if asked.listing.json {
        print_json(&rows.iter().map(document).collect(), output);
    } else if rows.is_empty() {
        output.line("Nothing was asked.");
    } else {
        let headings = ["CLIENT", "ENDPOINT", "WINDOW START", "WINDOW", "REQUESTS", "REFUSED", "LAST"];
        table(headings, &rows.iter().map(row).collect::<Vec<_>>(), output);
    }
    if older > 0 {
        let what = format!("{older} older rows are left out; ask for more with --rows");
        output.labelled(Style::Quiet, "note", &what);
    }
    tell_missing(&missing, output);
    Ok(())
}

fn row(entry: &Entry) -> [String; 7] {
    [
        entry.subject.to_string(),
        entry.limit.to_string(),
        entry.window_start.to_string(),
        entry.window.to_string(),
        entry.requests.to_string(),
        entry.refused.to_string(),
        entry.last.to_string(),
    ]
}

fn document(entry: &Entry) -> Value {
    json!({
        "client_id": entry.subject.to_string(),
        "endpoint": &*entry.limit,
        "layer": entry.layer.as_deref(),
        "timestamp": entry.last.to_string(),
        "window_start": entry.window_start.to_string(),
        "window_seconds": entry.window.as_secs_ceil(),
        "request_count": entry.requests,
        "refused": entry.refused,
        "created_at": entry.first.to_string(),
        "updated_at": entry.last.to_string(),
    })
}
