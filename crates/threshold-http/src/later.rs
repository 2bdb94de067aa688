//! What is left to do when a request has ended, whoever ended it.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// Runs `work` beside whatever runs now, however long it takes; outside of a runtime not at all.
#[cfg(feature = "websocket")]
pub(crate) fn beside(work: impl Future<Output = ()> + Send + 'static) {
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn(work);
    }
}

/// Runs `work`: at once if it waits for nothing, as with a store in memory, or else beside whatever runs now. Outside of a
/// runtime what has to wait is left undone: permits lapse by themselves, and bytes stay charged.
pub(crate) fn run(work: impl Future<Output = ()> + Send + 'static) {
    let mut work = Box::pin(work);
    let mut context = Context::from_waker(Waker::noop());
    if let Poll::Pending = pin!(&mut work).poll(&mut context)
        && let Ok(runtime) = tokio::runtime::Handle::try_current()
    {
        runtime.spawn(work);
    }
}
