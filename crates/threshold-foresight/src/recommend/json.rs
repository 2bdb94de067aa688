//! A recommendation as data.

use serde_json::{Value, json};

use super::{Candidate, Finding, Peaks, Recommendation, WINDOWS};

impl Recommendation {
    /// All of it, for programs.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "requests": self.requests,
            "first": self.times.map(|[first, _]| first.to_string()),
            "last": self.times.map(|[_, last]| last.to_string()),
            "other": self.other,
            "findings": self.findings.iter().map(finding).collect::<Vec<_>>(),
        })
    }
}

fn finding(finding: &Finding) -> Value {
    let peaks = WINDOWS.iter().zip(&finding.peaks).map(|(window, peaks)| {
        let Peaks { p50, p99, p999, max } = peaks;
        json!({ "window": window.to_string(), "p50": p50, "p99": p99, "p99.9": p999, "max": max })
    });
    json!({
        "per": finding.kind.word(),
        "route": finding.pattern.as_ref().map(ToString::to_string),
        "requests": finding.requests,
        "subjects": finding.subjects,
        "oneIn": finding.one_in,
        "cutShort": finding.cut_short,
        "peaks": peaks.collect::<Vec<_>>(),
        "burst": { "p50": tenths(finding.bursts[0]), "p99": tenths(finding.bursts[1]) },
        "candidates": finding.candidates.iter().map(|one| candidate(one, finding)).collect::<Vec<_>>(),
        "recommended": finding.chosen.and_then(|place| finding.candidates.get(place)).map(|one| one.rate.to_string()),
    })
}

fn candidate(candidate: &Candidate, finding: &Finding) -> Value {
    let worst = candidate.worst.iter().map(|(name, refused)| json!({ "subject": name, "refused": refused }));
    json!({
        "rate": candidate.rate.to_string(),
        "above": candidate.above,
        "subjectsHit": candidate.subjects_hit,
        "requestsHit": candidate.requests_hit,
        "share": share(candidate.requests_hit, finding.requests),
        "worst": worst.collect::<Vec<_>>(),
    })
}

fn tenths(tenths: u64) -> f64 {
    tenths as f64 / 10.0
}

/// A part of a whole, to a millionth.
fn share(part: u64, whole: u64) -> f64 {
    let millionths = u128::from(part) * 1_000_000 / u128::from(whole.max(1));
    u64::try_from(millionths).unwrap_or(0) as f64 / 1e6
}
