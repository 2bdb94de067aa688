//! The steps of `cargo xtask test`, cheapest first, so that a slip is told within seconds.

use clap::builder::{PossibleValue, PossibleValuesParser};

use crate::process::{self, Failure};
use crate::servers::{self, Tests};
use crate::{bench, fuzz, metadata, setup, tidy};

/// One named check.
pub(crate) struct Step {
    pub(crate) name: &'static str,
    /// Shown by `cargo xtask test --help` and in the step's heading.
    pub(crate) about: &'static str,
    pub(crate) run: fn() -> Result<(), Failure>,
}

const fn step(name: &'static str, about: &'static str, run: fn() -> Result<(), Failure>) -> Step {
    Step { name, about, run }
}

/// Every step, in the order in which they run.
pub(crate) const STEPS: &[Step] = &[
    step("setup", "the tools are here", setup::run),
    step("fmt", "the code is formatted", fmt),
    step("tidy", "the habits are kept", tidy::run),
    step("clippy", "the lints are quiet", || cargo("clippy --workspace --all-targets -- -D warnings")),
    step("nextest", "the tests pass", nextest),
    step("model", "every interleaving of the concurrent table is right", model),
    step("doctest", "the examples in the documentation run", || cargo("test --workspace --doc")),
    step("doc", "the documentation builds without warnings", doc),
    step("examples", "the quickstart runs", quickstart),
];

/// The names `cargo xtask test` takes; any other is refused with this list.
pub(crate) fn names() -> PossibleValuesParser {
    PossibleValuesParser::new(STEPS.iter().map(|step| PossibleValue::new(step.name).help(step.about)))
}

fn cargo(arguments: &str) -> Result<(), Failure> {
    process::run(&mut process::command(&format!("cargo {arguments}")))
}

fn fmt() -> Result<(), Failure> {
    check_format("--all")?;
    // Workspaces of their own, so `--all` does not reach them.
    for manifest in [bench::MANIFEST, fuzz::MANIFEST] {
        if process::root().join(manifest).is_file() {
            check_format(&format!("--manifest-path {manifest}"))?;
        }
    }
    Ok(())
}

fn check_format(which: &str) -> Result<(), Failure> {
    let remedy = format!("mend it with: cargo fmt {which}");
    cargo(&format!("fmt {which} --check")).map_err(|failure| failure.with_remedy(remedy))
}

fn nextest() -> Result<(), Failure> {
    servers::run(&Tests { arguments: "--workspace", profile: "debug" }, |_| ())
}

/// The whole workspace is named, so that what the tests are built of is not built again with other features.
fn model() -> Result<(), Failure> {
    cargo("nextest run --workspace --features threshold-store/loom --test model")
}

fn quickstart() -> Result<(), Failure> {
    cargo("build --quiet --profile test --workspace --bin quickstart")?;
    let program = metadata::read()?.target.join("debug/quickstart");
    process::run(&mut process::command(&program.display().to_string()))
}

fn doc() -> Result<(), Failure> {
    let mut command = process::command("cargo doc --workspace --no-deps");
    process::run(command.env("RUSTDOCFLAGS", "-D warnings"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::Task;

    #[test]
    fn known_steps_are_taken() {
        assert!(Task::try_parse_from(["xtask", "test", "fmt", "clippy"]).is_ok());
        assert!(Task::try_parse_from(["xtask", "test"]).is_ok());
    }

    #[test]
    fn an_unknown_step_is_refused_with_the_list() {
        let refusal = Task::try_parse_from(["xtask", "test", "clipy"]).unwrap_err().to_string();
        assert!(refusal.contains("'clipy'"), "{refusal}");
        for step in STEPS {
            assert!(refusal.contains(step.name), "{} is not in: {refusal}", step.name);
        }
    }

    #[test]
    fn bench_arguments_pass_through() {
        let Ok(Task::Bench { args }) = Task::try_parse_from(["xtask", "bench", "hot", "--keys", "9"]) else {
            panic!("bench must take any argument");
        };
        assert_eq!(args, ["hot", "--keys", "9"]);
    }
}
