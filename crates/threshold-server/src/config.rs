//! Files and environment variables: the only place that reads them.

mod alerts;
mod archive;
mod demo;
mod envoy;
mod ledger;
mod secret;
mod serve;
mod trace;

use std::io::ErrorKind;
use std::path::Path;

use threshold::engine::{Rules, Secrets};
use threshold::policy::{Policy, PolicyError, Problem};
use threshold::random_secret;

use crate::cli;

pub(crate) use alerts::alerts;
pub(crate) use archive::{ArchivePlace, archive_place, scratch};
pub(crate) use demo::prepare_demo;
pub(crate) use envoy::{envoy_files, envoy_sources};
pub(crate) use ledger::{
    Access, Addresses, Known, Settings, addresses, data_dir, known_secret, settings, shown,
};
pub(crate) use serve::{ServerConfig, Surfaces, cache, guard, reread, server, upstream, warns_of_nothing};

/// A policy that could not be made.
#[derive(Debug)]
pub(crate) enum PolicyFileError {
    /// The file could not be read: what and remedy.
    Unreadable(String),
    /// It was read, and is broken.
    Broken(PolicyError),
}

/// Reads the policy in `file`, with values from the environment.
pub(crate) fn policy(file: &Path) -> Result<Policy, PolicyFileError> {
    let bytes = std::fs::read(file).map_err(|error| unreadable(file, &error))?;
    let Ok(text) = String::from_utf8(bytes) else {
        let what = format!("{}: this is not a text in UTF-8; save it as UTF-8", file.display());
        return Err(PolicyFileError::Unreadable(what));
    };
    policy_of(&file.display().to_string(), &text).map_err(PolicyFileError::Broken)
}

/// The policy that `text` is, which is or would be in the file called `name`.
pub(crate) fn policy_of(name: &str, text: &str) -> Result<Policy, PolicyError> {
    let policy = Policy::read(name, text, &variable)?;
    // Keys of tokens show only here whether they are any.
    match Rules::new(&policy, &Secrets::new(random_secret()), &variable) {
        Ok(_) => Ok(policy),
        Err(error) => Err(not_ready(name.to_owned(), &error.to_string())),
    }
}

/// The token of administrators that the environment has.
pub(crate) fn admin_token() -> Option<String> {
    set("THRESHOLD_ADMIN_TOKEN")
}

/// Makes the policy in `file` ready under `secrets`.
fn rules(file: &Path, policy: &Policy, secrets: &Secrets) -> Result<Rules, PolicyFileError> {
    Rules::new(policy, secrets, &variable)
        .map_err(|error| PolicyFileError::Broken(not_ready(file.display().to_string(), &error.to_string())))
}

/// Who makes a change: as given, or as the environment says.
pub(crate) fn operator(given: Option<&str>) -> Result<String, String> {
    if let Some(given) = given {
        return Ok(given.to_owned());
    }
    match ["THRESHOLD_OPERATOR", "USER", "LOGNAME"].into_iter().find_map(|name| Some((name, set(name)?))) {
        Some((name, value)) => {
            cli::operator(&value).map_err(|what| format!("{name}: {what}, or say --by NAME"))
        }
        None => Ok("cli".to_owned()),
    }
}

/// What keeps a policy that reads well from being used.
fn not_ready(file: String, text: &str) -> PolicyError {
    let (what, remedy) = text.split_once("; ").unwrap_or((text, "put it right"));
    let (what, remedy) = (what.to_owned(), remedy.to_owned());
    PolicyError { file, problems: vec![Problem { line: 1, column: 1, field: String::new(), what, remedy }] }
}

fn unreadable(file: &Path, error: &std::io::Error) -> PolicyFileError {
    let (what, remedy) = match error.kind() {
        ErrorKind::NotFound => {
            ("there is no such file", "check the path, which starts from the current folder")
        }
        ErrorKind::PermissionDenied => {
            ("you may not read this file", "ask for the right to, or run as its owner")
        }
        ErrorKind::IsADirectory => ("this is a folder", "name the file in it"),
        _ => ("this file cannot be read", "see whether the disk is well"),
    };
    PolicyFileError::Unreadable(format!("{}: {what} ({error}); {remedy}", file.display()))
}

/// The environment variable called `name`, if it is set to anything but nothing.
fn set(name: &str) -> Option<String> {
    variable(name).filter(|value| !value.is_empty())
}

/// The environment variable called `name`, if it is set and is text.
#[expect(clippy::disallowed_methods, reason = "the server is what reads the environment")]
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
