//! A limit that became another: the old one stays in force beside the new for one of its windows.

use std::sync::Arc;
use std::time::Duration;

use threshold_core::{MAX_STEPS, Span, Timestamp};

use super::{Frame, Rule, Rules, Sized};
use crate::policy::{Enforce, Per};

/// A limit of a policy before.
#[derive(Clone)]
pub(crate) struct Retiring {
    pub(crate) rule: Rule,
    /// What its policy read requests by.
    pub(crate) frame: Arc<Frame>,
    /// From then on everything that was charged to it has expired.
    pub(crate) until: Timestamp,
}

impl Rules {
    /// Keeps those limits of the rules `before` in force that are other limits now: same id, but another algorithm,
    /// period, unit or subject, or moved from the edge or to it. What only changed its numbers goes on by itself, and what is
    /// gone, or enforced no more, is gone.
    ///
    /// # Errors
    ///
    /// If they would be more than one decision can judge: to drop some would forget what they counted.
    pub(crate) fn retire(&mut self, before: &Self, now: Timestamp) -> Result<(), ReloadError> {
        let became_another = |rule: &Rule, frame: &Frame| {
            let successor = self.limits().find(|other| other.id == rule.id);
            successor.is_some_and(|successor| {
                let enforced = !matches!(successor.enforce, Enforce::Off | Enforce::Observe);
                enforced && !goes_on((successor, &self.frame), (rule, frame))
            })
        };
        let waits =
            |retiring: &&Retiring| retiring.until > now && became_another(&retiring.rule, &retiring.frame);
        let still = before.retiring.iter().filter(waits).cloned();
        let retired = before.limits().filter(|rule| became_another(rule, &before.frame));
        let retired = retired.map(|rule| Retiring {
            rule: rule.clone(),
            frame: Arc::clone(&before.frame),
            until: now.plus(rule.window()),
        });
        let retiring: Vec<Retiring> = retired.chain(still).collect();
        let rules = || self.limits().chain(retiring.iter().map(|retiring| &retiring.rule));
        let steps = |edge: bool| -> usize {
            // Of descriptors a decision meets only those that it finds.
            let of_requests = rules().filter(|rule| rule.descriptor.is_none());
            of_requests.filter(|rule| rule.at_edge() == edge).map(Rule::most_steps).sum()
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
        let gates = usize::from(self.block.is_some());
        let steps = |sized: &Sized| (1 + sized.aggregates.len() + gates) * sized.keys.all().count();
        // One more where an override of another period stands for the limit.
        self.numbers.all().map(steps).max().map_or(0, |most| most + 1)
    }

    /// How long what was charged may be felt.
    pub(super) fn window(&self) -> Span {
        let depth = |sized: &Sized| sized.step.algorithm.memory();
        let block = self.block.as_ref().map(|block| block.algorithm.period());
        self.numbers.all().map(depth).chain(block).max().unwrap_or(Span::ZERO)
    }

    /// True if some of its subjects may be addresses: unknown tenants and anonymous users are.
    fn counts_addresses(&self) -> bool {
        self.per.iter().any(|per| matches!(per, Per::Ip | Per::Tenant | Per::User))
    }
}

/// True if `new` is the same limit as `old`, whatever its numbers: states of the one are states of the other.
fn goes_on(new: (&Rule, &Frame), old: (&Rule, &Frame)) -> bool {
    let ((new_rule, new_frame), (old_rule, old_frame)) = (new, old);
    // The edge has a store of its own.
    let same_store = new_rule.at_edge() == old_rule.at_edge();
    let same_addresses = new_frame.ipv6_prefix == old_frame.ipv6_prefix || !old_rule.counts_addresses();
    let same_kind = new_rule.messages.is_some() == old_rule.messages.is_some()
        && new_rule.descriptor == old_rule.descriptor;
    let same_subjects = same_store && same_addresses && same_kind && new_rule.per == old_rule.per;
    let tiers = new_frame.tiers.iter().chain(&old_frame.tiers).map(|name| Some(name.as_str()));
    same_subjects && tiers.chain([None]).all(|tier| same_identity(new, old, tier))
}

/// True if the tenants of `tier` find in `new` what they were charged in `old`.
fn same_identity(
    (new, new_frame): (&Rule, &Frame),
    (old, old_frame): (&Rule, &Frame),
    tier: Option<&str>,
) -> bool {
    let identity = |sized: &Sized| {
        let algorithm = &sized.step.algorithm;
        (algorithm.kind(), algorithm.period(), sized.about.rate.unit())
    };
    let Some(old) = old.numbers.of(tier.and_then(|name| old_frame.tier(name))) else { return true };
    match new.numbers.of(tier.and_then(|name| new_frame.tier(name))) {
        Some(new) => identity(new) == identity(old),
        // Its tenants are of other tiers now; or the tier has no such limit any more, and what is gone is gone.
        None if tier.is_some_and(|name| new_frame.tier(name).is_none()) => {
            new.numbers.all().all(|new| identity(new) == identity(old))
        }
        None => true,
    }
}
