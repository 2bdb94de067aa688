//! `threshold doctor`: what a server would use, and whether that is well.

use std::path::Path;

use serde_json::json;
use threshold::check::{Check, Grade};
use threshold::open::Place as Kind;
use threshold::{examine, examine_ledger};

use crate::Ended;
use crate::cli::Doctor;
use crate::config::{self, Access, Addresses, PolicyFileError};
use crate::output::{Output, Style, harmless, harmless_json};
use crate::source::Source;

/// A check of a part: the policy, the secret, the store, the ledger.
type Found = (&'static str, Check);

/// Looks at everything, and says what is not well.
pub(crate) fn doctor(doctor: &Doctor, output: &mut Output) -> Ended {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            output.labelled(
                Style::Error,
                "error",
                &format!("no runtime could be started: {error}; try again"),
            );
            return Ended::NotRun;
        }
    };
    let found = runtime.block_on(look(doctor));
    match doctor.json {
        true => print_json(&found, output),
        false => print(&found, output),
    }
    match is_well(&found) {
        true => Ended::Well,
        false => Ended::Broken,
    }
}

fn is_well(found: &[Found]) -> bool {
    found.iter().all(|(_, check)| check.grade != Grade::Bad)
}

async fn look(doctor: &Doctor) -> Vec<Found> {
    let mut found = Vec::new();
    if let Some(file) = &doctor.place.config {
        found.push(("policy", policy(file)));
        if !is_well(&found) {
            return found;
        }
    }
    match config::addresses(&doctor.place) {
        Err(what) => found.push(("store", Check::bad("address", what))),
        Ok(Addresses { store, ledger, at_home }) => {
            found.extend(of_store(&store).await.into_iter().map(|check| ("store", check)));
            match ledger {
                Err(what) => found.push(("ledger", Check::bad("address", what))),
                Ok(ledger) => found.extend(of_ledger(doctor, (&ledger, at_home)).await),
            }
        }
    }
    found
}

fn policy(file: &Path) -> Check {
    match config::policy(file) {
        Ok(policy) => {
            Check::good("reads well", format!("{} with {} limits", file.display(), policy.limit.len()))
        }
        Err(PolicyFileError::Unreadable(what)) => Check::bad("file", what),
        Err(PolicyFileError::Broken(error)) => {
            let what = format!("{} problems; see `threshold check {}`", error.problems.len(), file.display());
            Check::bad("is broken", what)
        }
    }
}

async fn of_store(url: &str) -> Vec<Check> {
    let mut checks = vec![Check::good("address", config::shown(url))];
    match Kind::of(url) {
        Ok(Kind::Memory) => {
            checks.push(Check::good("kind", "this process' memory: counters start afresh with it"));
        }
        Ok(Kind::File(path)) => checks.push(file(path)),
        _ => checks.extend(examine(url).await),
    }
    checks
}

async fn of_ledger(doctor: &Doctor, (url, at_home): (&str, bool)) -> Vec<Found> {
    let mut found = vec![("ledger", Check::good("address", config::shown(url)))];
    match Kind::of(url) {
        Ok(Kind::File(path)) if !path.exists() => {
            let made = || Check::good("file", "it is made at the first start, and its folder");
            found.push(("ledger", if at_home { made() } else { file(path) }));
            return found;
        }
        Ok(Kind::File(_) | Kind::Memory) => {}
        _ => found.extend(examine_ledger(url).await.into_iter().map(|check| ("ledger", check))),
    }
    let settings = match config::settings(&doctor.place, Access::Existing) {
        Ok(settings) => settings,
        Err(PolicyFileError::Unreadable(what)) => {
            found.push(("secret", Check::bad("place", what)));
            return found;
        }
        Err(PolicyFileError::Broken(_)) => return found,
    };
    found.push((
        "secret",
        match &settings.warning {
            Some(warning) => Check::doubtful("place", warning.clone()),
            None => Check::good("place", settings.secret_place.clone()),
        },
    ));
    if let Ok(Kind::File(_)) = Kind::of(url) {
        found.push(("ledger", opened(&settings).await));
    }
    found
}

/// Whether a ledger in a file opens with its secret.
async fn opened(settings: &config::Settings) -> Check {
    match Source::open(settings).await {
        Ok(source) => {
            source.close().await;
            Check::good("opens", "with this secret")
        }
        Err(error) => {
            Check::bad("opens", format!("{error} (opened with the secret in {})", settings.secret_place))
        }
    }
}

/// Whether a file is there, or can be made.
fn file(path: &Path) -> Check {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match (path.metadata(), folder.metadata()) {
        (Ok(meta), _) if meta.is_dir() => Check::bad("file", "this is a folder; name a file in it"),
        (Ok(meta), _) if meta.permissions().readonly() => {
            Check::bad("file", "it cannot be written; make it writable for who runs the server")
        }
        (Ok(_), _) => Check::good("file", "it is there"),
        (Err(_), Ok(_)) => Check::good("file", "it is made at the first start"),
        (Err(_), Err(_)) => {
            let what = format!(
                "its folder {} is missing; a server makes its own data folder alone",
                folder.display()
            );
            Check::doubtful("file", what)
        }
    }
}

fn print(found: &[Found], output: &mut Output) {
    for (part, check) in found {
        let (style, grade) = match check.grade {
            Grade::Good => (Style::Good, "good"),
            Grade::Doubtful => (Style::Warning, "doubtful"),
            Grade::Bad => (Style::Error, "bad"),
        };
        let grade = output.styled(style, &format!("{grade:8}"));
        output.line(&format!("{grade}  {part:6}  {}: {}", check.what, harmless(&check.said)));
    }
}

fn print_json(found: &[Found], output: &mut Output) {
    let name = |grade| match grade {
        Grade::Good => "good",
        Grade::Doubtful => "doubtful",
        Grade::Bad => "bad",
    };
    let check = |(part, check): &Found| json!({ "part": part, "what": check.what, "grade": name(check.grade), "said": check.said });
    let document = json!({ "ok": is_well(found), "checks": found.iter().map(check).collect::<Vec<_>>() });
    output.line(&harmless_json(&format!("{document:#}")));
}
