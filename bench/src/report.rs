//! The same findings for three readers: people (Markdown), programs (JSON) and eyes (SVG).

mod bars;
mod lines;
pub(crate) mod markdown;
mod svg;
pub(crate) mod table;

use std::fs;
use std::path::Path;

use crate::Outcome;
use crate::model::Report;
use crate::sections::thread_counts;

/// Writes every form of the report into a folder.
pub(crate) fn write(report: &Report, folder: &Path) -> Outcome<()> {
    fs::create_dir_all(folder)?;
    fs::write(folder.join("core.json"), serde_json::to_string_pretty(report)? + "\n")?;
    let charts = charts(report);
    for (name, chart) in &charts {
        fs::write(folder.join(name), chart)?;
    }
    let names: Vec<&str> = charts.iter().map(|(name, _)| name.as_str()).collect();
    fs::write(folder.join("core.md"), markdown::document(report, &names))?;
    eprintln!("written: core.md, core.json and {} charts", names.len());
    Ok(())
}

fn charts(report: &Report) -> Vec<(String, String)> {
    let mut charts = Vec::new();
    for pattern in ["uniform", "zipf"] {
        for threads in thread_counts() {
            let chart = lines::chart(report, pattern, threads);
            charts.extend(chart.map(|chart| (format!("{pattern}-{threads}-thread.svg"), chart)));
        }
    }
    charts.extend(bars::chart(report).map(|chart| ("memory.svg".to_owned(), chart)));
    charts
}
