//! The store that callers ask here, and what for.

use std::sync::Arc;

use threshold_core::AlgorithmKind;
use threshold_store::DurableObjectsStore;

pub(crate) use crate::callers::*;

pub(crate) type Tested = DurableObjectsStore;

/// Every algorithm that counts; nothing of a limit comes back while a test lasts.
pub(crate) const COUNTED: [AlgorithmKind; 4] = [
    AlgorithmKind::TokenBucket,
    AlgorithmKind::FixedWindow,
    AlgorithmKind::SlidingWindow,
    AlgorithmKind::SlidingLog,
];

/// More than any test asks for before it drains it.
pub(crate) const LIMIT: u64 = 10_000;

pub(crate) async fn open(url: &str) -> Arc<Tested> {
    Arc::new(Tested::open(url, &secret(), None).await.unwrap())
}
