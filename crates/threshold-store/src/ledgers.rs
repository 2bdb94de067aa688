//! Where what must not be lost lives.
//!
//! | module | holds |
//! | --- | --- |
//! | [`memory`] | [`MemoryLedger`]: in process, for tests and for who can do without memory across restarts |

pub mod memory;

pub use memory::MemoryLedger;
