//! `threshold overrides`.

use std::net::IpAddr;

use clap::{Args, Subcommand};
use threshold::rate::MAX_COUNT;
use threshold::{Rate, Span, SubjectId, SubjectKind};

use super::common::{Acting, Listing, Served, Whom, closing};
use super::values::{self, User};

#[derive(Debug, Subcommand)]
pub(crate) enum Overrides {
    /// Say which limits have other rates, for whom and until when.
    List(OverridesList),
    /// Give a limit another rate, or change the override of the same id.
    Add(Box<OverridesAdd>),
    /// Remove an override.
    #[command(visible_alias = "remove")]
    Lift(OverridesLift),
}

#[derive(Debug, Args)]
#[command(after_help = LIST_HELP)]
pub(crate) struct OverridesList {
    /// Also those that are over.
    #[arg(long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) listing: Listing,
    #[command(flatten)]
    pub(crate) served: Served,
}

#[derive(Debug, Args)]
#[command(after_help = ADD_HELP)]
pub(crate) struct OverridesAdd {
    /// Names it, for changing and removing it.
    #[arg(value_parser = values::name)]
    pub(crate) id: String,
    /// The limit's id.
    #[arg(long, value_parser = values::limit)]
    pub(crate) limit: String,
    /// The rate that it has instead, such as "100/min".
    #[arg(long)]
    pub(crate) rate: Rate,
    #[command(flatten)]
    pub(crate) favoured: Favoured,
    /// Capacity on top of the rate.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=MAX_COUNT))]
    pub(crate) allowance: u64,
    /// The highest one counts; among equals the one for a subject, then the latest.
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    pub(crate) priority: i64,
    /// For how long: from 1s to 366d; without it until it is removed.
    #[arg(long = "for", value_name = "SPAN", value_parser = values::span)]
    pub(crate) span: Option<Span>,
    /// Switched off: it is there and waits.
    #[arg(long)]
    pub(crate) off: bool,
    #[command(flatten)]
    pub(crate) acting: Acting,
    #[command(flatten)]
    pub(crate) served: Served,
}

/// Whom an override is for.
#[derive(Debug, Args)]
#[group(id = "whom", multiple = false)]
pub(crate) struct Favoured {
    /// Only for the network of an address; without any of these, for everyone.
    #[arg(long, value_name = "IP", value_parser = values::address)]
    address: Option<IpAddr>,
    /// Only for a user who proved who it is, within its tenant.
    #[arg(long, value_name = "[TENANT/]NAME", value_parser = values::user)]
    user: Option<User>,
    /// Only for a tenant.
    #[arg(long, value_name = "NAME", value_parser = values::name)]
    tenant: Option<String>,
    /// Only for an account, in any spelling.
    #[arg(long, value_name = "NAME", value_parser = values::account)]
    account: Option<String>,
    /// Only for a subject as it is listed.
    #[arg(long, value_name = "ID", value_parser = countable)]
    subject: Option<SubjectId>,
}

#[derive(Debug, Args)]
#[command(after_help = LIFT_HELP)]
pub(crate) struct OverridesLift {
    /// The override.
    #[arg(value_parser = values::name)]
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) acting: Acting,
    #[command(flatten)]
    pub(crate) served: Served,
}

impl Favoured {
    pub(crate) fn whom(&self) -> Option<Whom> {
        let address = self.address.map(Whom::Address);
        address
            .or_else(|| self.user.clone().map(Whom::User))
            .or_else(|| self.tenant.clone().map(Whom::Tenant))
            .or_else(|| self.account.clone().map(Whom::Account))
            .or(self.subject.map(Whom::Subject))
    }
}

fn countable(text: &str) -> Result<SubjectId, String> {
    let subject: SubjectId = text.parse().map_err(|error| format!("{error}"))?;
    match subject.kind() {
        SubjectKind::Source | SubjectKind::Device | SubjectKind::Key => Err(
            "no limit counts by sources, devices or keys; give an address, a user, a tenant or an account"
                .to_owned(),
        ),
        _ => Ok(subject),
    }
}

const LIST_HELP: &str = concat!(
    "\
The JSON document is a list, in the order in which they were set:
  [{ \"id\", \"limit\", \"rate\", \"subject\", \"allowance\", \"priority\", \"enabled\", \"expires\", \"inForce\" }]
`subject` is null if it is for everyone, `expires` is null if it stays until it is removed.
",
    closing!(),
    "
Examples:
  threshold overrides list
  threshold overrides list --all --json | jq '.[].id'"
);

const ADD_HELP: &str = concat!(
    "\
With --config it is checked whether the policy has such a limit and whether the rate suits it; without, it is not, and
an override that suits no limit changes nothing. A missing ledger is made, with its folder and secret.

The JSON document says what was set:
  { \"changed\": true, \"override\": as in `threshold overrides list --json` }
",
    closing!(),
    "
Examples:
  threshold overrides add launch --limit api --rate 500/min --for 7d --config policy.toml
  threshold overrides add acme-import --limit uploads --rate \"50MB/day\" --tenant acme --priority 10
  threshold overrides add launch --limit api --rate 500/min --off"
);

const LIFT_HELP: &str = concat!(
    "\
The JSON document says what was removed:
  { \"changed\": true, \"id\": \"launch\" }
",
    closing!(),
    "
Examples:
  threshold overrides lift launch
  threshold overrides remove launch --by bob"
);
