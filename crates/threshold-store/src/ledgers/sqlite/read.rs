//! What is written down, a page at a time.

use rusqlite::{Connection, Params, Result, Row, params};
use threshold_core::StoreError;
use threshold_core::ledger::{ERASING, Override, PAGE, Page, Query, Record, Tenant};

use super::codec::{self, Col, Kept};
use crate::sqlite::error::failed;

/// How a row becomes a record.
type Read = fn(&Row<'_>) -> Result<Record>;

/// Everything within one transaction: what another process writes meanwhile does not come between.
pub(super) fn page(connection: &mut Connection, query: &Query) -> Result<Page, StoreError> {
    let mut read = || {
        let transaction = connection.transaction()?;
        let records = records(&transaction, query)?;
        transaction.commit()?;
        Ok(records)
    };
    read().map(|records| Page::of(records, query)).map_err(failed("read the ledger"))
}

/// Up to one record more than a page.
fn records(on: &Connection, query: &Query) -> Result<Vec<Record>> {
    match query {
        Query::Changes { after } => changes(on, *after),
        Query::Sanctions { subject, active_at, after } => {
            let active = if active_at.is_some() { "lifted_at IS NULL AND until > ?3" } else { "?3 IS NULL" };
            let wanted = format!("{} AND {active}", only("subject", subject.is_some()));
            let params = params![number(*after), subject.map(Col), active_at.map(Col)];
            list(on, &ordered(codec::SANCTION, "sanctions", "id", &wanted), params, sanction)
        }
        Query::Standing(subject) => {
            let sql = format!("SELECT {} FROM standings WHERE subject = ?", codec::STANDING);
            list(on, &sql, [Col(*subject)], standing)
        }
        Query::Violations { subject, after } => {
            let sql = ordered(codec::VIOLATION, "violations", "id", &only("subject", subject.is_some()));
            list(on, &sql, params![number(*after), subject.map(Col)], violation)
        }
        Query::LatestViolations { subject, before } => {
            let sql = latest(codec::VIOLATION, "violations", &only("subject", subject.is_some()));
            list(on, &sql, params![end(*before), subject.map(Col)], violation)
        }
        Query::Overrides { after } => {
            let sql = ordered(codec::OVERRIDE, "overrides", "version", "removed_at IS NULL");
            list(on, &sql, [number(*after)], overriding)
        }
        Query::Tenants { after } => {
            let sql = ordered(codec::TENANT, "tenants", "version", "removed_at IS NULL");
            list(on, &sql, [number(*after)], tenant)
        }
        Query::Failures(source) => {
            let sql = format!("SELECT {} FROM failures WHERE source = ?", codec::FAILURES);
            list(on, &sql, [Col(*source)], failures)
        }
        Query::Lockouts { at, account, after } => {
            let wanted = format!("{} AND locked_until > ?3", only("account", account.is_some()));
            let params = params![number(*after), account.map(Col), Col(*at)];
            list(on, &ordered(codec::FAILURES, "failures", "version", &wanted), params, failures)
        }
        Query::Device { account, device } => {
            let sql = format!("SELECT {} FROM devices WHERE account = ? AND device = ?", codec::DEVICE);
            list(on, &sql, [Col(*account), Col(*device)], known)
        }
        Query::Audit { after } => {
            list(on, &ordered(codec::AUDIT, "audit", "id", "TRUE"), [number(*after)], audit)
        }
        Query::LatestAudit { before } => {
            list(on, &latest(codec::AUDIT, "audit", "TRUE"), [end(*before)], audit)
        }
    }
}

/// Each table's part by its own index, then the first of all.
fn changes(on: &Connection, after: u64) -> Result<Vec<Record>> {
    let parts: [(&str, &str, Read); 4] = [
        (codec::STANDING, "standings", standing),
        (codec::SANCTION, "sanctions", sanction),
        (codec::OVERRIDE, "overrides", overriding),
        (codec::TENANT, "tenants", tenant),
    ];
    let mut records = Vec::new();
    for (columns, table, read) in parts {
        records.extend(list(on, &ordered(columns, table, "version", "TRUE"), [number(after)], read)?);
    }
    let erasing = format!("action IN ('{}')", ERASING.join("', '"));
    records.extend(list(on, &ordered(codec::AUDIT, "audit", "id", &erasing), [number(after)], audit)?);
    records.sort_by_key(|record| record.number(&Query::Changes { after }));
    records.truncate(PAGE + 1);
    Ok(records)
}

fn ordered(columns: &str, table: &str, number: &str, wanted: &str) -> String {
    let most = PAGE + 1;
    format!("SELECT {columns} FROM {table} WHERE {number} > ?1 AND {wanted} ORDER BY {number} LIMIT {most}")
}

/// The same backwards.
fn latest(columns: &str, table: &str, wanted: &str) -> String {
    let most = PAGE + 1;
    format!("SELECT {columns} FROM {table} WHERE id < ?1 AND {wanted} ORDER BY id DESC LIMIT {most}")
}

/// The condition that the second parameter is this column, or that there is none. Two texts, because one for both cases
/// would keep SQLite from using the index.
fn only(column: &str, given: bool) -> String {
    if given { format!("{column} = ?2") } else { "?2 IS NULL".to_owned() }
}

/// Numbers count from 1 and never come near the largest integer: what is beyond it comes after everything.
fn number(after: u64) -> i64 {
    i64::try_from(after).unwrap_or(i64::MAX)
}

/// The number after the first: 0 is behind everything.
fn end(before: u64) -> i64 {
    if before == 0 { i64::MAX } else { number(before) }
}

fn list(on: &Connection, sql: &str, params: impl Params, read: Read) -> Result<Vec<Record>> {
    on.prepare_cached(sql)?.query_map(params, read)?.collect()
}

fn standing(row: &Row<'_>) -> Result<Record> {
    codec::standing(row).map(Record::Standing)
}

fn sanction(row: &Row<'_>) -> Result<Record> {
    codec::sanction(row).map(Record::Sanction)
}

fn violation(row: &Row<'_>) -> Result<Record> {
    codec::violation(row).map(Record::Violation)
}

fn overriding(row: &Row<'_>) -> Result<Record> {
    let (change, version, removed): Kept<Override> = codec::overriding(row)?;
    Ok(Record::Override { version, change, removed })
}

fn tenant(row: &Row<'_>) -> Result<Record> {
    let (tenant, version, removed): Kept<Tenant> = codec::tenant(row)?;
    Ok(Record::Tenant { version, tenant, removed })
}

fn failures(row: &Row<'_>) -> Result<Record> {
    codec::failures(row).map(Record::Failures)
}

fn known(row: &Row<'_>) -> Result<Record> {
    codec::device(row).map(Record::Device)
}

fn audit(row: &Row<'_>) -> Result<Record> {
    codec::audit(row).map(Record::Audit)
}
