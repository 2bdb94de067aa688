//! `threshold analytics rates`: how much each limit was used, by day.

use std::collections::{BTreeMap, HashSet, btree_map};
use std::sync::Arc;

use serde_json::{Value, json};
use threshold::SubjectId;

use super::super::ledger::Failed;
use super::{Counts, Wanted, average, print_json, shown, tell_missing};
use crate::archive::{Entry, Halt, MOST, Missing, Part, Reading, day, in_parts};
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

/// Limits by day, and what is missing.
#[derive(Default)]
struct Rates {
    used: BTreeMap<(String, Arc<str>), Used>,
    missing: Missing,
}

/// Days that may still get rows: those come in the order of their hours.
struct Counting<'a> {
    open: BTreeMap<(String, Arc<str>), (Used, HashSet<SubjectId>)>,
    done: &'a mut BTreeMap<(String, Arc<str>), Used>,
    /// How many clients are told apart.
    clients: usize,
    part: Part,
}

pub(super) fn rates(
    asked: &Asked,
    reading: &Reading,
    wanted: &Wanted,
    output: &mut Output,
) -> Result<(), Failed> {
    let Rates { used, missing } = count(reading, wanted, MOST)?;
    if asked.listing.json {
        print_json(&used.values().map(Used::document).collect(), output);
    } else if used.is_empty() {
        output.line("No limit was used.");
    } else {
        let headings =
            ["ENDPOINT", "DATE", "TOTAL REQUESTS", "UNIQUE CLIENTS", "AVG PER WINDOW", "MAX PER WINDOW"];
        table(headings, &used.values().map(Used::row).collect::<Vec<_>>(), output);
    }
    tell_missing(&missing, output);
    Ok(())
}

/// The same, as documents.
pub(super) fn documents(reading: &Reading, wanted: &Wanted) -> Result<Counts, String> {
    let Rates { used, missing } = count(reading, wanted, MOST)?;
    Ok(Counts::new(used.values().map(Used::document).collect(), missing))
}

/// Counts with no more than `most` clients told apart at once. Each client is in one part, so that parts add up.
fn count(reading: &Reading, wanted: &Wanted, most: usize) -> Result<Rates, String> {
    in_parts(most, |rates: &mut Rates, part| {
        let mut counting = Counting { open: BTreeMap::new(), done: &mut rates.used, clients: 0, part };
        let missing = reading.each(part, |entry| wanted.has(entry), |entry| counting.add(&entry))?;
        counting.close(None);
        rates.missing.note(part, missing);
        Ok(())
    })
}

impl Counting<'_> {
    fn add(&mut self, entry: &Entry) -> Result<(), Halt> {
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
        self.part.check(self.clients)
    }

    /// Only a number is left of the clients of days before `date`, or of all days.
    fn close(&mut self, date: Option<&str>) {
        let later = match date {
            Some(date) => self.open.split_off(&(date.to_owned(), "".into())),
            None => BTreeMap::new(),
        };
        for (key, (mut used, clients)) in std::mem::replace(&mut self.open, later) {
            self.clients -= clients.len();
            used.clients = clients.len() as u64;
            match self.done.entry(key) {
                btree_map::Entry::Occupied(mut known) => known.get_mut().add(&used),
                btree_map::Entry::Vacant(place) => drop(place.insert(used)),
            }
        }
    }
}

impl Used {
    /// Takes in what other clients did.
    fn add(&mut self, other: &Self) {
        self.requests = self.requests.saturating_add(other.requests);
        self.windows += other.windows;
        self.most = self.most.max(other.most);
        self.clients += other.clients;
    }

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::{Folder, write_rows};
    use threshold::usage::Row;
    use threshold::{Span, SubjectKind, Timestamp};

    /// `clients` that each make `client % 7 + 1` requests in each of three hours, each half in a file of its own.
    fn archive(clients: u64) -> threshold_testkit::folder::Folder {
        let folder = threshold_testkit::folder::Folder::new();
        for hour in 0..3 {
            for half in 0..2 {
                let start = Timestamp::from_micros((480_000 + hour) * Span::HOUR.as_micros());
                let row = |client: u64| Row {
                    window_start: start,
                    window: Span::HOUR,
                    limit: "api",
                    layer: None,
                    subject: SubjectId::from_raw(
                        SubjectKind::Address,
                        [client, client.wrapping_mul(0x9e37_79b9_7f4a_7c15)],
                    ),
                    requests: if half == 0 { client % 7 } else { 1 },
                    refused: 0,
                    cost: 0,
                    first: start,
                    last: start,
                };
                let rows: Vec<Row> = (0..clients).map(row).collect();
                write_rows(&Folder::new(folder.path().to_owned()), &format!("{hour}-{half}"), &rows);
            }
        }
        folder
    }

    #[test]
    fn what_does_not_fit_at_once_is_counted_in_parts_with_the_same_result() {
        let folder = archive(2_000);
        let reading = Reading::new(Folder::new(folder.path().to_owned()), Timestamp::default());
        let wanted = Wanted { clients: Vec::new(), limit: None };
        let told = |most: usize| {
            let rates = count(&reading, &wanted, most).unwrap();
            assert!(rates.missing.broken.is_empty(), "{:?}", rates.missing);
            rates.used.values().map(|used| used.document().to_string()).collect::<Vec<_>>()
        };
        let whole = told(MOST);
        let requests: u64 = (0..2_000).map(|client| 3 * (client % 7 + 1)).sum();
        let wanted = format!(
            "{{\"avg_requests_per_window\":{:?},\"date\":\"2024-10-04\",\"endpoint\":\"api\",\
             \"max_requests_per_window\":7,\"total_requests\":{requests},\"unique_clients\":2000}}",
            average(requests, 6_000)
        );
        assert_eq!(whole, [wanted]);
        for most in [1_999, 500, 100, 20] {
            assert_eq!(told(most), whole, "{most}");
        }
    }

    #[test]
    fn what_fits_in_no_number_of_parts_is_told_with_a_remedy() {
        let folder = archive(20_000);
        let reading = Reading::new(Folder::new(folder.path().to_owned()), Timestamp::default());
        let failed = count(&reading, &Wanted { clients: Vec::new(), limit: None }, 0);
        assert!(failed.is_err_and(|what| what.contains("--since")));
    }
}
