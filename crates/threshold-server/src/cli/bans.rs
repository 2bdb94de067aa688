//! `threshold bans`.

use clap::{ArgGroup, Args, Subcommand};
use threshold::Span;
use threshold::ledger::SanctionKind;

use super::common::{Acting, Banned, Listing, Served, closing};
use super::values;

#[derive(Debug, Subcommand)]
pub(crate) enum Bans {
    /// Say who is kept out, until when and why.
    List(BansList),
    /// Keep somebody out, or extend what is in force.
    Add(BansAdd),
    /// Let somebody in again.
    Lift(BansLift),
}

#[derive(Debug, Args)]
#[command(after_help = LIST_HELP)]
pub(crate) struct BansList {
    #[command(flatten)]
    pub(crate) banned: Banned,
    /// Only those of this kind.
    #[arg(long, value_parser = values::kind())]
    pub(crate) kind: Option<SanctionKind>,
    /// Also those that are over or were lifted, as long as they are kept.
    #[arg(long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) listing: Listing,
    #[command(flatten)]
    pub(crate) served: Served,
}

#[derive(Debug, Args)]
#[command(after_help = ADD_HELP, group(ArgGroup::new("needed").required(true).args(["address", "user", "subject"])))]
pub(crate) struct BansAdd {
    #[command(flatten)]
    pub(crate) banned: Banned,
    /// For how long: from 1s to 366d.
    #[arg(long = "for", value_name = "SPAN", value_parser = values::span)]
    pub(crate) span: Span,
    /// Why.
    #[arg(long, value_name = "TEXT", value_parser = values::reason)]
    pub(crate) reason: String,
    /// A ban refuses everything, a shadow delays answers, a cooldown refuses for a short while.
    #[arg(long, value_parser = values::kind(), default_value = "ban")]
    pub(crate) kind: SanctionKind,
    #[command(flatten)]
    pub(crate) acting: Acting,
    #[command(flatten)]
    pub(crate) served: Served,
}

#[derive(Debug, Args)]
#[command(after_help = LIFT_HELP, group(ArgGroup::new("needed").required(true).args(["address", "user", "subject"])))]
pub(crate) struct BansLift {
    #[command(flatten)]
    pub(crate) banned: Banned,
    /// Only this kind; without it everything is lifted, and strikes are forgotten.
    #[arg(long, value_parser = values::kind())]
    pub(crate) kind: Option<SanctionKind>,
    #[command(flatten)]
    pub(crate) acting: Acting,
    #[command(flatten)]
    pub(crate) served: Served,
}

const LIST_HELP: &str = concat!(
    "\
Subjects are listed as keyed hashes: the ledger knows no names. To find somebody, give the name. The network of an IPv6
address has 64 bits, or as many as the policy in --config says; give the policy that the servers have.

The JSON document is a list, oldest first:
  [{ \"id\", \"subject\", \"kind\", \"from\", \"until\", \"inForce\", \"reason\",
     \"imposedBy\": \"operator\" or \"ladder\", \"operator\", \"limit\", \"strikes\", \"liftedAt\", \"liftedBy\" }]
`operator` is null for the ladder; `limit` and `strikes` are null for operators.
",
    closing!(),
    "
Examples:
  threshold bans list
  threshold bans list --address 203.0.113.7 --all
  threshold bans list --json | jq '.[].subject'"
);

const ADD_HELP: &str = concat!(
    "\
What is in force is extended, never shortened: lift it first. A missing ledger is made, with its folder and secret.
A user's name may stand behind its tenant and a slash; one without a tenant that has slashes begins with a slash.

The JSON document says what is in force now:
  { \"changed\": true, \"sanctions\": [ as in `threshold bans list --json` ] }
",
    closing!(),
    "
Examples:
  threshold bans add --address 203.0.113.7 --for 24h --reason \"scraping\"
  threshold bans add --user acme/alice --for \"7 days\" --reason \"shared password\" --kind shadow --by bob
  threshold bans add --subject user:0123456789abcdef0123456789abcdef --for 1h --reason \"until we know more\""
);

const LIFT_HELP: &str = concat!(
    "\
The JSON document says what was lifted:
  { \"changed\": true, \"sanctions\": [ as in `threshold bans list --json` ] }
The list is empty if only strikes were forgotten.
",
    closing!(),
    "
Examples:
  threshold bans lift --address 203.0.113.7
  threshold bans lift --user acme/alice --kind shadow
  threshold bans lift --subject address:0123456789abcdef0123456789abcdef --by bob"
);
