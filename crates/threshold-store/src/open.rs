//! Stores and ledgers by their addresses.

use std::path::Path;
use std::sync::Arc;

use threshold_core::{Secret, SharedLedger, SharedStore, StoreError, StoreErrorKind};

use crate::check::Check;
use crate::ledgers::MemoryLedger;
use crate::memory::MemoryStore;

/// The secret of now, and the one before if it still counts.
pub type SecretPair<'s> = (&'s Secret, Option<&'s Secret>);

/// What kind of place an address names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place<'u> {
    /// This process' memory.
    Memory,
    /// A file on this machine.
    File(&'u Path),
    /// A database in Postgres.
    Postgres,
    /// Redis or Valkey.
    Redis,
}

impl<'u> Place<'u> {
    /// The place that `url` names.
    ///
    /// # Errors
    ///
    /// If it is the address of nothing that is known here.
    pub fn of(url: &'u str) -> Result<Self, StoreError> {
        match url.split_once("://") {
            Some(("memory", "")) => Ok(Self::Memory),
            Some(("sqlite", path)) if !path.is_empty() => Ok(Self::File(Path::new(path))),
            Some(("postgres" | "postgresql", _)) => Ok(Self::Postgres),
            Some(("redis" | "rediss" | "redis+sentinel" | "redis+cluster", _)) => Ok(Self::Redis),
            _ => Err(unknown(url)),
        }
    }

    /// True if several nodes can use it.
    #[must_use]
    pub const fn is_shared(&self) -> bool {
        matches!(self, Self::Postgres | Self::Redis)
    }
}

/// True if keys need [partitions](threshold_core::Partition) at this address.
#[must_use]
pub fn is_partitioned(url: &str) -> bool {
    url.starts_with("redis+cluster://")
}

/// An address without the password in it, to be shown.
#[must_use]
pub fn without_password(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    match rest.rsplit_once('@') {
        Some((login, place)) => match login.split_once(':') {
            Some((user, _)) => format!("{scheme}://{user}:***@{place}"),
            None => url.to_owned(),
        },
        None => url.to_owned(),
    }
}

/// Opens the store at `url`. Needs tokio, except for `memory://` and `sqlite://`.
///
/// # Errors
///
/// If there is no such store, or it is not fit to keep limits; the error says what to do.
pub async fn open_store(url: &str, secrets: SecretPair<'_>) -> Result<SharedStore, StoreError> {
    let (secret, previous) = secrets;
    match Place::of(url)? {
        Place::Memory => Ok(Arc::new(MemoryStore::new())),
        #[cfg(feature = "sqlite")]
        Place::File(path) => Ok(Arc::new(crate::SqliteStore::open(path, secret, previous)?)),
        #[cfg(feature = "postgres")]
        Place::Postgres => {
            fit(url).await?;
            Ok(Arc::new(crate::PostgresStore::open(url, secret, previous).await?))
        }
        #[cfg(feature = "redis")]
        Place::Redis => Ok(Arc::new(crate::RedisStore::open(url, secret, previous).await?)),
        #[cfg(not(all(feature = "sqlite", feature = "postgres", feature = "redis")))]
        _ => Err(left_out(url, (secret, previous))),
    }
}

/// Opens the ledger at `url`. Needs tokio, except for `memory://` and `sqlite://`.
///
/// # Errors
///
/// If there is no such ledger, or it would not keep what it acknowledges; the error says what to do.
pub async fn open_ledger(url: &str, secrets: SecretPair<'_>) -> Result<SharedLedger, StoreError> {
    let (secret, previous) = secrets;
    match Place::of(url)? {
        Place::Memory => Ok(Arc::new(MemoryLedger::new())),
        #[cfg(feature = "sqlite")]
        Place::File(path) => Ok(Arc::new(crate::SqliteLedger::open(path, secret, previous)?)),
        #[cfg(feature = "postgres")]
        Place::Postgres => {
            fit(url).await?;
            Ok(Arc::new(crate::PostgresLedger::open(url, secret, previous).await?))
        }
        #[cfg(feature = "redis")]
        Place::Redis => {
            fit(url).await?;
            Ok(Arc::new(crate::RedisLedger::open(url, secret, previous).await?))
        }
        #[cfg(not(all(feature = "sqlite", feature = "postgres", feature = "redis")))]
        _ => Err(left_out(url, (secret, previous))),
    }
}

/// Refuses a server that cannot be written to, or whose clock is so far off that what still holds would be swept away.
/// What else may be wrong is told by whatever opens it.
#[cfg(any(feature = "postgres", feature = "redis"))]
async fn fit(url: &str) -> Result<(), StoreError> {
    let mut checks = examine(url).await;
    checks.retain(|check| ["clock", "role"].contains(&check.what));
    crate::check::all_well("open what is kept there", &checks)
}

/// What a server at `url` is like, whether or not it can be used: for `threshold doctor`. Nothing of a file is looked at
/// but whether it opens.
pub async fn examine(url: &str) -> Vec<Check> {
    match Place::of(url) {
        Err(error) => vec![Check::bad("address", error.to_string())],
        #[cfg(feature = "postgres")]
        Ok(Place::Postgres) => crate::postgres::examine(url).await,
        #[cfg(feature = "redis")]
        Ok(Place::Redis) => crate::redis::examine(url).await,
        Ok(_) => Vec::new(),
    }
}

/// [`examine`] for a ledger, which has to keep what it acknowledged.
pub async fn examine_ledger(url: &str) -> Vec<Check> {
    #[cfg_attr(not(feature = "redis"), expect(unused_mut, reason = "only Redis has more to be asked"))]
    let mut checks = examine(url).await;
    #[cfg(feature = "redis")]
    if matches!(Place::of(url), Ok(Place::Redis)) {
        checks.retain(|check| check.what != "persistence");
        checks.push(crate::ledgers::redis::examine(url).await);
    }
    checks
}

fn unknown(url: &str) -> StoreError {
    let shown = without_password(url);
    let detail = format!(
        "{shown:?} is the address of no store; write memory://, sqlite://PATH, postgres://…, redis://…, rediss://…, \
         redis+sentinel://… or redis+cluster://…"
    );
    StoreError::new(StoreErrorKind::Misconfigured, "read an address", detail)
}

#[cfg(not(all(feature = "sqlite", feature = "postgres", feature = "redis")))]
fn left_out(url: &str, _: SecretPair<'_>) -> StoreError {
    let scheme = url.split("://").next().unwrap_or_default();
    let detail = format!("{scheme}:// was left out of this build; switch on its feature of threshold-store");
    StoreError::new(StoreErrorKind::Misconfigured, "open a store", detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_shown() {
        assert_eq!(without_password("redis://me:p@ss@host:1/2"), "redis://me:***@host:1/2");
        assert_eq!(without_password("postgres://me@host/db"), "postgres://me@host/db");
        assert_eq!(without_password("memory://"), "memory://");
    }

    #[test]
    fn addresses_name_places() {
        assert_eq!(Place::of("memory://").ok(), Some(Place::Memory));
        assert_eq!(Place::of("sqlite://a/b").ok(), Some(Place::File(Path::new("a/b"))));
        assert!(Place::of("redis+cluster://a").is_ok_and(|place| place.is_shared()));
        for wrong in ["", "memory", "memory://x", "sqlite://", "mysql://a", "redis:a"] {
            let error = Place::of(wrong).expect_err(wrong).to_string();
            assert!(error.contains("sqlite://PATH"), "{error}");
        }
    }
}
