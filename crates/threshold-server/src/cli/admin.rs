//! `threshold status`, `threshold audit` and `threshold maintenance`: what a running server says and does.

use std::path::PathBuf;

use clap::Args;

/// Which server is asked, and by which token.
#[derive(Debug, Args)]
pub(crate) struct AdminPlace {
    /// The server's admin listener [default: http://127.0.0.1:8083].
    #[arg(long, value_name = "URL")]
    pub(crate) admin: Option<String>,
    /// A file with the token [default: the token in THRESHOLD_ADMIN_TOKEN].
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Print one JSON document instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = STATUS_HELP)]
pub(crate) struct Status {
    #[command(flatten)]
    pub(crate) place: AdminPlace,
}

#[derive(Debug, Args)]
#[command(after_help = AUDIT_HELP)]
pub(crate) struct Audit {
    /// How many are told: the latest.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub(crate) rows: u64,
    #[command(flatten)]
    pub(crate) place: AdminPlace,
}

#[derive(Debug, Args)]
#[command(after_help = MAINTENANCE_HELP)]
pub(crate) struct Maintenance {
    #[command(flatten)]
    pub(crate) place: AdminPlace,
}

const MAINTENANCE_HELP: &str = "\
A server does this by itself: it forgets counters and records that are over, writes what waits for the archive, and removes
what the archive has kept long enough. This has it done now, by a token that may operate, and says how much that was.

The JSON document is what POST /api/admin/maintenance answers:
  { \"counters\": { \"seen\", \"dropped\" }, \"ledgerRecords\", \"archivedRows\", \"archivedEvents\", \"archiveDaysRemoved\",
    \"archiveObjectsRemoved\", \"audited\" }

Exit codes:
  0  done
  2  the command was not understood, or the server could not be asked

Examples:
  threshold maintenance
  threshold maintenance --json | jq .counters.dropped";

const STATUS_HELP: &str = "\
Asks a running server how its parts are, by a token of any scope; `threshold token create` makes one.

The JSON document is what GET /api/admin/rate-limit-status answers.

Exit codes:
  0  all parts are well
  1  a part fails
  2  the command was not understood, or the server could not be asked

Examples:
  threshold status
  threshold status --admin http://10.0.0.7:8083 --token-file /run/secrets/threshold-token
  threshold status --json | jq .components.store";

const AUDIT_HELP: &str = "\
Says who changed what on a running server, the oldest first, by a token of any scope.

The JSON document is a list:
  [{ \"id\", \"at\", \"by\", \"action\", \"target\", \"before\", \"after\" }]

Exit codes:
  0  told
  2  the command was not understood, or the server could not be asked

Examples:
  threshold audit
  threshold audit --rows 10
  threshold audit --json | jq '.[] | select(.by == \"alice\")'";
