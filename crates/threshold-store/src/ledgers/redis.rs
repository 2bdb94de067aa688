//! A ledger in Redis or Valkey, which several nodes share.
//!
//! What it acknowledged is still there after the server was killed: it is opened only where every write is on disk before
//! it is answered (`appendonly yes`, `appendfsync always`). **It does not survive a failover**: replicas are written to
//! later, so a replica that takes over may lack the last bans that were acknowledged. Where that matters the ledger
//! belongs into Postgres.
//!
//! | module | holds |
//! | --- | --- |
//! | `keeper` | groups of entries, pages and sweeps |
//! | `script` | the scripts in Lua, beside it in files of their own |
//! | `opening` | what is looked at before the first entry |

mod keeper;
mod opening;
mod script;

use std::future::Future;
use std::time::Duration;

use threshold_core::ledger::{Entry, Ledger, Page, Query, Retention, Written};
use threshold_core::{Health, Secret, StoreError, Timestamp};

use super::shared::desk::Desk;
use crate::check::Check;
use crate::open::SecretPair;
use crate::redis::Place;
use crate::redis::line::Line;
use crate::redis::opening::checks;
use keeper::Hashes;

/// How long an answer is waited for when the server is only looked at.
const PATIENCE: Duration = Duration::from_secs(1);

/// A ledger in Redis or Valkey. Clones share it; when the last one is gone, so is its thread.
///
/// It survives a restart and a kill of the server, and **not a failover** to a replica. What it writes reaches the other
/// nodes at once: they are subscribed. A future that is dropped before it is ready, and one that fails because the
/// connection was lost, may or may not have written; nothing is tried twice that may have been done.
#[derive(Clone)]
pub struct RedisLedger(Desk);

/// What the server at `url` is like, and whether it keeps what it acknowledges. The ledger stays as it is.
pub(crate) async fn examine(url: &str, secrets: Option<SecretPair<'_>>) -> Vec<Check> {
    let line = match Place::read(url) {
        Ok(place) => Line::open(Place { timeout: PATIENCE.max(place.timeout), ..place }).await,
        Err(error) => Err(error),
    };
    let line = match line {
        Ok(line) => line,
        Err(error) => return vec![Check::bad("connection", error.to_string())],
    };
    let mut checks = checks(&line).await;
    // A store may lose what it acknowledged, and a ledger may not.
    checks.retain(|check| check.what != "persistence");
    checks.push(match opening::look(&line).await {
        Ok(()) => {
            Check::good("persistence", "what is acknowledged is on the disk; a failover may still lose it")
        }
        Err(error) => Check::bad("persistence", error.to_string()),
    });
    if let Some(secrets) = secrets {
        checks.push(opening::secret(&line, secrets).await);
    }
    checks
}

impl RedisLedger {
    /// Opens the ledger at `url`, which has the forms that [`RedisStore::open`](crate::RedisStore::open) takes; all of it
    /// is under one hash tag, so that it is in one place of a cluster. Its subjects belong to `secret`; a ledger that was
    /// made with the `previous` secret is taken over.
    ///
    /// # Errors
    ///
    /// If the server cannot be reached, acknowledges what is not on its disk yet, may evict, or holds a ledger that was
    /// made with another secret or by a newer version; the error says what to do.
    pub async fn open(url: &str, secret: &Secret, previous: Option<&Secret>) -> Result<Self, StoreError> {
        let place = Place::read(url)?;
        let secrets = (secret.fingerprint(), previous.map(Secret::fingerprint));
        Desk::start(async move || Hashes::open(place, secrets).await).await.map(Self)
    }
}

impl Ledger for RedisLedger {
    fn write(&self, entries: &[Entry]) -> impl Future<Output = Result<Vec<Written>, StoreError>> + Send {
        self.0.write(entries)
    }

    fn read(&self, query: &Query) -> impl Future<Output = Result<Page, StoreError>> + Send {
        self.0.read(query)
    }

    fn sweep(
        &self,
        now: Timestamp,
        retention: &Retention,
    ) -> impl Future<Output = Result<usize, StoreError>> + Send {
        self.0.sweep(now, retention)
    }

    fn changed(&self) -> impl Future<Output = ()> + Send {
        self.0.changed()
    }

    fn health(&self) -> impl Future<Output = Health> + Send {
        self.0.health()
    }

    fn close(&self) -> impl Future<Output = Result<(), StoreError>> + Send {
        self.0.close()
    }
}
