//! The machine a proof ran on: enough to judge its figures, nothing that names the machine or its owner.
#![expect(clippy::disallowed_methods, reason = "a proof carries its date")]

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::process;

/// What a reader needs to compare figures. Anything this system does not tell is "unknown".
pub(crate) fn describe() -> Vec<(&'static str, String)> {
    let cores = std::thread::available_parallelism().map(|count| count.to_string());
    let rustc = process::output(&mut process::command("rustc --version")).unwrap_or_default();
    vec![
        ("processor", known(value_of(&read("/proc/cpuinfo"), "model name", ':'))),
        ("cores", known(cores.ok())),
        (
            "memory",
            known(value_of(&read("/proc/meminfo"), "MemTotal", ':').and_then(|text| gibibytes(&text))),
        ),
        ("system", system()),
        ("compiler", known(Some(rustc))),
    ]
}

/// Today in UTC, as `YYYY-MM-DD`.
pub(crate) fn today() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    date(since.as_secs() / 86_400)
}

fn system() -> String {
    let name = value_of(&read("/etc/os-release"), "PRETTY_NAME", '=');
    let name = name.unwrap_or_else(|| std::env::consts::OS.to_owned());
    // Only the number: what follows the dash is whatever the builder of the kernel chose to put there.
    let release = read("/proc/sys/kernel/osrelease");
    let kernel = known(release.split(['-', '+']).next().map(str::to_owned));
    format!("{name}, kernel {kernel}, {}", std::env::consts::ARCH)
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn known(value: Option<String>) -> String {
    let value = value.unwrap_or_default();
    if value.trim().is_empty() { "unknown".to_owned() } else { value.trim().to_owned() }
}

/// The value behind the first `name<separator>value` line.
fn value_of(text: &str, name: &str, separator: char) -> Option<String> {
    let mut pairs = text.lines().filter_map(|line| line.split_once(separator));
    let (_, value) = pairs.find(|(key, _)| key.trim() == name)?;
    Some(value.trim().trim_matches('"').to_owned())
}

fn gibibytes(kibibytes: &str) -> Option<String> {
    let count: f64 = kibibytes.split_whitespace().next()?.parse().ok()?;
    Some(format!("{:.1} GiB", count / 1024.0 / 1024.0))
}

/// The civil date of a day counted from 1970-01-01. A calendar crate for one line of a page would be too much.
fn date(day: u64) -> String {
    // Counted from 0000-03-01, so that the leap day is the last of its year; 400 years are 146,097 days.
    let day = day + 719_468;
    let (era, day) = (day / 146_097, day % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    format!("{:04}-{month:02}-{day:02}", era * 400 + year + carry)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_civil() {
        assert_eq!(date(0), "1970-01-01");
        assert_eq!(date(11_016), "2000-02-29");
        assert_eq!(date(19_782), "2024-02-29");
        assert_eq!(date(19_783), "2024-03-01");
        assert_eq!(date(20_453), "2025-12-31");
        assert_eq!(date(20_454), "2026-01-01");
    }

    #[test]
    fn values_are_found_by_name() {
        assert_eq!(
            value_of("cpu: 1\nmodel name\t: Fast One\n", "model name", ':').as_deref(),
            Some("Fast One")
        );
        assert_eq!(value_of("PRETTY_NAME=\"Some OS\"\n", "PRETTY_NAME", '=').as_deref(), Some("Some OS"));
        assert_eq!(value_of("", "model name", ':'), None);
    }

    #[test]
    fn memory_is_told_in_gibibytes() {
        assert_eq!(gibibytes("16384000 kB").as_deref(), Some("15.6 GiB"));
    }

    #[test]
    fn what_is_not_told_is_unknown() {
        assert_eq!(known(None), "unknown");
        assert_eq!(known(Some(" \n".into())), "unknown");
    }
}
