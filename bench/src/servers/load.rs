//! Load from the other core: wrk, or clients of our own, which are this program once more.

use std::process::Command;

use super::places::Cores;
use super::rounds::Rounds;
use super::service::{Service, pinned};
use super::{CONNECTIONS, Flow};
use crate::Outcome;

/// As many requests as it takes; by round, then by service.
pub(crate) fn flows(
    services: &[Service],
    cores: Cores,
    seconds: u64,
    rounds: &mut Rounds,
) -> Outcome<Vec<Vec<Flow>>> {
    // The first connections and the first touch of everything belong to nobody's figures.
    for service in services {
        throughput(service, cores, 1)?;
    }
    rounds.measure("throughput", services, |service| {
        let before = service.busy()?;
        let rate = throughput(service, cores, seconds)?;
        let busy = (service.busy()? - before).as_secs_f64();
        Ok(Flow { rate, cost: busy * 1e6 / (rate * seconds as f64) })
    })
}

/// Requests in a second, by wrk.
fn throughput(service: &Service, cores: Cores, seconds: u64) -> Outcome<f64> {
    let mut command = pinned(cores.rest);
    command.args(["wrk", "--threads", "1", "--connections", &CONNECTIONS.to_string()]);
    command.args(["--duration", &format!("{seconds}s")]);
    for header in service.request.headers {
        command.args(["--header", header]);
    }
    if let Some(script) = &service.script {
        command.arg("--script").arg(script);
    }
    command.arg(format!("http://{}{}", service.address, service.request.path));
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

/// A client of our own for a service: what it prints.
pub(crate) fn own_client(service: &Service, cores: Cores, client: &str, args: &[&str]) -> Outcome<String> {
    let mut command = pinned(cores.rest);
    command.arg(std::env::current_exe()?).arg(client).arg(service.address.to_string()).args(args);
    output(service, &mut command)
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
