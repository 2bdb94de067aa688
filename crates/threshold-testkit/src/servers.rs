//! Real servers for tests: Postgres, Redis, a Redis Cluster, Redis under Sentinels, and workerd, which runs our Worker.
//!
//! A test that only needs a server takes a shared one: [`postgres()`], [`redis()`], [`redis_durable`], [`redis_cluster`], [`workerd()`].
//! `cargo xtask test` starts these once for all tests and says in the environment where they are; without it each test
//! process starts its own. A test keeps out of the way of others by a [`fresh_database`], or by a [`fresh_prefix`] of
//! its keys.
//!
//! A test that kills or misconfigures a server starts a private one: [`Postgres`], [`Redis`], [`RedisCluster`],
//! [`Sentinel`], [`Workerd`]; a [`Proxy`] or a [`Front`] stands between it and who asks, and makes the way bad. Dropped, it is stopped and its folder removed, however the test ends.

mod certificates;
mod cluster;
mod front;
mod postgres;
mod process;
mod proxy;
mod redis;
mod sentinel;
mod shared;
mod workerd;

pub use certificates::Certificates;
pub use cluster::RedisCluster;
pub use front::Front;
pub use postgres::{Database, Postgres, PostgresOptions};
pub use proxy::{Proxy, Way};
pub use redis::{Redis, RedisOptions};
pub use sentinel::Sentinel;
pub use shared::{fresh_database, fresh_prefix, postgres, redis, redis_cluster, redis_durable, workerd};
pub use workerd::Workerd;

use std::thread::sleep;
use std::time::Duration;

/// Asks again and again, for half a minute at most, until the answer is yes.
fn wait_until(mut answer: impl FnMut() -> bool) -> bool {
    const PAUSE: Duration = Duration::from_millis(25);
    (0..1200).any(|_| {
        answer() || {
            sleep(PAUSE);
            false
        }
    })
}
