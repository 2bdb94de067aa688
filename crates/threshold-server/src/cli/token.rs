//! `threshold token`.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};

use super::values;
use crate::admin::tokens::Scope;

#[derive(Debug, Subcommand)]
pub(crate) enum Token {
    /// Make a token and print it: that is the only time it is shown.
    Create(TokenCreate),
    /// Say which tokens there are.
    List(TokenList),
    /// Revoke a token: nobody is let in by it any more.
    Revoke(TokenRevoke),
}

/// Where the tokens are.
#[derive(Debug, Args)]
pub(crate) struct TokenPlace {
    /// The folder of the tokens, the same as the server's [default: ./threshold-data, or THRESHOLD_DATA_DIR].
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// A policy, for its folder.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Print one JSON document instead of text.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = CREATE_HELP)]
pub(crate) struct TokenCreate {
    /// What it allows: read looks, operate also changes what is held against somebody, admin also changes the policy.
    #[arg(long, value_parser = scope())]
    pub(crate) scope: Scope,
    /// Who it is for; it is written down with every change that is made by it.
    #[arg(long, value_name = "NAME", value_parser = values::name)]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) place: TokenPlace,
}

#[derive(Debug, Args)]
#[command(after_help = LIST_HELP)]
pub(crate) struct TokenList {
    #[command(flatten)]
    pub(crate) place: TokenPlace,
}

#[derive(Debug, Args)]
#[command(after_help = REVOKE_HELP)]
pub(crate) struct TokenRevoke {
    /// Whose.
    #[arg(value_parser = values::name)]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) place: TokenPlace,
}

fn scope() -> impl TypedValueParser<Value = Scope> {
    PossibleValuesParser::new(Scope::ALL.map(Scope::name))
        .map(|name| Scope::ALL.into_iter().find(|scope| scope.name() == name).unwrap_or(Scope::Read))
}

const CREATE_HELP: &str = "\
Only a hash of it is kept, in admin-tokens.json of the folder. A running server knows it at once.

The JSON document:
  { \"name\", \"scope\", \"token\" }

Exit codes:
  0  made
  2  the command was not understood, or the file could not be read or written

Examples:
  threshold token create --scope read --name grafana
  threshold token create --scope operate --name alice --data-dir /var/lib/threshold
  export THRESHOLD_ADMIN_TOKEN=$(threshold token create --scope admin --name me --json | jq -r .token)";

const LIST_HELP: &str = "\
The JSON document is a list:
  [{ \"name\", \"scope\", \"created\" }]

Exit codes:
  0  listed
  2  the command was not understood, or the file could not be read

Examples:
  threshold token list
  threshold token list --data-dir /var/lib/threshold --json";

const REVOKE_HELP: &str = "\
The JSON document:
  { \"changed\": true, \"name\" }

Exit codes:
  0  revoked
  1  there is no such token
  2  the command was not understood, or the file could not be read or written

Examples:
  threshold token revoke grafana";
