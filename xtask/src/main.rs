//! What this repository does to itself: `cargo xtask test`, `tidy`, `prove`, `bench` and `fuzz`.

mod bench;
mod fuzz;
mod metadata;
mod process;
mod prove;
mod servers;
mod setup;
mod steps;
mod terminal;
mod test;
mod tidy;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;
use clap::builder::PossibleValuesParser;

/// What this repository does to itself.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask", after_help = "Example: cargo xtask test")]
enum Task {
    /// Run every check, in order, stopping at the first that fails. This is what CI runs.
    #[command(after_help = "Examples:\n  cargo xtask test\n  cargo xtask test fmt clippy")]
    Test {
        /// Run only these steps
        #[arg(value_name = "STEP", value_parser = steps::names())]
        steps: Vec<String>,
    },
    /// Check the habits a compiler cannot: borders, sizes, clock reads, marks left behind, links.
    #[command(after_help = "Example: cargo xtask tidy")]
    Tidy,
    /// Run the tests at full figures and write docs/operations/proof.md; all of it, or a part.
    #[command(
        after_help = "Examples:\n  cargo xtask prove\n  cargo xtask prove tests 'test(kills_of_redis)'\n  \
                      cargo xtask prove fuzz policy resp"
    )]
    Prove {
        /// Only this; what it does not touch stays on the page as it was
        #[command(subcommand)]
        part: Option<prove::Part>,
    },
    /// Give whatever reads what strangers write inputs that nobody thought of.
    #[command(after_help = "Examples:\n  cargo xtask fuzz\n  cargo xtask fuzz policy --runs 10000000")]
    Fuzz {
        /// Only this target
        #[arg(value_name = "TARGET", value_parser = PossibleValuesParser::new(fuzz::TARGETS))]
        target: Option<String>,
        /// How many inputs each gets
        #[arg(long, default_value_t = 1_000_000)]
        runs: u64,
    },
    /// Run the benchmarks, handing every argument on to them.
    #[command(after_help = "Examples:\n  cargo xtask bench\n  cargo xtask bench -- --help")]
    Bench {
        /// Arguments for the benchmark program
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
}

fn main() -> ExitCode {
    let done = match Task::parse() {
        Task::Test { steps } => test::run(steps::STEPS, &steps),
        Task::Tidy => tidy::run(),
        Task::Prove { part } => prove::run(part),
        Task::Fuzz { target, runs } => fuzz::run(target.as_deref(), runs),
        Task::Bench { args } => bench::run(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            terminal::error(&failure);
            ExitCode::FAILURE
        }
    }
}
