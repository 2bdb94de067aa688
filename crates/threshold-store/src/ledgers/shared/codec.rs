//! Records as JSON. Times and spans are in microseconds.

use serde_json::{Value, json};
use threshold_core::ledger::{
    Audit, Author, Device, Failures, Lifted, Override, Record, Sanction, SanctionKind, Standing, Tenant,
    ViolationRecord,
};
use threshold_core::standing::{Habits, Score, Tally, Violation};
use threshold_core::{Span, StoreError, SubjectId, SubjectKind, Timestamp};

use super::row::{Class, Id, Row, bytes, corrupt};

/// What each kind is written as within keys; the numbers stay what they are for as long as there are ledgers.
pub(super) const fn kind_number(kind: SubjectKind) -> u8 {
    match kind {
        SubjectKind::Address => 0,
        SubjectKind::User => 1,
        SubjectKind::NamedUser => 2,
        SubjectKind::Tenant => 3,
        SubjectKind::Account => 4,
        SubjectKind::Source => 5,
        SubjectKind::Device => 6,
        SubjectKind::Key => 7,
    }
}

const VIOLATIONS: [Violation; 3] =
    [Violation::RateExceeded, Violation::SuspiciousPattern, Violation::BurstAttack];

type Result<T> = std::result::Result<T, StoreError>;

/// The fields of a record.
struct Fields(Value);

impl Fields {
    fn of(record: &str) -> Result<Self> {
        serde_json::from_str(record)
            .map(Self)
            .map_err(|error| corrupt(format!("a record is no JSON: {error}")))
    }

    fn wrong(name: &str) -> StoreError {
        corrupt(format!("a record's {name:?} is none; restore the ledger from a backup"))
    }

    fn number(&self, name: &str) -> Result<u64> {
        self.0[name].as_u64().ok_or_else(|| Self::wrong(name))
    }

    fn small<T: TryFrom<u64>>(&self, name: &str) -> Result<T> {
        T::try_from(self.number(name)?).map_err(|_| Self::wrong(name))
    }

    fn text(&self, name: &str) -> Result<String> {
        self.0[name].as_str().map(ToOwned::to_owned).ok_or_else(|| Self::wrong(name))
    }

    fn parsed<T: std::str::FromStr>(&self, name: &str) -> Result<T> {
        self.0[name].as_str().and_then(|text| text.parse().ok()).ok_or_else(|| Self::wrong(name))
    }

    fn span(&self, name: &str) -> Result<Span> {
        self.number(name).map(Span::from_micros)
    }

    fn time(&self, name: &str) -> Result<Timestamp> {
        let known = self.number(name)?;
        if known > Timestamp::MAX.as_micros() {
            return Err(Self::wrong(name));
        }
        Ok(Timestamp::from_micros(known))
    }

    fn one_of<T: Copy>(&self, name: &str, all: &[T], called: fn(T) -> &'static str) -> Result<T> {
        let known = self.0[name].as_str().and_then(|text| all.iter().find(|one| called(**one) == text));
        known.copied().ok_or_else(|| Self::wrong(name))
    }

    fn country(&self, name: &str) -> Result<Option<[u8; 2]>> {
        self.maybe(name, |fields, name| {
            let letter = |index: usize| fields.0[name][index].as_u64().and_then(|byte| byte.try_into().ok());
            letter(0).zip(letter(1)).map(|(one, other)| [one, other]).ok_or_else(|| Self::wrong(name))
        })
    }

    /// None if the field is missing or null.
    fn maybe<T>(&self, name: &str, read: impl Fn(&Self, &str) -> Result<T>) -> Result<Option<T>> {
        if self.0[name].is_null() { Ok(None) } else { read(self, name).map(Some) }
    }
}

/// The record of a row, with what is not a part of it.
pub(super) fn record(class: Class, record: &str) -> Result<Record> {
    let fields = Fields::of(record)?;
    Ok(match class {
        Class::Standing => Record::Standing(read_standing(&fields)?),
        Class::Sanction | Class::Latest => Record::Sanction(read_sanction(&fields)?),
        Class::Violation => Record::Violation(read_violation(&fields)?),
        Class::Override => {
            let (version, removed) = read_kept(&fields)?;
            Record::Override { version, change: read_override(&fields)?, removed }
        }
        Class::Tenant => {
            let (version, removed) = read_kept(&fields)?;
            let tenant = Tenant { subject: fields.parsed("subject")?, tier: fields.text("tier")? };
            Record::Tenant { version, tenant, removed }
        }
        Class::Failures => Record::Failures(read_failures(&fields)?),
        Class::Device => Record::Device(Device {
            account: fields.parsed("account")?,
            device: fields.parsed("device")?,
            issued: fields.time("issued")?,
            used: fields.time("used")?,
        }),
        Class::Audit => Record::Audit(read_audit(&fields)?),
        Class::Window => return Err(corrupt("a window is no record")),
    })
}

pub(super) fn read_window(record: &str) -> Result<Timestamp> {
    Fields::of(record)?.time("until")
}

pub(super) fn window(subject: SubjectId, limit: &str, until: Timestamp) -> Row {
    let record = json!({ "subject": subject.to_string(), "limit": limit, "until": until.as_micros() });
    row(Id::window(subject, limit), (0, None), record).of(subject).since(until)
}

pub(super) fn standing(standing: &Standing) -> Row {
    let Standing { strikes, score, habits, .. } = standing;
    let (strikes, struck_at) = strikes.parts();
    let (points, score_violations, score_since) = score.parts();
    let record = json!({
        "subject": standing.subject.to_string(),
        "version": standing.version,
        "strikes": strikes,
        "struck_at": struck_at.as_micros(),
        "points": points,
        "score_violations": score_violations,
        "score_since": score_since.as_micros(),
        "violations": standing.violations,
        "first_seen": standing.first_seen.as_micros(),
        "last_seen": standing.last_seen.as_micros(),
        "country": habits.country,
        "agent": habits.agent,
        "agent_changes": habits.changes,
        "gap": habits.gap.as_micros(),
    });
    let id = Id::of_subject(Class::Standing, standing.subject);
    row(id, (standing.version, Some(standing.version)), record).since(standing.last_seen)
}

fn read_standing(fields: &Fields) -> Result<Standing> {
    let habits = Habits {
        country: fields.country("country")?,
        agent: fields.maybe("agent", Fields::small)?,
        changes: fields.small("agent_changes")?,
        gap: fields.span("gap")?,
    };
    let (points, violations) = (fields.small("points")?, fields.small("score_violations")?);
    Ok(Standing {
        subject: fields.parsed("subject")?,
        version: fields.number("version")?,
        strikes: Tally::new(fields.small("strikes")?, fields.time("struck_at")?),
        score: Score::new(points, violations, fields.time("score_since")?),
        violations: fields.number("violations")?,
        first_seen: fields.time("first_seen")?,
        last_seen: fields.time("last_seen")?,
        habits,
    })
}

/// The row that lists it, and the one that it is found by while it is the last of its kind.
pub(super) fn sanction(sanction: &Sanction) -> [Row; 2] {
    let author = match &sanction.author {
        Author::Operator(name) => json!({ "operator": name }),
        Author::Ladder { limit, strikes } => json!({ "limit": limit, "strikes": strikes }),
    };
    let record = json!({
        "id": sanction.id,
        "version": sanction.version,
        "subject": sanction.subject.to_string(),
        "kind": sanction.kind.name(),
        "from": sanction.from.as_micros(),
        "until": sanction.until.as_micros(),
        "reason": sanction.reason,
        "author": author,
        "lifted_at": sanction.lifted.as_ref().map(|lifted| lifted.at.as_micros()),
        "lifted_by": sanction.lifted.as_ref().map(|lifted| &lifted.by),
    });
    let end = sanction.lifted.as_ref().map_or(sanction.until, |lifted| lifted.at);
    let latest = row(Id::latest(sanction.subject, sanction.kind), (0, None), record.clone()).since(end);
    let id = Id::of_number(Class::Sanction, sanction.id);
    let mut listed = row(id, (sanction.id, Some(sanction.version)), record).of(sanction.subject).since(end);
    listed.until = sanction.lifted.is_none().then_some(sanction.until);
    [listed, latest]
}

fn read_sanction(fields: &Fields) -> Result<Sanction> {
    let by = Fields(fields.0["author"].clone());
    let author = match by.maybe("operator", Fields::text)? {
        Some(operator) => Author::Operator(operator),
        None => Author::Ladder { limit: by.text("limit")?, strikes: by.small("strikes")? },
    };
    let lifted = match fields.maybe("lifted_at", Fields::time)? {
        Some(at) => Some(Lifted { at, by: fields.text("lifted_by")? }),
        None => None,
    };
    Ok(Sanction {
        id: fields.number("id")?,
        version: fields.number("version")?,
        subject: fields.parsed("subject")?,
        kind: fields.one_of("kind", &SanctionKind::ALL, SanctionKind::name)?,
        from: fields.time("from")?,
        until: fields.time("until")?,
        reason: fields.text("reason")?,
        author,
        lifted,
    })
}

pub(super) fn violation(violation: &ViolationRecord) -> Row {
    let record = json!({
        "id": violation.id,
        "subject": violation.subject.to_string(),
        "kind": violation.kind.name(),
        "at": violation.at.as_micros(),
        "limit": violation.limit,
        "count": violation.count,
        "allowed": violation.allowed,
        "window": violation.window.as_micros(),
        "fingerprint": violation.fingerprint,
        "user_agent": violation.user_agent,
        "country": violation.country,
        "details": violation.details,
    });
    let id = Id::of_number(Class::Violation, violation.id);
    row(id, (violation.id, None), record).of(violation.subject).since(violation.at)
}

fn read_violation(fields: &Fields) -> Result<ViolationRecord> {
    Ok(ViolationRecord {
        id: fields.number("id")?,
        subject: fields.parsed("subject")?,
        kind: fields.one_of("kind", &VIOLATIONS, Violation::name)?,
        at: fields.time("at")?,
        limit: fields.text("limit")?,
        count: fields.number("count")?,
        allowed: fields.number("allowed")?,
        window: fields.span("window")?,
        fingerprint: fields.maybe("fingerprint", Fields::text)?,
        user_agent: fields.maybe("user_agent", Fields::text)?,
        country: fields.country("country")?,
        details: fields.text("details")?,
    })
}

pub(super) fn overriding(change: &Override, version: u64, removed_at: Option<Timestamp>) -> Row {
    let record = json!({
        "version": version,
        "removed_at": removed_at.map(Timestamp::as_micros),
        "id": change.id,
        "limit": change.limit,
        "subject": change.subject.map(|subject| subject.to_string()),
        "rate": change.rate.to_string(),
        "burst_allowance": change.burst_allowance,
        "enabled": change.enabled,
        "priority": change.priority,
        "expires": change.expires.map(Timestamp::as_micros),
    });
    let row =
        row(Id::text(Class::Override, &change.id), (version, Some(version)), record).removed(removed_at);
    match change.subject {
        Some(subject) => row.of(subject),
        None => row,
    }
}

fn read_override(fields: &Fields) -> Result<Override> {
    Ok(Override {
        id: fields.text("id")?,
        limit: fields.text("limit")?,
        subject: fields.maybe("subject", Fields::parsed)?,
        rate: fields.parsed("rate")?,
        burst_allowance: fields.number("burst_allowance")?,
        enabled: fields.0["enabled"].as_bool().ok_or_else(|| Fields::wrong("enabled"))?,
        priority: fields.0["priority"].as_i64().ok_or_else(|| Fields::wrong("priority"))?,
        expires: fields.maybe("expires", Fields::time)?,
    })
}

pub(super) fn tenant(tenant: &Tenant, version: u64, removed_at: Option<Timestamp>) -> Row {
    let record = json!({
        "version": version,
        "removed_at": removed_at.map(Timestamp::as_micros),
        "subject": tenant.subject.to_string(),
        "tier": tenant.tier,
    });
    let id = Id::of_subject(Class::Tenant, tenant.subject);
    row(id, (version, Some(version)), record).removed(removed_at)
}

/// When an override or a tenant was last changed, and true if it is none any more.
fn read_kept(fields: &Fields) -> Result<(u64, bool)> {
    Ok((fields.number("version")?, fields.maybe("removed_at", Fields::time)?.is_some()))
}

pub(super) fn failures(failures: &Failures) -> Row {
    let (count, last) = failures.tally.parts();
    let record = json!({
        "source": failures.source.to_string(),
        "account": failures.account.to_string(),
        "version": failures.version,
        "failures": count,
        "failed_at": last.as_micros(),
        "locked_until": failures.locked_until.as_micros(),
    });
    let id = Id::of_subject(Class::Failures, failures.source);
    let mut row = row(id, (failures.version, None), record).of(failures.account).since(last);
    row.until = Some(failures.locked_until);
    row
}

fn read_failures(fields: &Fields) -> Result<Failures> {
    Ok(Failures {
        source: fields.parsed("source")?,
        account: fields.parsed("account")?,
        version: fields.number("version")?,
        tally: Tally::new(fields.small("failures")?, fields.time("failed_at")?),
        locked_until: fields.time("locked_until")?,
    })
}

pub(super) fn device(device: &Device) -> Row {
    let record = json!({
        "account": device.account.to_string(),
        "device": device.device.to_string(),
        "issued": device.issued.as_micros(),
        "used": device.used.as_micros(),
    });
    row(Id::device(device.account, device.device), (0, None), record).of(device.account).since(device.used)
}

pub(super) fn audit(audit: &Audit) -> Row {
    let record = json!({
        "id": audit.id,
        "at": audit.at.as_micros(),
        "by": audit.by,
        "action": audit.action,
        "target": audit.target,
        "before": audit.before,
        "after": audit.after,
    });
    // Decisions are made by what is left when somebody was erased.
    let version = audit.erases().map(|_| audit.id);
    row(Id::of_number(Class::Audit, audit.id), (audit.id, version), record).since(audit.at)
}

fn read_audit(fields: &Fields) -> Result<Audit> {
    Ok(Audit {
        id: fields.number("id")?,
        at: fields.time("at")?,
        by: fields.text("by")?,
        action: fields.text("action")?,
        target: fields.text("target")?,
        before: fields.text("before")?,
        after: fields.text("after")?,
    })
}

/// A row that is found by nothing but its key and its numbers, and kept.
fn row(id: Id, (number, version): (u64, Option<u64>), record: Value) -> Row {
    Row { id, number, version, whom: None, until: None, since: None, record: record.to_string() }
}

impl Row {
    fn of(self, whom: SubjectId) -> Self {
        Self { whom: Some(bytes(whom)), ..self }
    }

    fn since(self, since: Timestamp) -> Self {
        Self { since: Some(since), ..self }
    }

    /// In force as long as it was not removed, and kept as long as it is in force.
    fn removed(self, at: Option<Timestamp>) -> Self {
        Self { since: at, until: at.is_none().then_some(Timestamp::MAX), ..self }
    }
}
