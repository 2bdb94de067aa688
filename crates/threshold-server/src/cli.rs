//! What can be typed.

mod admin;
mod analytics;
mod bans;
mod common;
mod demo;
mod doctor;
mod erase;
mod explain;
mod export;
mod import;
mod lockouts;
mod overrides;
mod policy;
mod recommend;
mod replay;
mod serve;
mod simulate;
mod token;
mod top;
pub(crate) mod values;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

pub(crate) use admin::{AdminPlace, Audit, Maintenance, Status};
pub(crate) use analytics::{Analytics, Asked, Violations};
pub(crate) use bans::{Bans, BansAdd, BansLift, BansList};
pub(crate) use common::{Place, Plain, Served, Whom};
pub(crate) use demo::Demo;
pub(crate) use doctor::Doctor;
pub(crate) use erase::Erase;
pub(crate) use explain::Explain;
pub(crate) use export::{Export, ExportCloudflare, Zone};
pub(crate) use import::{Import, ImportEnvoy};
pub(crate) use lockouts::{Lockouts, LockoutsLift, LockoutsList};
pub(crate) use overrides::{Overrides, OverridesAdd, OverridesLift, OverridesList};
pub(crate) use policy::{Policy, PolicyDryRun};
pub(crate) use recommend::Recommend;
pub(crate) use replay::{Reading, Replay, Told};
pub(crate) use serve::{Init, Serve, listen};
pub(crate) use simulate::Simulate;
pub(crate) use token::{Token, TokenCreate, TokenList, TokenPlace, TokenRevoke};
pub(crate) use top::Top;
pub(crate) use values::operator;

/// Rate limiting that says what it promises.
#[derive(Debug, Parser)]
#[command(name = "threshold", version, after_help = EXAMPLES)]
pub(crate) struct Cli {
    /// What to do; without it, a demonstration is served.
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

const EXAMPLES: &str = "\
Examples:
  threshold                                a gateway with small numbers before a small application, to try
  threshold demo                           the same with visitors of its own, and a dashboard to watch them
  threshold init                           writes a policy to start from
  threshold serve --config policy.toml --upstream http://127.0.0.1:3000
  threshold check policy.toml              what the policy promises, and what looks wrong
  threshold import envoy ratelimit.yaml > policy.toml    from envoyproxy/ratelimit
  threshold schema > policy.schema.json    for editors
  threshold doctor --config policy.toml    whether store, ledger and secret are well, and what to do
  threshold export cloudflare --config policy.toml > edge.tf    the edge's limits as rules for Cloudflare
  threshold bans list                      who is kept out, until when and why
  threshold bans add --address 203.0.113.7 --for 24h --reason \"scraping\"
  threshold bans lift --address 203.0.113.7
  threshold lockouts list                  who is locked out of which account
  threshold lockouts lift --account alice@example.com
  threshold overrides add launch --limit api --rate 500/min --for 7d
  threshold overrides list                 which limits have other rates for the time being
  threshold analytics rates --archive archive   how much each limit was used, by day
  threshold token create --scope read --name grafana    a token for the admin API
  threshold replay access.log --policy policy.toml    whom it would have hit, before it does
  threshold recommend access.log > policy.toml        limits that suit what was asked
  threshold simulate scenario.toml         the same for traffic that is made up
  threshold explain /api/report --policy policy.toml  what it says to one request, limit by limit
  threshold policy dry-run policy.toml     what the latest requests would have met by it
  threshold status                         how the parts of a running server are
  threshold top                            what it does, second by second
  threshold audit                          who changed what on it
  threshold maintenance                    forgets what is over, and writes what waits for the archive
  threshold erase 203.0.113.7              forgets all that is kept about somebody";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the server: the gateway in front of an application.
    Serve(Box<Serve>),
    /// Run a server with visitors of its own, to look at.
    Demo(Demo),
    /// Write a policy to start from.
    Init(Init),
    /// Say what a policy promises, and what looks wrong in it.
    Check(Check),
    /// Make a policy of what others are configured by.
    #[command(subcommand)]
    Import(Import),
    /// Print the JSON Schema of a policy.
    Schema,
    /// Look at the policy, the store and the ledger, and say what is not well.
    Doctor(Doctor),
    /// Write limits in the language of somebody else who enforces them.
    #[command(subcommand)]
    Export(Export),
    /// List, impose and lift bans, shadows and cooldowns.
    #[command(subcommand)]
    Bans(Bans),
    /// List and lift the lockouts that follow failed logins.
    #[command(subcommand)]
    Lockouts(Lockouts),
    /// Say how much limits and clients were used, and what was violated.
    #[command(subcommand)]
    Analytics(Analytics),
    /// List, set and remove other rates for limits.
    #[command(subcommand)]
    Overrides(Overrides),
    /// Say how the parts of a running server are.
    Status(Status),
    /// Show what a running server does, second by second.
    Top(Top),
    /// Say who changed what on a running server.
    Audit(Audit),
    /// Have a running server forget what is over and write what waits.
    Maintenance(Maintenance),
    /// Forget all that is kept about somebody.
    Erase(Box<Erase>),
    /// Say what another policy would do.
    #[command(subcommand)]
    Policy(Policy),
    /// Say what a policy would have done to the requests of access logs.
    Replay(Box<Replay>),
    /// Propose limits that suit the requests of access logs.
    Recommend(Box<Recommend>),
    /// Say what a policy does to traffic that is made up: users, crawlers, attacks, outages.
    Simulate(Box<Simulate>),
    /// Say what a policy does with one request, limit by limit.
    Explain(Box<Explain>),
    /// Make, list and revoke tokens for the admin API.
    #[command(subcommand)]
    Token(Token),
}

#[derive(Debug, Args)]
#[command(after_help = CHECK_HELP)]
pub(crate) struct Check {
    /// The policy.
    pub(crate) file: PathBuf,
    /// Print one JSON document instead of text.
    #[arg(long)]
    pub(crate) json: bool,
    /// End with code 3 if there are warnings; notes do not count.
    #[arg(long)]
    pub(crate) strict: bool,
}

const CHECK_HELP: &str = "\
Every limit is printed with the most that it admits, in normal running and while the store fails. Then come the
findings: warnings, which are most likely mistakes, and notes. What breaks the policy goes to the standard error,
all of it at once, as `file:line:column: field: what; remedy`.

Exit codes:
  0  the policy can be used
  1  the policy is broken
  2  the command was not understood, or something cannot be read or written
  3  the policy can be used, and --strict wants no warnings

The JSON document has the same shape whether the policy is broken or not:
  {
    \"file\": \"policy.toml\", \"ok\": true,
    \"problems\": [{ \"line\", \"column\", \"field\", \"what\", \"remedy\" }],
    \"limits\": [{ \"id\", \"layer\", \"tier\", \"subject\", \"requests\", \"rate\", \"algorithm\",
                 \"normal\", \"notes\": [], \"store_failure\" }],
    \"remarks\": [],
    \"findings\": [{ \"severity\", \"line\", \"column\", \"field\", \"limits\": [], \"what\", \"remedy\" }]
  }
Of a broken policy only the problems are known: the other lists are empty.

Examples:
  threshold check policy.toml
  threshold check policy.toml --strict              in CI
  threshold check policy.toml --json | jq .limits";
