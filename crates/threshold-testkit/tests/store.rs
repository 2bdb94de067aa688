//! What a store in SQLite acknowledged stays charged: its process killed at any moment, its disk full or broken at any
//! write.
#![cfg(target_os = "linux")]

#[path = "store/charged.rs"]
mod charged;
#[path = "store/disk.rs"]
mod disk;
#[path = "common/disk.rs"]
mod faults;
#[path = "store/kill.rs"]
mod kill;
