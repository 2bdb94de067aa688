//! The linter: what a policy says that its author may not have meant. Nothing here makes a policy wrong.
//!
//! Each rule is a function from the policy's limits to findings. Rates are compared in whole numbers.

mod descriptors;
mod failure;
mod nothing;
mod numbers;
mod patterns;
mod reach;
mod routes;
mod subjects;
mod tiers;

use threshold_core::AlgorithmKind;

use super::decode::Placed;
use super::describe::{Size, is_per_node, sizes};
use super::{Enforce, Limit, Per, Policy, kind};
use patterns::Requests;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Most likely a mistake.
    Warning,
    /// Worth knowing.
    Note,
}

/// Something that the author of a policy may not have meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The field, such as `limit[2].rate`.
    pub field: String,
    /// The ids of the limits it is about.
    pub limits: Vec<String>,
    /// What was found.
    pub what: String,
    /// What to do about it.
    pub remedy: String,
}

/// The policy as the rules see it.
struct Lint<'a> {
    policy: &'a Policy,
    /// The limits that are not switched off, in the order of the layers.
    limits: Vec<View<'a>>,
}

/// One limit with what follows from the rest of the policy.
struct View<'a> {
    limit: &'a Limit,
    /// Whom it counts by, in a fixed order.
    per: Vec<Per>,
    kind: AlgorithmKind,
    sizes: Vec<Size<'a>>,
    requests: Requests<'a>,
    per_node: bool,
}

impl Policy {
    /// What the author may not have meant, in the order of the file.
    #[must_use]
    pub fn lint(&self) -> Vec<Finding> {
        let lint = Lint::new(self);
        let rules = [
            nothing::nothing,
            reach::hidden,
            reach::within_tiers,
            routes::unnamed,
            routes::overlapping,
            routes::unmatched,
            subjects::accounts,
            subjects::users,
            subjects::untrusted,
            subjects::everyone,
            subjects::canaries,
            subjects::types,
            tiers::unused_tiers,
            tiers::unused_categories,
            tiers::unused_tenants,
            tiers::without_tier,
            tiers::gaps,
            tiers::periods,
            numbers::blocks,
            numbers::buckets,
            failure::open_logins,
            failure::nodes,
            descriptors::hidden,
        ];
        let mut findings: Vec<Finding> = rules.iter().flat_map(|rule| rule(&lint)).collect();
        findings.sort_by_key(|finding| (finding.line, finding.column, finding.severity));
        findings
    }
}

impl<'a> Lint<'a> {
    fn new(policy: &'a Policy) -> Self {
        // What is said of requests is not said of messages and descriptors.
        let of_requests = |limit: &&Limit| limit.messages.is_none() && limit.descriptor.is_none();
        let on = policy.limit.iter().filter(|limit| limit.enforce != Enforce::Off).filter(of_requests);
        let mut limits: Vec<View<'a>> = on.map(|limit| View::new(policy, limit)).collect();
        limits.sort_by_key(|view| view.limit.layer.value);
        Self { policy, limits }
    }
}

impl<'a> View<'a> {
    fn new(policy: &'a Policy, limit: &'a Limit) -> Self {
        let mut per = super::subjects(limit);
        per.sort();
        Self {
            limit,
            per,
            kind: kind(limit),
            sizes: sizes(policy, limit),
            requests: Requests::of(policy, limit),
            per_node: is_per_node(policy, limit),
        }
    }

    fn id(&self) -> &'a str {
        self.limit.id.as_str()
    }

    /// A field to point at: `per` if it is written, else the limit's id.
    fn warn_per(&self, what: impl Into<String>, remedy: impl Into<String>) -> Finding {
        match &self.limit.per {
            Some(per) => Finding::warning(per, what, remedy).about([self.id()]),
            None => Finding::warning(&self.limit.id, what, remedy).about([self.id()]),
        }
    }
}

impl Finding {
    fn at<T>(placed: &Placed<T>, severity: Severity, what: String, remedy: String) -> Self {
        let (line, column) = placed.place;
        Self { severity, line, column, field: placed.field.clone(), limits: Vec::new(), what, remedy }
    }

    fn warning<T>(placed: &Placed<T>, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::at(placed, Severity::Warning, what.into(), remedy.into())
    }

    fn note<T>(placed: &Placed<T>, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::at(placed, Severity::Note, what.into(), remedy.into())
    }

    fn about<'a>(mut self, limits: impl IntoIterator<Item = &'a str>) -> Self {
        self.limits.extend(limits.into_iter().map(str::to_owned));
        self
    }
}

impl std::fmt::Display for Severity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Warning => "warning",
            Self::Note => "note",
        })
    }
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}: {}: {}; {}", self.line, self.column, self.field, self.what, self.remedy)
    }
}
