//! Where a batch runs atomically.
//!
//! | module | holds |
//! | --- | --- |
//! | [`memory`] | [`MemoryStore`]: in process, exact under threads, with a hard cap on its memory |
#![cfg_attr(
    feature = "durable-objects",
    doc = "| [`durable_objects`] | [`DurableObjectsStore`]: in Durable Objects of Cloudflare, shared by many nodes |"
)]
#![cfg_attr(
    feature = "postgres",
    doc = "| [`postgres`](mod@postgres) | [`PostgresStore`]: in a Postgres database, shared by many nodes |"
)]
#![cfg_attr(
    feature = "redis",
    doc = "| [`redis`](mod@redis) | [`RedisStore`]: in Redis or Valkey, shared by many nodes |"
)]
#![cfg_attr(
    feature = "sqlite",
    doc = "| [`sqlite`] | [`SqliteStore`]: in a file, exact and durable, for one process |"
)]
//! | [`node`] | [`NodeStore`]: what stands between a node and its store: leases, known refusals, and what to do without it |
//! | [`ledgers`] | where what must not be lost lives: in memory, in a file, in Postgres, in Redis |
//! | [`open`] | stores and ledgers by their addresses |
//! | [`check`] | what they are looked at for before they are used |
//! | [`clock`] | [`SystemClock`]: the operating system's time, read cheaply; the only clock read there is |
//! | [`entropy`] | a fresh [`Secret`](threshold_core::Secret); the only random numbers there are |

#[cfg(any(feature = "durable-objects", feature = "redis"))]
mod across;
#[cfg(any(feature = "durable-objects", feature = "postgres"))]
mod authorities;
pub mod check;
pub mod clock;
#[cfg(feature = "durable-objects")]
pub mod durable_objects;
pub mod entropy;
mod halves;
pub mod ledgers;
pub mod memory;
pub mod node;
pub mod open;
#[cfg(feature = "postgres")]
pub mod postgres;
mod prefetch;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(feature = "sqlite")]
pub mod sqlite;
mod sync;

pub use clock::SystemClock;
#[cfg(feature = "durable-objects")]
pub use durable_objects::{DurableObjectsStats, DurableObjectsStore};
pub use entropy::{UniqueIds, random_secret, random_token};
pub use ledgers::MemoryLedger;
#[cfg(feature = "postgres")]
pub use ledgers::PostgresLedger;
#[cfg(feature = "redis")]
pub use ledgers::RedisLedger;
#[cfg(feature = "sqlite")]
pub use ledgers::SqliteLedger;
pub use memory::{MemoryStats, MemoryStore, MemoryStoreBuilder, MemoryStoreError};
pub use node::{NodeSettings, NodeStats, NodeStore};
pub use open::{
    examine, examine_ledger, is_partitioned, open_ledger, open_store, open_store_again, without_password,
};
#[cfg(feature = "postgres")]
pub use postgres::{PostgresStats, PostgresStore};
#[cfg(feature = "redis")]
pub use redis::{RedisStats, RedisStore};
#[cfg(feature = "sqlite")]
pub use sqlite::{SqliteStats, SqliteStore};
