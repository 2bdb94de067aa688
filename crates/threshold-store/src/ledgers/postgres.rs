//! A ledger in Postgres, which several nodes share: what it acknowledged is still there after the server was killed.
//!
//! | module | holds |
//! | --- | --- |
//! | `keeper` | groups of entries, pages and sweeps, as SQL |
//! | `session` | a connection that is ready to work |

mod keeper;
mod session;

use std::future::Future;

use threshold_core::ledger::{Entry, Ledger, Page, Query, Retention, Written};
use threshold_core::{Health, Secret, StoreError, Timestamp};

use super::shared::desk::Desk;
use crate::check::Check;
use crate::open::SecretPair;
use crate::postgres::connect::Address;
use crate::postgres::examine::look_at;
use crate::postgres::migrate::{Fingerprints, Part};
use keeper::Tables;

const LEDGER: Part = Part { name: "ledger", steps: &[include_str!("postgres/migrations/0001.sql")] };

/// What the server of a ledger is like. Nothing is changed there.
pub(crate) async fn examine(url: &str, secrets: Option<SecretPair<'_>>) -> Vec<Check> {
    look_at(Address::parse(url), &LEDGER, secrets).await
}

/// A ledger in Postgres. Clones share it; when the last one is gone, so is its thread.
///
/// What was written is on the server's disk when it is acknowledged (`synchronous_commit` is at least `on`), and reaches
/// the other nodes at once: they listen. A future that is dropped before it is ready, and one that fails because the
/// connection was lost, may or may not have written; nothing is tried twice.
#[derive(Clone)]
pub struct PostgresLedger(Desk);

impl PostgresLedger {
    /// Opens the ledger in the database of `url`, and makes its tables if they are missing. Its subjects belong to
    /// `secret`; a ledger that was made with the `previous` secret is taken over.
    ///
    /// The URL is `postgres://user:password@host:port/database`, with `sslmode` and `sslrootcert` as libpq knows them and
    /// the `schema` of the tables (`threshold` if it is not given). Without an `sslmode` the server has to prove its name
    /// (`verify-full`) unless it is on this machine (`prefer`). A pooler in between must keep a session to itself.
    ///
    /// # Errors
    ///
    /// If the server cannot be reached, or if the tables cannot be made, or were made with another secret or by a newer
    /// version; the error says what to do.
    pub async fn open(url: &str, secret: &Secret, previous: Option<&Secret>) -> Result<Self, StoreError> {
        let (address, secrets) = (Address::parse(url)?, Fingerprints::new(secret, previous));
        Desk::start(async move || Tables::open(address, secrets).await).await.map(Self)
    }
}

impl Ledger for PostgresLedger {
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
