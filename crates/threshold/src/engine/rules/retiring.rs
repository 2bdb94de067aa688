//! A limit that became another: the old one stays in force beside the new for one of its windows.

use threshold_core::{Span, Timestamp};

use super::{Rule, Rules, Sized};

/// A limit of the policy before.
#[derive(Clone)]
pub(crate) struct Retiring {
    pub(crate) rule: Rule,
    /// From then on everything that was charged to it has expired.
    pub(crate) until: Timestamp,
}

impl Rules {
    /// Keeps those limits of the rules `before` in force that are other limits now: same id, but another algorithm,
    /// period or subject. What only changed its numbers goes on by itself, and what is gone is gone.
    pub(crate) fn retire(&mut self, before: &Self, now: Timestamp) {
        let became_another = |rule: &Rule| {
            self.inner.iter().any(|other| other.id == rule.id)
                && !self.inner.iter().any(|other| other.goes_on(rule))
        };
        // One that comes back is no longer retiring: charged as both it would be charged twice.
        let waits = |retiring: &&Retiring| retiring.until > now && became_another(&retiring.rule);
        let still = before.retiring.iter().filter(waits).cloned();
        let retired = before.inner.iter().filter(|rule| became_another(rule));
        let retired = retired.map(|rule| Retiring { rule: rule.clone(), until: now.plus(rule.window()) });
        let retiring = retired.chain(still).collect();
        self.retiring = retiring;
    }
}

impl Rule {
    /// True if this is the same limit as `before`, whatever its numbers: states of the one are states of the other.
    fn goes_on(&self, before: &Self) -> bool {
        let same = |old: &Sized| {
            let identity = |sized: &Sized| (sized.step.algorithm.kind(), sized.step.algorithm.period());
            self.numbers.all().any(|new| identity(new) == identity(old))
        };
        self.id == before.id && self.per == before.per && before.numbers.all().all(same)
    }

    /// How long what was charged may be felt.
    fn window(&self) -> Span {
        let depth = |sized: &Sized| sized.step.algorithm.memory();
        self.numbers.all().map(depth).max().unwrap_or(Span::ZERO)
    }
}
