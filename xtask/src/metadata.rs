//! What `cargo metadata` knows about the workspace, cut down to what the tasks ask.

use std::path::PathBuf;

use serde_json::Value;

use crate::process::{self, Failure};

/// The workspace as cargo sees it.
#[derive(Debug)]
pub(crate) struct Workspace {
    pub(crate) packages: Vec<Package>,
    /// Where builds go: not always `target`, since a person may move it.
    pub(crate) target: PathBuf,
}

/// One crate of ours.
#[derive(Debug)]
pub(crate) struct Package {
    pub(crate) name: String,
    /// From the root, with forward slashes.
    pub(crate) manifest: String,
    pub(crate) dependencies: Vec<Dependency>,
}

/// One dependency line of a crate of ours.
#[derive(Debug)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// True for `[dev-dependencies]`; build dependencies count as normal ones.
    pub(crate) dev: bool,
}

pub(crate) fn read() -> Result<Workspace, Failure> {
    let text = process::output(&mut process::command("cargo metadata --format-version 1 --no-deps"))?;
    parse(&text).ok_or_else(|| Failure::new("`cargo metadata` answered in a shape xtask does not know"))
}

fn parse(text: &str) -> Option<Workspace> {
    let json: Value = serde_json::from_str(text).ok()?;
    let root = json["workspace_root"].as_str()?;
    let packages = json["packages"].as_array()?.iter();
    Some(Workspace {
        packages: packages.map(|package| parse_package(package, root)).collect::<Option<_>>()?,
        target: json["target_directory"].as_str()?.into(),
    })
}

fn parse_package(json: &Value, root: &str) -> Option<Package> {
    let manifest = json["manifest_path"].as_str()?.strip_prefix(root)?.replace('\\', "/");
    let dependencies = json["dependencies"].as_array()?.iter();
    Some(Package {
        name: json["name"].as_str()?.to_owned(),
        manifest: manifest.trim_start_matches('/').to_owned(),
        dependencies: dependencies.map(parse_dependency).collect::<Option<_>>()?,
    })
}

fn parse_dependency(json: &Value) -> Option<Dependency> {
    Some(Dependency { name: json["name"].as_str()?.to_owned(), dev: json["kind"] == "dev" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_read_with_their_dependencies() {
        let text = r#"{"workspace_root": "/repo", "target_directory": "/repo/target", "packages": [{
            "name": "a", "manifest_path": "/repo/crates/a/Cargo.toml",
            "dependencies": [{"name": "b", "kind": null}, {"name": "c", "kind": "dev"}]}]}"#;
        let workspace = parse(text).unwrap();
        assert_eq!(workspace.target, PathBuf::from("/repo/target"));
        let package = &workspace.packages[0];
        assert_eq!((package.name.as_str(), package.manifest.as_str()), ("a", "crates/a/Cargo.toml"));
        let kinds: Vec<_> = package.dependencies.iter().map(|d| (d.name.as_str(), d.dev)).collect();
        assert_eq!(kinds, [("b", false), ("c", true)]);
    }

    #[test]
    fn another_shape_is_refused() {
        assert!(parse("{}").is_none());
        assert!(parse(r#"{"workspace_root": "r", "target_directory": "t", "packages": [{}]}"#).is_none());
    }
}
