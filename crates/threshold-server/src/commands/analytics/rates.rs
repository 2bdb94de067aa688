//! `threshold analytics rates`: how much each limit was used, by day.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use serde_json::{Value, json};
use threshold::SubjectId;

use super::super::ledger::Failed;
use super::{MOST_CLIENTS, Wanted, average, print_json, shown, tell_missing, too_many_clients};
use crate::archive::{Entry, Reading, day};
use crate::cli::Asked;
use crate::output::{Output, table};

/// One limit on one day.
struct Used {
    endpoint: Arc<str>,
    date: String,
    requests: u64,
    windows: u64,
    most: u64,
    clients: u64,
}

/// Days that may still get rows: those come in the order of their hours.
#[derive(Default)]
struct Counting {
    open: BTreeMap<(String, Arc<str>), (Used, HashSet<SubjectId>)>,
    done: Vec<Used>,
    /// How many clients are told apart.
    clients: usize,
}

pub(super) fn rates(
    asked: &Asked,
    mut reading: Reading,
    wanted: &Wanted,
    output: &mut Output,
) -> Result<(), Failed> {
    let mut counting = Counting::default();
    reading.each(|entry| wanted.has(entry), |entry| counting.add(&entry))?;
    counting.close(None);
    let used = counting.done;
    if asked.listing.json {
        print_json(&used.iter().map(Used::document).collect(), output);
    } else if used.is_empty() {
        output.line("No limit was used.");
    } else {
        let headings =
            ["ENDPOINT", "DATE", "TOTAL REQUESTS", "UNIQUE CLIENTS", "AVG PER WINDOW", "MAX PER WINDOW"];
        table(headings, &used.iter().map(Used::row).collect::<Vec<_>>(), output);
    }
    tell_missing(&reading, output);
    Ok(())
}

impl Counting {
    fn add(&mut self, entry: &Entry) -> Result<(), String> {
        let key = (day(entry.window_start), Arc::clone(&entry.limit));
        if !self.open.contains_key(&key) {
            self.close(Some(&key.0));
        }
        let (used, clients) = self.open.entry(key).or_insert_with_key(|(date, endpoint)| {
            let (endpoint, date) = (Arc::clone(endpoint), date.clone());
            (Used { endpoint, date, requests: 0, windows: 0, most: 0, clients: 0 }, HashSet::new())
        });
        used.requests = used.requests.saturating_add(entry.requests);
        used.windows += 1;
        used.most = used.most.max(entry.requests);
        self.clients += usize::from(clients.insert(entry.subject));
        if self.clients > MOST_CLIENTS { Err(too_many_clients()) } else { Ok(()) }
    }

    /// Only a number is left of the clients of days before `date`, or of all days.
    fn close(&mut self, date: Option<&str>) {
        let later = match date {
            Some(date) => self.open.split_off(&(date.to_owned(), "".into())),
            None => BTreeMap::new(),
        };
        for (mut used, clients) in std::mem::replace(&mut self.open, later).into_values() {
            self.clients -= clients.len();
            used.clients = clients.len() as u64;
            self.done.push(used);
        }
    }
}

impl Used {
    fn average(&self) -> f64 {
        average(self.requests, self.windows)
    }

    fn row(&self) -> [String; 6] {
        [
            self.endpoint.to_string(),
            self.date.clone(),
            self.requests.to_string(),
            self.clients.to_string(),
            shown(self.average()),
            self.most.to_string(),
        ]
    }

    fn document(&self) -> Value {
        json!({
            "endpoint": &*self.endpoint,
            "date": self.date,
            "total_requests": self.requests,
            "unique_clients": self.clients,
            "avg_requests_per_window": self.average(),
            "max_requests_per_window": self.most,
        })
    }
}
