//! What becomes of limits when their stores fail: real servers that are killed, cut off and replaced, and what clients saw.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![expect(clippy::disallowed_methods, reason = "these tests wait for real servers, in real time")]

#[path = "failure/common.rs"]
mod common;
#[path = "failure/cut_off.rs"]
mod cut_off;
#[path = "failure/killed.rs"]
mod killed;
#[path = "failure/leases.rs"]
mod leases;
#[path = "failure/second_store.rs"]
mod second_store;
#[path = "failure/targets.rs"]
mod targets;
