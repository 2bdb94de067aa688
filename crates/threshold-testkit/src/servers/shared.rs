//! The servers that tests share.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Database, Postgres, Redis, RedisCluster, Workerd};

/// Where a server is, and the server itself if this process started it. Statics are never dropped: such a server ends
/// because this process does.
type Shared<S> = OnceLock<(String, Option<S>)>;

#[expect(clippy::disallowed_methods, reason = "the run says where its servers are")]
fn find<S>(shared: &'static Shared<S>, variable: &str, start: impl FnOnce() -> (String, S)) -> &'static str {
    let (url, _) = shared.get_or_init(|| match std::env::var(variable) {
        Ok(url) => (url, None),
        Err(_) => {
            let (url, server) = start();
            (url, Some(server))
        }
    });
    url
}

/// The URL of a Postgres that other tests use too, as its superuser.
///
/// # Panics
///
/// If there is none and none can be started; with the remedy.
#[must_use]
pub fn postgres() -> &'static str {
    static SERVER: Shared<Postgres> = OnceLock::new();
    find(&SERVER, "THRESHOLD_TEST_POSTGRES", || {
        let server = Postgres::start();
        (server.url(), server)
    })
}

/// A database of one test's own on the shared Postgres.
///
/// # Panics
///
/// As [`postgres()`].
#[must_use]
pub fn fresh_database() -> Database {
    Database::on(postgres())
}

/// The URL of a Redis that other tests use too.
///
/// # Panics
///
/// If there is none and none can be started; with the remedy.
#[must_use]
pub fn redis() -> &'static str {
    static SERVER: Shared<Redis> = OnceLock::new();
    find(&SERVER, "THRESHOLD_TEST_REDIS", || {
        let server = Redis::start();
        (server.url(), server)
    })
}

/// The URL of a Redis that other tests use too and that has every write on disk before it answers.
///
/// # Panics
///
/// If there is none and none can be started; with the remedy.
#[must_use]
pub fn redis_durable() -> &'static str {
    static SERVER: Shared<Redis> = OnceLock::new();
    find(&SERVER, "THRESHOLD_TEST_REDIS_DURABLE", || {
        let server = Redis::durable();
        (server.url(), server)
    })
}

/// The URL of a Redis Cluster that other tests use too.
///
/// # Panics
///
/// If there is none and none can be started; with the remedy.
#[must_use]
pub fn redis_cluster() -> &'static str {
    static SERVER: Shared<RedisCluster> = OnceLock::new();
    find(&SERVER, "THRESHOLD_TEST_REDIS_CLUSTER", || {
        let server = RedisCluster::start();
        (server.url(), server)
    })
}

/// The URL of our Worker in a workerd that other tests use too, and that takes the time from who asks.
///
/// # Panics
///
/// If there is none and none can be started; with the remedy.
#[must_use]
pub fn workerd() -> &'static str {
    static SERVER: Shared<Workerd> = OnceLock::new();
    find(&SERVER, "THRESHOLD_TEST_WORKERD", || {
        let server = Workerd::timed();
        (server.url(), server)
    })
}

/// A prefix of keys that no other test of this run has.
#[must_use]
pub fn fresh_prefix() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}
