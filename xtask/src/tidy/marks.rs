//! Traces of unfinished work and of somebody's machine.
//!
//! The patterns are put together from pieces, so that this file is not its own first finding.

use super::tokens::Tokens;
use super::{File, Finding};

/// Left behind by someone who meant to come back.
const UNFINISHED: &[&str] = &[
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
    concat!("to", "do!("),
    concat!("unimpl", "emented!("),
    concat!("#[", "ignore"),
    concat!("db", "g!("),
];

/// Folders that exist on one machine and not on the next.
const MACHINE_PATHS: &[&str] = &[concat!("/", "work/"), concat!("/", "root/"), concat!("/", "home/")];

const MARKED_FILES: &[&str] = &[".rs", ".js", ".ts", ".sql", ".lua", ".md", ".toml"];

pub(crate) fn unfinished(file: &File) -> Vec<Finding> {
    if file.is_generated() || !MARKED_FILES.iter().any(|ending| file.path.ends_with(ending)) {
        return Vec::new();
    }
    let remedy = "finish it, or write down why not where users will read it";
    search(file, UNFINISHED, has_word, |mark| format!("`{mark}` is unfinished work: {remedy}"))
}

pub(crate) fn machine_paths(file: &File) -> Vec<Finding> {
    // What clients send: their paths are nobody's folders.
    if file.path.contains("/tests/data/") {
        return Vec::new();
    }
    let remedy = "use a path from the root of the repository, or a temporary folder";
    search(file, MACHINE_PATHS, has_absolute_path, |path| {
        format!("`{path}` is a folder of one machine: {remedy}")
    })
}

pub(crate) fn module_files(file: &File) -> Vec<Finding> {
    let is_one = file.path.rsplit('/').next() == Some("mod.rs");
    let what =
        "a module `name` lives in `name.rs` beside its folder, so that tabs and searches show its name";
    is_one.then(|| Finding::new(&file.path, 1, what)).into_iter().collect()
}

pub(crate) fn denied_warnings(file: &File) -> Vec<Finding> {
    if !file.is_hand_written_rust() {
        return Vec::new();
    }
    let what =
        "`deny(warnings)` breaks users' builds with the next compiler: CI denies them, the source does not";
    let lines = Tokens::of(&file.text).lines_with("deny(warnings)");
    lines.into_iter().map(|line| Finding::new(&file.path, line, what)).collect()
}

/// At most one finding per pattern and line.
fn search(
    file: &File,
    patterns: &[&str],
    matches: fn(&str, &str) -> bool,
    what: impl Fn(&str) -> String,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        let found = patterns.iter().filter(|pattern| matches(line, pattern));
        findings.extend(found.map(|pattern| Finding::new(&file.path, index + 1, what(pattern))));
    }
    findings
}

/// Whether the line holds the pattern as a word of its own, not as a part of a longer name.
fn has_word(line: &str, pattern: &str) -> bool {
    let in_name = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(pattern).any(|(start, _)| {
        let before = line[..start].chars().next_back().is_some_and(in_name);
        let after = line[start + pattern.len()..].chars().next().is_some_and(in_name);
        !(before && pattern.starts_with(in_name) || after && pattern.ends_with(in_name))
    })
}

/// Whether a path begins here: in the middle of a longer path or address it is somebody else's folder.
fn has_absolute_path(line: &str, folder: &str) -> bool {
    let goes_on = |c: char| c.is_alphanumeric() || "._-~}*>".contains(c);
    line.match_indices(folder).any(|(start, _)| !line[..start].chars().next_back().is_some_and(goes_on))
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{file, lines};
    use super::*;

    #[test]
    fn every_mark_is_found_in_every_kind_of_file() {
        for ending in MARKED_FILES {
            for mark in UNFINISHED {
                let text = format!("first\n  {mark}: later\n");
                assert_eq!(
                    lines(&unfinished(&file(&format!("a{ending}"), &text))),
                    [2],
                    "{mark} in a{ending}"
                );
            }
        }
    }

    #[test]
    fn longer_names_other_files_and_generated_ones_carry_no_mark() {
        let mark = UNFINISHED[0];
        assert!(unfinished(&file("a.rs", &format!("let {mark}S = MY_{mark};"))).is_empty());
        assert!(unfinished(&file("a.rs", "fn ignored() {} // todo list")).is_empty());
        assert!(unfinished(&file("a.txt", mark)).is_empty());
        assert!(unfinished(&file("src/generated/a.rs", mark)).is_empty());
    }

    #[test]
    fn machine_paths_are_found_in_any_file() {
        for folder in MACHINE_PATHS {
            for text in [format!("cd {folder}x"), format!("\"{folder}\""), format!("file://{folder}x")] {
                assert_eq!(lines(&machine_paths(&file("script", &text))), [1], "{text}");
            }
        }
    }

    #[test]
    fn a_folder_inside_another_path_is_no_machine_path() {
        for folder in MACHINE_PATHS {
            for before in ["https://example.com", "docs", "${DIR}", "**"] {
                assert!(
                    machine_paths(&file("a.md", &format!("{before}{folder}x"))).is_empty(),
                    "{before}{folder}"
                );
            }
        }
    }

    #[test]
    fn module_files_are_found_by_their_whole_name() {
        assert_eq!(module_files(&file("src/a/mod.rs", "")).len(), 1);
        assert!(module_files(&file("src/a/cmod.rs", "")).is_empty());
    }

    #[test]
    fn denied_warnings_are_found_in_code_only() {
        assert_eq!(lines(&denied_warnings(&file("a.rs", "//! A.\n#![deny(warnings)]\n"))), [2]);
        assert!(denied_warnings(&file("a.rs", "//! deny(warnings)\n#![deny(missing_docs)]\n")).is_empty());
    }
}
