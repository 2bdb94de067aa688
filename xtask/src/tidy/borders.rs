//! Which crate of ours may depend on which. Cargo forbids only circles; the rest of the shape is kept here.

use super::{File, Finding};
use crate::metadata::{Dependency, Package};

const TESTKIT: &str = "threshold-testkit";

/// What a program may be built from.
const LIBRARIES: &[&str] =
    &["threshold-core", "threshold-store", "threshold", "threshold-http", "threshold-foresight"];

/// Each crate, and the crates of ours it may depend on.
const BORDERS: &[(&str, &[&str])] = &[
    ("threshold-core", &[]),
    ("threshold-store", &["threshold-core"]),
    ("threshold", &["threshold-core", "threshold-store"]),
    ("threshold-http", &["threshold"]),
    ("threshold-foresight", &["threshold"]),
    (TESTKIT, &["threshold-core", "threshold-store", "threshold"]),
    ("threshold-server", LIBRARIES),
    ("xtask", &[]),
];

/// What an example may be built from: one of them shows what runs around an application, which is all of the server.
const EXAMPLES: &[&str] =
    &["threshold-core", "threshold-store", "threshold", "threshold-http", "threshold-server"];

/// Finds dependencies that cross a border, and crates that have no borders yet.
pub(crate) fn check(packages: &[Package], files: &[File]) -> Vec<Finding> {
    let ours: Vec<&str> = packages.iter().map(|package| package.name.as_str()).collect();
    packages.iter().flat_map(|package| check_package(package, &ours, manifest_text(package, files))).collect()
}

fn check_package(package: &Package, ours: &[&str], manifest: &str) -> Vec<Finding> {
    let name = &package.name;
    let Some(allowed) = allowed(package) else {
        let what = format!("`{name}` has no borders: say what it may depend on in xtask/src/tidy/borders.rs");
        return vec![Finding::new(&package.manifest, 1, what)];
    };
    let crosses = |dependency: &&Dependency| {
        let other = dependency.name.as_str();
        // A crate names itself for its tests where those need more of its features than its users do.
        let for_tests = dependency.dev && (other == TESTKIT || other == name);
        ours.contains(&other) && !allowed.contains(&other) && !for_tests
    };
    let finding = |dependency: &Dependency| {
        let other = &dependency.name;
        let what = format!("`{name}` may not depend on `{other}`: {}", remedy(allowed));
        Finding::new(&package.manifest, line_of(manifest, other), what)
    };
    package.dependencies.iter().filter(crosses).map(finding).collect()
}

fn allowed(package: &Package) -> Option<&'static [&'static str]> {
    if package.manifest.starts_with("examples/") {
        return Some(EXAMPLES);
    }
    BORDERS.iter().find(|(name, _)| *name == package.name).map(|(_, allowed)| *allowed)
}

fn remedy(allowed: &[&str]) -> String {
    if allowed.is_empty() {
        return "it stands on none of our crates, so move the code to one that may".to_owned();
    }
    format!("move the code, or reach it through {}", allowed.join(", "))
}

/// Finds crates that do not take part in the workspace's lints.
pub(crate) fn lints(packages: &[Package], files: &[File]) -> Vec<Finding> {
    let outside = packages.iter().filter(|package| !inherits_lints(manifest_text(package, files)));
    let what = "the workspace's lints do not reach this crate: add `[lints]` with `workspace = true`";
    outside.map(|package| Finding::new(&package.manifest, 1, what)).collect()
}

/// Knows both spellings: a `[lints]` table, and a dotted key above the first table.
fn inherits_lints(manifest: &str) -> bool {
    let mut table = String::new();
    for line in manifest.lines() {
        let line: String = line.split('#').next().unwrap_or_default().split_whitespace().collect();
        if line.starts_with('[') {
            table = line;
        } else if (table == "[lints]" && line == "workspace=true")
            || (table.is_empty() && line == "lints.workspace=true")
        {
            return true;
        }
    }
    false
}

fn manifest_text<'a>(package: &Package, files: &'a [File]) -> &'a str {
    files.iter().find(|file| file.path == package.manifest).map_or("", |file| file.text.as_str())
}

/// The line that declares a dependency; the first line if it is spelled in a way this does not know.
fn line_of(manifest: &str, dependency: &str) -> usize {
    let declares = |line: &str| {
        let rest = line.trim_start().strip_prefix(dependency);
        rest.is_some_and(|rest| rest.starts_with([' ', '.', '=']))
    };
    manifest.lines().position(declares).map_or(1, |index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{file, lines};
    use super::*;

    fn package(name: &str, dependencies: &[(&str, bool)]) -> Package {
        let dependency = |&(name, dev): &(&str, bool)| Dependency { name: name.to_owned(), dev };
        Package {
            name: name.to_owned(),
            manifest: format!("crates/{name}/Cargo.toml"),
            dependencies: dependencies.iter().map(dependency).collect(),
        }
    }

    /// Judges one crate among all those of the table.
    fn judge(judged: Package) -> Vec<Finding> {
        let mut packages: Vec<Package> = BORDERS.iter().map(|(name, _)| package(name, &[])).collect();
        packages.push(judged);
        check(&packages, &[])
    }

    #[test]
    fn the_shape_we_want_is_allowed() {
        assert!(judge(package("threshold-core", &[("serde", false), (TESTKIT, true)])).is_empty());
        assert!(
            judge(package("threshold", &[("threshold-core", false), ("threshold-store", false)])).is_empty()
        );
        assert!(judge(package("threshold-server", &[("threshold-http", false)])).is_empty());
    }

    #[test]
    fn a_dependency_against_the_stream_is_found_where_it_is_declared() {
        let core = package("threshold-core", &[("threshold-store", false)]);
        let packages = [core, package("threshold-store", &[])];
        let manifest =
            file("crates/threshold-core/Cargo.toml", "[dependencies]\nthreshold-store.workspace = true\n");
        let findings = check(&packages, &[manifest]);
        assert_eq!(lines(&findings), [2]);
        assert!(findings[0].to_string().contains("`threshold-core` may not depend on `threshold-store`"));
    }

    #[test]
    fn the_testkit_is_for_tests_only() {
        assert_eq!(judge(package("threshold-store", &[(TESTKIT, false)])).len(), 1);
        assert_eq!(judge(package("threshold-server", &[(TESTKIT, false)])).len(), 1);
        assert!(judge(package("threshold-server", &[(TESTKIT, true)])).is_empty());
        assert_eq!(judge(package("threshold-core", &[("threshold-store", true)])).len(), 1);
        assert!(judge(package("threshold-http", &[("threshold-http", true)])).is_empty());
    }

    #[test]
    fn an_example_may_use_what_users_have() {
        let example = |dependency| Package {
            manifest: "examples/a/Cargo.toml".into(),
            ..package("a", &[(dependency, false)])
        };
        assert!(judge(example("threshold-http")).is_empty());
        assert!(judge(example("threshold-server")).is_empty());
        assert_eq!(judge(example(TESTKIT)).len(), 1);
    }

    #[test]
    fn a_crate_without_borders_is_found() {
        let findings = judge(package("threshold-extras", &[]));
        assert!(findings[0].to_string().contains("`threshold-extras` has no borders"));
    }

    #[test]
    fn lints_are_inherited_in_either_spelling() {
        assert!(inherits_lints("[package]\nname = \"a\"\n\n[lints]\nworkspace = true # all of them\n"));
        assert!(inherits_lints("lints.workspace = true\n[package]\nname = \"a\"\n"));
        assert!(!inherits_lints("[package]\nversion.workspace = true\n"));
        assert!(!inherits_lints("[dependencies.a]\nworkspace = true\n"));
        assert!(!inherits_lints("# [lints]\n# workspace = true\n"));
    }

    #[test]
    fn a_crate_outside_the_lints_is_found() {
        let inside = file("crates/a/Cargo.toml", "[lints]\nworkspace = true\n");
        let outside = file("crates/b/Cargo.toml", "[package]\nname = \"b\"\n");
        let findings = lints(&[package("a", &[]), package("b", &[])], &[inside, outside]);
        assert_eq!(findings.len(), 1);
        assert!(findings[0].to_string().starts_with("crates/b/Cargo.toml:1: "));
    }
}
