//! Where a batch runs atomically.
//!
//! | module | holds |
//! | --- | --- |
//! | [`memory`] | [`MemoryStore`]: in process, exact under threads, with a hard cap on its memory |
//! | [`ledgers`] | [`MemoryLedger`]: where what must not be lost lives |
//! | [`clock`] | [`SystemClock`]: the operating system's time, read cheaply; the only clock read there is |
//! | [`entropy`] | a fresh [`Secret`](threshold_core::Secret); the only random numbers there are |

pub mod clock;
pub mod entropy;
pub mod ledgers;
pub mod memory;
mod prefetch;
mod sync;

pub use clock::SystemClock;
pub use entropy::random_secret;
pub use ledgers::MemoryLedger;
pub use memory::{MemoryStats, MemoryStore, MemoryStoreBuilder, MemoryStoreError};
