//! What the comparison of decisions over the protocol of Redis found, for people and for programs.

use serde::Serialize;

use super::answerers::{BARE, CELL, INCR, LUA, THROTTLECRAB};
use crate::model::Target;
use crate::report::markdown::targets;
use crate::report::table::render;
use crate::servers::ours::OURS;
use crate::servers::report::{About, FlowRow, flow_table, head, titles};
use crate::targets::{Bound, aim, both, must};

/// Whom the others are divided by.
pub(super) const BASES: [&str; 5] = [BARE, THROTTLECRAB, INCR, LUA, CELL];

#[derive(Serialize)]
pub(super) struct Report {
    #[serde(flatten)]
    about: About,
    pipelines: Vec<PipelineRows>,
    memory: Vec<Memory>,
    targets: Vec<Target>,
}

/// Throughput of one length of pipelines.
#[derive(Serialize)]
pub(super) struct PipelineRows {
    pub(super) pipeline: usize,
    pub(super) rows: Vec<FlowRow>,
    /// What Redis's own tool says of `INCR`, in commands per second.
    pub(super) redis_benchmark: Option<f64>,
}

/// What a live key takes.
#[derive(Serialize)]
pub(super) struct Memory {
    pub(super) name: &'static str,
    pub(super) keys: usize,
    pub(super) bytes_per_key: f64,
}

impl Report {
    pub(super) fn new(about: About, pipelines: Vec<PipelineRows>, memory: Vec<Memory>) -> Self {
        let targets = pipelines.iter().flat_map(judge).collect();
        Self { about, pipelines, memory, targets }
    }
}

fn judge(found: &PipelineRows) -> Vec<Target> {
    let ours = found.rows.iter().find(|row| row.name == OURS);
    let ratio = |base: &str| Some(ours?.ratios.get(base)?.median);
    let title = |base: &str| format!("RESP, pipeline {}: throughput ÷ {base}", found.pipeline);
    // The script stands in where there is no module.
    let module = if ratio(CELL).is_some() { CELL } else { LUA };
    let least = Bound::AtLeast;
    match found.pipeline {
        1 => vec![
            must(title(THROTTLECRAB), ratio(THROTTLECRAB), least(1.2)),
            both(title(BARE), ratio(BARE), least(0.85), least(0.95)),
        ],
        16 => vec![
            must(title(INCR), ratio(INCR), least(1.0)),
            must(title(module), ratio(module), least(3.0)),
            aim(title(BARE), ratio(BARE), least(0.6)),
        ],
        _ => vec![
            both(title(INCR), ratio(INCR), least(1.0), least(2.0)),
            must(title(module), ratio(module), least(3.0)),
        ],
    }
}

/// The whole report, for the terminal and the file alike.
pub(super) fn markdown(report: &Report) -> String {
    let set_up = "servers interleaved, one core for the server and one for the client";
    let mut text = head("Decisions over RESP", &report.about, set_up);
    let sections = report.pipelines.iter().map(section);
    sections.for_each(|section| text += &section);
    text += &memory(&report.memory);
    text + &targets(&report.targets, report.about.settings.quick)
}

fn section(found: &PipelineRows) -> String {
    let bases: Vec<&str> =
        BASES.into_iter().filter(|base| found.rows.iter().any(|row| row.name == *base)).collect();
    let table = flow_table(&found.rows, "command", &bases);
    let theirs = found
        .redis_benchmark
        .map_or(String::new(), |rate| format!("\n`redis-benchmark` says {rate:.0} per second of {INCR}.\n"));
    format!("\n## Pipelines of {}\n\n{table}{theirs}", found.pipeline)
}

fn memory(found: &[Memory]) -> String {
    let mut table = vec![titles(&["memory", "live keys", "bytes of resident memory per key"])];
    for Memory { name, keys, bytes_per_key } in found {
        table.push(vec![(*name).to_owned(), keys.to_string(), format!("{bytes_per_key:.0}")]);
    }
    format!("\n## Memory\n\n{}", render(&table))
}
