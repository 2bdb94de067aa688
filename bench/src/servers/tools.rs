//! Programs that come from elsewhere: the distribution's packages, and what cargo builds.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::Outcome;

/// A program, how to see that it works, and the package that brings it.
struct Tool {
    name: &'static str,
    ask: &'static str,
    package: &'static str,
}

const TOOLS: &[Tool] = &[
    Tool { name: "nginx", ask: "-v", package: "nginx-light" },
    Tool { name: "haproxy", ask: "-v", package: "haproxy" },
    Tool { name: "wrk", ask: "-v", package: "wrk" },
    Tool { name: "h2load", ask: "--version", package: "nghttp2-client" },
    Tool { name: "redis-server", ask: "--version", package: "redis-server" },
    Tool { name: "cmake", ask: "--version", package: "cmake" },
    Tool { name: "protoc", ask: "--version", package: "protobuf-compiler" },
    Tool { name: "redis-server", ask: "--version", package: "redis-server" },
    Tool { name: "redis-benchmark", ask: "--version", package: "redis-tools" },
    Tool { name: "taskset", ask: "--version", package: "util-linux" },
    Tool { name: "setpriv", ask: "--version", package: "util-linux" },
];

/// Names everything that is missing of `needed` and of what every comparison needs, and how to get it.
pub(crate) fn check(needed: &[&str]) -> Outcome<()> {
    let wanted = |tool: &&Tool| needed.contains(&tool.name) || tool.package == "util-linux";
    let missing: Vec<&Tool> = TOOLS.iter().filter(wanted).filter(|tool| !is_there(tool)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = missing.iter().map(|tool| tool.name).collect();
    let mut packages: Vec<&str> = missing.iter().map(|tool| tool.package).collect();
    packages.dedup();
    let (names, packages) = (names.join(", "), packages.join(" "));
    Err(format!("missing: {names}; install with `apt-get install --yes {packages}`").into())
}

/// Whether it can be started at all; wrk says its version with an exit code of 1.
fn is_there(tool: &Tool) -> bool {
    let mut command = Command::new(tool.name);
    command.arg(tool.ask).env("PATH", search_path()).stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

/// Servers live where only the system's administrator looks by default.
pub(crate) fn search_path() -> OsString {
    let mut path = std::env::var_os("PATH").unwrap_or_default();
    path.push(":/usr/sbin:/sbin");
    path
}

/// Their versions, as a report names them.
pub(crate) fn versions() -> Vec<String> {
    let wanted = [("nginx", "-v", "nginx/"), ("haproxy", "-v", "version ")];
    wanted.iter().filter_map(|(name, ask, before)| version(name, ask, before)).collect()
}

/// That of Redis.
pub(crate) fn redis_version() -> Option<String> {
    version("redis-server", "--version", "v=")
}

/// The word that follows `before` in what the program says.
fn version(name: &str, ask: &str, before: &str) -> Option<String> {
    let output = Command::new(name).arg(ask).env("PATH", search_path()).output().ok()?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let word = said.split_once(before)?.1.split_whitespace().next()?;
    let number = word.split(['-', '+']).next()?;
    Some(format!("{name} {number}"))
}

/// Ours, from the repository that this folder belongs to.
pub(crate) fn build_threshold() -> Outcome<PathBuf> {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml");
    build(&manifest, "threshold", &["--package", "threshold-server"])
}

/// A package of this workspace whose program has the same name.
pub(crate) fn build_member(name: &str) -> Outcome<PathBuf> {
    build_member_with(name, &[])
}

/// The same with further arguments for cargo.
pub(crate) fn build_member_with(name: &str, args: &[&str]) -> Outcome<PathBuf> {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    build(&manifest, name, &[&["--package", name], args].concat())
}

/// A program as its project publishes it, installed where this benchmark was built: nothing of the user's changes.
pub(crate) fn install(name: &str, version: &str) -> Outcome<PathBuf> {
    let own = std::env::current_exe()?;
    let target = own.ancestors().nth(2).ok_or("the benchmark is in no target folder")?;
    let root = target.join("tools").join(format!("{name}-{version}"));
    let program = root.join("bin").join(name);
    if program.is_file() {
        return Ok(program);
    }
    let mut cargo = cargo();
    cargo.args(["install", name, "--version", version, "--locked", "--root"]).arg(&root);
    forget_own_package(&mut cargo);
    match cargo.status()?.success() {
        true => Ok(program),
        false => Err(format!(
            "{name} {version} could not be installed: see cargo's complaint above; it needs crates.io"
        )
        .into()),
    }
}

fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Cargo itself says where the program is: the target folder may be anywhere.
fn build(manifest: &Path, program: &str, args: &[&str]) -> Outcome<PathBuf> {
    let mut cargo = cargo();
    cargo.args(["build", "--release", "--message-format=json-render-diagnostics", "--manifest-path"]);
    forget_own_package(cargo.arg(manifest).args(args));
    let output = cargo.stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(format!("{program} could not be built").into());
    }
    let said = String::from_utf8(output.stdout)?;
    let path = said.lines().find_map(|line| executable(line, program));
    path.ok_or_else(|| format!("cargo did not say where {program} is").into())
}

/// `cargo run` describes the benchmark in the environment. Handed on, it makes build scripts run again each time.
fn forget_own_package(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
}

fn executable(line: &str, program: &str) -> Option<PathBuf> {
    let message: Value = serde_json::from_str(line).ok()?;
    let ours = message["target"]["name"] == program;
    message["executable"].as_str().filter(|_| ours).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_says_where_the_program_is() {
        let line = r#"{"reason":"compiler-artifact","target":{"name":"a"},"executable":"/x/a"}"#;
        assert_eq!(executable(line, "a"), Some(PathBuf::from("/x/a")));
        assert_eq!(executable(line, "b"), None);
        assert_eq!(executable("not json", "a"), None);
    }
}
