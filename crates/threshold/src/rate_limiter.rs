//! One limit over one store: the simple form.

use std::num::NonZeroU64;

use threshold_core::{
    Action, Algorithm, AlgorithmKind, Batch, Clock, Consistency, Guarantee, Key, LimitError, LimitId,
    LimitIdError, LimitKey, OnFailure, Parts, PermitId, Rate, RateError, Secret, Sharing, Span, Step, Store,
};
use threshold_store::{MemoryStore, random_secret};

use crate::decision::{ConsumeError, Decision, cost};

/// One limit over one store.
///
/// Limiters are cheap: make one for each limit and let them share the store. Two with the same id, algorithm,
/// period and secret over the same store are the same limit.
#[derive(Clone, Debug)]
pub struct RateLimiter<S = MemoryStore> {
    id: LimitId,
    rate: Rate,
    algorithm: Algorithm,
    keys: LimitKey,
    sharing: Sharing,
    store: S,
}

/// A limiter to be.
#[derive(Clone, Debug)]
pub struct RateLimiterBuilder<S = ()> {
    id: String,
    rate: Option<String>,
    algorithm: AlgorithmKind,
    secret: Option<Secret>,
    sharing: Sharing,
    store: S,
}

/// A limiter that cannot be built, with what is wrong and how to mend it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The id is no name for a limit.
    #[error(transparent)]
    Id(#[from] LimitIdError),
    /// No rate was given.
    #[error("limit {0:?} has no rate; give it one such as .rate(\"100/min\")")]
    NoRate(String),
    /// The rate cannot be read.
    #[error(transparent)]
    Rate(#[from] RateError),
    /// The algorithm cannot represent the rate.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// Its budget cannot be sliced.
    #[error(
        "limit {0:?} cannot be leased; use a token bucket or a fixed window that holds some, or Consistency::Exact"
    )]
    Leased(String),
}

impl RateLimiter {
    /// A limiter with the id `id`, which is part of every key.
    #[must_use]
    pub fn builder(id: &str) -> RateLimiterBuilder {
        RateLimiterBuilder {
            id: id.to_owned(),
            rate: None,
            algorithm: AlgorithmKind::default(),
            secret: None,
            sharing: Sharing::default(),
            store: (),
        }
    }
}

impl<S> RateLimiterBuilder<S> {
    /// The rate, as people write it: `"100/min"`, `"5 per 15min"`, `"100/day burst 10"`.
    #[must_use]
    pub fn rate(self, rate: impl Into<String>) -> Self {
        Self { rate: Some(rate.into()), ..self }
    }

    /// Another algorithm than the token bucket.
    #[must_use]
    pub fn algorithm(self, algorithm: AlgorithmKind) -> Self {
        Self { algorithm, ..self }
    }

    /// The secret behind the keys. Limiters that share a store across processes must share it; without one,
    /// every limiter draws its own.
    #[must_use]
    pub fn secret(self, secret: Secret) -> Self {
        Self { secret: Some(secret), ..self }
    }

    /// Whom a decision asks, where a [`NodeStore`](crate::NodeStore) stands before the store; that is the store itself
    /// unless told. Other stores ignore it.
    #[must_use]
    pub fn consistency(self, consistency: Consistency) -> Self {
        Self { sharing: Sharing { consistency, ..self.sharing }, ..self }
    }

    /// What becomes of the limit while its store is gone, where a [`NodeStore`](crate::NodeStore) stands before it: the node
    /// goes on with its share unless told. Other stores ignore it, and fail.
    #[must_use]
    pub fn on_store_failure(self, on_failure: OnFailure) -> Self {
        Self { sharing: Sharing { on_failure, ..self.sharing }, ..self }
    }

    /// Where the states live.
    #[must_use]
    pub fn store<T: Store>(self, store: T) -> RateLimiterBuilder<T> {
        let Self { id, rate, algorithm, secret, sharing, .. } = self;
        RateLimiterBuilder { id, rate, algorithm, secret, sharing, store }
    }
}

impl<S: Store> RateLimiterBuilder<S> {
    /// Builds the limiter, or says what is wrong.
    pub fn build(self) -> Result<RateLimiter<S>, BuildError> {
        let id = LimitId::new(&self.id)?;
        let rate: Rate = self.rate.ok_or(BuildError::NoRate(self.id))?.parse()?;
        let algorithm = Algorithm::new(self.algorithm, &rate)?;
        let sharing = self.sharing;
        if sharing.consistency == Consistency::Leased && algorithm.leasable(Span::SECOND).is_none() {
            return Err(BuildError::Leased(id.as_str().to_owned()));
        }
        let keys = self.secret.unwrap_or_else(random_secret).limit_key(&id, &algorithm, rate.unit());
        Ok(RateLimiter { id, rate, algorithm, keys, sharing, store: self.store })
    }
}

impl<S: Store> RateLimiter<S> {
    /// Charges `cost` to `key` if the limit allows it. A concurrency limit charges nobody: use
    /// [`acquire`](Self::acquire).
    pub async fn consume(&self, key: impl Parts, cost: u64) -> Result<Decision, ConsumeError> {
        self.act(key, Action::Consume(self::cost(cost)?)).await
    }

    /// What [`consume`](Self::consume) would answer now; charges nothing.
    pub async fn peek(&self, key: impl Parts, cost: u64) -> Result<Decision, ConsumeError> {
        let batch = Batch::from(self.checked_step(key, cost)?);
        let outcome = self.store.peek(&batch).await?;
        Ok(Decision::looking(outcome.at, outcome.verdicts[0]).from(outcome.source))
    }

    /// Takes back up to `cost` of what `decision` charged to `key`, as far as it is still felt. Once for each
    /// decision: a second refund takes back what others were charged.
    pub async fn refund(&self, key: impl Parts, cost: u64, decision: &Decision) -> Result<(), ConsumeError> {
        let step = self.checked_step(key, cost)?;
        let Some(cost) = NonZeroU64::new(cost.min(decision.charged())) else { return Ok(()) };
        let batch = Batch::from(Step { action: Action::Consume(cost), ..step });
        Ok(self.store.refund(&batch, &decision.outcome()).await?)
    }

    /// Takes a permit of a concurrency limit, or renews it if `permit` is held already. Elsewhere refused.
    pub async fn acquire(
        &self,
        key: impl Parts,
        permit: PermitId,
        cost: u64,
    ) -> Result<Decision, ConsumeError> {
        let cost = self::cost(cost)?;
        self.act(key, Action::Acquire(permit, cost)).await
    }

    /// Keeps a permit; refused once it has lapsed.
    pub async fn renew(&self, key: impl Parts, permit: PermitId) -> Result<Decision, ConsumeError> {
        self.act(key, Action::Renew(permit)).await
    }

    /// Gives a permit back.
    pub async fn release(&self, key: impl Parts, permit: PermitId) -> Result<Decision, ConsumeError> {
        self.act(key, Action::Release(permit)).await
    }

    async fn act(&self, key: impl Parts, action: Action) -> Result<Decision, ConsumeError> {
        let step = Step { action, ..self.step(key, NonZeroU64::MIN) };
        let (at, verdict, source) = self.store.apply_one(&step).await?;
        let decision = match action {
            Action::Consume(cost) => Decision::charging(at, verdict, cost.get()),
            _ => Decision::looking(at, verdict),
        };
        Ok(decision.from(source))
    }

    /// Forgets all that was charged to `key`. What it was charged together with others, in a store that had no
    /// room for it, stays.
    pub async fn reset(&self, key: impl Parts) -> Result<(), ConsumeError> {
        Ok(self.store.reset(&[self.key(key)]).await?)
    }

    /// One step of a batch: `cost` charged to `key` under this limit.
    #[must_use]
    #[inline]
    pub fn step(&self, key: impl Parts, cost: NonZeroU64) -> Step {
        Step { sharing: self.sharing, ..Step::consume(self.key(key), self.algorithm, cost) }
    }

    /// The key that stands for `key` in the store.
    #[must_use]
    #[inline]
    pub fn key(&self, key: impl Parts) -> Key {
        self.keys.key(key)
    }

    /// The rate this limiter was built from.
    #[must_use]
    pub const fn policy(&self) -> &Rate {
        &self.rate
    }

    /// The id.
    #[must_use]
    pub const fn id(&self) -> &LimitId {
        &self.id
    }

    /// What this limiter promises for every key.
    #[must_use]
    pub fn guarantee(&self) -> Guarantee {
        self.algorithm.guarantee().counting(self.rate.unit())
    }

    #[inline]
    fn checked_step(&self, key: impl Parts, amount: u64) -> Result<Step, ConsumeError> {
        Ok(self.step(key, cost(amount)?))
    }
}

impl<C: Clock> RateLimiter<MemoryStore<C>> {
    /// [`consume`](Self::consume) without a future: a store in memory never waits for anything but a lock.
    #[inline]
    pub fn consume_now(&self, key: impl Parts, cost: u64) -> Result<Decision, ConsumeError> {
        let action = Action::Consume(self::cost(cost)?);
        let (at, verdict) = self.store.act_now(&self.key(key), &self.algorithm, action);
        Ok(Decision::charging(at, verdict, cost))
    }
}
