//! Policies that limit nothing.

use super::super::Policy;
use super::{Finding, Lint, Severity};

/// A policy without a limit.
pub(super) fn nothing(lint: &Lint<'_>) -> Vec<Finding> {
    lint.policy.limits_nothing().into_iter().collect()
}

impl Policy {
    /// What is to be said of a policy that has no limit; none if it has one. With lists or logins of its own it may be meant
    /// so, and is only worth knowing.
    #[must_use]
    pub fn limits_nothing(&self) -> Option<Finding> {
        let meant = self.lists.is_some() || self.login.is_some();
        let severity = if meant { Severity::Note } else { Severity::Warning };
        self.limit.is_empty().then(|| Finding {
            severity,
            line: 1,
            column: 1,
            field: "limit".to_owned(),
            limits: Vec::new(),
            what: "there is no limit: every request passes unless a list or a login refuses it".to_owned(),
            remedy: "add a `[[limit]]`; `threshold init` writes a policy to start from".to_owned(),
        })
    }
}
