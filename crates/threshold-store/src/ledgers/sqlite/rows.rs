//! The rows of a ledger in SQLite, within the transaction that is under way.

use rusqlite::{Connection, OptionalExtension, Params, Result, Row, params};
use threshold_core::ledger::{
    Audit, Author, Device, Failures, Override, RecordClass, Rows, Sanction, SanctionKind, Standing, Tenant,
    ViolationRecord, Worse,
};
use threshold_core::standing::Violation;
use threshold_core::{StoreError, SubjectId, Timestamp};

use super::codec::{self, Col};
use crate::sqlite::error::failed;

pub(super) struct Tables<'c>(pub(super) &'c Connection);

impl Tables<'_> {
    fn run(&self, sql: &str, params: impl Params) -> Result<usize, StoreError> {
        let run = || self.0.prepare_cached(sql)?.execute(params);
        run().map_err(failed("write to the ledger"))
    }

    fn one<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: fn(&Row<'_>) -> Result<T>,
    ) -> Result<Option<T>, StoreError> {
        let one = || self.0.prepare_cached(sql)?.query_row(params, read).optional();
        one().map_err(failed("read the ledger"))
    }
}

impl Rows for Tables<'_> {
    fn next(&mut self) -> Result<u64, StoreError> {
        let next = |row: &Row<'_>| row.get(0).map(|Col(next)| next);
        self.one("UPDATE ledger SET last = last + 1 RETURNING last", [], next)?.ok_or_else(|| {
            crate::sqlite::error::corrupt("read a row of the ledger", "the ledger has lost its last number")
        })
    }

    fn claim(
        &mut self,
        subject: SubjectId,
        limit: &str,
        at: Timestamp,
        until: Timestamp,
    ) -> Result<bool, StoreError> {
        let sql = "INSERT INTO windows (subject, limit_id, until) VALUES (?1, ?2, ?3)
            ON CONFLICT (subject, limit_id) DO UPDATE SET until = excluded.until WHERE windows.until <= ?4";
        Ok(self.run(sql, params![Col(subject), limit, Col(until), Col(at)])? == 1)
    }

    fn standing(&mut self, subject: SubjectId) -> Result<Option<Standing>, StoreError> {
        let sql = format!("SELECT {} FROM standings WHERE subject = ?", codec::STANDING);
        self.one(&sql, [Col(subject)], codec::standing)
    }

    fn put_standing(&mut self, standing: &Standing) -> Result<(), StoreError> {
        let Standing { strikes, score, habits, .. } = standing;
        let (strikes, struck_at) = strikes.parts();
        let (points, score_violations, score_since) = score.parts();
        let columns = params![
            Col(standing.subject),
            Col(standing.version),
            strikes,
            Col(struck_at),
            points,
            score_violations,
            Col(score_since),
            Col(standing.violations),
            Col(standing.first_seen),
            Col(standing.last_seen),
            habits.country,
            habits.agent,
            habits.changes,
            Col(habits.gap),
        ];
        self.run(&replace("standings", codec::STANDING), columns).map(drop)
    }

    fn add_violation(&mut self, violation: &ViolationRecord) -> Result<(), StoreError> {
        let columns = params![
            Col(violation.id),
            Col(violation.subject),
            Col(violation.kind),
            Col(violation.at),
            violation.limit,
            Col(violation.count),
            Col(violation.allowed),
            Col(violation.window),
            violation.fingerprint,
            violation.user_agent,
            violation.country,
            violation.details,
        ];
        self.run(&replace("violations", codec::VIOLATION), columns).map(drop)
    }

    fn worsen(&mut self, worse: &Worse, since: Timestamp) -> Result<bool, StoreError> {
        let sql = "SELECT id, kind, count FROM violations
            WHERE subject = ? AND limit_id = ? AND at >= ? ORDER BY id DESC LIMIT 1";
        let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
        let last = self.one(sql, params![Col(worse.subject), worse.limit, Col(since)], read)?;
        let Some((Col::<u64>(id), Col::<Violation>(kind), Col::<u64>(count))) = last else {
            return Ok(false);
        };
        if kind >= worse.kind {
            return Ok(false);
        }
        let columns = params![Col(worse.kind), Col(worse.count.max(count)), Col(id)];
        self.run("UPDATE violations SET kind = ?, count = ? WHERE id = ?", columns)?;
        Ok(true)
    }

    fn active(
        &mut self,
        subject: SubjectId,
        kind: SanctionKind,
        now: Timestamp,
    ) -> Result<Option<Sanction>, StoreError> {
        // Earlier ones have ended or were lifted: only the latest can be in force.
        let sql = format!(
            "SELECT {} FROM sanctions WHERE subject = ? AND kind = ? ORDER BY id DESC LIMIT 1",
            codec::SANCTION
        );
        let latest = self.one(&sql, params![Col(subject), Col(kind)], codec::sanction)?;
        Ok(latest.filter(|sanction| sanction.is_active(now)))
    }

    fn put_sanction(&mut self, sanction: &Sanction) -> Result<(), StoreError> {
        let (operator, limit, strikes) = match &sanction.author {
            Author::Operator(name) => (Some(name), None, None),
            Author::Ladder { limit, strikes } => (None, Some(limit), Some(strikes)),
        };
        let columns = params![
            Col(sanction.id),
            Col(sanction.version),
            Col(sanction.subject),
            Col(sanction.kind),
            Col(sanction.from),
            Col(sanction.until),
            sanction.reason,
            operator,
            limit,
            strikes,
            sanction.lifted.as_ref().map(|lifted| Col(lifted.at)),
            sanction.lifted.as_ref().map(|lifted| &lifted.by),
        ];
        self.run(&replace("sanctions", codec::SANCTION), columns).map(drop)
    }

    fn find_override(&mut self, id: &str) -> Result<Option<Override>, StoreError> {
        let sql = format!("SELECT {} FROM overrides WHERE id = ? AND removed_at IS NULL", codec::OVERRIDE);
        Ok(self.one(&sql, [id], codec::overriding)?.map(|(change, ..)| change))
    }

    fn put_override(
        &mut self,
        change: &Override,
        version: u64,
        removed_at: Option<Timestamp>,
    ) -> Result<(), StoreError> {
        let columns = params![
            Col(version),
            removed_at.map(Col),
            change.id,
            change.limit,
            change.subject.map(Col),
            Col(change.rate),
            Col(change.burst_allowance),
            change.enabled,
            change.priority,
            change.expires.map(Col),
        ];
        self.run(&replace("overrides", codec::OVERRIDE), columns).map(drop)
    }

    fn find_tenant(&mut self, subject: SubjectId) -> Result<Option<Tenant>, StoreError> {
        let sql = format!("SELECT {} FROM tenants WHERE subject = ? AND removed_at IS NULL", codec::TENANT);
        Ok(self.one(&sql, [Col(subject)], codec::tenant)?.map(|(tenant, ..)| tenant))
    }

    fn put_tenant(
        &mut self,
        tenant: &Tenant,
        version: u64,
        removed_at: Option<Timestamp>,
    ) -> Result<(), StoreError> {
        let columns = params![Col(version), removed_at.map(Col), Col(tenant.subject), tenant.tier];
        self.run(&replace("tenants", codec::TENANT), columns).map(drop)
    }

    fn failures(&mut self, source: SubjectId) -> Result<Option<Failures>, StoreError> {
        let sql = format!("SELECT {} FROM failures WHERE source = ?", codec::FAILURES);
        self.one(&sql, [Col(source)], codec::failures)
    }

    fn put_failures(&mut self, failures: &Failures) -> Result<(), StoreError> {
        let (count, last) = failures.tally.parts();
        let columns = params![
            Col(failures.source),
            Col(failures.account),
            Col(failures.version),
            count,
            Col(last),
            Col(failures.locked_until),
        ];
        self.run(&replace("failures", codec::FAILURES), columns).map(drop)
    }

    fn devices(&mut self, account: SubjectId) -> Result<Vec<Device>, StoreError> {
        let sql = format!("SELECT {} FROM devices WHERE account = ? ORDER BY used, device", codec::DEVICE);
        let all = || -> Result<_> {
            self.0.prepare_cached(&sql)?.query_map([Col(account)], codec::device)?.collect()
        };
        all().map_err(failed("read the ledger"))
    }

    fn put_device(&mut self, device: &Device) -> Result<(), StoreError> {
        let columns = params![Col(device.account), Col(device.device), Col(device.issued), Col(device.used)];
        self.run(&replace("devices", codec::DEVICE), columns).map(drop)
    }

    fn forget_device(&mut self, device: &Device) -> Result<(), StoreError> {
        let names = [Col(device.account), Col(device.device)];
        self.run("DELETE FROM devices WHERE account = ? AND device = ?", names).map(drop)
    }

    fn erase(&mut self, class: RecordClass, subject: SubjectId) -> Result<usize, StoreError> {
        let whose = match class {
            RecordClass::Failures => "source = ?1 OR account = ?1",
            RecordClass::Devices => "account = ?1",
            _ => "subject = ?1",
        };
        // The tables are called what the classes are.
        self.run(&format!("DELETE FROM {} WHERE {whose}", class.name()), [Col(subject)])
    }

    fn add_audit(&mut self, audit: &Audit) -> Result<(), StoreError> {
        let columns = params![
            Col(audit.id),
            Col(audit.at),
            audit.by,
            audit.action,
            audit.target,
            audit.before,
            audit.after,
        ];
        self.run(&replace("audit", codec::AUDIT), columns).map(drop)
    }
}

/// Writes a row in the place of the one with the same key.
fn replace(table: &str, columns: &str) -> String {
    let places = vec!["?"; columns.split(',').count()].join(", ");
    format!("REPLACE INTO {table} ({columns}) VALUES ({places})")
}
