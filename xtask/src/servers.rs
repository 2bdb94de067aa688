//! The servers that a run of the tests shares: started once, stopped when the run is over.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use crate::process::{self, Failure};
use crate::{metadata, terminal};

/// How nextest is called, after `cargo nextest run`.
pub(crate) struct Tests<'a> {
    pub(crate) arguments: &'a str,
    /// The folder below `target` that this build's programs are in.
    pub(crate) profile: &'a str,
}

/// Runs nextest with real servers at hand.
pub(crate) fn run(tests: &Tests<'_>, set: impl FnOnce(&mut Command)) -> Result<(), Failure> {
    let line = format!("cargo nextest run {}", tests.arguments);
    // The servers' own program is built along with the tests, so that it is made with the same features.
    process::run(&mut process::command(&format!("{line} --no-run")))?;
    let program = metadata::read()?.target.join(tests.profile).join("test-servers");
    let servers = Servers::start(&mut Command::new(program))?;
    let mut command = process::command(&line);
    command.envs(servers.variables.iter().map(|(name, url)| (name, url)));
    set(&mut command);
    process::run(&mut command)
}

struct Servers {
    program: Child,
    /// Where tests look for them.
    variables: Vec<(String, String)>,
}

impl Servers {
    fn start(command: &mut Command) -> Result<Self, Failure> {
        let line = command.get_program().display().to_string();
        terminal::command(&line);
        let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut program =
            started.map_err(|error| Failure::new(format!("`{line}` could not be started: {error}")))?;
        let said = program.stdout.take().map(BufReader::new);
        let mut servers = Self { program, variables: Vec::new() };
        for said in said.into_iter().flat_map(BufReader::lines).map_while(Result::ok) {
            match said.split_once('=') {
                Some((name, url)) => servers.variables.push((name.to_owned(), url.to_owned())),
                None => return Ok(servers),
            }
        }
        Err(Failure::new(format!("`{line}` ended before its servers were up"))
            .with_remedy("the servers come with: cargo xtask test setup"))
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        // It stops its servers when its input ends.
        drop(self.program.stdin.take());
        let _ = self.program.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(text: &str) -> Result<Servers, Failure> {
        Servers::start(Command::new("sh").args(["-c", &format!("printf '{text}'; read _")]))
    }

    #[test]
    fn the_variables_are_those_that_the_program_said() {
        let servers = says("A=redis://a\\nB=postgres://b?c=d\\nready\\n").unwrap();
        let pair = |name: &str, url: &str| (name.to_owned(), url.to_owned());
        assert_eq!(servers.variables, [pair("A", "redis://a"), pair("B", "postgres://b?c=d")]);
    }

    #[test]
    fn a_program_that_ends_too_early_is_a_failure_with_a_remedy() {
        let failed = Servers::start(&mut Command::new("true"));
        let failure = failed.err().expect("it says nothing").to_string();
        assert!(failure.contains("ended before its servers were up"), "{failure}");
        assert!(failure.contains("cargo xtask test setup"), "{failure}");
    }
}
