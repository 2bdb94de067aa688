//! Values and records as columns keep them.

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, Value, ValueRef};
use rusqlite::{Result, Row};
use threshold_core::ledger::{
    Audit, Author, Device, Failures, Lifted, Override, Sanction, SanctionKind, Standing, Tenant,
    ViolationRecord,
};
use threshold_core::standing::{Habits, Score, Tally, Violation};
use threshold_core::{Rate, Span, SubjectId, SubjectKind, Timestamp};

/// A value in a column.
pub(super) struct Col<T>(pub(super) T);

/// What each kind is written as; the numbers stay what they are for as long as there are files.
const SUBJECTS: [(SubjectKind, u8); 8] = [
    (SubjectKind::Address, 0),
    (SubjectKind::User, 1),
    (SubjectKind::NamedUser, 2),
    (SubjectKind::Tenant, 3),
    (SubjectKind::Account, 4),
    (SubjectKind::Source, 5),
    (SubjectKind::Device, 6),
    (SubjectKind::Key, 7),
];
const SANCTIONS: [(SanctionKind, u8); 3] =
    [(SanctionKind::Cooldown, 0), (SanctionKind::Shadow, 1), (SanctionKind::Ban, 2)];
const VIOLATIONS: [(Violation, u8); 3] =
    [(Violation::RateExceeded, 0), (Violation::SuspiciousPattern, 1), (Violation::BurstAttack, 2)];

fn code<T: PartialEq>(codes: &[(T, u8)], of: &T) -> u8 {
    codes.iter().find(|(kind, _)| kind == of).map_or(u8::MAX, |(_, code)| *code)
}

fn decode<T: Copy>(codes: &[(T, u8)], code: u8) -> FromSqlResult<T> {
    let found = codes.iter().find(|(_, known)| *known == code);
    found.map(|(kind, _)| *kind).ok_or_else(|| FromSqlError::OutOfRange(code.into()))
}

impl ToSql for Col<SubjectId> {
    fn to_sql(&self) -> Result<ToSqlOutput<'_>> {
        let [low, high] = self.0.halves();
        let mut bytes = vec![code(&SUBJECTS, &self.0.kind())];
        bytes.extend(low.to_be_bytes());
        bytes.extend(high.to_be_bytes());
        Ok(bytes.into())
    }
}

impl FromSql for Col<SubjectId> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let [kind, hash @ ..] = <[u8; 17]>::column_result(value)?;
        let hash = u128::from_be_bytes(hash);
        let (low, high) = ((hash >> 64) as u64, hash as u64);
        Ok(Self(SubjectId::from_raw(decode(&SUBJECTS, kind)?, [low, high])))
    }
}

/// All 64 bits: the largest numbers show as negative ones.
impl ToSql for Col<u64> {
    fn to_sql(&self) -> Result<ToSqlOutput<'_>> {
        Ok(self.0.cast_signed().into())
    }
}

impl FromSql for Col<u64> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        i64::column_result(value).map(|bits| Self(bits.cast_unsigned()))
    }
}

impl ToSql for Col<Span> {
    fn to_sql(&self) -> Result<ToSqlOutput<'_>> {
        Ok(self.0.as_micros().cast_signed().into())
    }
}

impl FromSql for Col<Span> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        Col::<u64>::column_result(value).map(|Col(micros)| Self(Span::from_micros(micros)))
    }
}

/// Times are compared in SQL; they stay far below the largest integer there is.
impl ToSql for Col<Timestamp> {
    fn to_sql(&self) -> Result<ToSqlOutput<'_>> {
        Ok(self.0.as_micros().cast_signed().into())
    }
}

impl FromSql for Col<Timestamp> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let micros = i64::column_result(value)?;
        let known = u64::try_from(micros).ok().filter(|micros| *micros <= Timestamp::MAX.as_micros());
        known.map(|micros| Self(Timestamp::from_micros(micros))).ok_or(FromSqlError::OutOfRange(micros))
    }
}

impl ToSql for Col<SanctionKind> {
    fn to_sql(&self) -> Result<ToSqlOutput<'_>> {
        Ok(code(&SANCTIONS, &self.0).into())
    }
}

impl FromSql for Col<SanctionKind> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        decode(&SANCTIONS, u8::column_result(value)?).map(Self)
    }
}

impl ToSql for Col<Violation> {
    fn to_sql(&self) -> Result<ToSqlOutput<'_>> {
        Ok(code(&VIOLATIONS, &self.0).into())
    }
}

impl FromSql for Col<Violation> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        decode(&VIOLATIONS, u8::column_result(value)?).map(Self)
    }
}

impl ToSql for Col<Rate> {
    fn to_sql(&self) -> Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Owned(Value::Text(self.0.to_string())))
    }
}

impl FromSql for Col<Rate> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        value.as_str()?.parse().map(Self).map_err(FromSqlError::other)
    }
}

fn get<T>(row: &Row<'_>, column: usize) -> Result<T>
where
    Col<T>: FromSql,
{
    row.get(column).map(|Col(value)| value)
}

fn maybe<T>(row: &Row<'_>, column: usize) -> Result<Option<T>>
where
    Col<T>: FromSql,
{
    row.get::<_, Option<Col<T>>>(column).map(|value| value.map(|Col(value)| value))
}

/// Each record's columns, in the order in which its reader below takes them.
pub(super) const STANDING: &str = "subject, version, strikes, struck_at, points, score_violations, score_since, \
     violations, first_seen, last_seen, country, agent, agent_changes, gap";
pub(super) const SANCTION: &str = "id, version, subject, kind, since, until, reason, operator, limit_id, strikes, \
     lifted_at, lifted_by";
pub(super) const VIOLATION: &str = "id, subject, kind, at, limit_id, count, allowed, period, fingerprint, \
     user_agent, country, details";
pub(super) const OVERRIDE: &str =
    "version, removed_at, id, limit_id, subject, rate, burst_allowance, enabled, priority, expires";
pub(super) const TENANT: &str = "version, removed_at, subject, tier";
pub(super) const FAILURES: &str = "source, account, version, failures, failed_at, locked_until";
pub(super) const DEVICE: &str = "account, device, issued, used";
pub(super) const AUDIT: &str = "id, at, operator, action, target, before, after";

/// An override or a tenant, when it was last changed, and true if it is none any more.
pub(super) type Kept<T> = (T, u64, bool);

pub(super) fn standing(row: &Row<'_>) -> Result<Standing> {
    let habits =
        Habits { country: row.get(10)?, agent: row.get(11)?, changes: row.get(12)?, gap: get(row, 13)? };
    Ok(Standing {
        subject: get(row, 0)?,
        version: get(row, 1)?,
        strikes: Tally::new(row.get(2)?, get(row, 3)?),
        score: Score::new(row.get(4)?, row.get(5)?, get(row, 6)?),
        violations: get(row, 7)?,
        first_seen: get(row, 8)?,
        last_seen: get(row, 9)?,
        habits,
    })
}

pub(super) fn sanction(row: &Row<'_>) -> Result<Sanction> {
    let author = match row.get(7)? {
        Some(operator) => Author::Operator(operator),
        None => Author::Ladder { limit: row.get(8)?, strikes: row.get(9)? },
    };
    let lifted = match maybe(row, 10)? {
        Some(at) => Some(Lifted { at, by: row.get(11)? }),
        None => None,
    };
    Ok(Sanction {
        id: get(row, 0)?,
        version: get(row, 1)?,
        subject: get(row, 2)?,
        kind: get(row, 3)?,
        from: get(row, 4)?,
        until: get(row, 5)?,
        reason: row.get(6)?,
        author,
        lifted,
    })
}

pub(super) fn violation(row: &Row<'_>) -> Result<ViolationRecord> {
    Ok(ViolationRecord {
        id: get(row, 0)?,
        subject: get(row, 1)?,
        kind: get(row, 2)?,
        at: get(row, 3)?,
        limit: row.get(4)?,
        count: get(row, 5)?,
        allowed: get(row, 6)?,
        window: get(row, 7)?,
        fingerprint: row.get(8)?,
        user_agent: row.get(9)?,
        country: row.get(10)?,
        details: row.get(11)?,
    })
}

pub(super) fn overriding(row: &Row<'_>) -> Result<Kept<Override>> {
    let change = Override {
        id: row.get(2)?,
        limit: row.get(3)?,
        subject: maybe(row, 4)?,
        rate: get(row, 5)?,
        burst_allowance: get(row, 6)?,
        enabled: row.get(7)?,
        priority: row.get(8)?,
        expires: maybe(row, 9)?,
    };
    Ok((change, get(row, 0)?, maybe::<Timestamp>(row, 1)?.is_some()))
}

pub(super) fn tenant(row: &Row<'_>) -> Result<Kept<Tenant>> {
    let tenant = Tenant { subject: get(row, 2)?, tier: row.get(3)? };
    Ok((tenant, get(row, 0)?, maybe::<Timestamp>(row, 1)?.is_some()))
}

pub(super) fn failures(row: &Row<'_>) -> Result<Failures> {
    Ok(Failures {
        source: get(row, 0)?,
        account: get(row, 1)?,
        version: get(row, 2)?,
        tally: Tally::new(row.get(3)?, get(row, 4)?),
        locked_until: get(row, 5)?,
    })
}

pub(super) fn device(row: &Row<'_>) -> Result<Device> {
    Ok(Device { account: get(row, 0)?, device: get(row, 1)?, issued: get(row, 2)?, used: get(row, 3)? })
}

pub(super) fn audit(row: &Row<'_>) -> Result<Audit> {
    Ok(Audit {
        id: get(row, 0)?,
        at: get(row, 1)?,
        by: row.get(2)?,
        action: row.get(3)?,
        target: row.get(4)?,
        before: row.get(5)?,
        after: row.get(6)?,
    })
}
