//! The targets, each with its measured figure and a plain verdict.

use crate::model::{Report, Target};
use crate::sections::{batch, collision, layers, thread_counts};

/// A bound on a measured figure.
#[derive(Clone, Copy)]
pub(crate) enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

impl Bound {
    fn holds(self, value: f64) -> bool {
        match self {
            Self::AtMost(bound) => value <= bound,
            Self::AtLeast(bound) => value >= bound,
        }
    }

    fn text(self) -> String {
        match self {
            Self::AtMost(bound) => format!("≤ {bound}"),
            Self::AtLeast(bound) => format!("≥ {bound}"),
        }
    }
}

pub(crate) fn judge(report: &Report) -> Vec<Target> {
    let mut targets = Vec::new();
    for keys in [report.settings.medium, report.settings.large] {
        for threads in thread_counts() {
            targets.extend(at_scale(report, keys, threads));
            targets.push(cold_strings(report, keys, threads));
        }
    }
    targets.extend(hot_key(report));
    targets.extend(four_steps(report));
    targets.extend(four_layers(report));
    targets.extend(bytes(report));
    targets.extend(chosen_keys(report));
    targets
}

fn at_scale(report: &Report, keys: usize, threads: usize) -> [Target; 2] {
    let ratio = |to| ratio(report, ("at-hand", keys, threads), "threshold", to);
    let title = |to| format!("{keys} keys, {}: time ÷ {to}", count(threads));
    [
        must(title("governor"), ratio("governor"), Bound::AtMost(0.5)),
        aim(title("floor"), ratio("floor"), Bound::AtMost(1.3)),
    ]
}

/// The same where the caller's string is cold, too: two cache misses that are nobody's but in everyone's time.
fn cold_strings(report: &Report, keys: usize, threads: usize) -> Target {
    let measured = ratio(report, ("uniform", keys, threads), "threshold", "governor");
    let title = format!("{keys} keys, {}, cold strings: time ÷ governor", count(threads));
    aim(title, measured, Bound::AtMost(0.5))
}

fn hot_key(report: &Report) -> Vec<Target> {
    let line = |threads: usize| {
        let bound = if threads == 1 { 1.0 } else { 0.7 };
        let measured = ratio(report, ("uniform", 1, threads), "threshold", "governor");
        must(format!("one hot key, {}: time ÷ governor", count(threads)), measured, Bound::AtMost(bound))
    };
    let floor = |threads: usize| {
        let measured = ratio(report, ("uniform", 1, threads), "threshold", "floor");
        aim(format!("one hot key, {}: time ÷ floor", count(threads)), measured, Bound::AtMost(1.0))
    };
    thread_counts().into_iter().flat_map(|threads| [line(threads), floor(threads)]).collect()
}

fn four_steps(report: &Report) -> Vec<Target> {
    let line = |threads: usize| {
        let cell = (batch::AT_HAND, report.settings.medium, threads);
        let measured = ratio(report, cell, batch::BATCH, batch::SINGLE);
        let title = format!("four-step batch, {}: time ÷ one step", count(threads));
        both(title, measured, Bound::AtMost(2.5), Bound::AtMost(2.0))
    };
    let cold = |threads: usize| {
        let cell = (batch::COLD, report.settings.medium, threads);
        let title = format!("four-step batch, {}, cold strings: time ÷ one step", count(threads));
        aim(title, ratio(report, cell, batch::BATCH, batch::SINGLE), Bound::AtMost(2.5))
    };
    thread_counts().into_iter().flat_map(|threads| [line(threads), cold(threads)]).collect()
}

fn four_layers(report: &Report) -> Vec<Target> {
    let line = |threads: usize| {
        let cell = (layers::PATTERN, report.settings.medium, threads);
        let title = format!("four layers of a policy, {}: time ÷ one limit", count(threads));
        must(title, ratio(report, cell, layers::LAYERS, layers::SINGLE), Bound::AtMost(3.0))
    };
    let standing = |threads: usize| {
        let cell = (layers::PATTERN, report.settings.medium, threads);
        let title = format!("four layers with standing, {}: time ÷ without", count(threads));
        must(title, ratio(report, cell, layers::STANDING, layers::LAYERS), Bound::AtMost(1.1))
    };
    let watched = |threads: usize| {
        let cell = (layers::PATTERN, report.settings.medium, threads);
        let title =
            format!("four layers with metrics, events and archive, {}: time ÷ without", count(threads));
        let ratio = ratio(report, cell, layers::WATCHED, layers::LAYERS);
        both(title, ratio, Bound::AtMost(1.15), Bound::AtMost(1.05))
    };
    let counted = |threads: usize| {
        let cell = (layers::PATTERN, report.settings.medium, threads);
        let title = format!("four layers with metrics and events, {}: time ÷ without", count(threads));
        must(title, ratio(report, cell, layers::COUNTED, layers::LAYERS), Bound::AtMost(1.15))
    };
    let each = |threads| [line(threads), standing(threads), counted(threads), watched(threads)];
    thread_counts().into_iter().flat_map(each).collect()
}

fn bytes(report: &Report) -> [Target; 2] {
    let keys = report.settings.large;
    let held = |peer| report.memory_of(peer, keys).map(|row| row.held);
    let ours = held("threshold");
    let ratio = ours.zip(held("governor")).map(|(ours, theirs)| ours / theirs);
    [
        both(format!("bytes per live key, {keys} keys"), ours, Bound::AtMost(48.0), Bound::AtMost(32.0)),
        must(format!("bytes per live key, {keys} keys ÷ governor"), ratio, Bound::AtMost(0.6)),
    ]
}

/// The worst set counts. Throughput is the inverse of time.
fn chosen_keys(report: &Report) -> [Target; 1] {
    let cell = report.cell("chosen", report.settings.medium, 1);
    let slowest = cell.and_then(|cell| {
        let ratios = cell.entries.iter().filter_map(|entry| entry.ratio(collision::RANDOM));
        ratios.reduce(f64::max)
    });
    let title = "keys chosen to collide: throughput ÷ random keys".to_owned();
    [must(title, slowest.map(|ratio| 1.0 / ratio), Bound::AtLeast(0.8))]
}

fn count(threads: usize) -> String {
    if threads == 1 { "1 thread".to_owned() } else { format!("{threads} threads") }
}

fn ratio(
    report: &Report,
    (pattern, keys, threads): (&str, usize, usize),
    name: &str,
    to: &str,
) -> Option<f64> {
    report.cell(pattern, keys, threads)?.entry(name)?.ratio(to)
}

pub(crate) fn must(what: String, measured: Option<f64>, bound: Bound) -> Target {
    let verdict = verdict(measured, Some(bound), None);
    Target { what, measured, must: bound.text(), aim: "–".to_owned(), verdict }
}

pub(crate) fn aim(what: String, measured: Option<f64>, bound: Bound) -> Target {
    let verdict = verdict(measured, None, Some(bound));
    Target { what, measured, must: "–".to_owned(), aim: bound.text(), verdict }
}

pub(crate) fn both(what: String, measured: Option<f64>, least: Bound, best: Bound) -> Target {
    let verdict = verdict(measured, Some(least), Some(best));
    Target { what, measured, must: least.text(), aim: best.text(), verdict }
}

fn verdict(measured: Option<f64>, must: Option<Bound>, aim: Option<Bound>) -> &'static str {
    let Some(value) = measured else {
        return "not measured";
    };
    if must.is_some_and(|bound| !bound.holds(value)) {
        return "NOT met";
    }
    match aim {
        None => "met",
        Some(bound) => match (must.is_some(), bound.holds(value)) {
            (true, true) => "met, aim reached",
            (true, false) => "met, aim not reached",
            (false, true) => "aim reached",
            (false, false) => "aim not reached",
        },
    }
}
