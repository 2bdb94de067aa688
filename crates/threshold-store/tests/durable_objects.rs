//! What only a store in Durable Objects can get wrong: opening it, losing its runtime in the middle, batches of several
//! shards; and the Worker itself, asked without our client: who may ask, what is malformed, its sweep, and its limits for
//! other Workers.
#![cfg(not(feature = "loom"))]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "common/callers.rs"]
mod callers;
#[path = "durable_objects/http.rs"]
mod http;
#[path = "durable_objects/limiter.rs"]
mod limiter;
#[path = "common/make.rs"]
mod make;
#[path = "durable_objects/opening.rs"]
mod opening;
#[path = "durable_objects/outage.rs"]
mod outage;
#[path = "durable_objects/shards.rs"]
mod shards;
#[path = "durable_objects/sweep.rs"]
mod sweep;
#[path = "durable_objects/tls.rs"]
mod tls;
#[path = "durable_objects/traffic.rs"]
mod traffic;
#[path = "durable_objects/worker.rs"]
mod worker;
