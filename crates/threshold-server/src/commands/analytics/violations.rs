//! `threshold analytics violations`: what was violated, by kind, limit and day, or each by itself.

use std::collections::{BTreeMap, HashSet, VecDeque};

use serde_json::{Value, json};
use threshold::SubjectId;
use threshold::ledger::{Query, Record, ViolationRecord};

use super::super::ledger::{Desk, Failed};
use super::{MOST_CLIENTS, average, shown, since, too_many_clients};
use crate::Ended;
use crate::archive::day;
use crate::cli::{Asked, Violations};
use crate::output::{Style, table};

/// Violations of one kind against one limit on one day.
#[derive(Default)]
struct Counted {
    violations: u64,
    clients: HashSet<SubjectId>,
    requests: u64,
}

/// Day, kind and limit.
type Group = (String, &'static str, String);

pub(super) async fn violations(asked: &Violations, desk: Desk<'_>) -> Result<Ended, Failed> {
    match asked.list {
        true => list(&asked.asked, desk).await,
        false => count(&asked.asked, desk).await,
    }
}

async fn count(asked: &Asked, mut desk: Desk<'_>) -> Result<Ended, Failed> {
    let mut groups: BTreeMap<Group, Counted> = BTreeMap::new();
    let mut clients = 0;
    each(asked, &desk, |violation| {
        let group = groups.entry((day(violation.at), violation.kind.name(), violation.limit)).or_default();
        group.violations += 1;
        group.requests = group.requests.saturating_add(violation.count);
        clients += usize::from(group.clients.insert(violation.subject));
        if clients > MOST_CLIENTS { Err(too_many_clients()) } else { Ok(()) }
    })
    .await?;
    if asked.listing.json {
        desk.json(&groups.iter().map(|(group, counted)| document(group, counted)).collect());
    } else if groups.is_empty() {
        desk.line("Nothing was violated.");
    } else {
        let rows: Vec<_> = groups.iter().map(|(group, counted)| row(group, counted)).collect();
        let headings = ["VIOLATION TYPE", "ENDPOINT", "DATE", "VIOLATIONS", "UNIQUE VIOLATORS", "AVG COUNT"];
        table(headings, &rows, desk.output);
    }
    Ok(Ended::Well)
}

async fn list(asked: &Asked, mut desk: Desk<'_>) -> Result<Ended, Failed> {
    let most = usize::try_from(asked.rows).unwrap_or(usize::MAX);
    let (mut rows, mut older) = (VecDeque::new(), 0_u64);
    each(asked, &desk, |violation| {
        if rows.len() == most {
            rows.pop_front();
            older += 1;
        }
        rows.push_back(violation);
        Ok(())
    })
    .await?;
    if asked.listing.json {
        desk.json(&rows.iter().map(listed_document).collect());
    } else if rows.is_empty() {
        desk.line("Nothing was violated.");
    } else {
        let headings = ["CLIENT", "ENDPOINT", "VIOLATION TYPE", "AT", "COUNT", "LIMIT", "WINDOW", "DETAILS"];
        table(headings, &rows.iter().map(listed_row).collect::<Vec<_>>(), desk.output);
    }
    if older > 0 {
        let what = format!("{older} older ones are left out; ask for more with --rows");
        desk.output.labelled(Style::Quiet, "note", &what);
    }
    Ok(Ended::Well)
}

/// Gives each violation that is wanted to `take`, the oldest first; a page of them is in memory at a time.
async fn each(
    asked: &Asked,
    desk: &Desk<'_>,
    mut take: impl FnMut(ViolationRecord) -> Result<(), String>,
) -> Result<(), Failed> {
    let since = since(asked);
    let subjects = match asked.whom() {
        Some(whom) => desk.source.ids(&whom).into_iter().map(Some).collect(),
        None => vec![None],
    };
    for subject in subjects {
        let query = |after| Query::Violations { subject, after };
        let take = |record| match record {
            Record::Violation(violation) if violation.at >= since && is_wanted(asked, &violation) => {
                take(violation)
            }
            _ => Ok(()),
        };
        desk.source.each(query, take).await?;
    }
    Ok(())
}

fn is_wanted(asked: &Asked, violation: &ViolationRecord) -> bool {
    asked.limit.as_ref().is_none_or(|limit| *limit == violation.limit)
}

fn row((date, kind, limit): &Group, counted: &Counted) -> [String; 6] {
    [
        (*kind).to_owned(),
        limit.clone(),
        date.clone(),
        counted.violations.to_string(),
        counted.clients.len().to_string(),
        shown(average(counted.requests, counted.violations)),
    ]
}

fn document((date, kind, limit): &Group, counted: &Counted) -> Value {
    json!({
        "violation_type": kind,
        "endpoint": limit,
        "date": date,
        "violation_count": counted.violations,
        "unique_violators": counted.clients.len(),
        "avg_count_at_violation": average(counted.requests, counted.violations),
    })
}

fn listed_row(violation: &ViolationRecord) -> [String; 8] {
    [
        violation.subject.to_string(),
        violation.limit.clone(),
        violation.kind.name().to_owned(),
        violation.at.to_string(),
        violation.count.to_string(),
        violation.allowed.to_string(),
        violation.window.to_string(),
        violation.details.clone(),
    ]
}

fn listed_document(violation: &ViolationRecord) -> Value {
    let country =
        violation.country.map(|letters| letters.iter().copied().map(char::from).collect::<String>());
    json!({
        "id": violation.id,
        "client_id": violation.subject.to_string(),
        "endpoint": violation.limit,
        "violation_type": violation.kind.name(),
        "timestamp": violation.at.to_string(),
        "current_count": violation.count,
        "limit_exceeded": violation.allowed,
        "window_size": violation.window.as_secs_ceil(),
        "client_fingerprint": violation.fingerprint,
        "user_agent": violation.user_agent,
        "country_code": country,
        "details": violation.details,
        "created_at": violation.at.to_string(),
    })
}
