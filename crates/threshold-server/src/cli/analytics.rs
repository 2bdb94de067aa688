//! `threshold analytics`.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use threshold::{Span, SubjectId};

use super::common::{Listing, Whom, closing};
use super::values::{self, User};

#[derive(Debug, Subcommand)]
pub(crate) enum Analytics {
    /// How much each limit was used, by day.
    #[command(after_help = RATES_HELP)]
    Rates(Asked),
    /// How many requests of whom met which limit, window by window.
    #[command(after_help = REQUESTS_HELP)]
    Requests(Asked),
    /// What was violated, by kind, limit and day.
    #[command(after_help = VIOLATIONS_HELP)]
    Violations(Violations),
    /// Who asked how often, and how they stand.
    #[command(after_help = CLIENTS_HELP)]
    Clients(Asked),
}

#[derive(Debug, Args)]
pub(crate) struct Asked {
    /// How far back, such as 24h or 7d; up to 366d [default: 24h, and for clients all there is].
    #[arg(long, value_name = "SPAN", value_parser = values::span)]
    pub(crate) since: Option<Span>,
    /// Only this client: an address, or a subject as it is listed.
    #[arg(long, value_name = "IP or ID", value_parser = client, conflicts_with = "user")]
    client: Option<Client>,
    /// Only this user who proved who it is, within its tenant.
    #[arg(long, value_name = "[TENANT/]NAME", value_parser = values::user)]
    user: Option<User>,
    /// Only this limit; "*" is every request, whatever limits it met.
    #[arg(long, value_name = "ID", value_parser = limit)]
    pub(crate) limit: Option<String>,
    /// The most rows of a list; the newest are kept.
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) rows: u32,
    /// The archive: a folder, or s3://BUCKET/PREFIX [default: THRESHOLD_ARCHIVE, or [archive].folder of the policy].
    #[arg(long, value_name = "PLACE", help_heading = "Where the archive is")]
    pub(crate) archive: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) listing: Listing,
}

#[derive(Debug, Args)]
pub(crate) struct Violations {
    /// Each violation by itself, instead of how many there were.
    #[arg(long)]
    pub(crate) list: bool,
    #[command(flatten)]
    pub(crate) asked: Asked,
}

#[derive(Clone, Debug)]
enum Client {
    Address(IpAddr),
    Subject(SubjectId),
}

impl Asked {
    /// Who is asked about.
    pub(crate) fn whom(&self) -> Option<Whom> {
        let client = self.client.clone().map(|client| match client {
            Client::Address(address) => Whom::Address(address),
            Client::Subject(subject) => Whom::Subject(subject),
        });
        client.or_else(|| self.user.clone().map(Whom::User))
    }
}

fn client(text: &str) -> Result<Client, String> {
    if let Ok(address) = text.parse() {
        return Ok(Client::Address(address));
    }
    text.parse().map(Client::Subject).map_err(|_| {
        "this is no address and no subject; write one such as 203.0.113.7, or as it is listed, such as \
         address:0123456789abcdef0123456789abcdef"
            .to_owned()
    })
}

fn limit(text: &str) -> Result<String, String> {
    if text == threshold::usage::EVERY_REQUEST { Ok(text.to_owned()) } else { values::limit(text) }
}

/// What all of them say of clients.
macro_rules! hashed {
    () => {
        "
Clients are listed as keyed hashes: neither archive nor ledger knows names. To find somebody, give the address or the name;
it is hashed with the secret of the ledger. It works while servers run. The archive is at most a minute behind, or as the
policy's [archive].every says; the ledger is not behind.
"
    };
}

const RATES_HELP: &str = concat!(
    "\
`endpoint` is the limit's id, and `total_requests` is how many requests met it, refused or not. A window is as long as the
limit's period, at most an hour; the average and the most are those of one client in one window.

The JSON document is a list, oldest first:
  [{ \"endpoint\", \"date\", \"total_requests\", \"unique_clients\", \"avg_requests_per_window\", \"max_requests_per_window\" }]
",
    hashed!(),
    closing!(),
    "
Examples:
  threshold analytics rates --archive archive
  threshold analytics rates --archive archive --since 7d --limit uploads
  threshold analytics rates --config policy.toml --client 203.0.113.7 --json | jq '.[].total_requests'"
);

const REQUESTS_HELP: &str = concat!(
    "\
The JSON document is a list, oldest first:
  [{ \"client_id\", \"endpoint\", \"timestamp\", \"window_start\", \"window_seconds\", \"request_count\", \"refused\",
     \"created_at\", \"updated_at\" }]
`created_at` is the first request of the window, `timestamp` and `updated_at` are the last.
",
    hashed!(),
    closing!(),
    "
Examples:
  threshold analytics requests --archive archive --since 1h
  threshold analytics requests --archive archive --limit '*'                 each request once
  threshold analytics requests --config policy.toml --client 203.0.113.7 --rows 20"
);

const VIOLATIONS_HELP: &str = concat!(
    "\
Violations are in the ledger, for as long as [privacy].keep_violations says; the archive is not needed for them.

The JSON document is a list, oldest first:
  [{ \"violation_type\", \"endpoint\", \"date\", \"violation_count\", \"unique_violators\", \"avg_count_at_violation\" }]
and with --list:
  [{ \"id\", \"client_id\", \"endpoint\", \"violation_type\", \"timestamp\", \"current_count\", \"limit_exceeded\",
     \"window_size\", \"client_fingerprint\", \"user_agent\", \"country_code\", \"details\",
     \"created_at\" }]
",
    hashed!(),
    closing!(),
    "
Examples:
  threshold analytics violations --since 7d
  threshold analytics violations --list --client 203.0.113.7
  threshold analytics violations --json | jq 'map(.violation_count) | add'"
);

const CLIENTS_HELP: &str = concat!(
    "\
Scores and risks are those of the policy in --config; without one, or without [reputation] in it, they are empty. Requests
are counted as far back as the archive goes, or as --since says; without an archive they are empty.

The JSON document is a list, those with the most violations first:
  [{ \"client_id\", \"reputation_score\", \"risk_level\", \"total_requests\", \"violation_count\", \"last_violation\",
     \"last_request\", \"first_seen\", \"updated_at\" }]
",
    hashed!(),
    closing!(),
    "
Examples:
  threshold analytics clients --config policy.toml --archive archive
  threshold analytics clients --config policy.toml --client 203.0.113.7
  threshold analytics clients --config policy.toml --json | jq '.[] | select(.risk_level != \"LOW\")'"
);
