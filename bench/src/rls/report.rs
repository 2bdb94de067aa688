//! What the comparison of rate limit services found, for people and for programs.

use serde::Serialize;

use super::answerers::{BARE, LEASED, LIMITADOR, LIMITADOR_REDIS, MEMORY, REDIS};
use crate::model::Target;
use crate::report::markdown::targets;
use crate::servers::report::{About, FlowRow, flow_table, head};
use crate::targets::{Bound, both, must};

/// Whom the others are divided by.
pub(super) const BASES: [&str; 4] = [BARE, LIMITADOR, LIMITADOR_REDIS, MEMORY];

#[derive(Serialize)]
pub(super) struct Report {
    #[serde(flatten)]
    about: About,
    tables: Vec<Table>,
    targets: Vec<Target>,
}

/// Everyone under one shape of load.
#[derive(Serialize)]
pub(super) struct Table {
    pub(super) shape: String,
    pub(super) throughput: Vec<FlowRow>,
}

impl Report {
    pub(super) fn new(about: About, tables: Vec<Table>) -> Self {
        let targets = tables.iter().flat_map(judge).collect();
        Self { about, tables, targets }
    }
}

fn judge(table: &Table) -> Vec<Target> {
    let ratio = |name: &str, base: &str| {
        let row = table.throughput.iter().find(|row| row.name == name);
        Some(row?.ratios.get(base)?.median)
    };
    let title = |name: &str, base: &str| format!("{}: {name} ÷ {base}", table.shape);
    let aim = |name, base, least, aim| {
        both(title(name, base), ratio(name, base), Bound::AtLeast(least), Bound::AtLeast(aim))
    };
    vec![
        aim(MEMORY, BARE, 0.95, 1.5),
        must(title(MEMORY, LIMITADOR), ratio(MEMORY, LIMITADOR), Bound::AtLeast(2.0)),
        must(title(REDIS, LIMITADOR_REDIS), ratio(REDIS, LIMITADOR_REDIS), Bound::AtLeast(5.0)),
        must(title(LEASED, MEMORY), ratio(LEASED, MEMORY), Bound::AtLeast(0.9)),
    ]
}

/// The whole report, for the terminal and the file alike.
pub(super) fn markdown(report: &Report) -> String {
    let set_up = "servers interleaved, one core for the server and one for the client and Redis";
    let mut text = head("Envoy's rate limit service", &report.about, set_up);
    text.push_str(
        "`tonic-limitador` is a thin service by tonic over the limitador library, not Limitador's own server; \
         `bare-tonic` answers what `threshold` does, always.\n",
    );
    for table in &report.tables {
        let rows = flow_table(&table.throughput, "call", &BASES);
        text.push_str(&format!("\n## {}\n\n{rows}", table.shape));
    }
    text + &targets(&report.targets, report.about.settings.quick)
}
