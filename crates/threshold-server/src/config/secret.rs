//! The secret behind subject ids: where it is looked for, and how it is made.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use threshold::random_token;

use super::set;

/// The variable that the secret may stand in.
const VARIABLE: &str = "THRESHOLD_SECRET";

/// What policies ask of a secret: fewer characters can be tried out.
const FEWEST: usize = 16;

/// A secret's text and where it was found.
pub(super) struct Found {
    pub(super) text: String,
    pub(super) place: String,
    /// What its owner should know.
    pub(super) warning: Option<String>,
}

/// The secret that is there: the policy's, the environment's, or that of the data folder.
pub(super) fn find(of_policy: Option<&str>, data_dir: &Path) -> Result<Option<Found>, String> {
    let found = |text: String, place: &str| Found { text, place: place.to_owned(), warning: None };
    if let Some(text) = of_policy {
        return Ok(Some(found(text.to_owned(), "[store].secret of the policy")));
    }
    if let Some(text) = set(VARIABLE) {
        return checked(found(text, VARIABLE)).map(Some);
    }
    match File::open(path(data_dir)) {
        Ok(file) => from_file(file, data_dir),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed("be read", data_dir, &error)),
    }
}

/// Makes the secret of the data folder, unless somebody else does so at the same time: then theirs is taken.
pub(super) fn make(data_dir: &Path) -> Result<Found, String> {
    let made = || -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(path(data_dir))?;
        // Given back when the file is closed.
        file.lock()?;
        if file.metadata()?.len() == 0 {
            file.write_all(format!("{}\n", random_token()).as_bytes())?;
            file.sync_all()?;
        }
        Ok(())
    };
    made().map_err(|error| failed("be made", data_dir, &error))?;
    find(None, data_dir)?.ok_or_else(|| format!("{}: it was removed again; try once more", shown(data_dir)))
}

pub(super) fn path(data_dir: &Path) -> PathBuf {
    data_dir.join("secret")
}

/// None if it is empty: whoever makes it has not got further yet, or never did.
fn from_file(mut file: File, data_dir: &Path) -> Result<Option<Found>, String> {
    // Whoever makes it just now finishes first. Where files cannot be locked, it is read as it is.
    let _ = file.lock_shared();
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(|error| failed("be read", data_dir, &error))?;
    if text.trim().is_empty() {
        return Ok(None);
    }
    let warning = is_open(&file).then(|| {
        let file = shown(data_dir);
        format!("{file}: others on this machine may read this secret; run `chmod 600 {file}`")
    });
    checked(Found { text: text.trim().to_owned(), place: shown(data_dir), warning }).map(Some)
}

fn checked(found: Found) -> Result<Found, String> {
    if found.text.len() < FEWEST {
        let place = &found.place;
        return Err(format!(
            "{place}: this secret can be guessed; use at least {FEWEST} characters, drawn at random"
        ));
    }
    Ok(found)
}

/// True if others than its owner may read it.
#[cfg(unix)]
fn is_open(file: &File) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    file.metadata().is_ok_and(|metadata| metadata.permissions().mode() & 0o077 != 0)
}

#[cfg(not(unix))]
fn is_open(_file: &File) -> bool {
    false
}

fn shown(data_dir: &Path) -> String {
    path(data_dir).display().to_string()
}

fn failed(what: &str, data_dir: &Path, error: &io::Error) -> String {
    format!(
        "{}: the secret cannot {what} ({error}); run as its owner, or set {VARIABLE} to the secret",
        shown(data_dir)
    )
}
