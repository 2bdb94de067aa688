//! Bytes per live key: what the allocator holds as solid bars, resident memory as pale ones behind.

use super::svg::{Svg, WIDTH};
use super::table::{figure, keys};
use crate::model::{MemoryRow, Report};
use crate::peers::Kind;

const LEFT: f64 = 150.0;
const RIGHT: f64 = WIDTH - 150.0;
const TOP: f64 = 52.0;
const STEP: f64 = 26.0;
const GAP: f64 = 34.0;

pub(super) fn chart(report: &Report) -> Option<String> {
    let mut sizes: Vec<usize> = report.memory.iter().map(|row| row.keys).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let most = report.memory.iter().map(|row| row.resident.max(row.held)).reduce(f64::max)?;
    let height = TOP + report.memory.len() as f64 * STEP + sizes.len() as f64 * GAP + 30.0;
    let mut svg = Svg::new("Bytes per live string key", height);
    let mut y = TOP;
    for size in sizes {
        svg.text((16.0, y + 14.0), "soft", "start", &format!("{} keys", keys(size)));
        y += GAP - 10.0;
        for row in report.memory.iter().filter(|row| row.keys == size) {
            bar(&mut svg, row, y, (RIGHT - LEFT) / most);
            y += STEP;
        }
        y += 10.0;
    }
    svg.text(
        (16.0, height - 12.0),
        "soft",
        "start",
        "solid: held from the allocator; pale: growth of resident memory",
    );
    Some(svg.finish())
}

fn bar(svg: &mut Svg, row: &MemoryRow, y: f64, per_byte: f64) {
    let colour = Kind::ALL.iter().position(|kind| kind.name() == row.peer).unwrap_or(5);
    svg.text((LEFT - 10.0, y + 14.0), "", "end", &row.peer);
    let width = |bytes: f64| (bytes * per_byte).max(0.0);
    svg.bar((LEFT, y), (width(row.resident), STEP - 8.0), colour, 0.3);
    svg.bar((LEFT, y + 3.0), (width(row.held), STEP - 14.0), colour, 1.0);
    let label = format!("{} / {} bytes", figure(row.held), figure(row.resident));
    let end = LEFT + width(row.held.max(row.resident));
    svg.text((end + 8.0, y + 14.0), "", "start", &label);
}
