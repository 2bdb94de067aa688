//! `threshold recommend`: limits that would suit the requests of the past.

use threshold_foresight::recommend::{Candidate, Finding, Options, Recommendation, Recommender};

use super::replay::{Failed, each, open};
use crate::Ended;
use crate::cli::Recommend;
use crate::output::{Output, harmless};

/// Proposes limits.
pub(crate) fn recommend(asked: &Recommend, output: &mut Output) -> Ended {
    recommended(asked, output).unwrap_or_else(|failed| failed.tell(output))
}

fn recommended(asked: &Recommend, output: &mut Output) -> Result<Ended, Failed> {
    let mut recommender = Recommender::new(Options::default());
    let mut logs = open(&asked.logs, &asked.reading).map_err(Failed::Not)?;
    each(&mut logs, output, |request| recommender.see(request)).map_err(Failed::Not)?;
    let told = recommender.finish();
    match asked.json {
        true => output.line(&format!("{:#}", told.to_json())),
        false => output.line(told.policy_fragment().trim_end()),
    }
    summary(&told, output);
    for line in logs.told().iter().chain(&logs.notes()) {
        output.error(&harmless(&format!("note: {line}")));
    }
    Ok(if logs.is_whole() { Ended::Well } else { Ended::Interrupted })
}

/// One line for each limit that is proposed.
fn summary(told: &Recommendation, output: &mut Output) {
    let about = |finding: &Finding, candidate: &Candidate| {
        let what = finding.pattern.as_ref().map_or_else(|| "every request".to_owned(), ToString::to_string);
        format!(
            "{what}, each {}: {} would have hit {} of {} subjects and {} of {} requests",
            finding.kind.word(),
            candidate.rate,
            candidate.subjects_hit,
            finding.subjects,
            candidate.requests_hit,
            finding.requests
        )
    };
    let proposed = told.findings.iter().filter_map(|finding| {
        let candidate = finding.candidates.get(finding.chosen?)?;
        Some(about(finding, candidate))
    });
    let lines: Vec<String> = proposed.collect();
    if lines.is_empty() {
        output.error("nothing is proposed: there is too little to go by; give it more of the log");
    }
    lines.iter().for_each(|line| output.error(&harmless(line)));
}
