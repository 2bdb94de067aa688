//! `threshold analytics clients`: who asked how often, and how they stand.

use std::cmp::Reverse;
use std::collections::HashMap;

use serde_json::{Value, json};
use threshold::ledger::{Query, Record, Standing};
use threshold::standing::Reputation;
use threshold::usage::EVERY_REQUEST;
use threshold::{SubjectId, Timestamp};

use super::super::ledger::{Desk, Failed};
use super::{Counts, MOST_CLIENTS, Wanted, since, tell_missing, too_many_clients};
use crate::Ended;
use crate::archive::{Entry, Folder, MOST, Missing, Reading, in_parts};
use crate::cli::Asked;
use crate::output::{Style, table};

/// What is known of one client.
#[derive(Default)]
struct Client {
    requests: u64,
    first: Option<Timestamp>,
    last: Option<Timestamp>,
    standing: Option<Standing>,
}

type Clients = HashMap<SubjectId, Client>;

/// What scores are worked out by.
pub(crate) struct Scale {
    pub(crate) reputation: Option<Reputation>,
    pub(crate) now: Timestamp,
    /// True if there is an archive.
    pub(crate) counted: bool,
}

pub(super) async fn clients(
    asked: &Asked,
    folder: Option<Folder>,
    mut desk: Desk<'_>,
) -> Result<Ended, Failed> {
    let ids = asked.whom().map(|whom| desk.source.ids(&whom)).unwrap_or_default();
    let mut clients = Clients::new();
    let scale = Scale { reputation: desk.reputation(), now: desk.source.now(), counted: folder.is_some() };
    if scale.reputation.is_none() {
        let what =
            "no scores without a policy that has [reputation]; name the one of the servers with --config";
        desk.output.labelled(Style::Quiet, "note", what);
    }
    match folder {
        Some(folder) => count(asked, (folder, &ids), &mut clients, &mut desk)?,
        None => {
            let what = "no requests without an archive; name its folder with --archive";
            desk.output.labelled(Style::Quiet, "note", what);
        }
    }
    let take = |record| match record {
        Record::Standing(standing) if ids.is_empty() || ids.contains(&standing.subject) => {
            let client = of(&mut clients, standing.subject)?;
            client.standing = Some(standing);
            Ok(())
        }
        _ => Ok(()),
    };
    desk.source.each(|after| Query::Changes { after }, take).await?;
    print(asked, clients, &scale, &mut desk);
    Ok(Ended::Well)
}

/// From when on: always, unless told.
pub(super) fn since_when(asked: &Asked) -> Timestamp {
    if asked.since.is_some() { since(asked) } else { Timestamp::default() }
}

/// Counts the requests of the archive.
fn count(
    asked: &Asked,
    (folder, ids): (Folder, &[SubjectId]),
    clients: &mut Clients,
    desk: &mut Desk<'_>,
) -> Result<(), Failed> {
    let reading = Reading::new(folder, since_when(asked));
    // Each request once, whatever limits it met.
    let limit = asked.limit.clone().unwrap_or_else(|| EVERY_REQUEST.to_owned());
    let wanted = Wanted { clients: ids.to_vec(), limit: Some(limit) };
    let (counted, missing) = requests(&reading, &wanted)?;
    tell_missing(&missing, desk.output);
    *clients = counted;
    Ok(())
}

fn requests(reading: &Reading, wanted: &Wanted) -> Result<(Clients, Missing), String> {
    in_parts(MOST, |counted: &mut (Clients, Missing), part| {
        let (clients, missing) = counted;
        let add = |entry: Entry| {
            let client = of(clients, entry.subject)?;
            client.requests = client.requests.saturating_add(entry.requests);
            client.first = Some(client.first.map_or(entry.first, |first| first.min(entry.first)));
            client.last = client.last.max(Some(entry.last));
            Ok(())
        };
        missing.note(part, reading.each(part, |entry| wanted.has(entry), add)?);
        Ok(())
    })
}

/// The same with `standings`, as documents.
pub(super) fn documents(
    reading: Option<&Reading>,
    standings: Vec<Standing>,
    scale: &Scale,
    most: usize,
) -> Result<Counts, String> {
    let wanted = Wanted { clients: Vec::new(), limit: Some(EVERY_REQUEST.to_owned()) };
    let (mut clients, missing) = match reading {
        Some(reading) => requests(reading, &wanted)?,
        None => Default::default(),
    };
    for standing in standings {
        of(&mut clients, standing.subject)?.standing = Some(standing);
    }
    let mut clients = sorted(clients);
    clients.truncate(most);
    let rows = clients.iter().map(|(subject, client)| client.document(subject, scale)).collect();
    Ok(Counts::new(rows, missing))
}

/// The worst first, then the busiest.
fn sorted(clients: Clients) -> Vec<(SubjectId, Client)> {
    let mut clients: Vec<(SubjectId, Client)> = clients.into_iter().collect();
    clients.sort_by_key(|(subject, client)| (Reverse((client.violations(), client.requests)), *subject));
    clients
}

fn of(clients: &mut Clients, subject: SubjectId) -> Result<&mut Client, String> {
    if clients.len() >= MOST_CLIENTS && !clients.contains_key(&subject) {
        return Err(too_many_clients());
    }
    Ok(clients.entry(subject).or_default())
}

fn print(asked: &Asked, clients: Clients, scale: &Scale, desk: &mut Desk<'_>) {
    let mut clients = sorted(clients);
    let all = clients.len();
    clients.truncate(usize::try_from(asked.rows).unwrap_or(usize::MAX));
    if asked.listing.json {
        desk.json(&clients.iter().map(|(subject, client)| client.document(subject, scale)).collect());
    } else if clients.is_empty() {
        desk.line("Nobody is known.");
    } else {
        let rows: Vec<_> = clients.iter().map(|(subject, client)| client.row(subject, scale)).collect();
        let headings =
            ["CLIENT", "SCORE", "RISK", "REQUESTS", "VIOLATIONS", "LAST VIOLATION", "LAST REQUEST"];
        table(headings, &rows, desk.output);
    }
    if all > clients.len() {
        let what = format!("{} more are left out; ask for more with --rows", all - clients.len());
        desk.output.labelled(Style::Quiet, "note", &what);
    }
}

impl Client {
    fn violations(&self) -> u64 {
        self.standing.map_or(0, |standing| standing.violations)
    }

    fn last_violation(&self) -> Option<Timestamp> {
        self.standing.map(|standing| standing.last_seen)
    }

    fn first_seen(&self) -> Option<Timestamp> {
        let seen = self.standing.map(|standing| standing.first_seen);
        self.first.into_iter().chain(seen).min()
    }

    /// The score, and what it means. Against who has no standing nothing is held.
    fn score(&self, scale: &Scale) -> Option<(u8, &'static str)> {
        let reputation = scale.reputation.as_ref()?;
        let score = self.standing.map(|standing| standing.score).unwrap_or_default();
        let points = score.points(reputation, scale.now);
        Some((points, reputation.risk(points).name()))
    }

    fn row(&self, subject: &SubjectId, scale: &Scale) -> [String; 7] {
        let score = self.score(scale);
        let time = |at: Option<Timestamp>| at.map_or_else(String::new, |at| at.to_string());
        [
            subject.to_string(),
            score.map_or_else(String::new, |(points, _)| points.to_string()),
            score.map_or_else(String::new, |(_, risk)| risk.to_owned()),
            if scale.counted { self.requests.to_string() } else { String::new() },
            self.violations().to_string(),
            time(self.last_violation()),
            time(self.last),
        ]
    }

    fn document(&self, subject: &SubjectId, scale: &Scale) -> Value {
        let score = self.score(scale);
        let time = |at: Option<Timestamp>| at.map(|at| at.to_string());
        json!({
            "client_id": subject.to_string(),
            "reputation_score": score.map(|(points, _)| points),
            "risk_level": score.map(|(_, risk)| risk),
            "total_requests": scale.counted.then_some(self.requests),
            "violation_count": self.violations(),
            "last_violation": time(self.last_violation()),
            "last_request": time(self.last),
            "first_seen": time(self.first_seen()),
            "updated_at": time(self.last.max(self.last_violation())),
        })
    }
}
