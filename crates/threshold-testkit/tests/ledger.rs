//! What a ledger in SQLite acknowledged survives: its process killed at any moment, its disk full or broken at any write.
#![cfg(target_os = "linux")]

#[path = "ledger/acknowledged.rs"]
mod acknowledged;
#[path = "ledger/disk.rs"]
mod disk;
#[path = "common/disk.rs"]
mod faults;
#[path = "ledger/kill.rs"]
mod kill;
