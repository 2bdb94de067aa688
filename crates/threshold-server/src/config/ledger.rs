//! Where the ledger is and what opens it: a flag beats the environment, which beats the policy.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use threshold::Secret;
use threshold::engine::{Rules, Secrets};
use threshold::policy::Policy;

use super::secret::{self, Found};
use super::{PolicyFileError, policy, rules, set};
use crate::cli::Place;

/// Where it is if nobody says anything else.
const DATA_DIR: &str = "threshold-data";
const LEDGER: &str = "ledger.sqlite";
const SCHEME: &str = "sqlite://";

/// Whether what is missing is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Existing,
    Make,
}

/// What opens a ledger, and what is known of its policy.
pub(crate) struct Settings {
    pub(crate) path: PathBuf,
    pub(crate) secrets: Secrets,
    /// Where the secret was found, for when it is the wrong one.
    pub(crate) secret_place: String,
    pub(crate) policy: Option<Policy>,
    pub(crate) rules: Option<Rules>,
    /// What was made or is about to be.
    pub(crate) notes: Vec<String>,
    pub(crate) warning: Option<String>,
}

/// Finds the ledger of `place` and its secret; makes folder and secret if they may be made.
pub(crate) fn settings(place: &Place, access: Access) -> Result<Settings, PolicyFileError> {
    let policy = place.config.as_deref().map(policy).transpose()?;
    let mut wanted = Wanted::new(place, policy.as_ref()).map_err(PolicyFileError::Unreadable)?;
    let found = wanted.secret(access).map_err(PolicyFileError::Unreadable)?;
    let previous = store(policy.as_ref()).and_then(|store| store.previous_secret.as_ref());
    let secrets = Secrets {
        current: Secret::from_text(&found.text),
        previous: previous.map(|text| Secret::from_text(text)),
    };
    let rules = match (&place.config, &policy) {
        (Some(file), Some(policy)) => Some(rules(file, policy, &secrets)?),
        _ => None,
    };
    let (secret_place, warning) = (found.place, found.warning);
    let Wanted { ledger: path, notes, .. } = wanted;
    Ok(Settings { path, secrets, secret_place, policy, rules, notes, warning })
}

fn store(policy: Option<&Policy>) -> Option<&threshold::policy::Store> {
    policy?.store.as_ref()
}

/// The ledger that is wanted, whether it is there or not.
struct Wanted<'a> {
    data_dir: PathBuf,
    ledger: PathBuf,
    /// True if the ledger is the one of the data folder, which then may be made as a whole.
    at_home: bool,
    of_policy: Option<&'a str>,
    notes: Vec<String>,
}

impl<'a> Wanted<'a> {
    fn new(place: &Place, policy: Option<&'a Policy>) -> Result<Self, String> {
        let of_policy = || policy?.server.as_ref()?.data_dir.as_ref().map(PathBuf::from);
        let data_dir = place.data_dir.clone().or_else(|| set("THRESHOLD_DATA_DIR").map(PathBuf::from));
        let data_dir = data_dir.or_else(of_policy).unwrap_or_else(|| PathBuf::from(DATA_DIR));
        let of_policy = || Some(store(policy)?.ledger.as_ref()?.value.clone());
        let address = place.ledger.clone().or_else(|| set("THRESHOLD_LEDGER")).or_else(of_policy);
        let at_home = address.is_none();
        let ledger = match address {
            Some(address) => path(&address)?,
            None => data_dir.join(LEDGER),
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
                self.ledger.display()
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
            self.notes.push(format!("making the ledger {}", self.ledger.display()));
        }
        Ok(found)
    }

    fn is_there(&self) -> Result<bool, String> {
        self.ledger.try_exists().map_err(|error| {
            format!(
                "{}: the ledger cannot be looked for ({error}); check the path, or run as its owner",
                self.ledger.display()
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
            self.ledger.display(),
            self.secret_path()
        )
    }

    fn secret_path(&self) -> String {
        secret::path(&self.data_dir).display().to_string()
    }
}

/// The file that an address of a ledger names.
fn path(address: &str) -> Result<PathBuf, String> {
    match address.strip_prefix(SCHEME) {
        Some("") => Err(format!("the ledger {address:?} names no file; write {SCHEME}PATH")),
        Some(path) => Ok(Path::new(path).to_owned()),
        None => Err(format!(
            "the ledger {address:?} is no file on this machine, and only those can be opened here; write {SCHEME}PATH"
        )),
    }
}
