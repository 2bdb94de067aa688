//! What the comparison of proxies found, for people and for programs.

use serde::Serialize;

use super::client::{Gaps, Latency};
use super::load::Asked;
use super::proxies::{HAPROXY, NGINX, PINGORA};
use crate::model::Target;
use crate::report::markdown::{figures, targets};
use crate::report::table::{figure, render};
use crate::servers::ours::OURS;
use crate::servers::report::{About, Columns, FlowRow, Ratios, flow_table, head, ratio_columns, titles};
use crate::servers::service::Service;
use crate::stats::Summary;
use crate::targets::{Bound, aim, must};

/// Whom the others are divided by.
pub(super) const BASES: [&str; 3] = [NGINX, HAPROXY, PINGORA];

#[derive(Serialize)]
pub(super) struct Report {
    #[serde(flatten)]
    about: About,
    throughput: Vec<FlowRow>,
    latency: Vec<LatencyRow>,
    targets: Vec<Target>,
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
    pub(super) fn new(about: About, throughput: Vec<FlowRow>, latency: Vec<LatencyRow>) -> Self {
        let targets = judge(&throughput, &latency);
        Self { about, throughput, latency, targets }
    }
}

pub(super) fn latency(services: &[Service], asked: Asked, rounds: &[Vec<Latency>]) -> Vec<LatencyRow> {
    let p50 = Columns::new(services, rounds, |latency| latency.p50);
    let p99 = Columns::new(services, rounds, |latency| latency.p99);
    let p999 = Columns::new(services, rounds, |latency| latency.p999);
    let answered = Columns::new(services, rounds, |latency| latency.answered);
    let row = |(who, service): (usize, &Service)| LatencyRow {
        name: service.name,
        gaps: asked.gaps.name(),
        p50: p50.summary(who),
        p99: p99.summary(who),
        p999: p999.summary(who),
        ratios: p99.ratios(who, &BASES),
        answered: answered.summary(who).median,
        rounds: p99.of(who).to_vec(),
    };
    services.iter().enumerate().map(row).collect()
}

/// Equal gaps are what a constant rate means; random ones are shown beside them.
fn judge(throughput: &[FlowRow], latency: &[LatencyRow]) -> Vec<Target> {
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
    let set_up = "proxies interleaved, one core for the proxy and one for upstream and client";
    let throughput = flow_table(&report.throughput, "request", &BASES);
    let mut text = head("Gateway", &report.about, set_up) + &format!("\n## Throughput\n\n{throughput}");
    let settings = &report.about.settings;
    for gaps in Gaps::ALL {
        text += &latency_table(&report.latency, gaps, settings.rate.unwrap_or_default());
    }
    text + &targets(&report.targets, settings.quick)
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
    let rounds = rows.first().map_or(0, |row| row.rounds.len());
    format!("\n## {title}\n\nOf {rounds} moments of 100 ms each.\n\n{}", render(&table))
}
