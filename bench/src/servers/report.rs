//! What the reports of all comparisons of servers have: settings, throughput, ratios, and two files.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Serialize;

use super::Flow;
use super::service::Service;
use crate::Outcome;
use crate::machine::Machine;
use crate::report::markdown::{figures, hardware};
use crate::report::table::render;
use crate::stats::{Summary, rounded};

/// By whom a figure was divided, and what came out.
pub(crate) type Ratios = BTreeMap<&'static str, Summary>;

/// On what, with what and how a comparison was made.
#[derive(Serialize)]
pub(crate) struct About {
    pub(crate) machine: Machine,
    pub(crate) software: Vec<String>,
    pub(crate) settings: Settings,
}

#[derive(Serialize)]
pub(crate) struct Settings {
    pub(crate) quick: bool,
    pub(crate) rounds: usize,
    pub(crate) seconds: u64,
    pub(crate) connections: usize,
    /// Requests in a second while latencies were measured, if they were.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rate: Option<f64>,
    /// What other programs used between the measurements, in per cent of all cores.
    pub(crate) others: Summary,
}

/// Throughput of one server.
#[derive(Serialize)]
pub(crate) struct FlowRow {
    pub(crate) name: &'static str,
    /// Requests or messages in a second.
    pub(crate) rate: Summary,
    /// Microseconds of processor time for each.
    pub(crate) cost: Summary,
    /// Share of its core that it used, in per cent. Well below 100, the load was the slower side or somebody else had the
    /// core, and ratios of rates are nearer to 1 than those of costs.
    pub(crate) used: Summary,
    pub(crate) ratios: Ratios,
    pub(crate) cost_ratios: Ratios,
    rounds: Vec<f64>,
}

/// One figure of each service, round by round.
pub(crate) struct Columns {
    names: Vec<&'static str>,
    values: Vec<Vec<f64>>,
}

impl Columns {
    /// Out of rounds in which every service has its place.
    pub(crate) fn new<T>(services: &[Service], rounds: &[Vec<T>], value: impl Fn(&T) -> f64) -> Self {
        let column = |who: usize| rounds.iter().map(|round| rounded(value(&round[who]))).collect();
        Self {
            names: services.iter().map(|service| service.name).collect(),
            values: (0..services.len()).map(column).collect(),
        }
    }

    pub(crate) fn of(&self, who: usize) -> &[f64] {
        &self.values[who]
    }

    pub(crate) fn summary(&self, who: usize) -> Summary {
        Summary::of(self.of(who))
    }

    /// One service's rounds divided by those of each of `bases`, round by round.
    pub(crate) fn ratios(&self, who: usize, bases: &[&str]) -> Ratios {
        let all = self.names.iter().zip(&self.values);
        let others = all.filter(|(name, _)| **name != self.names[who] && bases.contains(name));
        others.map(|(name, values)| (*name, Summary::of_ratios(self.of(who), values))).collect()
    }
}

pub(crate) fn flow_rows(services: &[Service], rounds: &[Vec<Flow>], bases: &[&str]) -> Vec<FlowRow> {
    let rates = Columns::new(services, rounds, |flow| flow.rate);
    let costs = Columns::new(services, rounds, |flow| flow.cost);
    let used = Columns::new(services, rounds, |flow| flow.rate * flow.cost / 1e4);
    let row = |(who, service): (usize, &Service)| FlowRow {
        name: service.name,
        rate: rates.summary(who),
        cost: costs.summary(who),
        used: used.summary(who),
        ratios: rates.ratios(who, bases),
        cost_ratios: costs.ratios(who, bases),
        rounds: rates.of(who).to_vec(),
    };
    services.iter().enumerate().map(row).collect()
}

/// The table of throughput; `what` is counted, such as requests.
pub(crate) fn flow_table(rows: &[FlowRow], what: &str, bases: &[&str]) -> String {
    let mut table = vec![titles(&[&format!("{what}s per second"), "median [interval]"])];
    table[0].extend(bases.iter().map(|base| format!("÷ {base}")));
    table[0].push(format!("CPU µs per {what}"));
    table[0].push("core in use, %".to_owned());
    for found in rows {
        let mut line = vec![found.name.to_owned(), figures(&found.rate)];
        line.extend(ratio_columns(&found.ratios, bases));
        line.extend([&found.cost, &found.used].map(figures));
        table.push(line);
    }
    render(&table)
}

pub(crate) fn titles(words: &[&str]) -> Vec<String> {
    super::words(words)
}

pub(crate) fn ratio_columns(ratios: &Ratios, bases: &[&str]) -> Vec<String> {
    bases.iter().map(|base| ratios.get(base).map_or("–".to_owned(), figures)).collect()
}

/// How every report begins; `set_up` says who ran where.
pub(crate) fn head(title: &str, about: &About, set_up: &str) -> String {
    let settings = &about.settings;
    let warning = if settings.quick {
        "\n**A quick run: it shows that everything works, not how fast.**\n"
    } else {
        ""
    };
    let software: String = about.software.iter().map(|name| format!(", {name}")).collect();
    format!(
        "# {title}\n\n{}{software}.\n{} rounds of {} s per measurement, {} connections, {set_up}. Only ratios within \
         one run mean anything.\nOther programs meanwhile used {} % of all cores.\n{warning}",
        hardware(&about.machine),
        settings.rounds,
        settings.seconds,
        settings.connections,
        figures(&settings.others),
    )
}

/// Writes `name.md` and `name.json`.
pub(crate) fn write(report: &impl Serialize, markdown: &str, folder: &Path, name: &str) -> Outcome<()> {
    fs::create_dir_all(folder)?;
    fs::write(folder.join(format!("{name}.json")), serde_json::to_string_pretty(report)? + "\n")?;
    fs::write(folder.join(format!("{name}.md")), markdown)?;
    eprintln!("written: {name}.md and {name}.json");
    Ok(())
}
