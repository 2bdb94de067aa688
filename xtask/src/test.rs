//! `cargo xtask test`: runs the steps in order and stops at the first that fails.
#![expect(
    clippy::disallowed_methods,
    reason = "how long a step took is for the reader; nothing is decided by it"
)]

use std::time::Instant;

use crate::process::Failure;
use crate::steps::Step;
use crate::terminal;

/// Runs the named steps, or all of them if none is named. Their order is the table's, whatever order they are named in.
pub(crate) fn run(steps: &[Step], names: &[String]) -> Result<(), Failure> {
    let chosen: Vec<&Step> =
        steps.iter().filter(|step| names.is_empty() || names.iter().any(|name| name == step.name)).collect();
    let start = Instant::now();
    for (index, step) in chosen.iter().enumerate() {
        let at = start.elapsed().as_secs_f64();
        terminal::heading(&format!(
            "{} ({}/{}, at {at:.1} s): {}",
            step.name,
            index + 1,
            chosen.len(),
            step.about
        ));
        run_one(step)?;
    }
    let names: Vec<&str> = chosen.iter().map(|step| step.name).collect();
    terminal::done(&format!("\npassed in {:.1} s: {}", start.elapsed().as_secs_f64(), names.join(", ")));
    Ok(())
}

fn run_one(step: &Step) -> Result<(), Failure> {
    let start = Instant::now();
    let outcome = (step.run)();
    let took = start.elapsed().as_secs_f64();
    match outcome {
        Ok(()) => {
            terminal::done(&format!("{} passed in {took:.1} s", step.name));
            Ok(())
        }
        Err(failure) => {
            Err(Failure::new(format!("step `{}` failed after {took:.1} s: {failure}", step.name))
                .with_remedy(format!("run only this step again with: cargo xtask test {}", step.name)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEPS: &[Step] = &[
        Step { name: "good", about: "passes", run: || Ok(()) },
        Step { name: "bad", about: "fails", run: || Err(Failure::new("it broke")) },
        Step { name: "never", about: "must not be reached", run: || panic!("ran after a failure") },
    ];

    #[test]
    fn the_first_failure_stops_the_run_and_says_how_to_repeat_it() {
        let failure = run(STEPS, &[]).unwrap_err().to_string();
        assert!(failure.starts_with("step `bad` failed after"), "{failure}");
        assert!(failure.contains("it broke"), "{failure}");
        assert!(failure.ends_with("cargo xtask test bad"), "{failure}");
    }

    #[test]
    fn only_named_steps_run() {
        assert!(run(STEPS, &["good".to_owned()]).is_ok());
    }
}
