//! A recommendation as a policy, with whom each limit would have hit.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::{Candidate, Finding, Recommendation, SubjectKind};

/// What reads like a login: it stays shut while the store fails.
const LOGINS: [&str; 8] = ["login", "signin", "auth", "oauth", "token", "password", "otp", "mfa"];

/// A limit that is proposed.
struct Proposed<'a> {
    finding: &'a Finding,
    candidate: &'a Candidate,
    /// What its route is called, if it has one.
    route: Option<String>,
}

impl Recommendation {
    /// A policy with the recommended limits, and for each of them whom it would have hit.
    #[must_use]
    pub fn policy_fragment(&self) -> String {
        let proposed = self.proposed();
        let mut text = self.heading();
        let routes: BTreeSet<(&str, String)> = proposed
            .iter()
            .filter_map(|one| Some((one.route.as_deref()?, one.finding.pattern.as_ref()?.to_string())))
            .collect();
        if !routes.is_empty() {
            text.push_str("\n[routes]\n");
        }
        // Into a string nothing fails.
        for (name, pattern) in &routes {
            let _ = writeln!(text, "{name} = \"{pattern}\"");
        }
        proposed.iter().for_each(|one| one.write(&mut text));
        text
    }

    fn heading(&self) -> String {
        let mut text = format!("# Limits that fit {} requests", self.requests);
        if let Some([first, last]) = self.times {
            let _ = write!(text, ", from {first} to {last}");
        }
        text.push_str(".\n# Each was tried on what it is for; what it would have refused stands above it.\n");
        text.push_str("# With `enforce = \"observe\"` a limit counts and refuses nobody.\n");
        text
    }

    fn proposed(&self) -> Vec<Proposed<'_>> {
        let mut names = Vec::new();
        let with_limit = self.findings.iter().filter_map(|finding| {
            let candidate = finding.candidates.get(finding.chosen?)?;
            let route = finding.pattern.as_ref().map(|pattern| name(&mut names, pattern));
            Some(Proposed { finding, candidate, route })
        });
        let all: Vec<Proposed<'_>> = with_limit.collect();
        let is_reached = |one: &&Proposed<'_>| !all.iter().any(|other| one.is_hidden_by(other));
        let reached: Vec<bool> = all.iter().map(|one| is_reached(&one)).collect();
        all.into_iter().zip(reached).filter(|(_, reached)| *reached).map(|(one, _)| one).collect()
    }
}

/// The name of a pattern's route, which no other has.
fn name<'a>(names: &mut Vec<(&'a super::Pattern, String)>, pattern: &'a super::Pattern) -> String {
    if let Some((_, name)) = names.iter().find(|(known, _)| *known == pattern) {
        return name.clone();
    }
    let taken = |name: &str| names.iter().any(|(_, known)| known == name);
    let base = pattern.id();
    let numbered = (2..).map(|number: u64| format!("{base}-{number}"));
    let name =
        std::iter::once(base.clone()).chain(numbered).find(|name| !taken(name)).unwrap_or(base.clone());
    names.push((pattern, name.clone()));
    name
}

impl Proposed<'_> {
    /// True if what `other` lets through is always within this one.
    fn is_hidden_by(&self, other: &Self) -> bool {
        let wider = match (&self.finding.pattern, &other.finding.pattern) {
            (Some(_), None) => true,
            (Some(own), Some(theirs)) => own != theirs && theirs.covers(own),
            (None, _) => false,
        };
        let (own, theirs) = (&self.candidate.rate, &other.candidate.rate);
        let rate = |one: &threshold::Rate, other: &threshold::Rate| {
            u128::from(one.count()) * u128::from(other.period().as_micros())
        };
        wider
            && self.finding.kind == other.finding.kind
            && own.count() >= theirs.count()
            && rate(own, theirs) >= rate(theirs, own)
    }

    fn write(&self, text: &mut String) {
        let Self { finding, candidate, route } = self;
        let (layer, per) = match (finding.kind, route) {
            (SubjectKind::Address, None) => ("edge", None),
            (SubjectKind::Address, Some(_)) => ("user", Some("ip")),
            (SubjectKind::User, _) => ("user", Some("user")),
            (SubjectKind::Tenant, _) => ("tenant", None),
        };
        let of = route.as_deref().unwrap_or("all");
        text.push('\n');
        self.comment(text);
        // Into a string nothing fails.
        let _ = write!(text, "[[limit]]\nid = \"{of}-by-{}\"\nlayer = \"{layer}\"\n", finding.kind.word());
        if let Some(route) = route {
            let _ = writeln!(text, "route = \"{route}\"");
        }
        if let Some(per) = per {
            let _ = writeln!(text, "per = \"{per}\"");
        }
        let _ = writeln!(text, "rate = \"{}\"", candidate.rate);
        if layer != "edge" && LOGINS.iter().any(|word| of.contains(word)) {
            text.push_str("on_store_failure = \"closed\"\n");
        }
    }

    fn comment(&self, text: &mut String) {
        let Self { finding, candidate, .. } = self;
        let sampled = match finding.one_in {
            1 => String::new(),
            many => format!(" (one in {many} was looked at)"),
        };
        // Into a string nothing fails.
        let _ = writeln!(
            text,
            "# {} requests of {} {}{}{sampled}: it would have refused {} of them, to {} of these.",
            finding.requests,
            finding.subjects,
            plural(finding.kind),
            if finding.kind == SubjectKind::User { " and addresses" } else { "" },
            candidate.requests_hit,
            candidate.subjects_hit,
        );
        for (name, refused) in &candidate.worst {
            let _ = writeln!(text, "#   {refused} to {}", name.escape_default());
        }
        for other in finding.candidates.iter().filter(|other| *other != *candidate) {
            let _ = writeln!(
                text,
                "# {}: {} refused, to {} (above {})",
                other.rate, other.requests_hit, other.subjects_hit, other.above
            );
        }
        if finding.cut_short > 0 {
            let _ = writeln!(text, "# {} more requests of the busiest had no room here.", finding.cut_short);
        }
    }
}

const fn plural(kind: SubjectKind) -> &'static str {
    match kind {
        SubjectKind::Address => "addresses",
        SubjectKind::User => "users",
        SubjectKind::Tenant => "tenants",
    }
}
