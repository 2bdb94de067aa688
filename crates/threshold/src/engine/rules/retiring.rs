//! A limit that became another: the old one stays in force beside the new for one of its windows.

use std::time::Duration;

use threshold_core::{MAX_STEPS, Span, Timestamp};

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
    /// period or subject, or moved from the edge or to it. What only changed its numbers goes on by itself, and what is gone is gone.
    ///
    /// # Errors
    ///
    /// If they would be more than one decision can judge: to drop some would forget what they counted.
    pub(crate) fn retire(&mut self, before: &Self, now: Timestamp) -> Result<(), ReloadError> {
        let became_another = |rule: &Rule| {
            self.limits().any(|other| other.id == rule.id) && !self.limits().any(|other| other.goes_on(rule))
        };
        // One that comes back is no longer retiring: charged as both it would be charged twice.
        let waits = |retiring: &&Retiring| retiring.until > now && became_another(&retiring.rule);
        let still = before.retiring.iter().filter(waits).cloned();
        let retired = before.limits().filter(|rule| became_another(rule));
        let retired = retired.map(|rule| Retiring { rule: rule.clone(), until: now.plus(rule.window()) });
        let retiring: Vec<Retiring> = retired.chain(still).collect();
        let rules = || self.limits().chain(retiring.iter().map(|retiring| &retiring.rule));
        let steps = |edge: bool| -> usize {
            rules().filter(|rule| rule.at_edge() == edge).map(Rule::most_steps).sum()
        };
        if steps(true).max(steps(false)) > MAX_STEPS {
            let until = retiring.iter().map(|retiring| retiring.until).min().unwrap_or(now);
            let seconds = until.since(now).as_micros().div_ceil(Span::SECOND.as_micros());
            return Err(ReloadError { retiring: retiring.len(), wait: Duration::from_secs(seconds) });
        }
        self.retiring = retiring;
        Ok(())
    }
}

/// A reload that would keep too many limits of earlier policies in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{retiring} limits of earlier policies would stay in force, too many for one decision; \
     the first of them ends in {wait:?}: try again then, or change fewer limits at once"
)]
pub struct ReloadError {
    /// How many limits of earlier policies would still be in force.
    retiring: usize,
    /// When the first of them ends.
    wait: Duration,
}

impl Rule {
    /// The most steps that one request can need for it.
    fn most_steps(&self) -> usize {
        let steps = |sized: &Sized| 1 + usize::from(sized.keys.previous.is_some()) + sized.aggregates.len();
        self.numbers.all().map(steps).max().unwrap_or(0) + usize::from(self.block.is_some())
    }

    /// True if this is the same limit as `before`, whatever its numbers: states of the one are states of the other.
    fn goes_on(&self, before: &Self) -> bool {
        let same = |old: &Sized| {
            let identity = |sized: &Sized| (sized.step.algorithm.kind(), sized.step.algorithm.period());
            self.numbers.all().any(|new| identity(new) == identity(old))
        };
        // The edge has a store of its own.
        let same_store = self.at_edge() == before.at_edge();
        self.id == before.id && same_store && self.per == before.per && before.numbers.all().all(same)
    }

    /// How long what was charged may be felt.
    fn window(&self) -> Span {
        let depth = |sized: &Sized| sized.step.algorithm.memory();
        self.numbers.all().map(depth).max().unwrap_or(Span::ZERO)
    }
}
