//! Load on one server: as much as it takes (wrk), or at a rate (our own client).

use std::process::Command;
use std::time::Duration;

use super::client::{Gaps, Latency};
use super::places::Cores;
use super::service::{Service, pinned};
use super::{CONNECTIONS, REQUEST_HEADERS, REQUEST_PATH};
use crate::Outcome;

/// How requests come while latencies are measured.
#[derive(Clone, Copy)]
pub(super) struct Asked {
    /// Requests in a second.
    pub(super) rate: f64,
    pub(super) gaps: Gaps,
    pub(super) time: Duration,
}

/// Requests in a second, as many as it takes.
pub(super) fn throughput(service: &Service, cores: Cores, seconds: u64) -> Outcome<f64> {
    let mut command = pinned(cores.rest);
    command.args(["wrk", "--threads", "1", "--connections", &CONNECTIONS.to_string()]);
    command.args(["--duration", &format!("{seconds}s")]);
    for header in REQUEST_HEADERS {
        command.args(["--header", header]);
    }
    command.arg(format!("http://{}{REQUEST_PATH}", service.address));
    let said = output(service, &mut command)?;
    requests_per_second(&said).map_err(|error| format!("{} under wrk: {error}", service.name).into())
}

/// What wrk says, if every answer was a success.
fn requests_per_second(said: &str) -> Outcome<f64> {
    for trouble in ["Non-2xx", "Socket errors"] {
        if let Some(line) = said.lines().find(|line| line.contains(trouble)) {
            return Err(line.trim().into());
        }
    }
    let line = said.lines().find_map(|line| line.strip_prefix("Requests/sec:"));
    Ok(line.ok_or("it gave no figure")?.trim().parse()?)
}

/// Latencies at a fixed rate.
pub(super) fn latency(service: &Service, cores: Cores, asked: Asked) -> Outcome<Latency> {
    let mut command = pinned(cores.rest);
    command.arg(std::env::current_exe()?).arg("gateway-client").arg(service.address.to_string());
    command.args([&asked.rate.to_string(), &asked.time.as_millis().to_string(), asked.gaps.name()]);
    Ok(serde_json::from_str(&output(service, &mut command)?)?)
}

fn output(service: &Service, command: &mut Command) -> Outcome<String> {
    let output = command.output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(said);
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    Err(format!("load on {} failed: {said}{complaint}", service.name).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_counts_only_without_refusals() {
        assert_eq!(requests_per_second("x\nRequests/sec:  51047.15\n").unwrap(), 51047.15);
        assert!(requests_per_second("  Non-2xx or 3xx responses: 7\nRequests/sec: 1\n").is_err());
        assert!(requests_per_second("  Socket errors: connect 0, read 9\nRequests/sec: 1\n").is_err());
        assert!(requests_per_second("").is_err());
    }
}
