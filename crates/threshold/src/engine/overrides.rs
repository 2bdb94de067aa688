//! Overrides: other numbers for one subject or for everyone, at once and without a new policy.

use std::collections::HashMap;

use threshold_core::rate::RateErrorKind;
use threshold_core::{Algorithm, Key, LimitError, Rate, Subject, Timestamp};

use super::rules::{Keys, Rule, Rules, Secrets, Sized};
use super::subject::Asker;
use crate::identify::Identity;

/// Another rate for a limit.
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
    /// Key makers of its own where it has another period: then it is another limit.
    keys: Option<Keys>,
    rank: (i64, bool, usize),
    expires: Option<Timestamp>,
}

impl Overrides {
    /// Makes `all` ready for `rules`. Those whose limit is gone wait for its return.
    pub(crate) fn new(all: &[Override], rules: &Rules, secrets: &Secrets) -> Self {
        let mut ready = Self::default();
        for (age, one) in all.iter().enumerate().filter(|(_, one)| one.enabled) {
            let Some(rule) = rules.limit(&one.limit) else { continue };
            let Some(subject) = &one.subject else {
                let Some(sized) = rule.numbers.all().next() else { continue };
                let Ok(made) = one.ready(rule, sized, secrets, age) else { continue };
                ready.everyone.entry(one.limit.clone()).or_default().push(made);
                continue;
            };
            let asker = Asker::new(rules, subject, None);
            let Some(sized) = rule.numbers.of(asker.tier) else { continue };
            let (Some(subject), Ok(made)) = (asker.subject(&rule.per), one.ready(rule, sized, secrets, age))
            else {
                continue;
            };
            ready.subjects.entry(sized.keys.current.key_of(&subject)).or_default().push(made);
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
        rule.numbers.all().try_for_each(|sized| self.ready(rule, sized, secrets, 0).map(|_| ()))
    }

    fn ready(
        &self,
        rule: &Rule,
        sized: &Sized,
        secrets: &Secrets,
        age: usize,
    ) -> Result<Ready, OverrideError> {
        let kind = sized.step.algorithm.kind();
        let algorithm = Algorithm::new(kind, &self.raised(kind)?)?;
        let same = algorithm.period() == sized.step.algorithm.period();
        let keys = (!same).then(|| secrets.keys(&rule.id, &algorithm));
        let rank = (self.priority, self.subject.is_some(), age);
        Ok(Ready { algorithm, keys, rank, expires: self.expires })
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
    /// The subject's key under this override.
    pub(crate) fn key(&self, own: Key, subject: &Subject) -> Key {
        self.keys.as_ref().map_or(own, |keys| keys.current.key_of(subject))
    }
}
