//! `threshold policy`: what another policy would do.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::AdminPlace;

#[derive(Debug, Subcommand)]
pub(crate) enum Policy {
    /// Try a policy on what a running server was asked of late.
    DryRun(PolicyDryRun),
}

#[derive(Debug, Args)]
#[command(after_help = DRY_RUN_HELP)]
pub(crate) struct PolicyDryRun {
    /// The policy.
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) place: AdminPlace,
}

const DRY_RUN_HELP: &str = "\
Sends a policy to a running server, which decides the latest requests anew, by it and by the one in force, and says what
would differ. Nothing is changed, and nothing of it is counted. It takes a token of the scope admin: a policy may name any
variable of the server's environment.

The server remembers 10,000 requests unless `serve --remember` says otherwise; under load those of one client in some, and
all of theirs.

The JSON document is what POST /api/admin/policy/dry-run answers.

Exit codes:
  0  told
  2  the command was not understood, the policy is broken or cannot be read, or the server could not be asked

Examples:
  threshold policy dry-run policy.toml
  threshold policy dry-run policy.toml --admin http://10.0.0.7:8083 --token-file /run/secrets/threshold-token
  threshold policy dry-run policy.toml --json | jq .newlyDenied";
