//! One deadline for one decision, however often the store has to be asked for it.

use threshold_core::{Clock, Span, Store, StoreError, Timestamp};

use super::NodeStore;

impl<S: Store, C: Clock> NodeStore<S, C> {
    /// Waits for `asking` until as long after `begun` as the store keeps anybody waiting for one answer.
    pub(super) async fn in_time<R>(
        &self,
        begun: Timestamp,
        asking: impl Future<Output = Result<R, StoreError>>,
    ) -> Result<R, StoreError> {
        let Some(patience) = self.store.inner().patience() else { return asking.await };
        let left = patience.as_micros().saturating_sub(self.clock.now().since(begun).as_micros());
        within(Span::from_micros(left), asking).await
    }
}

#[cfg(any(feature = "durable-objects", feature = "postgres", feature = "redis"))]
async fn within<R>(left: Span, asking: impl Future<Output = Result<R, StoreError>>) -> Result<R, StoreError> {
    let left = std::time::Duration::from_micros(left.as_micros());
    tokio::time::timeout(left, asking).await.unwrap_or_else(|_| {
        let detail = "the store had to be asked several times, and that took too long";
        Err(StoreError::new(threshold_core::StoreErrorKind::Timeout, "decide", detail))
    })
}

/// No store of this build makes anybody wait.
#[cfg(not(any(feature = "durable-objects", feature = "postgres", feature = "redis")))]
async fn within<R>(_: Span, asking: impl Future<Output = Result<R, StoreError>>) -> Result<R, StoreError> {
    asking.await
}
