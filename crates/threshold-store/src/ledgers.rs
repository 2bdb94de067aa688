//! Where what must not be lost lives.
//!
//! | module | holds |
//! | --- | --- |
//! | [`memory`] | [`MemoryLedger`]: in process, for tests and for who can do without memory across restarts |
#![cfg_attr(
    feature = "sqlite",
    doc = "| [`sqlite`] | [`SqliteLedger`]: in a file, for one machine; what it acknowledged survives |"
)]
#![cfg_attr(
    feature = "postgres",
    doc = "| [`postgres`] | [`PostgresLedger`]: in Postgres, shared by several nodes; what it acknowledged survives |"
)]
#![cfg_attr(
    feature = "redis",
    doc = "| [`redis`] | [`RedisLedger`]: in Redis or Valkey, shared by several nodes; survives a kill, but no failover |"
)]

pub mod memory;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(any(feature = "postgres", feature = "redis"))]
mod shared;
#[cfg(feature = "sqlite")]
pub mod sqlite;

pub use memory::MemoryLedger;
#[cfg(feature = "postgres")]
pub use postgres::PostgresLedger;
#[cfg(feature = "redis")]
pub use redis::RedisLedger;
#[cfg(feature = "sqlite")]
pub use sqlite::SqliteLedger;
