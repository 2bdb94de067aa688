//! Rates of callers' own. They share one id, and what is counted by them is found by key, algorithm and period alone.
//!
//! Who asks by the same rate again and again makes it ready once, as an [`AdhocLimit`]: a charge by it allocates nothing and
//! derives nothing anew.

use std::num::NonZeroU64;
use std::sync::LazyLock;

use threshold_core::{
    Algorithm, AlgorithmKind, Batch, Clock, Key, Ledger, LimitError, LimitId, Outcome, Rate, Retry, Source,
    Span, Step, Store, StoreError, Subject,
};

use super::ChargeError;
use crate::engine::Engine;
use crate::engine::names::{About, Blames};
use crate::engine::rules::{Keys, Secrets};
use crate::engine::select::{Plan, Planned, Role};
use crate::engine::subject::adhoc;
use crate::figures::Layers;
use crate::policy::Layer;
use crate::usage;

/// The name of limits that are nobody's but the caller's.
const ADHOC: &str = "adhoc";

/// Why a rate of a caller's own cannot be planned.
pub(crate) enum AdhocError {
    Rate(LimitError),
    Concurrency,
}

impl From<AdhocError> for ChargeError {
    fn from(error: AdhocError) -> Self {
        match error {
            AdhocError::Rate(error) => Self::Rate(error),
            AdhocError::Concurrency => Self::Concurrency(ADHOC.to_owned()),
        }
    }
}

/// A rate of a caller's own, made ready.
#[derive(Clone)]
pub struct AdhocLimit {
    algorithm: Algorithm,
    keys: Keys,
}

/// One charge by such a rate, ready to be made.
#[derive(Clone, Copy)]
pub struct AdhocCharge {
    step: Step,
    /// The same subject under the secret before.
    previous: Option<Key>,
}

/// Whom a charge is to be made to, under every secret. Small, for who gathers several before the first is charged.
#[derive(Clone, Copy)]
pub struct AdhocKey {
    current: Key,
    previous: Option<Key>,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdhocCharged {
    /// When the same charge is allowed; now if it was.
    pub retry: Retry,
    /// The capacity that was judged against.
    pub capacity: u64,
    /// How many more of cost 1 would be allowed at this instant.
    pub remaining: u64,
    /// How long until the key is as new, if nothing else is charged.
    pub reset: Span,
}

impl AdhocLimit {
    fn new(secrets: &Secrets, rate: &Rate, kind: AlgorithmKind) -> Result<Self, AdhocError> {
        if kind == AlgorithmKind::Concurrency {
            return Err(AdhocError::Concurrency);
        }
        let algorithm = Algorithm::new(kind, rate).map_err(AdhocError::Rate)?;
        let id = LimitId::new(ADHOC).expect("this is a limit's id");
        Ok(Self { keys: secrets.keys(&id, &algorithm, rate.unit()), algorithm })
    }

    /// A charge of `cost` to `key`.
    #[must_use]
    #[inline]
    pub fn charge(&self, key: &[u8], cost: NonZeroU64) -> AdhocCharge {
        self.charge_to(&self.key(key), cost)
    }

    /// Whom `key` names, under this limit and all others of its period.
    #[must_use]
    #[inline]
    pub fn key(&self, key: &[u8]) -> AdhocKey {
        self.key_of(&adhoc(key))
    }

    #[inline]
    fn key_of(&self, subject: &Subject) -> AdhocKey {
        AdhocKey {
            current: self.keys.current.key_of(subject),
            previous: self.keys.previous.as_ref().map(|keys| keys.key_of(subject)),
        }
    }

    /// A charge of `cost` to whom this limit gave a key.
    #[must_use]
    #[inline]
    pub const fn charge_to(&self, key: &AdhocKey, cost: NonZeroU64) -> AdhocCharge {
        AdhocCharge { step: Step::consume(key.current, self.algorithm, cost), previous: key.previous }
    }
}

impl AdhocCharge {
    /// Its steps: one for each secret.
    fn steps(&self) -> impl Iterator<Item = Step> {
        let previous = self.previous.map(|key| Step { key, ..self.step });
        std::iter::once(self.step).chain(previous)
    }

    fn batch(&self) -> Batch {
        let mut batch = Batch::default();
        // Two always fit.
        self.steps().for_each(|step| {
            let _ = batch.push(step);
        });
        batch
    }
}

impl AdhocCharged {
    fn new(outcome: &Outcome) -> Self {
        let verdicts = || outcome.verdicts.iter();
        Self {
            retry: outcome.retry,
            capacity: verdicts().map(|verdict| verdict.limit).min().unwrap_or(0),
            remaining: verdicts().map(|verdict| verdict.remaining).min().unwrap_or(0),
            reset: verdicts().map(|verdict| verdict.reset).max().unwrap_or(Span::ZERO),
        }
    }
}

impl<S: Store, C: Clock, L: Ledger> Engine<S, C, L> {
    /// Makes `rate` ready for charges by `kind`.
    ///
    /// # Errors
    ///
    /// If the rate cannot be represented, or counts how many there are at the same time.
    pub fn adhoc(&self, rate: &Rate, kind: AlgorithmKind) -> Result<AdhocLimit, ChargeError> {
        Ok(AdhocLimit::new(&self.secrets, rate, kind)?)
    }

    /// Starts getting at what a charge to `key` needs, for who has something else to do before it is made.
    #[inline]
    pub fn prefetch_adhoc(&self, key: &AdhocKey) {
        self.store.prefetch(&key.current);
    }

    /// Makes `charge` if that can be done without waiting; if none is returned, nothing was done.
    #[must_use]
    #[inline]
    pub fn charge_adhoc_at_once(&self, charge: &AdhocCharge) -> Option<AdhocCharged> {
        if charge.previous.is_some() {
            return None;
        }
        let (_, verdict) = self.store.apply_one_at_once(&charge.step)?;
        self.count_charge(verdict.admitted(), Source::Exact, Layers::default, 1);
        Some(AdhocCharged {
            retry: verdict.retry,
            capacity: verdict.limit,
            remaining: verdict.remaining,
            reset: verdict.reset,
        })
    }

    /// Makes `charge`.
    ///
    /// # Errors
    ///
    /// If the store could make no decision.
    pub async fn charge_adhoc(&self, charge: &AdhocCharge) -> Result<AdhocCharged, StoreError> {
        let outcome = self.store.apply(&charge.batch()).await?;
        self.count_charge(outcome.admitted(), outcome.source, Layers::default, 1);
        Ok(AdhocCharged::new(&outcome))
    }

    /// What [`charge_adhoc`](Self::charge_adhoc) would answer now; charges nothing.
    ///
    /// # Errors
    ///
    /// If the store could make no decision.
    pub async fn peek_adhoc(&self, charge: &AdhocCharge) -> Result<AdhocCharged, StoreError> {
        Ok(AdhocCharged::new(&self.store.peek(&charge.batch()).await?))
    }
}

/// Plans a rate of the caller's own.
pub(crate) fn plan_adhoc(
    secrets: &Secrets,
    (rate, kind): (Rate, AlgorithmKind),
    (subject, cost): (&Subject, NonZeroU64),
    plan: &mut Plan,
) -> Result<(), AdhocError> {
    let limit = AdhocLimit::new(secrets, &rate, kind)?;
    let made = limit.charge_to(&limit.key_of(subject), cost);
    for (step, role) in made.steps().zip([Role::Limit, Role::Previous]) {
        plan.push(&step, Planned { about: about(), role });
    }
    Ok(())
}

/// True if it is said of rates of callers' own, which are in no layer.
pub(crate) fn is_adhoc(said: &About) -> bool {
    std::ptr::eq(said, about())
}

/// What decisions say of every rate of a caller's own: one and the same, for there is no end of those.
fn about() -> &'static About {
    static ABOUT: LazyLock<About> = LazyLock::new(|| About {
        limit: ADHOC,
        called: ADHOC,
        layer: Layer::User,
        rate: Rate::new(1, Span::SECOND).expect("this is a rate"),
        category: None,
        routes: None,
        error: "rate_limited",
        silent: false,
        bytes: false,
        blames: Blames::Nobody,
        counted: usage::Limit::new(ADHOC, None, Span::SECOND),
    });
    &ABOUT
}
