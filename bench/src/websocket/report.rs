//! What the comparison of WebSocket messages found, for people and for programs.

use serde::Serialize;

use super::{OFF, ON};
use crate::model::Target;
use crate::report::markdown::{figures, targets};
use crate::servers::report::{About, FlowRow, flow_table, head};
use crate::targets::{Bound, must};

/// Whom the others are divided by.
pub(super) const BASES: [&str; 1] = [OFF];

#[derive(Serialize)]
pub(super) struct Report {
    #[serde(flatten)]
    about: About,
    /// Whether the gateway refused a message where only one was allowed.
    enforced: bool,
    shapes: Vec<ShapeRows>,
    targets: Vec<Target>,
}

/// Throughput of one way to send.
#[derive(Serialize)]
pub(super) struct ShapeRows {
    pub(super) shape: &'static str,
    pub(super) in_flight: usize,
    pub(super) rows: Vec<FlowRow>,
}

impl ShapeRows {
    fn limited(&self) -> Option<&FlowRow> {
        self.rows.iter().find(|row| row.name == ON)
    }
}

impl Report {
    pub(super) fn new(about: About, enforced: bool, shapes: Vec<ShapeRows>) -> Self {
        let targets = shapes.iter().map(|shape| judge(shape, enforced)).collect();
        Self { about, enforced, shapes, targets }
    }
}

/// Limits that nobody enforces cost nothing: that is no figure.
fn judge(shape: &ShapeRows, enforced: bool) -> Target {
    let ratio = shape.limited().and_then(|row| row.ratios.get(OFF)).filter(|_| enforced);
    let what = format!("WebSocket messages, {}: throughput with limits ÷ without", shape.shape);
    must(what, ratio.map(|ratio| ratio.median), Bound::AtLeast(0.8))
}

/// The whole report, for the terminal and the file alike.
pub(super) fn markdown(report: &Report) -> String {
    let set_up = "gateways interleaved, one core for the gateway and one for echo and client";
    let mut text = head("WebSocket messages", &report.about, set_up);
    if !report.enforced {
        text += "\n**This gateway does not enforce limits of messages: with them and without them is the same.**\n";
    }
    for shape in &report.shapes {
        text += &section(shape);
    }
    text + &targets(&report.targets, report.about.settings.quick)
}

fn section(shape: &ShapeRows) -> String {
    let ShapeRows { shape: name, in_flight, rows } = shape;
    let table = flow_table(rows, "message", &BASES);
    let cost = shape.limited().and_then(|row| row.cost_ratios.get(OFF)).map_or(String::new(), |ratio| {
        format!("\nProcessor time of the gateway for a message, {ON} ÷ {OFF}: {}.\n", figures(ratio))
    });
    format!("\n## {name}: {in_flight} in flight on each connection\n\n{table}{cost}")
}
