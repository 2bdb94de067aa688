//! The past: how much limits and clients were used, and what was violated.

use std::collections::{BTreeMap, HashSet};

use serde_json::{Value as Json, json};
use threshold::ledger::{Query, Record, Standing};
use threshold::{Span, SubjectId, Timestamp};
use threshold_http::Answer;
use tokio::sync::Semaphore;

use super::ask;
use super::call::{Call, failed};
use crate::api::read::{bad, unprocessable};
use crate::cli::values;
use crate::commands::{self, Counts, Scale};

/// Archives are large: one is read at a time.
static READING: Semaphore = Semaphore::const_new(1);
/// The most clients that are listed, and that are told apart.
const LISTED: usize = 1_000;
const MOST_CLIENTS: usize = 1_000_000;

/// One of the views.
pub(super) async fn analytics(call: &Call) -> Result<Json, Box<Answer>> {
    call.params.only(&["window", "view"])?;
    let (window, span) = window(call)?;
    let since = call.admin.engine.now().minus(span);
    let view = call.params.get("view").unwrap_or("rates");
    let counts = match view {
        "rates" => rates(call, since, Vec::new()).await?.ok_or_else(no_archive)?,
        "violations" => Counts { rows: violations(call, since).await?, ..Counts::default() },
        "clients" => clients(call, since).await?,
        _ => return Err(bad("bad_request", "`view` is rates, violations or clients")),
    };
    Ok(json!({
        "view": view, "window": window, "since": since.to_string(), "rows": counts.rows,
        "missingCounts": counts.dropped, "unreadFiles": counts.broken,
    }))
}

/// How far back is looked: a day unless told.
pub(super) fn window(call: &Call) -> Result<(String, Span), Box<Answer>> {
    let text = call.params.get("window").unwrap_or("24h");
    let span = values::span(text).map_err(|what| bad("bad_request", &format!("`window`: {what}")))?;
    Ok((text.to_owned(), span))
}

fn no_archive() -> Box<Answer> {
    let detail = "there is no archive to read; name its folder with --archive, or in [archive] of the policy";
    unprocessable("no_archive", detail)
}

/// How much limits were used, by everybody or by some clients; none if there is no archive.
pub(super) async fn rates(
    call: &Call,
    since: Timestamp,
    clients: Vec<SubjectId>,
) -> Result<Option<Counts>, Box<Answer>> {
    let Some(archive) = &call.admin.archive else { return Ok(None) };
    let folder = archive.folder().to_owned();
    read(move || commands::count_rates(folder, since, clients)).await.map(Some)
}

async fn clients(call: &Call, since: Timestamp) -> Result<Counts, Box<Answer>> {
    let standings = standings(call).await?;
    let scale = Scale {
        reputation: call.admin.engine.rules().reputation().copied(),
        now: call.admin.engine.now(),
        counted: call.admin.archive.is_some(),
    };
    let folder = call.admin.archive.as_ref().map(|archive| archive.folder().to_owned());
    read(move || commands::count_clients((folder, since), standings, &scale, LISTED)).await
}

/// Has `work` done where it keeps nobody waiting but who asked.
async fn read(work: impl FnOnce() -> Result<Counts, String> + Send + 'static) -> Result<Counts, Box<Answer>> {
    let _place = READING.acquire().await;
    match tokio::task::spawn_blocking(work).await {
        Ok(read) => read.map_err(|what| unprocessable("archive_unread", &what)),
        Err(_) => Err(unprocessable("archive_unread", "the archive could not be read; see the log")),
    }
}

/// Everybody that something is held against, as far as there is room.
async fn standings(call: &Call) -> Result<Vec<Standing>, Box<Answer>> {
    let (mut standings, mut after) = (Vec::new(), Some(0));
    while let Some(from) = after.filter(|_| standings.len() < MOST_CLIENTS) {
        let page = ask::read(&*call.admin.engine, &Query::Changes { after: from }).await.map_err(failed)?;
        standings.extend(page.records.into_iter().filter_map(|record| match record {
            Record::Standing(standing) => Some(standing),
            _ => None,
        }));
        after = page.next;
    }
    Ok(standings)
}

/// What was violated: how often, by how many, and by how much.
async fn violations(call: &Call, since: Timestamp) -> Result<Vec<Json>, Box<Answer>> {
    #[derive(Default)]
    struct Group {
        count: u64,
        requests: u64,
        violators: HashSet<SubjectId>,
    }
    let mut groups: BTreeMap<(String, &'static str, String), Group> = BTreeMap::new();
    let (mut after, mut violators) = (Some(0), 0);
    while let Some(from) = after.filter(|_| violators < MOST_CLIENTS) {
        let query = Query::Violations { subject: None, after: from };
        let page = ask::read(&*call.admin.engine, &query).await.map_err(failed)?;
        for record in page.records {
            let Record::Violation(violation) = record else { continue };
            if violation.at >= since {
                let name = (crate::archive::day(violation.at), violation.kind.name(), violation.limit);
                let group = groups.entry(name).or_default();
                group.count += 1;
                group.requests = group.requests.saturating_add(violation.count);
                violators += usize::from(group.violators.insert(violation.subject));
            }
        }
        after = page.next;
    }
    let told = |((date, kind, limit), group): (&(String, &'static str, String), &Group)| {
        json!({
            "violation_type": kind,
            "endpoint": limit,
            "date": date,
            "violation_count": group.count,
            "unique_violators": group.violators.len(),
            "avg_count_at_violation": commands::average(group.requests, group.count),
        })
    };
    Ok(groups.iter().map(told).collect())
}
