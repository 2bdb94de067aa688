//! Where a batch runs atomically.
//!
//! | module | holds |
//! | --- | --- |
//! | [`memory`] | [`MemoryStore`]: in process, exact under threads, with a hard cap on its memory |
//! | [`ledgers`] | where what must not be lost lives: in memory, and with the feature `sqlite` in a file |
//! | [`clock`] | [`SystemClock`]: the operating system's time, read cheaply; the only clock read there is |
//! | [`entropy`] | a fresh [`Secret`](threshold_core::Secret); the only random numbers there are |

pub mod clock;
pub mod entropy;
pub mod ledgers;
pub mod memory;
mod prefetch;
mod sync;

pub use clock::SystemClock;
pub use entropy::{UniqueIds, random_secret, random_token};
pub use ledgers::MemoryLedger;
#[cfg(feature = "sqlite")]
pub use ledgers::SqliteLedger;
pub use memory::{MemoryStats, MemoryStore, MemoryStoreBuilder, MemoryStoreError};
