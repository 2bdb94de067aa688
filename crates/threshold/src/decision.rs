//! What a caller is told.

use std::num::NonZeroU64;
use std::time::Duration;

use threshold_core::{Outcome, Retry, Source, StoreError, Timestamp, Verdict};

/// The answer to one [`consume`](crate::RateLimiter::consume) or [`peek`](crate::RateLimiter::peek).
#[must_use = "a decision may be a refusal"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    at: Timestamp,
    verdict: Verdict,
    /// What was charged, and can be refunded at most.
    charged: u64,
    source: Source,
}

/// No decision could be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConsumeError {
    /// A cost of zero asks for nothing.
    #[error("a cost must be at least 1; to look without charging, use peek")]
    ZeroCost,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Decision {
    /// A decision that charged `cost` if it allowed it.
    #[inline]
    pub(crate) fn charging(at: Timestamp, verdict: Verdict, cost: u64) -> Self {
        Self { at, verdict, charged: if verdict.admitted() { cost } else { 0 }, source: Source::Exact }
    }

    /// A decision that charged nothing.
    pub(crate) const fn looking(at: Timestamp, verdict: Verdict) -> Self {
        Self { at, verdict, charged: 0, source: Source::Exact }
    }

    /// The same, from elsewhere than the store.
    #[inline]
    pub(crate) const fn from(self, source: Source) -> Self {
        Self { source, ..self }
    }

    /// What was charged, and can be refunded at most.
    pub(crate) const fn charged(&self) -> u64 {
        self.charged
    }

    /// True if the limit allows it: the cost was charged, or would have been if this was a peek.
    #[must_use]
    #[inline]
    pub fn allowed(&self) -> bool {
        self.verdict.admitted()
    }

    /// The capacity that was judged against.
    #[must_use]
    pub const fn limit(&self) -> u64 {
        self.verdict.limit
    }

    /// How many more of cost 1 would be allowed at this instant.
    #[must_use]
    pub const fn remaining(&self) -> u64 {
        self.verdict.remaining
    }

    /// When the same cost is allowed, exactly, if nothing else is charged until then. None if it was allowed,
    /// and none if it never will be: [`Decision::retryable`] tells the two apart.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self.verdict.retry {
            Retry::After(span) => Some(span.into()),
            Retry::Now | Retry::Never => None,
        }
    }

    /// False if trying again cannot help: the cost is above the capacity, or the permit to renew is gone.
    #[must_use]
    pub fn retryable(&self) -> bool {
        self.verdict.retry != Retry::Never
    }

    /// How long until the key is as new, if nothing else is charged.
    #[must_use]
    pub fn reset_after(&self) -> Duration {
        self.verdict.reset.into()
    }

    /// The store's time of the decision.
    #[must_use]
    pub const fn at(&self) -> Timestamp {
        self.at
    }

    /// Where the answer came from: the store itself, unless a [`NodeStore`](crate::NodeStore) stands before it.
    #[must_use]
    pub const fn source(&self) -> Source {
        self.source
    }

    /// The decision as the outcome of a batch of one.
    pub(crate) fn outcome(&self) -> Outcome {
        let (verdicts, retry) = ([self.verdict].into_iter().collect(), self.verdict.retry);
        Outcome { at: self.at, verdicts, retry, charged: self.charged > 0, source: self.source }
    }
}

pub(crate) fn cost(cost: u64) -> Result<NonZeroU64, ConsumeError> {
    NonZeroU64::new(cost).ok_or(ConsumeError::ZeroCost)
}
