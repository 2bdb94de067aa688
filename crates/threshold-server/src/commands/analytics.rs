//! `threshold analytics`: what the archive and the ledger say of the past.

mod clients;
mod rates;
mod requests;
mod violations;

use std::path::PathBuf;

use serde_json::Value;
use threshold::ledger::Standing;
use threshold::usage::EVERY_REQUEST;
use threshold::{Clock as _, Span, SubjectId, SystemClock, Timestamp};

use super::check;
use super::ledger::{Failed, on_ledger};
use crate::Ended;
use crate::archive::{Entry, Folder, Missing, Reading, fetch};
use crate::cli::{Analytics, Asked};
use crate::config::{self, Access, ArchivePlace, PolicyFileError};
use crate::output::{Output, Style, harmless, harmless_json};

pub(crate) use clients::Scale;

/// The most clients that are told apart at once: about a hundred megabytes of them.
const MOST_CLIENTS: usize = 2_000_000;

/// Says what is asked.
pub(crate) fn analytics(analytics: &Analytics, output: &mut Output) -> Ended {
    match analytics {
        Analytics::Rates(asked) => on_archive(asked, output, rates::rates),
        Analytics::Requests(asked) => on_archive(asked, output, requests::requests),
        Analytics::Violations(asked) => {
            on_ledger(&asked.asked.listing.place, Access::Existing, output, async |desk| {
                violations::violations(asked, desk).await
            })
        }
        Analytics::Clients(asked) => {
            let folder = match folder(asked, clients::since_when(asked)) {
                Ok(folder) => folder,
                Err(error) => return unread(error, output),
            };
            on_ledger(&asked.listing.place, Access::Existing, output, async |desk| {
                clients::clients(asked, folder, desk).await
            })
        }
    }
}

/// Which rows of the archive are wanted.
struct Wanted {
    /// Only of these; of everybody if there are none.
    clients: Vec<SubjectId>,
    limit: Option<String>,
}

impl Wanted {
    fn new(asked: &Asked, clients: Vec<SubjectId>) -> Self {
        Self { clients, limit: asked.limit.clone() }
    }

    fn has(&self, entry: &Entry) -> bool {
        let limit = match &self.limit {
            Some(limit) => *entry.limit == **limit,
            // That is no limit: it would count everything twice.
            None => &*entry.limit != EVERY_REQUEST,
        };
        limit && (self.clients.is_empty() || self.clients.contains(&entry.subject))
    }
}

/// What was counted, for who asks over HTTP: the documents of `--json`, and what is missing in them.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) rows: Vec<Value>,
    /// Counts that found no room in memory.
    pub(crate) dropped: u64,
    /// Files that could not be read, and why.
    pub(crate) broken: Vec<String>,
}

impl Counts {
    fn new(rows: Vec<Value>, missing: Missing) -> Self {
        Self { rows, dropped: missing.dropped, broken: missing.broken }
    }
}

/// How much each limit was used since then, by everybody or by some clients.
pub(crate) fn count_rates(
    folder: PathBuf,
    since: Timestamp,
    clients: Vec<SubjectId>,
) -> Result<Counts, String> {
    let reading = Reading::new(Folder::new(folder), since);
    rates::documents(&reading, &Wanted { clients, limit: None })
}

/// Who asked how often since then, and how they and those of `standings` stand: up to `most` of them.
pub(crate) fn count_clients(
    (folder, since): (Option<PathBuf>, Timestamp),
    standings: Vec<Standing>,
    scale: &Scale,
    most: usize,
) -> Result<Counts, String> {
    let reading = folder.map(|folder| Reading::new(Folder::new(folder), since));
    clients::documents(reading.as_ref(), standings, scale, most)
}

/// From when on.
fn since(asked: &Asked) -> Timestamp {
    SystemClock::new().now().minus(asked.since.unwrap_or(Span::DAY))
}

/// What reads an archive and prints what it found.
type Work = fn(&Asked, &Reading, &Wanted, &mut Output) -> Result<(), Failed>;

/// Has `work` done with the archive. The ledger is opened only to find somebody by name: a secret that is not its own would
/// find nobody, and not say so.
fn on_archive(asked: &Asked, output: &mut Output, work: Work) -> Ended {
    let folder = match folder(asked, since(asked)) {
        Ok(Some(folder)) => folder,
        Ok(None) => {
            let what = "no archive is named; name its folder with --archive, or a policy that has [archive].folder \
                        with --config";
            return unread(PolicyFileError::Unreadable(what.to_owned()), output);
        }
        Err(error) => return unread(error, output),
    };
    let reading = Reading::new(folder, since(asked));
    let Some(whom) = asked.whom() else {
        return match work(asked, &reading, &Wanted::new(asked, Vec::new()), output) {
            Ok(()) => Ended::Well,
            Err(Failed(what)) => unread(PolicyFileError::Unreadable(what), output),
        };
    };
    on_ledger(&asked.listing.place, Access::Existing, output, async |desk| {
        let clients = desk.source.ids(&whom);
        work(asked, &reading, &Wanted::new(asked, clients), desk.output)?;
        Ok(Ended::Well)
    })
}

fn unread(error: PolicyFileError, output: &mut Output) -> Ended {
    match error {
        PolicyFileError::Unreadable(what) => output.labelled(Style::Error, "error", &harmless(&what)),
        PolicyFileError::Broken(error) => check::broken(&error, output),
    }
    Ended::NotRun
}

/// The archive that is named, if one is; from `since` on, if it is far away.
fn folder(asked: &Asked, since: Timestamp) -> Result<Option<Folder>, PolicyFileError> {
    let policy = asked.listing.place.config.as_deref().map(config::policy).transpose()?;
    let place = config::archive_place(asked.archive.as_deref(), policy.as_ref());
    let folder = place.and_then(|place| match place {
        Some(ArchivePlace::Folder(folder)) => Ok(Some(Folder::new(folder))),
        Some(ArchivePlace::Bucket(bucket)) => fetch(&bucket, since, config::scratch()).map(Some),
        None => Ok(None),
    });
    folder.map_err(PolicyFileError::Unreadable)
}

/// Says what is missing in what was read.
fn tell_missing(missing: &Missing, output: &mut Output) {
    for broken in &missing.broken {
        let what =
            format!("{broken}; its rows are left out, move the file away if it is none of the archive's");
        output.labelled(Style::Warning, "warning", &harmless(&what));
    }
    if missing.dropped > 0 {
        let what = format!("{} counts found no room in memory and are missing", missing.dropped);
        output.labelled(Style::Warning, "warning", &what);
    }
}

fn print_json(document: &Value, output: &mut Output) {
    output.line(&harmless_json(&format!("{document:#}")));
}

/// A number of requests per window, for people.
fn shown(average: f64) -> String {
    format!("{average:.2}")
}

#[expect(clippy::cast_precision_loss, reason = "an average need not be exact beyond 2⁵²")]
pub(crate) fn average(total: u64, of: u64) -> f64 {
    if of == 0 { 0.0 } else { total as f64 / of as f64 }
}

fn too_many_clients() -> String {
    format!(
        "there are more than {MOST_CLIENTS} clients; ask for a shorter time with --since, or for one with --client"
    )
}
