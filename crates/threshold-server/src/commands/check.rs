//! `threshold check`: what a policy promises, and what looks wrong in it.

mod json;

use threshold::policy::{Finding, LimitGuarantee, Policy, PolicyError, Severity};

use crate::Ended;
use crate::cli::Check;
use crate::config::{self, PolicyFileError};
use crate::output::{Output, Style};

/// Reads the policy and prints what it promises, or what is wrong with it.
pub(crate) fn check(check: &Check, output: &mut Output) -> Ended {
    let file = check.file.display().to_string();
    match config::policy(&check.file) {
        Ok(policy) => {
            let findings = policy.lint();
            match check.json {
                true => output.line(&format!("{:#}", json::report(&file, &policy, &findings))),
                false => report(&file, &policy, &findings, output),
            }
            let warned = findings.iter().any(|finding| finding.severity == Severity::Warning);
            if check.strict && warned { Ended::Warned } else { Ended::Well }
        }
        Err(PolicyFileError::Broken(error)) => {
            match check.json {
                true => output.line(&format!("{:#}", json::broken(&error))),
                false => broken(&error, output),
            }
            Ended::Broken
        }
        Err(PolicyFileError::Unreadable(what)) => {
            output.labelled(Style::Error, "error", &what);
            Ended::NotRun
        }
    }
}

/// What a policy promises and what looks wrong in it, as `--json` prints it.
pub(crate) fn report_of(file: &str, policy: &Policy) -> serde_json::Value {
    json::report(file, policy, &policy.lint())
}

/// The same of one that is broken.
pub(crate) fn broken_report(error: &PolicyError) -> serde_json::Value {
    json::broken(error)
}

/// Tells everything that is wrong with a policy.
pub(super) fn broken(error: &PolicyError, output: &mut Output) {
    for problem in &error.problems {
        output.error(&format!("{}:{problem}", error.file));
    }
    let count = counted(error.problems.len(), "problem");
    let closing = format!("{}: {count}; nothing of it is used until all are put right", error.file);
    let closing = output.styled_error(Style::Error, &closing);
    output.error(&closing);
}

fn report(file: &str, policy: &Policy, findings: &[Finding], output: &mut Output) {
    let guarantees = policy.guarantees();
    let mut layer = None;
    for (index, guarantee) in guarantees.iter().enumerate() {
        if layer != Some(guarantee.layer) {
            layer = Some(guarantee.layer);
            let heading = format!("{} layer", guarantee.layer);
            heading_line(&heading, index > 0, output);
        }
        limit(guarantee, output);
    }
    heading_line("About all of them", !guarantees.is_empty(), output);
    policy.remarks().iter().for_each(|remark| output.line(&format!("  {remark}")));
    if !findings.is_empty() {
        heading_line("Findings", true, output);
        findings.iter().for_each(|found| finding(file, found, output));
    }
    output.line("");
    closing(file, policy, findings, output);
}

fn heading_line(text: &str, space: bool, output: &mut Output) {
    if space {
        output.line("");
    }
    let heading = output.styled(Style::Heading, text);
    output.line(&heading);
}

fn limit(limit: &LimitGuarantee, output: &mut Output) {
    let id = output.styled(Style::Heading, &limit.id);
    let tier = limit.tier.as_ref().map(|tier| format!(" ({tier})")).unwrap_or_default();
    let algorithm = output.styled(Style::Quiet, limit.algorithm.name());
    output.line(&format!("  {id}{tier}: {}, {algorithm}, {}", limit.rate, limit.requests));
    output.line(&format!("    {}: {}", limit.subject, limit.normal));
    limit.notes.iter().for_each(|note| output.line(&format!("    {note}")));
    output.line(&format!("    while the store fails: {}", limit.store_failure));
}

fn finding(file: &str, finding: &Finding, output: &mut Output) {
    let style = if finding.severity == Severity::Warning { Style::Warning } else { Style::Quiet };
    let severity = output.styled(style, &finding.severity.to_string());
    let about = match &finding.limits[..] {
        [] => String::new(),
        [first, second, _, more @ ..] if !more.is_empty() => {
            format!(" ({first}, {second} and {} more)", finding.limits.len() - 2)
        }
        few => format!(" ({})", few.join(", ")),
    };
    let Finding { line, column, field, what, remedy, .. } = finding;
    output.line(&format!("  {file}:{line}:{column}: {severity}: {field}{about}: {what}; {remedy}"));
}

fn closing(file: &str, policy: &Policy, findings: &[Finding], output: &mut Output) {
    let warnings = findings.iter().filter(|finding| finding.severity == Severity::Warning).count();
    let notes = findings.len() - warnings;
    let (limits, warnings, notes) =
        (counted(policy.limit.len(), "limit"), counted(warnings, "warning"), counted(notes, "note"));
    let line = format!("{file}: can be used; {limits}, {warnings}, {notes}");
    let line = output.styled(Style::Good, &line);
    output.line(&line);
}

fn counted(count: usize, word: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{count} {word}{ending}")
}
