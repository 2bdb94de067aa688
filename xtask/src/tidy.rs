//! `cargo xtask tidy`: habits that a compiler does not check and a reviewer should not have to.
//!
//! Each check is a pure function from text in memory to findings, so each is tested on a few lines of input.

mod borders;
mod docs;
mod marks;
mod reads;
mod sizes;
mod snippets;
mod tokens;

use std::fmt;

use crate::metadata::{self, Package};
use crate::process::{self, Failure};
use crate::terminal;

/// One file of the repository.
#[derive(Debug)]
pub(crate) struct File {
    /// From the root, with forward slashes.
    pub(crate) path: String,
    /// Empty if the file is not text: its name still counts, as the target of a link.
    pub(crate) text: String,
}

impl File {
    /// Code that a person wrote: what a generator writes into `generated/` follows its own habits.
    pub(crate) fn is_hand_written_rust(&self) -> bool {
        self.path.ends_with(".rs") && !self.is_generated()
    }

    pub(crate) fn is_generated(&self) -> bool {
        self.has_folder("generated")
    }

    /// Whether some folder on the way to the file bears this name.
    pub(crate) fn has_folder(&self, name: &str) -> bool {
        self.path.rsplit('/').skip(1).any(|folder| folder == name)
    }
}

/// Something to mend.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    path: String,
    line: usize,
    /// What is wrong and how to put it right.
    what: String,
}

impl Finding {
    pub(crate) fn new(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, what: what.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

type FileCheck = fn(&File) -> Vec<Finding>;
type TreeCheck = fn(&[File]) -> Vec<Finding>;
type PackageCheck = fn(&[Package], &[File]) -> Vec<Finding>;

/// Checks that see one file at a time.
const FILE_CHECKS: &[FileCheck] = &[
    sizes::check,
    reads::check,
    marks::unfinished,
    marks::machine_paths,
    marks::module_files,
    marks::denied_warnings,
];

/// Checks that must see all files at once.
const TREE_CHECKS: &[TreeCheck] = &[docs::records, docs::links, snippets::check];

/// Checks of the manifests against what cargo makes of them.
const PACKAGE_CHECKS: &[PackageCheck] = &[borders::check, borders::lints];

pub(crate) fn run() -> Result<(), Failure> {
    let files = read_files()?;
    let findings = check(&files, &metadata::read()?.packages);
    for finding in &findings {
        terminal::say(finding);
    }
    match findings.len() {
        0 => {
            terminal::say(format_args!("{} files are tidy", files.len()));
            Ok(())
        }
        1 => Err(Failure::new("tidy has 1 finding, above")),
        count => Err(Failure::new(format!("tidy has {count} findings, above"))),
    }
}

fn check(files: &[File], packages: &[Package]) -> Vec<Finding> {
    let mut findings: Vec<Finding> =
        files.iter().flat_map(|file| FILE_CHECKS.iter().flat_map(move |check| check(file))).collect();
    findings.extend(TREE_CHECKS.iter().flat_map(|check| check(files)));
    findings.extend(PACKAGE_CHECKS.iter().flat_map(|check| check(packages, files)));
    findings.sort();
    findings
}

/// Everything git tracks or would track: a new file is held to the habits before it is added.
fn read_files() -> Result<Vec<File>, Failure> {
    let listed =
        process::output(&mut process::command("git ls-files -z --cached --others --exclude-standard"))?;
    // A file that is deleted but still tracked cannot be read, and need not be.
    Ok(listed.split_terminator('\0').filter_map(read_file).collect())
}

fn read_file(path: &str) -> Option<File> {
    let bytes = std::fs::read(process::root().join(path)).ok()?;
    let text = String::from_utf8(bytes).unwrap_or_default();
    Some(File { path: path.to_owned(), text })
}

#[cfg(test)]
pub(crate) mod fixture {
    use super::{File, Finding};

    pub(crate) fn file(path: &str, text: &str) -> File {
        File { path: path.to_owned(), text: text.to_owned() }
    }

    /// Where findings are, for tests that do not care about the wording.
    pub(crate) fn lines(findings: &[Finding]) -> Vec<usize> {
        findings.iter().map(|finding| finding.line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::fixture::file;
    use super::*;

    #[test]
    fn a_finding_reads_like_a_compiler_error() {
        assert_eq!(
            Finding::new("a/b.rs", 7, "too long: split it").to_string(),
            "a/b.rs:7: too long: split it"
        );
    }

    #[test]
    fn findings_come_in_order_of_place() {
        let files = [file("src/b/mod.rs", ""), file("src/a/mod.rs", "")];
        let findings = check(&files, &[]);
        let paths: Vec<&str> = findings.iter().map(|finding| finding.path.as_str()).collect();
        assert_eq!(paths, ["src/a/mod.rs", "src/b/mod.rs"]);
    }

    #[test]
    fn folders_are_whole_names() {
        assert!(file("crates/a/tests/b.rs", "").has_folder("tests"));
        assert!(!file("crates/a/src/tests", "").has_folder("tests"));
        assert!(!file("crates/my-tests/b.rs", "").has_folder("tests"));
        assert!(!file("src/generated/b.rs", "").is_hand_written_rust());
    }
}
