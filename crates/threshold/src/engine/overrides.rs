//! Overrides: other numbers for one subject or for everyone, at once and without a new policy.

use std::collections::HashMap;

use threshold_core::rate::RateErrorKind;
use threshold_core::{Algorithm, Key, LimitError, Rate, Timestamp};

use super::rules::{Frame, Keys, Rule, Rules, Secrets, Sized};
use super::subject::Asker;
use crate::identify::Identity;

/// Another rate for a limit.
///
/// With the limit's own period it goes on with what was consumed. With another it counts from when it is set; the limit
/// counts on beside it and refuses nobody until it is in force again.
#[derive(Clone, Debug)]
pub struct Override {
    /// Names it, for changing and removing it.
    pub id: String,
    /// The limit's id.
    pub limit: String,
    /// Whom it is for: the subject that a request of this identity would be; without one, everyone.
    pub subject: Option<Identity<'static>>,
    /// The rate it sets.
    pub rate: Rate,
    /// Capacity on top of that.
    pub burst_allowance: u64,
    /// Switched off, it waits.
    pub enabled: bool,
    /// The highest one counts; among equals the one for a subject, then the latest.
    pub priority: i64,
    /// When it ends.
    pub expires: Option<Timestamp>,
}

/// An override that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OverrideError {
    /// It names no limit.
    #[error("there is no limit {0:?}; `threshold check` lists them")]
    NoLimit(String),
    /// Its subject is none that the limit counts by.
    #[error("limit {0:?} does not count by such a subject; leave the subject out for everyone")]
    NoSubject(String),
    /// Its rate does not suit the limit.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// Its numbers are out of range.
    #[error(transparent)]
    Rate(#[from] RateErrorKind),
}

/// The overrides in force, made ready.
#[derive(Default)]
pub(crate) struct Overrides {
    /// For one subject each, by its key under the limit as the policy has it.
    subjects: HashMap<Key, Vec<Ready>>,
    /// For everyone, by the limit's id.
    everyone: HashMap<String, Vec<Ready>>,
}

/// An override made ready.
#[derive(Clone)]
pub(crate) struct Ready {
    pub(crate) algorithm: Algorithm,
    /// Its own key makers.
    keys: Keys,
    rank: (i64, bool, usize),
    expires: Option<Timestamp>,
}

impl Overrides {
    /// Makes `all` ready for `rules`, which `frame` reads requests for. Those whose limit is gone wait for its return.
    pub(crate) fn new<'a>(
        all: &[Override],
        rules: impl IntoIterator<Item = &'a Rule>,
        frame: &Frame,
        secrets: &Secrets,
    ) -> Self {
        let mut ready = Self::default();
        for rule in rules {
            let of_rule = |(_, one): &(usize, &Override)| one.enabled && one.limit == rule.id.as_str();
            for (age, one) in all.iter().enumerate().filter(of_rule) {
                let Ok(made) = one.ready(rule, secrets, age) else { continue };
                let Some(identity) = &one.subject else {
                    ready.everyone.entry(one.limit.clone()).or_default().push(made);
                    continue;
                };
                let asker = Asker::new(frame, identity, None);
                let subject = asker.subject(&rule.per);
                let Some((sized, subject)) = rule.numbers.of(asker.tier).zip(subject) else { continue };
                ready.subjects.entry(sized.keys.current.key_of(&subject)).or_default().push(made);
            }
        }
        ready
    }

    /// The one that counts for the subject of `key` under `rule`.
    pub(crate) fn find(&self, rule: &Rule, key: &Key, now: Timestamp) -> Option<&Ready> {
        if self.subjects.is_empty() && self.everyone.is_empty() {
            return None;
        }
        let own = self.subjects.get(key).into_iter().flatten();
        let shared = self.everyone.get(rule.id.as_str()).into_iter().flatten();
        own.chain(shared)
            .filter(|ready| ready.expires.is_none_or(|end| now < end))
            .max_by_key(|ready| ready.rank)
    }
}

impl Override {
    /// Says whether it can be made ready for `rules`.
    pub(crate) fn check(&self, rules: &Rules, secrets: &Secrets) -> Result<(), OverrideError> {
        let rule = rules.limit(&self.limit).ok_or_else(|| OverrideError::NoLimit(self.limit.clone()))?;
        if let Some(identity) = &self.subject
            && Asker::new(&rules.frame, identity, None).subject(&rule.per).is_none()
        {
            return Err(OverrideError::NoSubject(self.limit.clone()));
        }
        self.ready(rule, secrets, 0).map(|_| ())
    }

    fn ready(&self, rule: &Rule, secrets: &Secrets, age: usize) -> Result<Ready, OverrideError> {
        let kind =
            rule.numbers.all().next().map_or_else(Default::default, |sized| sized.step.algorithm.kind());
        let algorithm = Algorithm::new(kind, &self.raised(kind)?)?;
        let rank = (self.priority, self.subject.is_some(), age);
        let unit = rule.numbers.all().next().map_or_else(Default::default, |sized| sized.about.rate.unit());
        Ok(Ready { keys: secrets.keys(&rule.id, &algorithm, unit), algorithm, rank, expires: self.expires })
    }

    /// The rate with the allowance on top: in the burst where there is one, else in the count.
    fn raised(&self, kind: threshold_core::AlgorithmKind) -> Result<Rate, RateErrorKind> {
        let rate = self.rate;
        if self.burst_allowance == 0 {
            return Ok(rate);
        }
        let raised = rate.burst().unwrap_or(rate.count()).saturating_add(self.burst_allowance);
        match kind {
            threshold_core::AlgorithmKind::TokenBucket => rate.with_burst(raised),
            _ => Rate::new(raised, rate.period()).map(|made| made.counting(rate.unit())),
        }
    }
}

impl Ready {
    /// The makers of its keys in the place of `sized`: the limit's own, or with another period those of another limit.
    pub(crate) fn keys<'a>(&'a self, sized: &'a Sized) -> &'a Keys {
        let same = self.algorithm.period() == sized.step.algorithm.period();
        if same { &sized.keys } else { &self.keys }
    }
}
