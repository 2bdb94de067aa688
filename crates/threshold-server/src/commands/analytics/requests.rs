//! `threshold analytics requests`: how many requests of whom met which limit, window by window.

use std::collections::VecDeque;

use serde_json::{Value, json};

use super::super::ledger::Failed;
use super::{Wanted, print_json, tell_missing};
use crate::archive::{Entry, Reading};
use crate::cli::Asked;
use crate::output::{Output, Style, table};

pub(super) fn requests(
    asked: &Asked,
    mut reading: Reading,
    wanted: &Wanted,
    output: &mut Output,
) -> Result<(), Failed> {
    let most = usize::try_from(asked.rows).unwrap_or(usize::MAX);
    let (mut rows, mut older) = (VecDeque::new(), 0_u64);
    reading.each(
        |entry| wanted.has(entry),
        |entry| {
            if rows.len() == most {
                rows.pop_front();
                older += 1;
            }
            rows.push_back(entry);
            Ok(())
        },
    )?;
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
    tell_missing(&reading, output);
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
        "timestamp": entry.last.to_string(),
        "window_start": entry.window_start.to_string(),
        "window_seconds": entry.window.as_secs_ceil(),
        "request_count": entry.requests,
        "refused": entry.refused,
        "created_at": entry.first.to_string(),
        "updated_at": entry.last.to_string(),
    })
}
