//! Tables in Postgres: made if they are missing, brought up to date, and refused if they are not ours.

use threshold_core::{Secret, StoreError, StoreErrorKind};
use tokio_postgres::{Client, Transaction};

use super::connect::Address;
use super::error::failed;

/// Held while tables are made or changed, so that of several nodes which start at once one does it. ("thrM")
const LOCK: i64 = 0x7468_724D;

/// Tables that belong together: a store's or a ledger's.
pub(crate) struct Part {
    /// Names it in the table of parts, and in errors.
    pub(crate) name: &'static str,
    /// Each brings the tables from the version of its place to the next. What was released is never changed.
    pub(crate) steps: &'static [&'static str],
}

/// The secret that hashes were made with, and one whose tables are taken over.
#[derive(Clone, Copy)]
pub(crate) struct Fingerprints {
    secret: u128,
    previous: Option<u128>,
}

impl Fingerprints {
    pub(crate) fn new(secret: &Secret, previous: Option<&Secret>) -> Self {
        Self { secret: secret.fingerprint(), previous: previous.map(Secret::fingerprint) }
    }
}

/// Brings a part's tables up to date, all or nothing, and sees that they belong to the secret.
///
/// # Errors
///
/// If they were made by a newer version or with another secret, or if the user may not make them; with the remedy.
pub(crate) async fn migrate(
    client: &mut Client,
    address: &Address,
    part: &Part,
    secrets: Fingerprints,
) -> Result<(), StoreError> {
    let transaction = client.transaction().await.map_err(failed(OPEN))?;
    transaction.execute("SELECT pg_advisory_xact_lock($1)", &[&LOCK]).await.map_err(failed(OPEN))?;
    make_schema(&transaction, address).await?;
    let found = transaction
        .query_opt("SELECT version, secret FROM parts WHERE name = $1", &[&part.name])
        .await
        .map_err(refused(address, "read the table parts"))?;
    let (version, stored) = match found {
        Some(row) => (row.get::<_, i32>(0), Some(row.get::<_, Vec<u8>>(1))),
        None => (0, None),
    };
    let Some(steps) = usize::try_from(version).ok().and_then(|from| part.steps.get(from..)) else {
        return Err(misconfigured(address, part, NEWER));
    };
    let secret = secrets.secret.to_be_bytes();
    let is = |secret: u128| stored.as_deref() == Some(secret.to_be_bytes().as_slice());
    if stored.is_some() && !is(secrets.secret) && !secrets.previous.is_some_and(is) {
        return Err(other_secret(address, part));
    }
    if steps.is_empty() && is(secrets.secret) {
        return Ok(());
    }
    for step in steps {
        transaction.batch_execute(step).await.map_err(refused(address, "make tables"))?;
    }
    let version = i32::try_from(part.steps.len()).unwrap_or(i32::MAX);
    let sql = "INSERT INTO parts (name, version, secret) VALUES ($1, $2, $3)
        ON CONFLICT (name) DO UPDATE SET version = excluded.version, secret = excluded.secret";
    let params: [&(dyn tokio_postgres::types::ToSql + Sync); 3] = [&part.name, &version, &secret.as_slice()];
    transaction.execute(sql, &params).await.map_err(refused(address, "write the table parts"))?;
    transaction.commit().await.map_err(failed(OPEN))
}

const OPEN: &str = "open the tables in Postgres";
const NEWER: &str =
    "were written by a newer version of Threshold; run that version, or restore a backup from before it";
const OTHER_SECRET: &str =
    "were made with another secret; give the secret they were made with, or give that one as the previous";

/// The schema, and in it what says which versions its tables have. Nothing is asked for that is there already: who may
/// use a schema need not be one who may make it.
async fn make_schema(transaction: &Transaction<'_>, address: &Address) -> Result<(), StoreError> {
    let schema = address.schema();
    let there = "SELECT to_regnamespace($1) IS NOT NULL, to_regclass($1 || '.parts') IS NOT NULL";
    let found = transaction.query_one(there, &[&schema]).await.map_err(failed(OPEN))?;
    if !found.get::<_, bool>(0) {
        let sql = format!("CREATE SCHEMA \"{schema}\"");
        transaction.batch_execute(&sql).await.map_err(refused(address, "make the schema"))?;
    }
    if !found.get::<_, bool>(1) {
        let sql = format!(
            "CREATE TABLE \"{schema}\".parts (name text PRIMARY KEY, version integer NOT NULL, secret bytea NOT NULL)"
        );
        transaction.batch_execute(&sql).await.map_err(refused(address, "make tables"))?;
    }
    Ok(())
}

/// The tables belong to another secret.
pub(super) fn other_secret(address: &Address, part: &Part) -> StoreError {
    misconfigured(address, part, OTHER_SECRET)
}

fn misconfigured(address: &Address, part: &Part, what: &str) -> StoreError {
    let detail = format!("the tables of the {} in {} {what}", part.name, place(address));
    StoreError::new(StoreErrorKind::Misconfigured, OPEN, detail)
}

/// An error of `act`; if a right is missing, with who has to grant what.
fn refused<'a>(
    address: &'a Address,
    act: &'static str,
) -> impl Fn(tokio_postgres::Error) -> StoreError + use<'a> {
    move |error| {
        if error.code() != Some(&tokio_postgres::error::SqlState::INSUFFICIENT_PRIVILEGE) {
            return failed(OPEN)(error);
        }
        let (schema, place) = (address.schema(), place(address));
        let detail = format!(
            "the user of the URL may not {act} in {place}; have an administrator run `CREATE SCHEMA IF NOT EXISTS \
             {schema}` and `GRANT USAGE, CREATE ON SCHEMA {schema} TO` that user, and give it the tables that are there"
        );
        StoreError::new(StoreErrorKind::Misconfigured, OPEN, detail).caused_by(error)
    }
}

fn place(address: &Address) -> String {
    format!("{}, schema {}", address.shown(), address.schema())
}
