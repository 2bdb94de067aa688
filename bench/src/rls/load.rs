//! Load from the other core by h2load.

use std::path::PathBuf;

use super::call::{PATH, question};
use crate::Outcome;
use crate::servers::Flow;
use crate::servers::places::{Cores, Folder};
use crate::servers::rounds::Rounds;
use crate::servers::service::{Service, pinned};

/// How many connections, and how many calls at the same time on each.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    connections: usize,
    streams: usize,
}

pub(super) const SHAPES: [Shape; 2] =
    [Shape { connections: 16, streams: 16 }, Shape { connections: 2, streams: 100 }];

impl Shape {
    pub(super) fn name(self) -> String {
        format!("{} connections × {} calls", self.connections, self.streams)
    }
}

/// Writes what is asked where h2load finds it.
pub(super) fn prepare(folder: &Folder) -> Outcome<PathBuf> {
    let path = folder.path().join("question");
    std::fs::write(&path, question())?;
    Ok(path)
}

/// As many calls as it takes; by round, then by service.
pub(super) fn flows(
    services: &[Service],
    cores: Cores,
    (shape, seconds): (Shape, u64),
    rounds: &mut Rounds,
) -> Outcome<Vec<Vec<Flow>>> {
    // The first connections and the first touch of everything belong to nobody's figures.
    for service in services {
        throughput(service, cores, (shape, 1))?;
    }
    rounds.measure(&shape.name(), services, |service| {
        let before = service.busy()?;
        let rate = throughput(service, cores, (shape, seconds))?;
        let busy = (service.busy()? - before).as_secs_f64();
        Ok(Flow { rate, cost: busy * 1e6 / (rate * seconds as f64) })
    })
}

fn throughput(service: &Service, cores: Cores, (shape, seconds): (Shape, u64)) -> Outcome<f64> {
    let mut command = pinned(cores.rest);
    command.args(["h2load", "--threads", "1", "--clients", &shape.connections.to_string()]);
    command.args(["--max-concurrent-streams", &shape.streams.to_string()]);
    command
        .args(["--duration", &seconds.to_string(), "--data"])
        .arg(service.script.as_ref().ok_or("no question")?);
    command.args(["--header", "content-type: application/grpc", "--header", "te: trailers"]);
    command.arg(format!("http://{}{PATH}", service.address));
    let output = command.output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    calls_per_second(&said).map_err(|error| format!("{} under h2load: {error}\n{said}", service.name).into())
}

/// What h2load says, if every answer was a success.
fn calls_per_second(said: &str) -> Outcome<f64> {
    let line = said.lines().find(|line| line.starts_with("requests:")).ok_or("it gave no figure")?;
    if !line.contains(" 0 failed, 0 errored, 0 timeout") {
        return Err(line.into());
    }
    let finished =
        said.lines().find_map(|line| line.strip_prefix("finished in ")).ok_or("it gave no figure")?;
    let rate = finished.split(", ").find_map(|part| part.strip_suffix(" req/s")).ok_or("it gave no rate")?;
    Ok(rate.parse()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_counts_only_without_failures() {
        let said = "finished in 2.00s, 51047.15 req/s, 9.25MB/s\nrequests: 9 total, 9 started, 9 done, 9 succeeded, \
                    0 failed, 0 errored, 0 timeout\n";
        assert_eq!(calls_per_second(said).unwrap(), 51047.15);
        assert!(calls_per_second(&said.replace("0 failed", "1 failed")).is_err());
        assert!(calls_per_second("").is_err());
    }
}
