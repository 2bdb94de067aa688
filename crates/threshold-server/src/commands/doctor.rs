//! `threshold doctor`: what a server would use, and whether that is well.

use std::path::Path;

use serde_json::json;
use threshold::check::{Check, Grade};
use threshold::engine::Secrets;
use threshold::open::Place as Kind;
use threshold::open::SecretPair;
use threshold::{StoreErrorKind, examine, examine_ledger, random_secret};

use crate::Ended;
use crate::cli::Doctor;
use crate::config::{self, Addresses, Known, PolicyFileError};
use crate::output::{Output, Style, harmless, harmless_json};

/// A check of a part: the policy, the secret, the store, the second store, the ledger.
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
    let Addresses { store, ledger, home } = match config::addresses(&doctor.place) {
        Ok(addresses) => addresses,
        Err(what) => {
            found.push(("store", Check::bad("address", what)));
            return found;
        }
    };
    let known = config::known_secret(&doctor.place);
    // Where one is still to be made, whatever is there already was made with another.
    let made = Secrets::new(random_secret());
    let secrets = known.as_ref().ok().map(|known| known.as_ref().map_or(&made, |known| &known.secrets));
    let secrets: Option<SecretPair<'_>> =
        secrets.map(|secrets| (&secrets.current, secrets.previous.as_ref()));
    let home = home.as_deref();
    let of_ledger = async {
        match &ledger {
            Err(what) => vec![Check::bad("address", what)],
            Ok(url) => looked_at(url, home, examine_ledger(url, secrets)).await,
        }
    };
    // Together: one that does not answer holds up the others no longer.
    let (of_store, of_cache, of_ledger) = tokio::join!(
        looked_at(&store, home, examine(&store, secrets)),
        second_store(doctor, &store, secrets),
        of_ledger
    );
    found.extend(of_store.into_iter().map(|check| ("store", check)));
    found.extend(of_cache.into_iter().map(|check| ("cache", check)));
    found.extend(of_ledger.into_iter().map(|check| ("ledger", check)));
    if ledger.is_ok() {
        found.push(("secret", of_secret(known)));
    }
    found
}

/// What the second store is like, if there is to be one. A server starts without one that does not answer.
async fn second_store(doctor: &Doctor, store: &str, secrets: Option<SecretPair<'_>>) -> Vec<Check> {
    let policy = doctor.place.config.as_deref().and_then(|file| config::policy(file).ok());
    let url = match config::cache(doctor.cache.as_deref(), policy.as_ref(), store) {
        Ok(Some(url)) => url,
        Ok(None) => return Vec::new(),
        Err(what) => return vec![Check::bad("address", what)],
    };
    let mut checks = looked_at(&url, None, examine(&url, secrets)).await;
    // A wrong password is no absence.
    let away = [StoreErrorKind::Unavailable, StoreErrorKind::Timeout].map(|kind| format!(": {kind}: "));
    let is_away = |check: &Check| {
        check.what == "connection" && away.iter().any(|kind| check.said.contains(kind.as_str()))
    };
    for check in checks.iter_mut().filter(|check| is_away(check)) {
        check.grade = Grade::Doubtful;
    }
    checks
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

/// What a store or a ledger is like: where it is, and what was seen there.
async fn looked_at(url: &str, home: Option<&Path>, seen: impl Future<Output = Vec<Check>>) -> Vec<Check> {
    let mut checks = vec![Check::good("address", config::shown(url))];
    match Kind::of(url) {
        Ok(Kind::Memory) => {
            checks.push(Check::good("kind", "this process' memory: it starts afresh with it"));
        }
        Ok(Kind::File(path)) => checks.push(file(path, home)),
        _ => {}
    }
    checks.extend(seen.await);
    checks
}

fn of_secret(known: Result<Option<Known>, String>) -> Check {
    match known {
        Err(what) => Check::bad("place", what),
        Ok(None) => Check::good("place", "it is made at the first start, in the data folder"),
        Ok(Some(Known { warning: Some(warning), .. })) => Check::doubtful("place", warning),
        Ok(Some(Known { place, .. })) => Check::good("place", place),
    }
}

/// Whether a file is there, or can be made. A server makes no folder but `home`.
fn file(path: &Path, home: Option<&Path>) -> Check {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match (path.metadata(), folder.metadata()) {
        (Ok(meta), _) if meta.is_dir() => Check::bad("file", "this is a folder; name a file in it"),
        (Ok(meta), _) if meta.permissions().readonly() => {
            Check::bad("file", "it cannot be written; make it writable for who runs the server")
        }
        (Ok(_), _) => Check::good("file", "it is there"),
        (Err(_), Ok(meta)) if !meta.is_dir() => {
            let what = format!("{} is no folder; name a file in a folder", folder.display());
            Check::bad("file", what)
        }
        (Err(_), Ok(_)) => Check::good("file", "it is made at the first start"),
        (Err(_), Err(_)) if home.is_some_and(|home| home.starts_with(folder)) => {
            Check::good("file", "it is made at the first start, and its folder")
        }
        (Err(_), Err(_)) => {
            Check::bad("file", format!("its folder {} is missing; make its folder first", folder.display()))
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
