//! Overrides: other numbers for one subject or for everyone, at once and without a new policy.

use std::collections::HashMap;

use threshold_core::rate::RateErrorKind;
use threshold_core::standing::Risk;
use threshold_core::{
    Algorithm, AlgorithmKind, LimitError, Rate, StoreError, SubjectId, SubjectKind, Timestamp,
};

use super::names::Blames;
use super::rules::{Frame, Keys, Rule, Rules, Scaled, Secrets, Sized, at_risk};
use crate::policy::{Cost, Per};

pub use threshold_core::ledger::Override;

/// An override that cannot be.
#[derive(Debug, thiserror::Error)]
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
    /// The limit is leased, and nothing would be left of it.
    #[error(
        "limit {limit:?} is leased to its nodes in slices, and {rate} is too small to be sliced for {nodes} nodes; \
         raise the rate or its burst, or use `consistency = \"exact\"` for the limit"
    )]
    TooSmall {
        /// The limit.
        limit: String,
        /// The rate, with the allowance on top.
        rate: Rate,
        /// How many nodes share it.
        nodes: u32,
    },
    /// It could not be written down.
    #[error(transparent)]
    Ledger(#[from] StoreError),
}

/// The overrides in force, made ready.
#[derive(Default)]
pub(crate) struct Overrides {
    /// For one subject each, by the limit's id.
    subjects: HashMap<SubjectId, HashMap<String, Vec<Ready>>>,
    /// For everyone, by the limit's id.
    everyone: HashMap<String, Vec<Ready>>,
}

/// An override made ready.
pub(crate) struct Ready {
    pub(crate) algorithm: Algorithm,
    scaled: Option<Box<Scaled>>,
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
                let Ok(made) = ready_for(one, (rule, frame), secrets, age) else { continue };
                let of = match one.subject {
                    Some(subject) => ready.subjects.entry(subject).or_default(),
                    None => &mut ready.everyone,
                };
                of.entry(one.limit.clone()).or_default().push(made);
            }
        }
        ready
    }

    /// True if there are none.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.subjects.is_empty() && self.everyone.is_empty()
    }

    /// The one that counts under `rule` for who is all of `ids`.
    #[cold]
    pub(crate) fn find(&self, rule: &Rule, ids: &[SubjectId], now: Timestamp) -> Option<&Ready> {
        let limit = rule.id.as_str();
        let ids = ids.iter().filter(|id| counts_by(rule, id.kind()));
        let own = ids.filter_map(|id| self.subjects.get(id)?.get(limit)).flatten();
        own.chain(self.everyone.get(limit).into_iter().flatten())
            .filter(|ready| ready.expires.is_none_or(|end| now < end))
            .max_by_key(|ready| ready.rank)
    }

    /// The own key makers of all there are under `rule` for who is all of `ids`, whichever of them counts.
    pub(crate) fn keys_of(&self, rule: &Rule, ids: &[SubjectId]) -> impl Iterator<Item = &Keys> {
        let limit = rule.id.as_str();
        let own = ids.iter().filter_map(move |id| self.subjects.get(id)?.get(limit)).flatten();
        own.chain(self.everyone.get(limit).into_iter().flatten()).map(|ready| &ready.keys)
    }
}

/// True if subjects of `kind` may be a subject of `rule`, or a part of one. Who is no tenant or user is an address.
fn counts_by(rule: &Rule, kind: SubjectKind) -> bool {
    let by: &[Per] = match kind {
        SubjectKind::Address => &[Per::Ip, Per::User, Per::Tenant],
        SubjectKind::User | SubjectKind::NamedUser => &[Per::User],
        SubjectKind::Tenant => &[Per::Tenant],
        SubjectKind::Account => &[Per::Account],
        SubjectKind::Source | SubjectKind::Device | SubjectKind::Key => &[],
    };
    rule.per.iter().any(|per| by.contains(per))
}

/// Says whether `change` can be made ready for `rules`.
pub(crate) fn check(change: &Override, rules: &Rules, secrets: &Secrets) -> Result<(), OverrideError> {
    let limit = || change.limit.clone();
    let rule = rules.limit(&change.limit).ok_or_else(|| OverrideError::NoLimit(limit()))?;
    if change.subject.is_some_and(|subject| !counts_by(rule, subject.kind())) {
        return Err(OverrideError::NoSubject(limit()));
    }
    let ready = ready_for(change, (rule, &rules.frame), secrets, 0)?;
    // One that is in force nevertheless, because the policy was another when it was made, is decided without leases.
    match rule.too_small_for(&ready.algorithm) {
        Some(slices) => {
            let rate = raised(change, ready.algorithm.kind())?;
            Err(OverrideError::TooSmall { limit: limit(), rate, nodes: slices.nodes })
        }
        None => Ok(()),
    }
}

fn ready_for(
    change: &Override,
    (rule, frame): (&Rule, &Frame),
    secrets: &Secrets,
    age: usize,
) -> Result<Ready, OverrideError> {
    let kind = rule.numbers.all().next().map_or_else(Default::default, |sized| sized.step.algorithm.kind());
    let rate = raised(change, kind)?;
    let algorithm = Algorithm::new(kind, &rate)?;
    let about = rule.numbers.all().next().map(|sized| sized.about);
    let least = if let Cost::Each(each) = rule.cost { each.get() } else { 1 };
    let blamed = about.is_some_and(|about| about.blames != Blames::Nobody);
    Ok(Ready {
        keys: secrets.keys(
            &rule.id,
            &algorithm,
            about.map_or_else(Default::default, |about| about.rate.unit()),
        ),
        algorithm,
        scaled: if blamed { frame.scale(&rate, kind, least) } else { None },
        rank: (change.priority, change.subject.is_some(), age),
        expires: change.expires,
    })
}

/// The rate with the allowance on top: in the burst where there is one, else in the count.
fn raised(change: &Override, kind: AlgorithmKind) -> Result<Rate, RateErrorKind> {
    let rate = change.rate;
    if change.burst_allowance == 0 {
        return Ok(rate);
    }
    let raised = rate.burst().unwrap_or(rate.count()).saturating_add(change.burst_allowance);
    match kind {
        AlgorithmKind::TokenBucket => rate.with_burst(raised),
        _ => Rate::new(raised, rate.period()).map(|made| made.counting(rate.unit())),
    }
}

impl Ready {
    /// The makers of its keys in the place of `sized`: the limit's own, or with another period those of another limit.
    pub(crate) fn keys<'a>(&'a self, sized: &'a Sized) -> &'a Keys {
        let same = self.algorithm.period() == sized.step.algorithm.period();
        if same { &sized.keys } else { &self.keys }
    }

    /// The override for a client of `risk`; none if that is the override itself.
    pub(crate) fn scaled(&self, risk: Risk) -> Option<Algorithm> {
        at_risk(self.scaled.as_deref(), risk)
    }
}
