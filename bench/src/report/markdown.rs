//! The report for people.

use super::table::{figure, keys, render, row};
use crate::machine::Machine;
use crate::model::{Cell, Entry, Report, Target};
use crate::peers::Kind;
use crate::sections::{batch, collision, layers, thread_counts};
use crate::stats::Summary;

/// The whole file.
pub(crate) fn document(report: &Report, charts: &[&str]) -> String {
    let mut text = machine(report) + &results(report);
    if !charts.is_empty() {
        text += "\n## Charts\n\n";
        for chart in charts {
            text += &format!("![{}]({chart})\n\n", chart.trim_end_matches(".svg"));
        }
    }
    text + &details(report)
}

pub(crate) fn machine(report: &Report) -> String {
    let machine = &report.machine;
    let settings = &report.settings;
    let warning = if settings.quick {
        "\n**A quick run: it shows that everything works, not how fast.**\n"
    } else {
        ""
    };
    format!(
        "# In-process decisions\n\n{machine}, transparent huge pages: {huge}.\n{rounds} rounds of at least {millis} ms \
         per measurement, peers interleaved. Only ratios within one run mean anything.\n{warning}",
        machine = hardware(machine),
        huge = machine.huge_pages,
        rounds = settings.rounds,
        millis = settings.millis,
    )
}

/// What every report says about the machine.
pub(crate) fn hardware(machine: &Machine) -> String {
    format!(
        "{}, {} cores, {} GiB, Linux {}, {}",
        machine.cpu, machine.cores, machine.memory_gib, machine.kernel, machine.rustc
    )
}

/// Everything but the machine and the long details: what the terminal shows.
pub(crate) fn results(report: &Report) -> String {
    let mut text = String::new();
    for pattern in ["uniform", "zipf", "at-hand"] {
        for threads in thread_counts() {
            text += &core(report, pattern, threads);
        }
    }
    text += &section(report, "batch", "Four-step batch (ours)", &[batch::SINGLE, batch::SINGLE_FOUR]);
    text += &section(report, "layers", "Four layers of a policy (ours)", &[layers::SINGLE, layers::LAYERS]);
    text.extend(report.notes.iter().map(|note| format!("\n{note}\n")));
    text += &section(report, "collision", "Keys chosen to collide (ours)", &[collision::RANDOM]);
    text += &memory(report);
    text + &targets(&report.targets, report.settings.quick)
}

/// Peers by number of keys: median with its confidence interval, and our ratios below.
fn core(report: &Report, pattern: &str, threads: usize) -> String {
    let cells: Vec<&Cell> =
        report.cells.iter().filter(|cell| cell.pattern == pattern && cell.threads == threads).collect();
    if cells.is_empty() {
        return String::new();
    }
    let plural = if threads == 1 { "" } else { "s" };
    let mut rows = vec![head("ns per decision, per thread", &cells)];
    rows.extend(
        Kind::ALL.iter().map(|kind| line(kind.name(), &cells, |cell| time(cell.entry(kind.name())?))),
    );
    for base in ["governor", "floor"] {
        let name = format!("threshold ÷ {base}");
        rows.push(line(&name, &cells, |cell| Some(figures(cell.entry("threshold")?.ratios.get(base)?))));
    }
    format!("\n## {pattern} keys, {threads} thread{plural}\n\n{}", render(&rows))
}

fn head(first: &str, cells: &[&Cell]) -> Vec<String> {
    let columns =
        cells.iter().map(|cell| if cell.keys == 1 { "1 key".to_owned() } else { keys(cell.keys) + " keys" });
    std::iter::once(first.to_owned()).chain(columns).collect()
}

fn line(name: &str, cells: &[&Cell], value: impl Fn(&Cell) -> Option<String>) -> Vec<String> {
    let values = cells.iter().map(|cell| value(cell).unwrap_or_else(|| "–".to_owned()));
    std::iter::once(name.to_owned()).chain(values).collect()
}

fn time(entry: &Entry) -> Option<String> {
    Some(figures(&entry.ns))
}

/// `median [low–high]`.
pub(crate) fn figures(summary: &Summary) -> String {
    let [low, high] = summary.interval;
    format!("{} [{}–{}]", figure(summary.median), figure(low), figure(high))
}

/// A section that compares variants of our own.
fn section(report: &Report, name: &str, title: &str, bases: &[&str]) -> String {
    let cells: Vec<&Cell> = report.cells.iter().filter(|cell| cell.section == name).collect();
    let mut text = String::new();
    for cell in cells {
        let mut rows = vec![vec!["".to_owned(), "ns per decision".to_owned()]];
        rows[0].extend(bases.iter().map(|base| format!("÷ {base}")));
        for entry in &cell.entries {
            let mut columns = vec![entry.name.clone(), figures(&entry.ns)];
            columns.extend(bases.iter().map(|base| entry.ratios.get(base).map_or("–".to_owned(), figures)));
            rows.push(columns);
        }
        text += &format!(
            "\n## {title}: {} keys, threads: {}\n\n{}",
            keys(cell.keys),
            cell.threads,
            render(&rows)
        );
    }
    text
}

fn memory(report: &Report) -> String {
    if report.memory.is_empty() {
        return String::new();
    }
    let mut rows =
        vec![row([&"bytes per live key", &"keys", &"asked for", &"held", &"÷ governor", &"resident"])];
    for found in &report.memory {
        let governor = report.memory_of("governor", found.keys);
        let ratio = governor.map_or("–".to_owned(), |base| figure(found.held / base.held));
        let [asked, held, resident] = [found.asked, found.held, found.resident].map(figure);
        rows.push(row([&found.peer, &keys(found.keys), &asked, &held, &ratio, &resident]));
    }
    format!("\n## Memory\n\n{}", render(&rows))
}

/// What a filtered run did not measure is counted, not listed.
pub(crate) fn targets(targets: &[Target], quick: bool) -> String {
    let mut rows = vec![row([&"target", &"measured", &"must", &"aim", &"verdict"])];
    for target in targets {
        if let Some(measured) = target.measured {
            rows.push(row([&target.what, &figure(measured), &target.must, &target.aim, &target.verdict]));
        }
    }
    let missing = targets.len() + 1 - rows.len();
    let note =
        if missing > 0 { format!("\nNot measured in this run: {missing} targets.\n") } else { String::new() };
    let quick = if quick { " (a quick run: no verdict counts)" } else { "" };
    format!("\n## Targets{quick}\n\n{}{note}", render(&rows))
}

/// Every entry with its spread.
fn details(report: &Report) -> String {
    let mut rows =
        vec![row([&"cell", &"who", &"median ns", &"quartiles", &"interval", &"÷ governor", &"÷ floor"])];
    for cell in &report.cells {
        let id =
            format!("{}, {}, {} keys, {} threads", cell.section, cell.pattern, keys(cell.keys), cell.threads);
        for entry in &cell.entries {
            let [low, high] = entry.ns.quartiles.map(figure);
            let [from, to] = entry.ns.interval.map(figure);
            let ratio = |base| entry.ratios.get(base).map_or("–".to_owned(), figures);
            rows.push(row([
                &id,
                &entry.name,
                &figure(entry.ns.median),
                &format!("{low}–{high}"),
                &format!("{from}–{to}"),
                &ratio("governor"),
                &ratio("floor"),
            ]));
        }
    }
    let confidence = report.cells.iter().flat_map(|cell| &cell.entries).map(|entry| entry.ns.confidence);
    let percent = confidence.reduce(f64::min).map_or(0.0, |lowest| lowest * 100.0);
    format!(
        "\n## Details\n\nIntervals are order statistics around the median (confidence {percent:.1} %); ratios are \
         taken round by round.\n\n{}",
        render(&rows)
    )
}
