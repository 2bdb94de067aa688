//! `threshold simulate`.

use std::path::PathBuf;

use clap::Args;

use super::Told;

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct Simulate {
    /// The scenario: who sends what, and what goes wrong meanwhile.
    pub(crate) scenario: PathBuf,
    /// The policy [default: the one that the scenario names].
    #[arg(long, value_name = "FILE", visible_alias = "config")]
    pub(crate) policy: Option<PathBuf>,
    /// The policy that it is compared with.
    #[arg(long, value_name = "FILE")]
    pub(crate) against: Option<PathBuf>,
    /// Other dice than the scenario's own.
    #[arg(long, value_name = "NUMBER")]
    pub(crate) seed: Option<u64>,
    #[command(flatten)]
    pub(crate) told: Told,
}

const HELP: &str = "\
Makes up traffic by a small TOML file and plays it through the real engine on virtual time: honest users with a daily rhythm,
crawlers, credential stuffing over rotating networks, bursts, slow drips, tenants that outgrow their tier; on one node, or on
several whose store goes away. The same file and seed give the same requests on every machine.

A scenario may say how many requests of an actor should be denied (`denied = \"at most 0.1%\"`); if that does not come true,
the command ends with code 3, as it does if a condition of --fail-if holds.

Exit codes:
  0  told, and everything is as the scenario expects
  1  the policy or the scenario is broken
  2  the command was not understood, or something cannot be read or written
  3  something is not as expected, or a condition of --fail-if holds
  130  it was interrupted: what it told is about what was played until then

Examples:
  threshold simulate examples/scenarios/credential-stuffing.toml
  threshold simulate scenario.toml --policy policy.toml --html report.html
  threshold simulate scenario.toml --policy new.toml --against policy.toml --seed 7
  threshold simulate scenario.toml --policy policy.toml --fail-if 'ordinary-denied-subjects > 0'      in CI";
