//! `instructions`: counts instructions per decision and compares them with the committed counts.

#[path = "../benches/shared.rs"]
mod shared;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::report::table::{figure, render, row};
use crate::stats::rounded;
use crate::{Outcome, machine};

/// Must be the version of the `gungraun` crate: the two speak a private protocol.
const RUNNER_VERSION: &str = "0.20.0";
const FILE: &str = "instructions.json";

#[derive(Serialize, Deserialize)]
struct Counts {
    unit: String,
    rustc: String,
    counts: BTreeMap<String, f64>,
}

pub(crate) fn run(out: &Path) -> Outcome<()> {
    if Command::new("valgrind").arg("--version").stdout(Stdio::null()).status().is_err() {
        return Err("valgrind is needed to count instructions: install it (apt-get install valgrind)".into());
    }
    let before = committed();
    let found = count(&tools()?)?;
    println!("{}", compare(&found, before.as_ref()));
    fs::create_dir_all(out)?;
    fs::write(out.join(FILE), serde_json::to_string_pretty(&found)? + "\n")?;
    eprintln!("written: {FILE}");
    Ok(())
}

fn package() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// The folder with the runner, which is installed on first use.
fn tools() -> Outcome<PathBuf> {
    let root = package().join("target").join(format!("tools-{RUNNER_VERSION}"));
    if !root.join("bin/gungraun-runner").exists() {
        eprintln!("installing gungraun-runner {RUNNER_VERSION} into bench/target (once, a few minutes)");
        let status = cargo()
            .args(["install", "gungraun-runner", "--version", RUNNER_VERSION, "--locked", "--root"])
            .arg(&root)
            .status()?;
        if !status.success() {
            return Err("gungraun-runner could not be installed".into());
        }
    }
    Ok(root.join("bin"))
}

/// Runs the benchmark and divides its totals by the number of decisions.
fn count(tools: &Path) -> Outcome<Counts> {
    let output = cargo()
        .args(["bench", "--bench", "instructions", "--manifest-path"])
        .arg(package().join("Cargo.toml"))
        .args(["--", "--output-format=json"])
        .env("PATH", with_tools(tools)?)
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err("the instruction benchmark failed".into());
    }
    let text = String::from_utf8(output.stdout)?;
    let lines = text.lines().filter(|line| line.starts_with('{'));
    let counts = lines.map(total).collect::<Outcome<BTreeMap<_, _>>>()?;
    let rustc = machine::rustc().unwrap_or_default();
    Ok(Counts { unit: "instructions per decision".to_owned(), rustc, counts })
}

fn with_tools(tools: &Path) -> Outcome<OsString> {
    let rest = std::env::var_os("PATH").unwrap_or_default();
    Ok(std::env::join_paths(std::iter::once(tools.to_path_buf()).chain(std::env::split_paths(&rest)))?)
}

/// Name and instructions per decision of one line of the runner's output.
fn total(line: &str) -> Outcome<(String, f64)> {
    let summary: Value = serde_json::from_str(line)?;
    let name = summary["id"].as_str().ok_or("a benchmark without an id")?;
    let total = &summary["profiles"][0]["data"]["total"]["metrics"]["Ir"]["values"]["new"];
    let total = total.as_f64().ok_or_else(|| format!("{name} has no instruction count"))?;
    Ok((name.to_owned(), rounded(total / shared::DECISIONS as f64)))
}

/// The counts of the last commit; several runs in a row all compare with the same ones.
fn committed() -> Option<Counts> {
    let place = format!("HEAD:./results/{FILE}");
    let output = Command::new("git").arg("-C").arg(package()).args(["show", &place]).output().ok()?;
    serde_json::from_slice(&output.stdout).ok()
}

fn compare(found: &Counts, before: Option<&Counts>) -> String {
    let mut rows = vec![row([&"instructions per decision", &"now", &"committed", &"change"])];
    for (name, &now) in &found.counts {
        let old = before.and_then(|counts| counts.counts.get(name)).copied();
        let change = old.map_or("–".to_owned(), |old| format!("{:+.1} %", (now / old - 1.0) * 100.0));
        rows.push(row([name, &figure(now), &old.map_or("–".to_owned(), figure), &change]));
    }
    let compiler = before.filter(|counts| counts.rustc != found.rustc);
    let note =
        compiler.map_or(String::new(), |counts| format!("\nThe committed counts are {}'s.\n", counts.rustc));
    render(&rows) + &note
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_divided_by_the_decisions() {
        let line = r#"{"id":"a","profiles":[{"data":{"total":{"metrics":{"Ir":{"values":{"new":8192}}}}}}]}"#;
        assert_eq!(total(line).unwrap(), ("a".to_owned(), 2.0));
        assert!(total("{}").is_err());
    }
}
