//! Time per decision by number of keys, one line per peer, both axes logarithmic.

use super::svg::{Svg, WIDTH};
use super::table::{figure, keys};
use crate::model::{Cell, Report};
use crate::peers::Kind;

const HEIGHT: f64 = 460.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = WIDTH - 190.0;
const TOP: f64 = 72.0;
const BOTTOM: f64 = HEIGHT - 56.0;
/// Labels closer than this would overlap.
const LABEL_HEIGHT: f64 = 17.0;

/// One peer's points, in pixels, and its label.
struct Curve {
    colour: usize,
    points: Vec<(f64, f64)>,
    label: String,
}

pub(super) fn chart(report: &Report, pattern: &str, threads: usize) -> Option<String> {
    let mut cells: Vec<&Cell> =
        report.cells.iter().filter(|cell| cell.pattern == pattern && cell.threads == threads).collect();
    cells.sort_by_key(|cell| cell.keys);
    if cells.len() < 2 {
        return None;
    }
    let plural = if threads == 1 { "" } else { "s" };
    let mut svg = Svg::new(&format!("Time per decision, {pattern} keys, {threads} thread{plural}"), HEIGHT);
    let scale = Scale::around(&cells);
    axes(&mut svg, &scale, &cells);
    let mut curves = curves(&scale, &cells);
    for curve in &curves {
        svg.line(&curve.points, curve.colour);
    }
    labels(&mut svg, &mut curves);
    Some(svg.finish())
}

/// From keys and nanoseconds to pixels.
struct Scale {
    fewest: f64,
    most: f64,
    lowest: f64,
    highest: f64,
}

impl Scale {
    /// Whole decades around all medians.
    fn around(cells: &[&Cell]) -> Self {
        let medians = || cells.iter().flat_map(|cell| &cell.entries).map(|entry| entry.ns.median);
        let lowest = medians().fold(f64::INFINITY, f64::min).log10().floor();
        let highest = medians().fold(0.0, f64::max).log10().ceil().max(lowest + 1.0);
        let bound = |cell: Option<&&Cell>| cell.map_or(1.0, |cell| cell.keys as f64).log10();
        Self { fewest: bound(cells.first()), most: bound(cells.last()), lowest, highest }
    }

    fn x(&self, keys: usize) -> f64 {
        LEFT + ((keys as f64).log10() - self.fewest) / (self.most - self.fewest) * (RIGHT - LEFT)
    }

    fn y(&self, nanos: f64) -> f64 {
        BOTTOM - (nanos.log10() - self.lowest) / (self.highest - self.lowest) * (BOTTOM - TOP)
    }
}

fn axes(svg: &mut Svg, scale: &Scale, cells: &[&Cell]) {
    for decade in scale.lowest as i32..=scale.highest as i32 {
        let nanos = 10f64.powi(decade);
        let y = scale.y(nanos);
        svg.grid((LEFT, y), (RIGHT, y));
        svg.text((LEFT - 8.0, y + 4.0), "soft", "end", &format!("{nanos:.0} ns"));
    }
    svg.text((16.0, 50.0), "soft", "start", "time per decision, per thread");
    for cell in cells {
        let x = scale.x(cell.keys);
        svg.grid((x, BOTTOM), (x, BOTTOM + 5.0));
        svg.text((x, BOTTOM + 21.0), "soft", "middle", &keys(cell.keys));
    }
    svg.text(
        ((LEFT + RIGHT) / 2.0, HEIGHT - 12.0),
        "soft",
        "middle",
        "live keys (both axes logarithmic, lower is faster)",
    );
}

fn curves(scale: &Scale, cells: &[&Cell]) -> Vec<Curve> {
    let curve = |(colour, kind): (usize, &Kind)| {
        let measured: Vec<(usize, f64)> =
            cells.iter().filter_map(|cell| Some((cell.keys, cell.entry(kind.name())?.ns.median))).collect();
        let (most, last) = *measured.last()?;
        let missing = cells.last().is_some_and(|cell| cell.keys > most);
        let place = if missing { format!(" ({})", keys(most)) } else { String::new() };
        let points = measured.iter().map(|&(keys, nanos)| (scale.x(keys), scale.y(nanos))).collect();
        Some(Curve { colour, points, label: format!("{} {} ns{place}", kind.name(), figure(last)) })
    };
    Kind::ALL.iter().enumerate().filter_map(curve).collect()
}

/// Names beside the ends of the lines, pushed down where they would overlap.
fn labels(svg: &mut Svg, curves: &mut [Curve]) {
    let end = |curve: &Curve| curve.points.last().map_or(0.0, |point| point.1);
    curves.sort_by(|a, b| end(a).total_cmp(&end(b)));
    let mut free = f64::NEG_INFINITY;
    for curve in curves {
        let y = (end(curve) + 4.0).max(free);
        svg.text((RIGHT + 12.0, y), &format!("c{}", curve.colour), "start", &curve.label);
        free = y + LABEL_HEIGHT;
    }
}
