//! The JSON document of `threshold check --json`. Its shape is told in the help of the command.

use serde_json::{Value, json};
use threshold::policy::{Finding, LimitGuarantee, Policy, PolicyError, Problem};

/// The document of a policy that can be used.
pub(super) fn report(file: &str, policy: &Policy, findings: &[Finding]) -> Value {
    let limits: Vec<Value> = policy.guarantees().iter().map(limit).collect();
    let findings: Vec<Value> = findings.iter().map(finding).collect();
    json!({
        "file": file, "ok": true, "problems": [], "limits": limits, "remarks": policy.remarks(),
        "findings": findings,
    })
}

/// The document of one that is broken.
pub(super) fn broken(error: &PolicyError) -> Value {
    let problems: Vec<Value> = error.problems.iter().map(problem).collect();
    json!({
        "file": error.file, "ok": false, "problems": problems, "limits": [], "remarks": [], "findings": [],
    })
}

fn problem(problem: &Problem) -> Value {
    let Problem { line, column, field, what, remedy } = problem;
    json!({ "line": line, "column": column, "field": field, "what": what, "remedy": remedy })
}

fn limit(limit: &LimitGuarantee) -> Value {
    json!({
        "id": limit.id,
        "layer": limit.layer.word(),
        "tier": limit.tier,
        "subject": limit.subject,
        "requests": limit.requests,
        "rate": limit.rate.to_string(),
        "algorithm": limit.algorithm.name(),
        "normal": limit.normal,
        "notes": limit.notes,
        "store_failure": limit.store_failure,
    })
}

fn finding(finding: &Finding) -> Value {
    json!({
        "severity": finding.severity.to_string(),
        "line": finding.line,
        "column": finding.column,
        "field": finding.field,
        "limits": finding.limits,
        "what": finding.what,
        "remedy": finding.remedy,
    })
}
