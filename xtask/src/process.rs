//! Running other programs, and saying clearly when one of them fails.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::terminal;

/// Why a task stopped, and what the reader can do about it.
#[derive(Debug)]
pub(crate) struct Failure {
    what: String,
    /// Kept apart from `what`, so that a caller who knows better can replace it.
    remedy: Option<String>,
}

impl Failure {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), remedy: None }
    }

    pub(crate) fn with_remedy(self, remedy: impl Into<String>) -> Self {
        Self { remedy: Some(remedy.into()), ..self }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        match &self.remedy {
            Some(remedy) => write!(f, "\n  {remedy}"),
            None => Ok(()),
        }
    }
}

/// The top of the repository: every command runs there and every path is told from there.
///
/// Asked of `cargo run` rather than fixed at build time: two checkouts that share a target folder share this binary.
#[expect(clippy::disallowed_methods, reason = "this is how cargo says which package it runs")]
pub(crate) fn root() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&package).parent().map_or_else(PathBuf::new, Path::to_owned)
}

/// A command from one line of words. No word may hold a space.
pub(crate) fn command(line: &str) -> Command {
    let mut words = line.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words).current_dir(root());
    forget_own_package(&mut command);
    command
}

/// `cargo run` describes xtask in the environment. Handed on to a second cargo, it makes build scripts that watch
/// these variables run again, each time one switches between `cargo test` and `cargo xtask test`.
fn forget_own_package(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&*name);
        }
    }
}

/// Runs a command on our own terminal, so that its output arrives untouched.
pub(crate) fn run(command: &mut Command) -> Result<(), Failure> {
    let line = shown(command);
    terminal::command(&line);
    let status = command.status().map_err(|error| not_started(&line, &error))?;
    if status.success() { Ok(()) } else { Err(Failure::new(format!("`{line}` failed ({status})"))) }
}

/// Runs a command for what it prints.
pub(crate) fn output(command: &mut Command) -> Result<String, Failure> {
    let line = shown(command);
    let output = command.output().map_err(|error| not_started(&line, &error))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    Err(Failure::new(format!("`{line}` failed ({}):\n{}", output.status, complaint.trim_end())))
}

/// Whether a command can be run at all: how a tool is detected.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}

fn not_started(line: &str, error: &std::io::Error) -> Failure {
    Failure::new(format!("`{line}` could not be started: {error}"))
}

/// The command as one would type it, with the variables that are set for it.
fn shown(command: &Command) -> String {
    let set = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
    let set = set.map(|(name, value)| format!("{}=\"{}\"", name.display(), value.display()));
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words = words.map(|word| word.display().to_string());
    set.chain(words).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_becomes_a_command_and_back() {
        assert_eq!(shown(&command("cargo  clippy -- -D warnings")), "cargo clippy -- -D warnings");
    }

    #[test]
    fn a_missing_program_is_named() {
        let failure = output(&mut command("no-such-program --version")).unwrap_err().to_string();
        assert!(failure.contains("`no-such-program --version` could not be started"), "{failure}");
    }

    #[test]
    fn a_failing_program_is_named_with_its_complaint() {
        let failure = output(&mut command("git no-such-command")).unwrap_err().to_string();
        assert!(failure.contains("`git no-such-command` failed"), "{failure}");
        assert!(failure.contains("is not a git command"), "{failure}");
    }

    #[test]
    fn the_remedy_follows_on_its_own_line() {
        let failure = Failure::new("it broke").with_remedy("mend it");
        assert_eq!(failure.to_string(), "it broke\n  mend it");
    }
}
