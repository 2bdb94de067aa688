//! `threshold recommend`.

use std::path::PathBuf;

use clap::Args;

use super::Reading;

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct Recommend {
    /// Access logs, as they are or compressed by gzip or zstd; `-` is the standard input.
    #[arg(required = true)]
    pub(crate) logs: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: Reading,
    /// Print one JSON document instead of a policy.
    #[arg(long)]
    pub(crate) json: bool,
}

const HELP: &str = "\
Looks at who asked for what how often, and proposes limits: for each kind of request and each kind of subject round numbers
above what 99 of 100, 999 of 1,000 and all of them did, and for each number whom it would have hit, tried on the log itself.
A policy that `threshold check` accepts goes to the standard output, with what was found as comments; a summary goes to the
standard error. Paths are brought together by their shape: numbers and names that differ all the time become `*`.

Exit codes:
  0  told
  2  the command was not understood, or something cannot be read
  130  it was interrupted: what it told is about what was read until then

Examples:
  threshold recommend access.log > proposed.toml
  threshold check proposed.toml && threshold replay access.log --policy proposed.toml
  threshold recommend access.log* --json | jq '.findings[0].candidates'";
