//! Where the ledger and the store are and what opens them: a flag beats the environment, which beats the policy.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use threshold::engine::{Rules, Secrets};
use threshold::open::Place as Kind;
use threshold::policy::Policy;
use threshold::{Secret, StoreError, StoreErrorKind, is_partitioned, without_password};

use super::secret::{self, Found};
use super::{PolicyFileError, policy, rules, set};
use crate::cli::Place;

/// Where it is if nobody says anything else.
const DATA_DIR: &str = "threshold-data";
const LEDGER: &str = "ledger.sqlite";
const SCHEME: &str = "sqlite://";
const MEMORY: &str = "memory://";

/// Whether what is missing is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Existing,
    Make,
}

/// What opens a ledger, and what is known of its policy.
pub(crate) struct Settings {
    /// The folder of files that a server keeps.
    pub(crate) data_dir: PathBuf,
    /// The address of the ledger.
    pub(crate) ledger: String,
    /// The address of the store.
    pub(crate) store: String,
    pub(crate) secrets: Secrets,
    /// Where the secret was found, for when it is the wrong one.
    pub(crate) secret_place: String,
    pub(crate) policy: Option<Policy>,
    pub(crate) rules: Option<Rules>,
    /// What was made or is about to be.
    pub(crate) notes: Vec<String>,
    pub(crate) warning: Option<String>,
}

impl Settings {
    /// Why a store or a ledger cannot be opened; where the secret is the matter, with the place that it was read from.
    pub(crate) fn not_opened(&self, error: &StoreError) -> String {
        let said = error.to_string();
        match error.kind() == StoreErrorKind::Misconfigured && said.contains("made with another secret") {
            true => format!("{said} (opened with the secret in {})", self.secret_place),
            false => said,
        }
    }
}

/// Finds the ledger of `place` and its secret; makes folder and secret if they may be made.
pub(crate) fn settings(place: &Place, access: Access) -> Result<Settings, PolicyFileError> {
    let policy = place.config.as_deref().map(policy).transpose()?;
    let store_url = store_url(place, policy.as_ref());
    let mut wanted = Wanted::new(place, &store_url, policy.as_ref()).map_err(PolicyFileError::Unreadable)?;
    let found = wanted.secret(access).map_err(PolicyFileError::Unreadable)?;
    let secrets = secrets(&found, &store_url, policy.as_ref());
    let rules = match (&place.config, &policy) {
        (Some(file), Some(policy)) => Some(rules(file, policy, &secrets)?),
        _ => None,
    };
    let (secret_place, warning) = (found.place, found.warning.or_else(|| wanted.warning(&store_url)));
    let Wanted { ledger, notes, data_dir, .. } = wanted;
    Ok(Settings { ledger, store: store_url, secrets, secret_place, policy, rules, notes, warning, data_dir })
}

/// Where the store and the ledger would be.
pub(crate) struct Addresses {
    pub(crate) store: String,
    /// The ledger's, if it can be known.
    pub(crate) ledger: Result<String, String>,
    /// The data folder, if the ledger is the one in it: then a server makes what is missing.
    pub(crate) home: Option<PathBuf>,
}

/// The addresses of the store and the ledger. Nothing is looked for there.
pub(crate) fn addresses(place: &Place) -> Result<Addresses, String> {
    let policy = place.config.as_deref().and_then(|file| policy(file).ok());
    let store = store_url(place, policy.as_ref());
    Kind::of(&store).map_err(|error| format!("--store: {error}"))?;
    let wanted = Wanted::new(place, &store, policy.as_ref());
    let home = wanted.as_ref().ok().filter(|wanted| wanted.at_home).map(|wanted| wanted.data_dir.clone());
    Ok(Addresses { store, ledger: wanted.map(|wanted| wanted.ledger), home })
}

/// The folder of files that a server keeps, by a flag and the policy in `config`.
pub(crate) fn data_dir(flag: Option<&Path>, config: Option<&Path>) -> Result<PathBuf, PolicyFileError> {
    let policy = config.map(policy).transpose()?;
    Ok(data_dir_of(flag, policy.as_ref()))
}

fn data_dir_of(flag: Option<&Path>, policy: Option<&Policy>) -> PathBuf {
    let of_policy = || policy?.server.as_ref()?.data_dir.as_ref().map(PathBuf::from);
    let named = flag.map(Path::to_owned).or_else(|| set("THRESHOLD_DATA_DIR").map(PathBuf::from));
    named.or_else(of_policy).unwrap_or_else(|| PathBuf::from(DATA_DIR))
}

/// The secret that a server would use.
pub(crate) struct Known {
    pub(crate) secrets: Secrets,
    /// Where it was found.
    pub(crate) place: String,
    /// What its owner should know.
    pub(crate) warning: Option<String>,
}

/// The secret that a server would use; none if it would make one. Nothing is made here.
pub(crate) fn known_secret(place: &Place) -> Result<Option<Known>, String> {
    let policy = place.config.as_deref().and_then(|file| policy(file).ok());
    let store_url = store_url(place, policy.as_ref());
    let wanted = Wanted::new(place, &store_url, policy.as_ref())?;
    let Some(found) = secret::find(wanted.of_policy, &wanted.data_dir)? else {
        return match wanted.at_home && !wanted.is_there()? {
            true => Ok(None),
            false => Err(wanted.no_secret()),
        };
    };
    let secrets = secrets(&found, &store_url, policy.as_ref());
    let warning = found.warning.or_else(|| wanted.warning(&store_url));
    Ok(Some(Known { secrets, place: found.place, warning }))
}

/// The secret that was found and the one before, as the store needs them.
fn secrets(found: &Found, store_url: &str, policy: Option<&Policy>) -> Secrets {
    let previous = store(policy).and_then(|store| store.previous_secret.as_ref());
    let secret = |text: &str| match is_partitioned(store_url) {
        true => Secret::from_text(text).partitioning(),
        false => Secret::from_text(text),
    };
    Secrets { current: secret(&found.text), previous: previous.map(|text| secret(text)) }
}

/// The address of the store that a flag, the environment or the policy names.
fn store_url(place: &Place, policy: Option<&Policy>) -> String {
    let of_policy = || Some(store(policy)?.url.as_ref()?.value.clone());
    let named = place.store.clone().or_else(|| set("THRESHOLD_STORE")).or_else(of_policy);
    with_token(named.unwrap_or_else(|| MEMORY.to_owned()))
}

/// The address of a Worker with the token of the environment, unless it has one.
pub(super) fn with_token(url: String) -> String {
    match set("THRESHOLD_DO_TOKEN") {
        Some(token) => threshold::open::with_token(&url, &token),
        None => url,
    }
}

fn store(policy: Option<&Policy>) -> Option<&threshold::policy::Store> {
    policy?.store.as_ref()
}

/// The ledger that is wanted, whether it is there or not.
struct Wanted<'a> {
    data_dir: PathBuf,
    /// Its address.
    ledger: String,
    /// True if the ledger is the one of the data folder, which then may be made as a whole.
    at_home: bool,
    of_policy: Option<&'a str>,
    notes: Vec<String>,
}

impl<'a> Wanted<'a> {
    fn new(place: &Place, store_url: &str, policy: Option<&'a Policy>) -> Result<Self, String> {
        let store_kind = Kind::of(store_url).map_err(|error| format!("--store: {error}"))?;
        let data_dir = data_dir_of(place.data_dir.as_deref(), policy);
        let of_policy = || Some(store(policy)?.ledger.as_ref()?.value.clone());
        let address = place.ledger.clone().or_else(|| set("THRESHOLD_LEDGER")).or_else(of_policy);
        let at_home = address.is_none() && !store_kind.is_shared();
        let ledger = match address {
            Some(address) => known(address)?,
            // What is held against somebody holds on every node.
            None if store_kind == Kind::Postgres => store_url.to_owned(),
            None if store_kind.is_shared() => return Err(no_shared_ledger(store_url)),
            None => format!("{SCHEME}{}", data_dir.join(LEDGER).display()),
        };
        let of_policy = store(policy).and_then(|store| store.secret.as_ref()).map(|secret| secret.as_str());
        Ok(Self { data_dir, ledger, at_home, of_policy, notes: Vec::new() })
    }

    /// The ledger's secret.
    fn secret(&mut self, access: Access) -> Result<Found, String> {
        // Before the secret is looked for: whoever makes a ledger makes the secret first.
        let is_there = self.is_there()?;
        if !is_there && access == Access::Existing {
            return Err(format!(
                "{}: there is no ledger; name another place with --data-dir or --ledger, or make one with `add`",
                self.shown()
            ));
        }
        if self.at_home && !is_there {
            self.make_data_dir()?;
        }
        let found = match secret::find(self.of_policy, &self.data_dir)? {
            Some(found) => found,
            None if self.at_home && !is_there => {
                self.notes.push(format!("making the secret {}; keep it with the ledger", self.secret_path()));
                secret::make(&self.data_dir)?
            }
            None => return Err(self.no_secret()),
        };
        if !is_there {
            self.notes.push(format!("making the ledger {}", self.shown()));
        }
        Ok(found)
    }

    fn is_there(&self) -> Result<bool, String> {
        let Ok(Kind::File(path)) = Kind::of(&self.ledger) else {
            // Servers say themselves what is there.
            return Ok(true);
        };
        path.try_exists().map_err(|error| {
            format!(
                "{}: the ledger cannot be looked for ({error}); check the path, or run as its owner",
                path.display()
            )
        })
    }

    /// For people: a file by its path, a server without the password.
    fn shown(&self) -> String {
        shown(&self.ledger)
    }

    /// What is known to one node only is told of where there may be others.
    fn warning(&self, store_url: &str) -> Option<String> {
        let shared = |url: &str| Kind::of(url).is_ok_and(|kind| kind.is_shared());
        (shared(store_url) && !shared(&self.ledger)).then(|| {
            format!(
                "counters are shared and the ledger {} is not: bans, lockouts and overrides hold on this node alone; name a \
                 shared one with --ledger",
                self.shown()
            )
        })
    }

    /// Only who runs this may look into it.
    fn make_data_dir(&mut self) -> Result<(), String> {
        if self.data_dir.is_dir() {
            return Ok(());
        }
        self.notes.push(format!("making the folder {}", self.data_dir.display()));
        let mut builder = std::fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.recursive(true).create(&self.data_dir).map_err(|error| {
            let remedy = match error.kind() {
                ErrorKind::AlreadyExists => "a file is in its place; name another folder with --data-dir",
                _ => "make it by hand, or name another with --data-dir",
            };
            format!("{}: the folder cannot be made ({error}); {remedy}", self.data_dir.display())
        })
    }

    fn no_secret(&self) -> String {
        format!(
            "{}: there is no secret for this ledger in {}; give the one it was made with: set THRESHOLD_SECRET, name a \
             policy that has [store].secret with --config, or the folder that has it with --data-dir",
            self.shown(),
            self.secret_path()
        )
    }

    fn secret_path(&self) -> String {
        secret::path(&self.data_dir).display().to_string()
    }
}

/// For people: a file by its path, a server without the password.
pub(crate) fn shown(url: &str) -> String {
    url.strip_prefix(SCHEME).map_or_else(|| without_password(url), str::to_owned)
}

/// The address of a ledger that can be opened.
fn known(address: String) -> Result<String, String> {
    match Kind::of(&address) {
        Ok(_) => Ok(address),
        Err(error) => Err(format!("--ledger: {error}")),
    }
}

fn no_shared_ledger(store: &str) -> String {
    format!(
        "--ledger: {} is shared by several nodes, and what is held against somebody has to be as well; name a ledger, such \
         as --ledger postgres://…, or redis://… of a server with `appendfsync always`; for one node alone say --ledger \
         {SCHEME}{DATA_DIR}/{LEDGER}",
        without_password(store)
    )
}
