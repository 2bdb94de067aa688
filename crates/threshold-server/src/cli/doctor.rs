//! `threshold doctor`.

use clap::Args;

use super::Place;

#[derive(Debug, Args)]
#[command(after_help = DOCTOR_HELP)]
pub(crate) struct Doctor {
    /// Print one JSON document instead of text.
    #[arg(long)]
    pub(crate) json: bool,
    /// The second store, if there is to be one [default: THRESHOLD_CACHE].
    #[arg(long, value_name = "URL")]
    pub(crate) cache: Option<String>,
    #[command(flatten)]
    pub(crate) place: Place,
}

const DOCTOR_HELP: &str = "\
Looks at what a server would use: the policy, the secret, the store, the second store and the ledger; their versions, rights
and clocks, whether anything could be evicted or lost, and whether migrations are pending. Nothing is changed. What is not well is
told with what to do about it.

Exit codes:
  0  a server can be started; what is doubtful is told
  1  something is bad: a server would not start, or would not keep its promise
  2  the command was not understood

The JSON document: { \"ok\": true, \"checks\": [{ \"part\", \"what\", \"grade\", \"said\" }] }, where a grade is good, doubtful
or bad.

Examples:
  threshold doctor --config policy.toml
  threshold doctor --store redis://cache --ledger postgres://me@db/limits
  threshold doctor --store postgres://me@db/limits --cache redis://cache
  threshold doctor --config policy.toml --json | jq '.checks[] | select(.grade != \"good\")'";
