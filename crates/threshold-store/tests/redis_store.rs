//! What only a store in Redis can get wrong: opening it, losing its server, its scripts or its master, sharing it, and the
//! partitions and moving slots of a cluster.
#![cfg(not(feature = "loom"))]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "common/callers.rs"]
mod callers;
#[path = "redis_store/cluster.rs"]
mod cluster;
#[path = "redis_store/lifetime.rs"]
mod lifetime;
#[path = "common/make.rs"]
mod make;
#[path = "redis_store/opening.rs"]
mod opening;
#[path = "redis_store/outage.rs"]
mod outage;
#[path = "redis_store/sharing.rs"]
mod sharing;
#[path = "redis_store/traffic.rs"]
mod traffic;
