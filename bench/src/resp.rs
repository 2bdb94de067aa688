//! `resp`: decisions over the protocol of Redis, beside a server that decides nothing, throttlecrab's and Redis itself,
//! under the same load, each on the same core.

mod answerers;
pub(crate) mod client;
mod commands;
mod report;

use std::process::Command;

use crate::args::ServerArgs;
use crate::servers::places::{Cores, Folder};
use crate::servers::report::{About, flow_rows, write};
use crate::servers::rounds::Rounds;
use crate::servers::service::{Service, pinned};
use crate::servers::{Flow, load::own_client, tools};
use crate::{Outcome, machine, progress};
use answerers::{INCR, THROTTLECRAB, THROTTLECRAB_VERSION};
use client::Counted;
use report::{BASES, Memory, PipelineRows, Report};

/// Commands under way on each connection.
const PIPELINES: [usize; 3] = [1, 16, 64];
const CONNECTIONS: usize = 50;
/// Keys that are asked for while throughput is measured, and that live while memory is.
const KEYS: usize = 10_000;
const LIVE_KEYS: usize = 1_000_000;

pub(crate) fn run(args: &ServerArgs) -> Outcome<()> {
    tools::check(&["redis-server", "redis-benchmark", "protoc"])?;
    let cores = Cores::pick()?;
    let folder = Folder::new()?;
    let services = answerers::start(args, cores, &folder)?;
    let mut rounds = Rounds::new(args.rounds);
    let mut pipelines = Vec::new();
    for pipeline in PIPELINES {
        let found = flows(&services, cores, (pipeline, args.seconds), &mut rounds)?;
        let rows = flow_rows(&services, &found, &BASES);
        let theirs = redis_benchmark(&services, cores, pipeline)?;
        pipelines.push(PipelineRows { pipeline, rows, redis_benchmark: theirs });
    }
    let live = if args.quick { LIVE_KEYS / 100 } else { LIVE_KEYS };
    let memory = progress::step("filling memories", || memory(&services, cores, live))?;
    let mut settings = rounds.settings(args);
    settings.connections = CONNECTIONS;
    let mut software = vec![format!("throttlecrab-server {THROTTLECRAB_VERSION}")];
    software.extend(tools::redis_version());
    let report = Report::new(About { machine: machine::describe(), software, settings }, pipelines, memory);
    let markdown = report::markdown(&report);
    println!("{markdown}");
    write(&report, &markdown, &args.out, "resp")
}

/// By round, then by service.
fn flows(
    services: &[Service],
    cores: Cores,
    (pipeline, seconds): (usize, u64),
    rounds: &mut Rounds,
) -> Outcome<Vec<Vec<Flow>>> {
    let (pipeline, millis) = (pipeline.to_string(), (seconds * 1_000).to_string());
    let count = |service: &Service, millis: &str| -> Outcome<Counted> {
        let said = own_client(service, cores, "resp-client", &[service.name, &pipeline, millis])?;
        Ok(serde_json::from_str(&said)?)
    };
    // The first touch of everything belongs to nobody's figures.
    for service in services {
        count(service, "500")?;
    }
    rounds.measure(&format!("pipeline {pipeline}"), services, |service| {
        let before = service.busy()?;
        let Counted { rate, replies } = count(service, &millis)?;
        let busy = (service.busy()? - before).as_secs_f64();
        Ok(Flow { rate, cost: busy * 1e6 / replies as f64 })
    })
}

/// What Redis's own tool says of `INCR`: our client should not be far from it.
fn redis_benchmark(services: &[Service], cores: Cores, pipeline: usize) -> Outcome<Option<f64>> {
    let Some(service) = services.iter().find(|service| service.name == INCR) else { return Ok(None) };
    let calls = if pipeline == 1 { 100_000 } else { 1_000_000 };
    let numbers = [usize::from(service.address.port()), CONNECTIONS, pipeline, KEYS, calls];
    let [port, connections, pipeline, keys, calls] = numbers.map(|number| number.to_string());
    let mut command: Command = pinned(cores.rest);
    command.args(["redis-benchmark", "-h", "127.0.0.1", "-p", &port, "-c", &connections, "-P", &pipeline]);
    command.args(["-r", &keys, "-n", &calls, "--csv", "INCR", "key:__rand_int__"]);
    let output = command.output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let rate = text.lines().last().and_then(|line| line.split("\",\"").nth(1)?.parse().ok());
    rate.map(Some).ok_or_else(|| format!("redis-benchmark said nothing of use: {text}").into())
}

/// What a live key takes, by the growth of each process.
fn memory(services: &[Service], cores: Cores, keys: usize) -> Outcome<Vec<Memory>> {
    let mut found = Vec::new();
    for service in services.iter().filter(|service| commands::counts(service.name)) {
        let before = service.resident()?;
        // Its pipelines stall.
        let pipeline = if service.name == THROTTLECRAB { "1" } else { "64" };
        own_client(service, cores, "resp-fill", &[service.name, pipeline, &keys.to_string()])?;
        let grown = service.resident()?.saturating_sub(before);
        found.push(Memory { name: service.name, keys, bytes_per_key: grown as f64 / keys as f64 });
    }
    Ok(found)
}
