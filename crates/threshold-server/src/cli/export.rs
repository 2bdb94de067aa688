//! `threshold export`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum Export {
    /// Write the limits of the edge as rate limiting rules of Cloudflare, for Terraform.
    Cloudflare(ExportCloudflare),
}

#[derive(Debug, Args)]
#[command(after_help = CLOUDFLARE_HELP)]
pub(crate) struct ExportCloudflare {
    /// The policy.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// The zone: its id, or a Terraform reference to it such as var.zone [default: var.zone_id, which the file then
    /// declares, and the provider with it].
    #[arg(long, value_name = "ID", value_parser = zone)]
    pub(crate) zone_id: Option<Zone>,
    /// Write to this file, which must not be there yet, instead of the standard output.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Print one JSON document instead of Terraform's language.
    #[arg(long)]
    pub(crate) json: bool,
    /// End with code 3 if a limit had to be left out.
    #[arg(long)]
    pub(crate) strict: bool,
}

/// The zone that the rules are for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Zone {
    /// By its id.
    Id(String),
    /// By what Terraform calls it.
    Reference(String),
}

fn zone(text: &str) -> Result<Zone, String> {
    let is_id = text.len() == 32 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if is_id {
        return Ok(Zone::Id(text.to_owned()));
    }
    if text.contains('.') && text.split('.').all(is_name) {
        return Ok(Zone::Reference(text.to_owned()));
    }
    Err("this is no zone; write its id of 32 hexadecimal digits, or a reference such as var.zone_id"
        .to_owned())
}

/// True of what Terraform takes for a name. Nothing else gets into the file unquoted.
fn is_name(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

const CLOUDFLARE_HELP: &str = "\
Every limit of the layer `edge` becomes one rule of a ruleset in the phase http_ratelimit, in the language of Cloudflare's
Terraform provider 5. What Cloudflare cannot express is told on the standard error and in comments of the file: a rule that
differs from its limit says in what, and a limit that has no rule says why.

Exit codes:
  0  the rules are written; what differs is told
  1  the policy is broken, or nothing in it can be exported
  2  the command was not understood, or a file cannot be read or written
  3  the rules are written, and --strict wants no limit left out

The JSON document:
  {
    \"file\": \"policy.toml\", \"plan\": \"Business\", \"remarks\": [],
    \"rules\": [{ \"limit\", \"description\", \"expression\", \"action\", \"enabled\", \"period\", \"requests\",
                \"mitigation_timeout\", \"body\", \"notes\": [] }],
    \"left_out\": [{ \"limit\", \"why\" }]
  }

Examples:
  threshold export cloudflare --config policy.toml > edge.tf
  threshold export cloudflare --config policy.toml --zone-id var.zone --out edge.tf
  threshold export cloudflare --config policy.toml --strict        in CI
  threshold export cloudflare --config policy.toml --json | jq .left_out";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_is_an_id_or_a_reference_and_nothing_that_could_be_more() {
        let id = "0123456789abcdef0123456789abcdef";
        assert_eq!(zone(id), Ok(Zone::Id(id.to_owned())));
        for reference in ["var.zone_id", "data.cloudflare_zone.main.zone_id", "local.zone-a"] {
            assert_eq!(zone(reference), Ok(Zone::Reference(reference.to_owned())));
        }
        for wrong in [
            "",
            "zone",
            "var.",
            ".id",
            "var.a b",
            "var.a\n}",
            "var.\"a\"",
            "var.1a",
            "0123456789ABCDEF",
            "a.b()",
        ] {
            assert!(zone(wrong).is_err_and(|what| what.contains("write its id")), "{wrong:?}");
        }
    }
}
