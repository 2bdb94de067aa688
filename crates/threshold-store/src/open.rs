//! Stores and ledgers by their addresses.

use std::path::Path;
use std::sync::Arc;

use threshold_core::{Secret, SharedLedger, SharedStore, StoreError, StoreErrorKind, Timestamp};

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
    /// A Worker with Durable Objects, which keeps counters and no ledger.
    DurableObjects,
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
            Some(("durable-object+https" | "durable-object+http", _)) => Ok(Self::DurableObjects),
            _ => Err(unknown(url)),
        }
    }

    /// True if several nodes can use it.
    #[must_use]
    pub const fn is_shared(&self) -> bool {
        matches!(self, Self::Postgres | Self::Redis | Self::DurableObjects)
    }
}

/// True if keys need [partitions](threshold_core::Partition) at this address.
#[must_use]
pub fn is_partitioned(url: &str) -> bool {
    url.starts_with("redis+cluster://") || url.starts_with(WORKER)
}

/// The same address with the Worker's token in it, where it names a Worker and has none: tokens are seldom written where
/// addresses are.
#[must_use]
pub fn with_token(url: &str, token: &str) -> String {
    match url.split_once("://") {
        Some((scheme, place)) if scheme.starts_with(WORKER) && !place.contains('@') => {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
            let written = token.bytes().map(|byte| match plain(byte) {
                true => char::from(byte).to_string(),
                false => format!("%{byte:02X}"),
            });
            format!("{scheme}://{}@{place}", written.collect::<String>())
        }
        _ => url.to_owned(),
    }
}

/// How the addresses of Workers begin.
const WORKER: &str = "durable-object+";

/// The parameters of an address that are shown as they are. What else there is may be a password.
const SHOWN: [&str; 16] = [
    "application_name",
    "ca",
    "connect_timeout",
    "dbname",
    "host",
    "hostaddr",
    "pool",
    "port",
    "prefix",
    "schema",
    "sslmode",
    "sslrootcert",
    "synchronous_commit",
    "timeout",
    "tls",
    "user",
];

/// An address without the password in it, to be shown. What may be one is hidden too: from the first colon to the last
/// `@`, and the values of parameters that are not known to be harmless.
#[must_use]
pub fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return without_scheme(url) };
    if scheme == "sqlite" {
        return url.to_owned();
    }
    let (place, parameters) = rest.split_once('?').unwrap_or((rest, ""));
    let place = match (place.split_once(':'), place.rsplit_once('@')) {
        // It may end a password that has a ? in it: all from the colon on may be that.
        (Some((first, _)), _) if parameters.contains('@') => return format!("{scheme}://{first}:***"),
        (Some((user, _)), Some((login, place))) if login.contains(':') => format!("{user}:***@{place}"),
        // A user alone; to Redis it is more often a password whose colon was forgotten.
        // So it may be where the scheme is none of ours.
        (_, Some((_, place))) if scheme != "postgres" && scheme != "postgresql" => format!("***@{place}"),
        _ => place.to_owned(),
    };
    if parameters.is_empty() {
        return format!("{scheme}://{place}");
    }
    let shown = |parameter: &str| match parameter.split_once('=') {
        Some((name, _)) if !SHOWN.contains(&name) => format!("{name}=***"),
        None if !parameter.is_empty() => "***".to_owned(),
        _ => parameter.to_owned(),
    };
    let parameters: Vec<String> = parameters.split('&').map(shown).collect();
    format!("{scheme}://{place}?{}", parameters.join("&"))
}

/// The beginning of what is no address, if more of it could be a password.
fn without_scheme(text: &str) -> String {
    match text.contains(['@', '=']) {
        true => format!("{}…", text.split(['@', '=', ':', ' ']).next().unwrap_or_default()),
        false => text.to_owned(),
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
        #[cfg(feature = "durable-objects")]
        Place::DurableObjects => Ok(Arc::new(crate::DurableObjectsStore::open(url, secret, previous).await?)),
        #[cfg(not(all(
            feature = "durable-objects",
            feature = "sqlite",
            feature = "postgres",
            feature = "redis"
        )))]
        _ => Err(left_out(url, (secret, previous))),
    }
}

/// [`open_store`] by a node that may have been there before, with what it remembered then. What to remember this time comes
/// with the store; none if that kind of store loses nothing.
///
/// # Errors
///
/// As for [`open_store`].
pub async fn open_store_again(
    url: &str,
    secrets: SecretPair<'_>,
    remembered: Option<Timestamp>,
) -> Result<(SharedStore, Option<Timestamp>), StoreError> {
    match (Place::of(url)?, remembered) {
        #[cfg(feature = "redis")]
        (Place::Redis, remembered) => {
            let store = crate::RedisStore::open_again(url, secrets, remembered.unwrap_or_default()).await?;
            let since = store.since();
            Ok((Arc::new(store), Some(since)))
        }
        _ => Ok((open_store(url, secrets).await?, None)),
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
        Place::DurableObjects => Err(no_ledger()),
        #[cfg(not(all(feature = "sqlite", feature = "postgres", feature = "redis")))]
        _ => Err(left_out(url, (secret, previous))),
    }
}

/// Refuses a server that cannot be written to, or whose clock is so far off that what still holds would be swept away.
/// What else may be wrong is told by whatever opens it.
#[cfg(any(feature = "postgres", feature = "redis"))]
async fn fit(url: &str) -> Result<(), StoreError> {
    let mut checks = examine(url, None).await;
    if let Some(check) =
        checks.iter().find(|check| check.what == "connection" && check.grade == crate::check::Grade::Bad)
    {
        return Err(StoreError::new(
            StoreErrorKind::Unavailable,
            "open what is kept there",
            check.said.clone(),
        ));
    }
    checks.retain(|check| ["clock", "role"].contains(&check.what));
    crate::check::all_well("open what is kept there", &checks)
}

/// What the store at `url` is like, whether or not it can be used: for `threshold doctor`. Of a file that is not there
/// nothing is said. If the secrets are known, it is compared whose the store is; nothing is kept there.
pub async fn examine(url: &str, secrets: Option<SecretPair<'_>>) -> Vec<Check> {
    match Place::of(url) {
        Err(error) => vec![Check::bad("address", error.to_string())],
        Ok(Place::Memory) => Vec::new(),
        #[cfg(feature = "sqlite")]
        Ok(Place::File(path)) => crate::sqlite::examine(path, secrets),
        #[cfg(feature = "postgres")]
        Ok(Place::Postgres) => crate::postgres::examine(url, secrets).await,
        #[cfg(feature = "redis")]
        Ok(Place::Redis) => crate::redis::examine(url, secrets).await,
        #[cfg(feature = "durable-objects")]
        Ok(Place::DurableObjects) => crate::durable_objects::examine(url, secrets).await,
        #[cfg(not(all(
            feature = "durable-objects",
            feature = "sqlite",
            feature = "postgres",
            feature = "redis"
        )))]
        Ok(_) => not_built(url, secrets),
    }
}

/// [`examine`] for a ledger, which has to keep what it acknowledged.
pub async fn examine_ledger(url: &str, secrets: Option<SecretPair<'_>>) -> Vec<Check> {
    match Place::of(url) {
        Err(error) => vec![Check::bad("address", error.to_string())],
        Ok(Place::Memory) => Vec::new(),
        #[cfg(feature = "sqlite")]
        Ok(Place::File(path)) => crate::ledgers::sqlite::examine(path, secrets),
        #[cfg(feature = "postgres")]
        Ok(Place::Postgres) => crate::ledgers::postgres::examine(url, secrets).await,
        #[cfg(feature = "redis")]
        Ok(Place::Redis) => crate::ledgers::redis::examine(url, secrets).await,
        Ok(Place::DurableObjects) => vec![Check::bad("address", no_ledger().to_string())],
        #[cfg(not(all(feature = "sqlite", feature = "postgres", feature = "redis")))]
        Ok(_) => not_built(url, secrets),
    }
}

/// What is held against somebody is read by every node within a second, and listed; objects by the hundred are no place
/// for that.
fn no_ledger() -> StoreError {
    let detail = "Durable Objects keep counters and no ledger; name another place for it, such as postgres://… or redis://…";
    StoreError::new(StoreErrorKind::Misconfigured, "open a ledger", detail)
}

fn unknown(url: &str) -> StoreError {
    let shown = without_password(url);
    let detail = format!(
        "{shown:?} is the address of no store; write memory://, sqlite://PATH, postgres://…, redis://…, rediss://…, \
         redis+sentinel://…, redis+cluster://… or durable-object+https://…"
    );
    StoreError::new(StoreErrorKind::Misconfigured, "read an address", detail)
}

#[cfg(not(all(feature = "durable-objects", feature = "sqlite", feature = "postgres", feature = "redis")))]
fn left_out(url: &str, _: SecretPair<'_>) -> StoreError {
    let scheme = url.split("://").next().unwrap_or_default();
    let detail = format!("{scheme}:// was left out of this build; switch on its feature of threshold-store");
    StoreError::new(StoreErrorKind::Misconfigured, "open a store", detail)
}

#[cfg(not(all(feature = "durable-objects", feature = "sqlite", feature = "postgres", feature = "redis")))]
fn not_built(url: &str, _: Option<SecretPair<'_>>) -> Vec<Check> {
    let secret = crate::random_secret();
    vec![Check::bad("address", left_out(url, (&secret, None)).to_string())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_shown() {
        assert_eq!(without_password("redis://me:p@ss@host:1/2"), "redis://me:***@host:1/2");
        assert_eq!(without_password("postgres://me@host/db"), "postgres://me@host/db");
        assert_eq!(without_password("memory://"), "memory://");
        assert_eq!(without_password("sqlite://a:b@c?d=e"), "sqlite://a:b@c?d=e");
        assert_eq!(
            without_password("postgres:///limits?host=/run&password=hunter2&schema=a"),
            "postgres:///limits?host=/run&password=***&schema=a"
        );
        assert_eq!(without_password("redis://:hunter2@a:1,b:2/main"), "redis://:***@a:1,b:2/main");
    }

    #[test]
    fn no_form_of_an_address_shows_a_password() {
        for url in [
            "redis://me:hunter2@host",
            "redis://:hunter2@host",
            "redis://hunter2@host:1",
            "redis://me:x/hunter2@host",
            "redis://me:x?hunter2@host",
            "redis://me:x?y=hunter2@host",
            "redis://me:x#hunter2@host?prefix=a",
            "redis://me:x@hunter2@host",
            "redis+sentinel://me:hunter2@a,b/main",
            "postgres://me:hunter2@a,b/limits?sslmode=disable",
            "postgres://me:x@host/limits?password=hunter2",
            "postgres://host/limits?password=x@hunter2",
            "postgres://host:1/limits?password=x@hunter2&password=hunter2",
            "postgres://host/limits?password=hunter2:x@y",
            "postgres://host/limits?PASSWORD=hunter2&sslpassword=hunter2",
            "postgres://host/limits?pass%77ord=hunter2",
            "postgres://host/limits?hunter2",
            "durable-object+https://hunter2@host/limits",
            "durable-object+https://:hunter2@host?prefix=a",
            "durable-object+http://x?hunter2@host",
            "mysql://me:hunter2@host",
            "durable-object://hunter2@host",
            "durable-objects+https://hunter2@host",
            "https://hunter2@host/path",
            "redis:me:hunter2@host",
            "host=a user=b password=hunter2",
        ] {
            let shown = without_password(url);
            assert!(!shown.contains("hunter2"), "{url}: {shown}");
        }
    }

    #[test]
    fn a_token_goes_where_there_is_none() {
        let with = |url| with_token(url, "a/b c");
        assert_eq!(
            with("durable-object+https://host/x?prefix=a"),
            "durable-object+https://a%2Fb%20c@host/x?prefix=a"
        );
        for url in ["durable-object+https://token@host", "redis://host", "memory://", "nonsense"] {
            assert_eq!(with(url), url);
        }
    }

    #[test]
    fn addresses_name_places() {
        assert_eq!(Place::of("memory://").ok(), Some(Place::Memory));
        assert_eq!(Place::of("sqlite://a/b").ok(), Some(Place::File(Path::new("a/b"))));
        assert!(Place::of("redis+cluster://a").is_ok_and(|place| place.is_shared()));
        for worker in ["durable-object+https://t@a", "durable-object+http://t@a"] {
            assert!(Place::of(worker).is_ok_and(|place| place.is_shared()) && is_partitioned(worker));
        }
        for wrong in ["", "memory", "memory://x", "sqlite://", "mysql://a", "redis:a"] {
            let error = Place::of(wrong).expect_err(wrong).to_string();
            assert!(error.contains("sqlite://PATH"), "{error}");
        }
    }
}
