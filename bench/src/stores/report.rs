//! What the comparison of stores found, for people and for programs.

use std::path::Path;

use serde::Serialize;

use crate::Outcome;
use crate::args::ServerArgs;
use crate::machine::Machine;
use crate::model::Target;
use crate::report::markdown::{figures, hardware, targets};
use crate::report::table::render;
use crate::servers::{report, words};
use crate::stats::Summary;
use crate::targets::{Bound, both, must};

#[derive(Serialize)]
pub(super) struct Report {
    machine: Machine,
    quick: bool,
    rounds: usize,
    seconds: u64,
    cells: Vec<CellRows>,
    targets: Vec<Target>,
}

/// One load.
#[derive(Serialize)]
pub(super) struct CellRows {
    name: String,
    rows: Vec<Row>,
    #[serde(skip)]
    bounds: [f64; 2],
}

#[derive(Serialize)]
pub(super) struct Row {
    pub(super) name: String,
    /// Decisions in a second.
    pub(super) rate: Summary,
    /// Against the plain way, round by round.
    pub(super) ratio: Option<Summary>,
    /// Round trips or waits for the disk for each decision.
    pub(super) trips: Summary,
}

impl CellRows {
    pub(super) fn new(name: String, bounds: [f64; 2], rows: Vec<Row>) -> Self {
        Self { name, rows, bounds }
    }

    fn targets(&self) -> Vec<Target> {
        let [least, best] = self.bounds.map(Bound::AtLeast);
        let ours = self.rows.iter().filter_map(|row| row.ratio.as_ref().map(|ratio| (row, ratio)));
        let judged = ours.flat_map(|(row, ratio)| {
            let title = |what: &str| format!("{}, {}: {what}", self.name, row.name);
            let rate = both(title("throughput ÷ the plain way"), Some(ratio.median), least, best);
            let trips = must(title("round trips per decision"), Some(row.trips.median), Bound::AtMost(1.0));
            [rate, trips]
        });
        judged.collect()
    }

    fn table(&self) -> String {
        let titles =
            ["decisions per second", "median [interval]", "÷ the plain way", "round trips per decision"];
        let mut table = vec![words(&titles)];
        for row in &self.rows {
            let ratio = row.ratio.as_ref().map_or("–".to_owned(), figures);
            table.push(vec![row.name.clone(), figures(&row.rate), ratio, format!("{:.4}", row.trips.median)]);
        }
        format!("\n## {}\n\n{}", self.name, render(&table))
    }
}

impl Report {
    pub(super) fn new(machine: Machine, args: &ServerArgs, cells: Vec<CellRows>) -> Self {
        let targets = cells.iter().flat_map(CellRows::targets).collect();
        Self { machine, quick: args.quick, rounds: args.rounds, seconds: args.seconds, cells, targets }
    }

    pub(super) fn write(&self, out: &Path) -> Outcome<()> {
        let warning = if self.quick {
            "\n**A quick run: it shows that everything works, not how fast.**\n"
        } else {
            ""
        };
        let head = format!(
            "# Stores\n\n{}.\n{} rounds of {} s per measurement, interleaved. Only ratios within one run mean \
             anything.\n{warning}",
            hardware(&self.machine),
            self.rounds,
            self.seconds
        );
        let tables: String = self.cells.iter().map(CellRows::table).collect();
        let markdown = head + &tables + &targets(&self.targets, self.quick);
        println!("{markdown}");
        report::write(self, &markdown, out, "stores")
    }
}
