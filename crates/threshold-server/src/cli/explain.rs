//! `threshold explain`.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::Args;

use super::{Reading, values};

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct Explain {
    /// What is asked for: a path such as /api/report, or a URL.
    #[arg(required_unless_present = "line")]
    pub(crate) target: Option<String>,
    /// The policy.
    #[arg(long, value_name = "FILE", visible_alias = "config")]
    pub(crate) policy: PathBuf,
    /// The method.
    #[arg(long, short = 'X', value_name = "METHOD", default_value = "GET")]
    pub(crate) method: String,
    /// The other end of the connection.
    #[arg(long, value_name = "ADDRESS", default_value = "203.0.113.1", value_parser = values::address)]
    pub(crate) address: IpAddr,
    /// A header field, as `name: value`; may be repeated.
    #[arg(long, short = 'H', value_name = "FIELD", value_parser = header)]
    pub(crate) header: Vec<(String, String)>,
    /// The host that the request names.
    #[arg(long)]
    pub(crate) host: Option<String>,
    /// The user, where the policy recognises none.
    #[arg(long, value_parser = values::name)]
    pub(crate) user: Option<String>,
    /// The tenant, where the policy recognises none.
    #[arg(long, value_parser = values::name)]
    pub(crate) tenant: Option<String>,
    /// The account that a login names.
    #[arg(long, value_parser = values::account)]
    pub(crate) account: Option<String>,
    /// The length of the body.
    #[arg(long)]
    pub(crate) bytes: Option<u64>,
    /// A line of an access log, instead of all that.
    #[arg(long, conflicts_with_all = ["target", "method", "address", "header", "host", "user", "tenant", "account", "bytes"])]
    pub(crate) line: Option<String>,
    /// A log that came before: what it leaves is what the request meets. May be repeated.
    #[arg(long, value_name = "LOG")]
    pub(crate) after: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: Reading,
    /// So many requests like it came just before.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub(crate) times: u64,
    /// Print one JSON document instead of text.
    #[arg(long)]
    pub(crate) json: bool,
}

fn header(text: &str) -> Result<(String, String), String> {
    match text.split_once(':') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err("this is no header field; write one such as \"x-user: alice\"".to_owned()),
    }
}

const HELP: &str = "\
Every limit of the policy is told with its part: what was left of it before and after, or why it is not asked; then what
the whole comes to, and when the request would pass. Nothing runs and nothing is changed: the counters begin empty, unless
--after or --times fills them. After a log the request comes when the log ends, or later if its line says so; otherwise now.

What a running server would say, with its own counters, is POST /api/admin/explain, and the dashboard's form.

Exit codes:
  0  the request would pass
  1  it would be refused, or the policy is broken
  2  the command was not understood, or something cannot be read

Examples:
  threshold explain /api/report --policy policy.toml
  threshold explain https://acorn.example/api/posts -X POST --user alice --times 10 --policy policy.toml
  threshold explain /login -X POST -H 'x-forwarded-for: 198.51.100.7' --address 10.0.0.1 --policy policy.toml
  threshold explain --line \"$(tail -1 access.log)\" --after access.log --policy policy.toml
  threshold explain /api/report --after app.jsonl --fields time=ts,client=ip,target=url --policy policy.toml
  threshold explain /api/report --policy policy.toml --json | jq .considered";
