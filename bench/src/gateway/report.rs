//! What the comparison of proxies found, for people and for programs.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Serialize;

use super::Flow;
use super::client::{Gaps, Latency};
use super::load::Asked;
use super::proxies::{HAPROXY, NGINX, OURS, PINGORA};
use super::service::Service;
use crate::Outcome;
use crate::machine::Machine;
use crate::model::Target;
use crate::report::markdown::{figures, hardware, targets};
use crate::report::table::{figure, render};
use crate::stats::{Summary, rounded};
use crate::targets::{Bound, aim, must};

/// Whom the others are divided by.
const BASES: [&str; 3] = [NGINX, HAPROXY, PINGORA];

/// By whom a figure was divided, and what came out.
type Ratios = BTreeMap<&'static str, Summary>;

#[derive(Serialize)]
pub(super) struct Report {
    machine: Machine,
    software: Vec<String>,
    settings: Settings,
    throughput: Vec<ThroughputRow>,
    latency: Vec<LatencyRow>,
    targets: Vec<Target>,
}

#[derive(Serialize)]
pub(super) struct Settings {
    pub(super) quick: bool,
    pub(super) rounds: usize,
    pub(super) seconds: u64,
    pub(super) connections: usize,
    /// Requests in a second while latencies were measured.
    pub(super) rate: f64,
    /// What other programs used between the measurements, in per cent of all cores.
    pub(super) others: Summary,
}

#[derive(Serialize)]
pub(super) struct ThroughputRow {
    pub(super) name: &'static str,
    /// Requests in a second.
    pub(super) rate: Summary,
    /// Microseconds of processor time for a request.
    cost: Summary,
    ratios: Ratios,
    rounds: Vec<f64>,
}

/// Latencies in microseconds.
#[derive(Serialize)]
pub(super) struct LatencyRow {
    name: &'static str,
    gaps: &'static str,
    p50: Summary,
    p99: Summary,
    p999: Summary,
    /// The ratios of `p99`.
    ratios: Ratios,
    /// Share of the requests that were answered before the client stopped waiting.
    answered: f64,
    rounds: Vec<f64>,
}

impl Report {
    pub(super) fn new(
        (machine, software): (Machine, Vec<String>),
        settings: Settings,
        throughput: Vec<ThroughputRow>,
        latency: Vec<LatencyRow>,
    ) -> Self {
        let targets = judge(&throughput, &latency);
        Self { machine, software, settings, throughput, latency, targets }
    }
}

/// One figure of every service: a list of rounds for each.
fn columns<T>(services: &[Service], rounds: &[Vec<T>], value: impl Fn(&T) -> f64) -> Vec<Vec<f64>> {
    (0..services.len()).map(|who| rounds.iter().map(|round| rounded(value(&round[who]))).collect()).collect()
}

/// One service's rounds divided by everyone's who is a base, round by round.
fn ratios(services: &[Service], columns: &[Vec<f64>], who: usize) -> Ratios {
    let bases = services.iter().zip(columns).filter(|(base, _)| base.name != services[who].name);
    let bases = bases.filter(|(base, _)| BASES.contains(&base.name));
    bases.map(|(base, values)| (base.name, Summary::of_ratios(&columns[who], values))).collect()
}

pub(super) fn throughput(services: &[Service], rounds: &[Vec<Flow>]) -> Vec<ThroughputRow> {
    let rates = columns(services, rounds, |flow| flow.rate);
    let costs = columns(services, rounds, |flow| flow.cost);
    let row = |(who, service): (usize, &Service)| ThroughputRow {
        name: service.name,
        rate: Summary::of(&rates[who]),
        cost: Summary::of(&costs[who]),
        ratios: ratios(services, &rates, who),
        rounds: rates[who].clone(),
    };
    services.iter().enumerate().map(row).collect()
}

pub(super) fn latency(services: &[Service], asked: Asked, rounds: &[Vec<Latency>]) -> Vec<LatencyRow> {
    let p50 = columns(services, rounds, |latency| latency.p50);
    let p99 = columns(services, rounds, |latency| latency.p99);
    let p999 = columns(services, rounds, |latency| latency.p999);
    let answered = columns(services, rounds, |latency| latency.answered);
    let row = |(who, service): (usize, &Service)| LatencyRow {
        name: service.name,
        gaps: asked.gaps.name(),
        p50: Summary::of(&p50[who]),
        p99: Summary::of(&p99[who]),
        p999: Summary::of(&p999[who]),
        ratios: ratios(services, &p99, who),
        answered: Summary::of(&answered[who]).median,
        rounds: p99[who].clone(),
    };
    services.iter().enumerate().map(row).collect()
}

/// Equal gaps are what a constant rate means; random ones are shown beside them.
fn judge(throughput: &[ThroughputRow], latency: &[LatencyRow]) -> Vec<Target> {
    let ours = throughput.iter().find(|row| row.name == OURS);
    let flow = |base: &str| Some(ours?.ratios.get(base)?.median);
    let waits = latency.iter().find(|row| row.name == OURS && row.gaps == Gaps::Even.name());
    let wait = waits.and_then(|row| row.ratios.get(NGINX)).map(|ratio| ratio.median);
    let title = |base: &str| format!("gateway, four layers: throughput ÷ {base}");
    vec![
        must(title(PINGORA), flow(PINGORA), Bound::AtLeast(1.5)),
        aim(title(NGINX), flow(NGINX), Bound::AtLeast(1.0)),
        must("gateway at half of nginx's throughput: p99 ÷ nginx".to_owned(), wait, Bound::AtMost(1.25)),
    ]
}

/// The whole report, for the terminal and the file alike.
pub(super) fn markdown(report: &Report) -> String {
    let mut text = head(report) + &throughput_table(&report.throughput);
    for gaps in Gaps::ALL {
        text += &latency_table(&report.latency, gaps, report.settings.rate);
    }
    text + &targets(&report.targets, report.settings.quick)
}

fn head(report: &Report) -> String {
    let settings = &report.settings;
    let warning = if settings.quick {
        "\n**A quick run: it shows that everything works, not how fast.**\n"
    } else {
        ""
    };
    format!(
        "# Gateway\n\n{}, {}.\n{} rounds of {} s per measurement, {} connections, proxies interleaved, one core for the \
         proxy and one for upstream and client. Only ratios within one run mean anything.\nOther \
         programs meanwhile used {} % of all cores.\n{warning}",
        hardware(&report.machine),
        report.software.join(", "),
        settings.rounds,
        settings.seconds,
        settings.connections,
        figures(&settings.others),
    )
}

fn throughput_table(rows: &[ThroughputRow]) -> String {
    let mut table = vec![titles(&["requests per second", "median [interval]"])];
    table[0].extend(BASES.map(|base| format!("÷ {base}")));
    table[0].push("CPU µs per request".to_owned());
    for found in rows {
        let mut line = vec![found.name.to_owned(), figures(&found.rate)];
        line.extend(ratio_columns(&found.ratios, &BASES));
        line.push(figures(&found.cost));
        table.push(line);
    }
    format!("\n## Throughput\n\n{}", render(&table))
}

fn latency_table(rows: &[LatencyRow], gaps: Gaps, rate: f64) -> String {
    let mut table = vec![titles(&["microseconds", "p50", "p99", "p99.9", "p99 ÷ nginx", "answered"])];
    for found in rows.iter().filter(|row| row.gaps == gaps.name()) {
        let mut line = vec![found.name.to_owned()];
        line.extend([&found.p50, &found.p99, &found.p999].map(figures));
        line.extend(ratio_columns(&found.ratios, &[NGINX]));
        line.push(format!("{} %", figure(found.answered * 100.0)));
        table.push(line);
    }
    let title =
        format!("Latency at {rate} requests per second, half of nginx's throughput, {} gaps", gaps.name());
    format!("\n## {title}\n\n{}", render(&table))
}

fn titles(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

fn ratio_columns(ratios: &Ratios, bases: &[&str]) -> Vec<String> {
    bases.iter().map(|base| ratios.get(base).map_or("–".to_owned(), figures)).collect()
}

pub(super) fn write(report: &Report, folder: &Path) -> Outcome<()> {
    fs::create_dir_all(folder)?;
    fs::write(folder.join("gateway.json"), serde_json::to_string_pretty(report)? + "\n")?;
    fs::write(folder.join("gateway.md"), markdown(report))?;
    eprintln!("written: gateway.md and gateway.json");
    Ok(())
}
