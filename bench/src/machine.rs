//! The machine a run was made on: what a reader needs to compare, and nothing that names the machine.

use std::fs;
use std::process::Command;

use serde::Serialize;

#[derive(Serialize)]
pub(crate) struct Machine {
    pub(crate) cpu: String,
    pub(crate) cores: usize,
    pub(crate) memory_gib: f64,
    pub(crate) kernel: String,
    pub(crate) rustc: String,
    pub(crate) huge_pages: String,
}

pub(crate) fn describe() -> Machine {
    Machine {
        cpu: field("/proc/cpuinfo", "model name").unwrap_or_else(unknown),
        cores: cores(),
        memory_gib: memory_gib().unwrap_or(0.0),
        kernel: kernel().unwrap_or_else(unknown),
        rustc: rustc().unwrap_or_else(unknown),
        huge_pages: huge_pages().unwrap_or_else(unknown),
    }
}

pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn unknown() -> String {
    "unknown".to_owned()
}

fn read(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

/// The value of the first `name : value` line.
fn field(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// The version alone: what follows the dash names whoever built it.
fn kernel() -> Option<String> {
    Some(read("/proc/sys/kernel/osrelease")?.split('-').next()?.to_owned())
}

fn memory_gib() -> Option<f64> {
    let kib: f64 = field("/proc/meminfo", "MemTotal")?.split_whitespace().next()?.parse().ok()?;
    Some((kib / 1024.0 / 1024.0 * 10.0).round() / 10.0)
}

pub(crate) fn rustc() -> Option<String> {
    let output = Command::new("rustc").arg("--version").output().ok()?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}

/// Whether big tables sit on huge pages changes what a cache miss costs.
fn huge_pages() -> Option<String> {
    let text = read("/sys/kernel/mm/transparent_hugepage/enabled")?;
    Some(text.split_once('[')?.1.split_once(']')?.0.to_owned())
}
