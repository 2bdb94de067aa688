//! Where what must not be lost lives.
//!
//! | module | holds |
//! | --- | --- |
//! | [`memory`] | [`MemoryLedger`]: in process, for tests and for who can do without memory across restarts |
#![cfg_attr(
    feature = "sqlite",
    doc = "| [`sqlite`] | [`SqliteLedger`]: in a file, for one machine; what it acknowledged survives |"
)]

pub mod memory;
#[cfg(feature = "sqlite")]
pub mod sqlite;

pub use memory::MemoryLedger;
#[cfg(feature = "sqlite")]
pub use sqlite::SqliteLedger;
