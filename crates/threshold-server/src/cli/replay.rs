//! `threshold replay`.

use std::path::PathBuf;

use clap::Args;
use threshold_foresight::logs::{Fields, Format};
use threshold_foresight::report::Condition;

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct Replay {
    /// Access logs, as they are or compressed by gzip or zstd; `-` is the standard input.
    #[arg(required = true)]
    pub(crate) logs: Vec<PathBuf>,
    /// The policy.
    #[arg(long, value_name = "FILE", visible_alias = "config")]
    pub(crate) policy: PathBuf,
    /// The policy that it is compared with, such as the one in force.
    #[arg(long, value_name = "FILE")]
    pub(crate) against: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: Reading,
    #[command(flatten)]
    pub(crate) told: Told,
}

/// How logs are read.
#[derive(Debug, Args)]
pub(crate) struct Reading {
    /// How the logs are written [default: as their first lines look]: combined, common, vhost-combined, nginx-json, caddy,
    /// envoy, haproxy, alb, cloudfront, cloudflare, json, csv.
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Option<Format>,
    /// Which fields of json and csv are what, such as `time=ts,client=ip,target=url,user=auth.sub`.
    #[arg(long, value_name = "MAP")]
    pub(crate) fields: Option<Fields>,
    /// End with code 2 at the first line that cannot be read.
    #[arg(long)]
    pub(crate) strict: bool,
}

/// What is told of it, and how.
#[derive(Debug, Args)]
pub(crate) struct Told {
    /// End with code 3 if this holds, such as `denied > 0.1%`; may be repeated.
    #[arg(long, value_name = "CONDITION")]
    pub(crate) fail_if: Vec<Condition>,
    /// Print one JSON document instead of text.
    #[arg(long)]
    pub(crate) json: bool,
    /// Write a page with charts to this file, which works without a network.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// How many subjects are named.
    #[arg(long, value_name = "NUMBER", default_value_t = 20)]
    pub(crate) top: usize,
}

const HELP: &str = "\
Plays requests of the past through the real engine, at the times when they came, and says whom the policy would have warned,
slowed, denied and banned. Counters begin empty. What a log does not have is passed over: how long requests took, what
logins came to, bytes that were not declared, messages of WebSockets. Who sent a request is what the policy recognises, and
where it recognises nobody, the user that the log names.

Subjects are named as the log names them. Memory does not grow with the log.

Conditions compare one of these by >, >=, < or <= with a number or a share (of requests, or of subjects):
  requests, warned, slowed, denied, banned, bans, denied-subjects, ordinary-denied-subjects,
  and with --against: new-denied, new-denied-subjects, new-denied-ordinary-subjects, new-freed, new-freed-subjects
  (requests, whoever sent them; and subjects that the other policy refused nothing, or that this one refuses nothing any more)

Exit codes:
  0  told
  1  a policy is broken
  2  the command was not understood, or something cannot be read or written, or there was no request to judge --fail-if by
  3  a condition of --fail-if holds
  130  it was interrupted: what it told is about what was read until then

Examples:
  threshold replay access.log --policy policy.toml
  threshold replay access.log.2.gz access.log.1 access.log --policy new.toml --against policy.toml
  threshold replay /var/log/nginx/access.log* --policy policy.toml --html report.html
  ssh web1 cat /var/log/nginx/access.log | threshold replay - --policy policy.toml
  threshold replay app.jsonl --format json --fields time=ts,client=ip,method=verb,target=url,user=sub --policy policy.toml
  threshold replay access.log --policy new.toml --against policy.toml \\
      --fail-if 'new-denied-ordinary-subjects > 0' --fail-if 'denied > 0.1%'        in CI
  threshold replay access.log --policy policy.toml --json | jq .ordinaryHit";
