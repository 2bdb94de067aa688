//! Policies: broken ones and what is said about them, values from the environment, what good ones promise, what the
//! linter finds, the schema, and every block of the guide.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "policies/alerts.rs"]
mod alerts;
#[path = "policies/broken.rs"]
mod broken;
#[path = "policies/environment.rs"]
mod environment;
#[path = "policies/examples.rs"]
mod examples;
#[path = "policies/guarantees.rs"]
mod guarantees;
#[path = "policies/lint.rs"]
mod lint;
#[path = "policies/reach.rs"]
mod reach;
#[path = "policies/reach_holds.rs"]
mod reach_holds;
#[path = "policies/schema.rs"]
mod schema;

use std::fs;
use std::path::{Path, PathBuf};

use threshold::policy::{Policy, PolicyError};

/// Reads a policy with an empty environment.
fn read(text: &str) -> Result<Policy, PolicyError> {
    Policy::read("policy.toml", text, &|_| None)
}

/// Reads a policy that is not broken.
fn policy(text: &str) -> Policy {
    read(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The policies of the examples that are asked for limits alone, and of those that the server is run with.
fn examples() -> Vec<(String, String)> {
    let mut examples = files(&root().join("examples/policies"));
    for name in ["fitbit2garmin", "grove"] {
        let run = files(&root().join("examples").join(name));
        examples.extend(run.into_iter().filter(|(name, _)| name == "policy.toml"));
    }
    assert!(examples.len() >= 3);
    examples
}

/// The TOML files of a folder, by name, with their texts.
fn files(folder: &Path) -> Vec<(String, String)> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<(String, String)> = paths
        .filter(|path| path.extension().is_some_and(|ending| ending == "toml"))
        .map(|path| {
            (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read_to_string(path).unwrap())
        })
        .collect();
    files.sort();
    files
}
