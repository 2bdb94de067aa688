//! What the comparison of decisions over HTTP found, for people and for programs.

use serde::Serialize;

use super::answerers::{BARE, THROTTLECRAB};
use crate::model::Target;
use crate::report::markdown::targets;
use crate::servers::ours::OURS;
use crate::servers::report::{About, FlowRow, flow_table, head};
use crate::targets::{Bound, both, must};

/// Whom the others are divided by.
pub(super) const BASES: [&str; 2] = [BARE, THROTTLECRAB];

#[derive(Serialize)]
pub(super) struct Report {
    #[serde(flatten)]
    about: About,
    throughput: Vec<FlowRow>,
    targets: Vec<Target>,
}

impl Report {
    pub(super) fn new(about: About, throughput: Vec<FlowRow>) -> Self {
        let targets = judge(&throughput);
        Self { about, throughput, targets }
    }
}

fn judge(throughput: &[FlowRow]) -> Vec<Target> {
    let ours = throughput.iter().find(|row| row.name == OURS);
    let ratio = |base: &str| Some(ours?.ratios.get(base)?.median);
    let title = |base: &str| format!("decision over HTTP, four layers: throughput ÷ {base}");
    vec![
        both(title(BARE), ratio(BARE), Bound::AtLeast(0.8), Bound::AtLeast(0.9)),
        must(title(THROTTLECRAB), ratio(THROTTLECRAB), Bound::AtLeast(1.2)),
    ]
}

/// The whole report, for the terminal and the file alike.
pub(super) fn markdown(report: &Report) -> String {
    let set_up = "servers interleaved, one core for the server and one for the client";
    let table = flow_table(&report.throughput, "request", &BASES);
    head("Decisions over HTTP", &report.about, set_up)
        + &format!("\n## Throughput\n\n{table}")
        + &targets(&report.targets, report.about.settings.quick)
}
