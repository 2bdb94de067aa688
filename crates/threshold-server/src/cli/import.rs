//! `threshold import`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use threshold::AlgorithmKind;

#[derive(Debug, Subcommand)]
pub(crate) enum Import {
    /// Make a policy of the configuration of envoyproxy/ratelimit.
    Envoy(ImportEnvoy),
}

#[derive(Debug, Args)]
#[command(after_help = ENVOY_HELP)]
pub(crate) struct ImportEnvoy {
    /// Its YAML files: one for each domain.
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Write the policy there instead of to the standard output; nothing is overwritten.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// How all limits count, such as token-bucket [default: by windows of the clock, as there].
    #[arg(long, value_name = "NAME", value_parser = algorithm)]
    pub(crate) algorithm: Option<AlgorithmKind>,
}

fn algorithm(text: &str) -> Result<AlgorithmKind, String> {
    let kinds = AlgorithmKind::ALL.into_iter().filter(|kind| *kind != AlgorithmKind::Concurrency);
    let known: Vec<&str> = kinds.clone().map(AlgorithmKind::name).collect();
    let found = kinds.into_iter().find(|kind| kind.name() == text);
    found.ok_or_else(|| format!("there is no such algorithm for descriptors; write {}", known.join(", ")))
}

const ENVOY_HELP: &str = "\
Each descriptor becomes a limit, behind a comment that says where it came from. What has no meaning here, or another, is
told on the standard error and in comments. A file that the other service would refuse is refused here, with everything
that is wrong in it.

Windows are those of the clock up to a day; a week, a month of 30 days and a year of 365 begin with the first request.

Exit codes:
  0  the policy is written
  1  a file is broken
  2  the command was not understood, or a file cannot be read or written

Examples:
  threshold import envoy config/*.yaml --out policy.toml
  threshold import envoy ratelimit.yaml --algorithm token-bucket > policy.toml
  threshold check policy.toml && threshold serve --config policy.toml
  threshold serve --envoy-config config              the files as they are, read again when they change";
