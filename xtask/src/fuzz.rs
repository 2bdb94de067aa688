//! `cargo xtask fuzz`: inputs that nobody thought of, for whatever reads what strangers write.
//!
//! The programs are a workspace of their own, built with the compiler's coverage counters. Each starts from its committed
//! corpus, works in a copy of it, and stops at the first input that breaks what must hold.

use std::fs;
use std::path::{Path, PathBuf};

use crate::metadata;
use crate::process::{self, Failure};

/// From the root.
pub(crate) const MANIFEST: &str = "fuzz/Cargo.toml";
const CORPUS: &str = "fuzz/corpus";
/// What the programs are called; each has a folder of inputs.
pub(crate) const TARGETS: &[&str] = &["envoy", "forwarded", "logs", "policy", "resp", "scenario"];
/// The largest input that is made up, in bytes.
const LONGEST: u32 = 4096;
/// How long one input may take, in seconds; ordinary ones take microseconds.
const HANG: u32 = 10;

/// What makes a program count which parts of it an input reached.
const COUNTERS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1";

/// The programs, built.
pub(crate) struct Programs {
    /// Where they work.
    folder: PathBuf,
    /// Where they are.
    built: PathBuf,
}

/// Gives every target, or the one called `only`, `runs` inputs.
pub(crate) fn run(only: Option<&str>, runs: u64) -> Result<(), Failure> {
    let programs = Programs::build()?;
    let chosen = TARGETS.iter().filter(|target| only.is_none_or(|only| only == **target));
    chosen.copied().try_for_each(|target| programs.run(target, runs))
}

impl Programs {
    pub(crate) fn build() -> Result<Self, Failure> {
        let folder = metadata::read()?.target.join("fuzz");
        // Named, so that programs which run during the build have no counters: those would have nobody to count for.
        let host = host(&process::output(&mut process::command("rustc -vV"))?)?;
        let mut command =
            process::command(&format!("cargo build --release --target {host} --manifest-path {MANIFEST}"));
        process::run(command.env("RUSTFLAGS", COUNTERS).env("CARGO_TARGET_DIR", &folder))?;
        Ok(Self { built: folder.join(host).join("release"), folder })
    }

    /// Gives one of them `runs` inputs.
    pub(crate) fn run(&self, target: &str, runs: u64) -> Result<(), Failure> {
        let corpus = copy_corpus(target, &self.folder)?;
        let found = self.folder.join("found").join(target);
        fs::create_dir_all(&found).map_err(|error| unwritten(&found, &error))?;
        let mut command = process::command(&self.built.join(target).display().to_string());
        command.args([format!("-runs={runs}"), format!("-max_len={LONGEST}"), format!("-timeout={HANG}")]);
        command.arg(format!("-artifact_prefix={}/", found.display()));
        command.args(["-print_final_stats=1", "-verbosity=0"]).arg(&corpus);
        process::run(&mut command).map_err(|failure| {
            failure.with_remedy(format!("the input is in {}; keep it in {CORPUS}/{target}", found.display()))
        })
    }
}

/// What the compiler calls this machine.
fn host(said: &str) -> Result<String, Failure> {
    let line = said.lines().find_map(|line| line.strip_prefix("host: "));
    line.map(str::to_owned).ok_or_else(|| Failure::new("rustc does not say what machine this is"))
}

/// What is found on the way is added to a copy: the committed inputs stay as they are.
fn copy_corpus(target: &str, folder: &Path) -> Result<PathBuf, Failure> {
    let (from, to) = (process::root().join(CORPUS).join(target), folder.join("corpus").join(target));
    let copied = fs::create_dir_all(&to).and_then(|()| {
        for file in fs::read_dir(from)? {
            let file = file?;
            fs::copy(file.path(), to.join(file.file_name()))?;
        }
        Ok(())
    });
    copied.map(|()| to.clone()).map_err(|error| unwritten(&to, &error))
}

fn unwritten(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("{} cannot be written: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_has_a_program_and_inputs() {
        let root = process::root();
        let manifest = fs::read_to_string(root.join(MANIFEST)).unwrap();
        for target in TARGETS {
            assert!(manifest.contains(&format!("path = \"targets/{target}.rs\"")), "{target}");
            assert!(root.join(format!("fuzz/targets/{target}.rs")).is_file(), "{target}");
            assert!(fs::read_dir(root.join(CORPUS).join(target)).unwrap().count() > 5, "{target}");
        }
        assert_eq!(fs::read_dir(root.join(CORPUS)).unwrap().count(), TARGETS.len());
    }

    #[test]
    fn the_machine_is_named() {
        assert_eq!(host("rustc 1.0\nhost: x86_64-a-b\nrelease: 1\n").unwrap(), "x86_64-a-b");
        assert!(host("rustc 1.0").is_err());
    }
}
