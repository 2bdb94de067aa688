//! The border between a decision and the place where counters live.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::batch::{Batch, Outcome, Retry, Step, Verdict};
use crate::key::Key;
use crate::sharing::Source;
use crate::time::{Span, Timestamp};

/// A place where a batch runs atomically.
///
/// A refusal is an outcome, not an error: `Err` means that no decision could be made. A future that is dropped
/// before it is ready may or may not have charged; count it as charged.
pub trait Store: Send + Sync {
    /// Judges and charges the batch as one.
    fn apply(&self, batch: &Batch) -> impl Future<Output = Result<Outcome, StoreError>> + Send;

    /// Judges and charges one step: the commonest batch, for stores that can do it more cheaply.
    fn apply_one(
        &self,
        step: &Step,
    ) -> impl Future<Output = Result<(Timestamp, Verdict, Source), StoreError>> + Send {
        async {
            let outcome = self.apply(&Batch::from(*step)).await?;
            match outcome.verdicts.first() {
                Some(verdict) => Ok((outcome.at, *verdict, outcome.source)),
                None => Err(StoreError::new(StoreErrorKind::Corrupt, "apply", "no verdict for the step")),
            }
        }
    }

    /// [`apply_one`](Self::apply_one) for stores that never wait: the answer itself, without a future. None from all others,
    /// which have done nothing.
    #[inline]
    fn apply_one_at_once(&self, _step: &Step) -> Option<(Timestamp, Verdict)> {
        None
    }

    /// [`apply`](Self::apply) for stores that need not wait this time: the answer itself, without a future. None from all
    /// others, which have done nothing.
    #[inline]
    fn apply_at_once(&self, _batch: &Batch) -> Option<Outcome> {
        None
    }

    /// Judges the batch and charges nothing.
    fn peek(&self, batch: &Batch) -> impl Future<Output = Result<Outcome, StoreError>> + Send;

    /// When the batch passes and goes on passing, if nothing else is charged. That may be later than a [`peek`](Self::peek)
    /// says: what a node holds for a moment is gone when somebody comes back for it.
    fn wait(&self, batch: &Batch) -> impl Future<Output = Result<Retry, StoreError>> + Send {
        async { Ok(self.peek(batch).await?.retry) }
    }

    /// Takes back what the batch was charged by `outcome`, as far as it is still felt. Costs may be smaller than
    /// those that were charged, to take back a part.
    fn refund(&self, batch: &Batch, outcome: &Outcome)
    -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Forgets all that is known of the keys.
    fn reset(&self, keys: &[Key]) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Looks at about `budget` states, in steps that suit the store, and drops the expired ones, which loses
    /// nothing. Goes on where the last call stopped.
    fn sweep(&self, budget: usize) -> impl Future<Output = Result<Swept, StoreError>> + Send;

    /// True if it cannot be atomic over keys of different [partitions](crate::Partition), so that keys must be given
    /// theirs.
    fn is_partitioned(&self) -> bool {
        false
    }

    /// When it may last have lost charges that it had acknowledged, by its own time; none if it never did, as far as it
    /// knows. It is known before the first answer after the loss.
    fn lost_at(&self) -> Option<Timestamp> {
        None
    }

    /// How long ago the loss of [`lost_at`](Self::lost_at) was when this learnt of it: a node that starts hours later need not
    /// feel it for as long.
    fn lost_ago(&self) -> Span {
        Span::ZERO
    }

    /// How long it keeps anybody waiting for one answer; none if it never makes anybody wait. A node that has to ask it several
    /// times for one decision waits no longer than that for all of them, by the timers of tokio.
    fn patience(&self) -> Option<Span> {
        None
    }

    /// Starts getting at what a decision about `key` needs, where that is of use: the caller has something else to do
    /// before it asks for one.
    #[inline]
    fn prefetch(&self, _key: &Key) {}

    /// Says whether the store answers.
    fn health(&self) -> impl Future<Output = Health> + Send;

    /// Finishes what is under way and lets go of connections.
    fn close(&self) -> impl Future<Output = Result<(), StoreError>> + Send;
}

/// What a sweep did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// States looked at.
    pub seen: usize,
    /// States dropped.
    pub dropped: usize,
}

/// Whether a store answers, and how fast.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// It does.
    Up {
        /// How long the answer took.
        latency: Span,
    },
    /// It does not.
    Down {
        /// Why, for the operator.
        reason: String,
    },
}

/// No decision could be made: what failed, where, and the cause.
#[derive(Debug, thiserror::Error)]
#[error("could not {operation}: {kind}: {detail}")]
pub struct StoreError {
    kind: StoreErrorKind,
    operation: &'static str,
    detail: String,
    #[source]
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// The kinds of failure, as far as callers act differently on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// The store cannot be reached.
    Unavailable,
    /// It did not answer in time; the batch may have been charged.
    Timeout,
    /// Others were in the way.
    Conflict,
    /// It answered nonsense.
    Corrupt,
    /// It is set up wrongly; trying again does not help.
    Misconfigured,
}

impl StoreError {
    /// An error of `kind` while doing `operation`, with a detail for the operator.
    pub fn new(kind: StoreErrorKind, operation: &'static str, detail: impl Into<String>) -> Self {
        Self { kind, operation, detail: detail.into(), source: None }
    }

    /// The same error with its cause.
    #[must_use]
    pub fn caused_by(self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self { source: Some(source.into()), ..self }
    }

    /// What kind of failure this is.
    #[must_use]
    pub const fn kind(&self) -> StoreErrorKind {
        self.kind
    }

    /// True if the same call may succeed later by itself.
    #[must_use]
    pub const fn is_transient(&self) -> bool {
        matches!(self.kind, StoreErrorKind::Unavailable | StoreErrorKind::Timeout | StoreErrorKind::Conflict)
    }
}

impl fmt::Display for StoreErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unavailable => "unavailable",
            Self::Timeout => "timed out",
            Self::Conflict => "conflict",
            Self::Corrupt => "corrupt answer",
            Self::Misconfigured => "misconfigured",
        })
    }
}

/// A future on the heap, for the object-safe twin.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// [`Store`] for `dyn`: the same verbs behind boxed futures. Every store has it, and [`SharedStore`] is a store
/// again, so there is no need to call it by these names.
pub trait DynStore: Send + Sync {
    /// [`Store::apply`].
    fn apply_boxed<'a>(&'a self, batch: &'a Batch) -> BoxFuture<'a, Result<Outcome, StoreError>>;
    /// [`Store::apply_at_once`].
    fn apply_at_once_dyn(&self, batch: &Batch) -> Option<Outcome>;
    /// [`Store::apply_one_at_once`].
    fn apply_one_at_once_dyn(&self, step: &Step) -> Option<(Timestamp, Verdict)>;
    /// [`Store::prefetch`].
    fn prefetch_dyn(&self, key: &Key);
    /// [`Store::peek`].
    fn peek_boxed<'a>(&'a self, batch: &'a Batch) -> BoxFuture<'a, Result<Outcome, StoreError>>;
    /// [`Store::wait`].
    fn wait_boxed<'a>(&'a self, batch: &'a Batch) -> BoxFuture<'a, Result<Retry, StoreError>>;
    /// [`Store::refund`].
    fn refund_boxed<'a>(
        &'a self,
        batch: &'a Batch,
        outcome: &'a Outcome,
    ) -> BoxFuture<'a, Result<(), StoreError>>;
    /// [`Store::reset`].
    fn reset_boxed<'a>(&'a self, keys: &'a [Key]) -> BoxFuture<'a, Result<(), StoreError>>;
    /// [`Store::sweep`].
    fn sweep_boxed(&self, budget: usize) -> BoxFuture<'_, Result<Swept, StoreError>>;
    /// [`Store::is_partitioned`].
    fn is_partitioned_dyn(&self) -> bool;
    /// [`Store::lost_at`].
    fn lost_at_dyn(&self) -> Option<Timestamp>;
    /// [`Store::lost_ago`].
    fn lost_ago_dyn(&self) -> Span;
    /// [`Store::patience`].
    fn patience_dyn(&self) -> Option<Span>;
    /// [`Store::health`].
    fn health_boxed(&self) -> BoxFuture<'_, Health>;
    /// [`Store::close`].
    fn close_boxed(&self) -> BoxFuture<'_, Result<(), StoreError>>;
}

impl<S: Store> DynStore for S {
    fn apply_boxed<'a>(&'a self, batch: &'a Batch) -> BoxFuture<'a, Result<Outcome, StoreError>> {
        Box::pin(Store::apply(self, batch))
    }

    fn apply_at_once_dyn(&self, batch: &Batch) -> Option<Outcome> {
        Store::apply_at_once(self, batch)
    }

    fn apply_one_at_once_dyn(&self, step: &Step) -> Option<(Timestamp, Verdict)> {
        Store::apply_one_at_once(self, step)
    }

    fn prefetch_dyn(&self, key: &Key) {
        Store::prefetch(self, key);
    }

    fn peek_boxed<'a>(&'a self, batch: &'a Batch) -> BoxFuture<'a, Result<Outcome, StoreError>> {
        Box::pin(Store::peek(self, batch))
    }

    fn wait_boxed<'a>(&'a self, batch: &'a Batch) -> BoxFuture<'a, Result<Retry, StoreError>> {
        Box::pin(Store::wait(self, batch))
    }

    fn refund_boxed<'a>(
        &'a self,
        batch: &'a Batch,
        outcome: &'a Outcome,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(Store::refund(self, batch, outcome))
    }

    fn reset_boxed<'a>(&'a self, keys: &'a [Key]) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(Store::reset(self, keys))
    }

    fn sweep_boxed(&self, budget: usize) -> BoxFuture<'_, Result<Swept, StoreError>> {
        Box::pin(Store::sweep(self, budget))
    }

    fn is_partitioned_dyn(&self) -> bool {
        Store::is_partitioned(self)
    }

    fn lost_at_dyn(&self) -> Option<Timestamp> {
        Store::lost_at(self)
    }

    fn lost_ago_dyn(&self) -> Span {
        Store::lost_ago(self)
    }

    fn patience_dyn(&self) -> Option<Span> {
        Store::patience(self)
    }

    fn health_boxed(&self) -> BoxFuture<'_, Health> {
        Box::pin(Store::health(self))
    }

    fn close_boxed(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(Store::close(self))
    }
}

/// A store of any kind, chosen at run time.
pub type SharedStore = Arc<dyn DynStore>;

impl Store for Arc<dyn DynStore + '_> {
    async fn apply(&self, batch: &Batch) -> Result<Outcome, StoreError> {
        (**self).apply_boxed(batch).await
    }

    #[inline]
    fn apply_at_once(&self, batch: &Batch) -> Option<Outcome> {
        (**self).apply_at_once_dyn(batch)
    }

    #[inline]
    fn apply_one_at_once(&self, step: &Step) -> Option<(Timestamp, Verdict)> {
        (**self).apply_one_at_once_dyn(step)
    }

    #[inline]
    fn prefetch(&self, key: &Key) {
        (**self).prefetch_dyn(key);
    }

    async fn peek(&self, batch: &Batch) -> Result<Outcome, StoreError> {
        (**self).peek_boxed(batch).await
    }

    async fn wait(&self, batch: &Batch) -> Result<Retry, StoreError> {
        (**self).wait_boxed(batch).await
    }

    async fn refund(&self, batch: &Batch, outcome: &Outcome) -> Result<(), StoreError> {
        (**self).refund_boxed(batch, outcome).await
    }

    async fn reset(&self, keys: &[Key]) -> Result<(), StoreError> {
        (**self).reset_boxed(keys).await
    }

    async fn sweep(&self, budget: usize) -> Result<Swept, StoreError> {
        (**self).sweep_boxed(budget).await
    }

    fn is_partitioned(&self) -> bool {
        (**self).is_partitioned_dyn()
    }

    fn lost_at(&self) -> Option<Timestamp> {
        (**self).lost_at_dyn()
    }

    fn lost_ago(&self) -> Span {
        (**self).lost_ago_dyn()
    }

    fn patience(&self) -> Option<Span> {
        (**self).patience_dyn()
    }

    async fn health(&self) -> Health {
        (**self).health_boxed().await
    }

    async fn close(&self) -> Result<(), StoreError> {
        (**self).close_boxed().await
    }
}
