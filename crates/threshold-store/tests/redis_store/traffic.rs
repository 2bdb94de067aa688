//! The store that callers ask here, and what for.

use std::sync::Arc;

use threshold_core::AlgorithmKind;
use threshold_store::RedisStore;

pub(crate) use crate::callers::*;

pub(crate) type Tested = RedisStore;

/// Every algorithm whose state is a count; nothing of a limit comes back while a test lasts.
pub(crate) const COUNTED: [AlgorithmKind; 3] =
    [AlgorithmKind::TokenBucket, AlgorithmKind::FixedWindow, AlgorithmKind::SlidingWindow];

/// More than any test asks for before it drains it.
pub(crate) const LIMIT: u64 = 1_000_000;

pub(crate) async fn open(url: &str) -> Arc<Tested> {
    Arc::new(Tested::open(url, &secret(), None).await.unwrap())
}
