//! The rows of a ledger in memory.

use std::collections::BTreeMap;
use std::ops::Bound;

use threshold_core::ledger::{
    Audit, Device, Failures, Override, PAGE, Query, Record, RecordClass, Retention, Rows, Sanction,
    SanctionKind, Standing, Tenant, ViolationRecord, Worse,
};
use threshold_core::{StoreError, SubjectId, Timestamp};

/// An override or a tenant, when it was last changed, and since when it is none any more.
type Kept<T> = (T, u64, Option<Timestamp>);

#[derive(Clone, Default)]
pub(super) struct Tables {
    /// The last number in the order of changes.
    last: u64,
    /// Until when the window of a subject under a limit has its strike.
    windows: BTreeMap<(SubjectId, String), Timestamp>,
    standings: BTreeMap<SubjectId, Standing>,
    sanctions: BTreeMap<u64, Sanction>,
    /// The latest sanction of each kind: earlier ones have ended or were lifted.
    latest: BTreeMap<(SubjectId, SanctionKind), u64>,
    violations: BTreeMap<u64, ViolationRecord>,
    overrides: BTreeMap<String, Kept<Override>>,
    tenants: BTreeMap<SubjectId, Kept<Tenant>>,
    failures: BTreeMap<SubjectId, Failures>,
    devices: BTreeMap<(SubjectId, SubjectId), Device>,
    audit: BTreeMap<u64, Audit>,
}

impl Tables {
    /// Up to one record more than a page.
    pub(super) fn read(&self, query: &Query) -> Vec<Record> {
        let most = PAGE + 1;
        match query {
            Query::Changes { after } => self.changes(*after, most),
            Query::Sanctions { subject, active_at, after } => {
                let all = self.sanctions.range(beyond(*after)).map(|(_, sanction)| sanction);
                all.filter(|sanction| subject.is_none_or(|subject| subject == sanction.subject))
                    .filter(|sanction| active_at.is_none_or(|at| sanction.is_active(at)))
                    .take(most)
                    .cloned()
                    .map(Record::Sanction)
                    .collect()
            }
            Query::Standing(subject) => {
                self.standings.get(subject).copied().map(Record::Standing).into_iter().collect()
            }
            Query::Violations { subject, after } => {
                violations(self.violations.range(beyond(*after)), *subject, most)
            }
            Query::LatestViolations { subject, before } => {
                violations(self.violations.range(below(*before)).rev(), *subject, most)
            }
            Query::Overrides { after } => kept(self.overrides().filter(lasts), *after, most),
            Query::Tenants { after } => kept(self.tenants().filter(lasts), *after, most),
            Query::Failures(source) => {
                self.failures.get(source).copied().map(Record::Failures).into_iter().collect()
            }
            Query::Lockouts { at, account, after } => {
                let all = self.failures.values().filter(|failures| *at < failures.locked_until);
                let of = all.filter(|failures| account.is_none_or(|account| account == failures.account));
                kept(of.copied().map(Record::Failures), *after, most)
            }
            Query::Device { account, device } => {
                let device = self.devices.get(&(*account, *device)).copied();
                device.map(Record::Device).into_iter().collect()
            }
            Query::Audit { after } => audits(self.audit.range(beyond(*after)), most),
            Query::LatestAudit { before } => audits(self.audit.range(below(*before)).rev(), most),
        }
    }

    fn changes(&self, after: u64, most: usize) -> Vec<Record> {
        let standings = self.standings.values().filter(|standing| standing.version > after);
        let standings = standings.copied().map(Record::Standing);
        let sanctions = self.sanctions.values().filter(|sanction| sanction.version > after);
        let sanctions = sanctions.cloned().map(Record::Sanction);
        let erasures = self.audit.range(beyond(after)).filter(|(_, audit)| audit.erases().is_some());
        let erasures = erasures.map(|(_, audit)| Record::Audit(audit.clone()));
        let settings = self.overrides().chain(self.tenants());
        kept(standings.chain(sanctions).chain(settings).chain(erasures), after, most)
    }

    fn overrides(&self) -> impl Iterator<Item = Record> {
        self.overrides.values().cloned().map(|(change, version, removed)| Record::Override {
            version,
            change,
            removed: removed.is_some(),
        })
    }

    fn tenants(&self) -> impl Iterator<Item = Record> {
        self.tenants.values().cloned().map(|(tenant, version, removed)| Record::Tenant {
            version,
            tenant,
            removed: removed.is_some(),
        })
    }

    /// Forgets what need not be kept, and says how much that was.
    pub(super) fn sweep(&mut self, now: Timestamp, retention: &Retention) -> usize {
        let before = self.size();
        let recent = |at: Timestamp, span| now < at.plus(span);
        self.windows.retain(|_, until| now < *until);
        self.standings.retain(|_, standing| recent(standing.last_seen, retention.standings));
        self.violations.retain(|_, violation| recent(violation.at, retention.violations));
        self.sanctions.retain(|_, sanction| {
            let end = sanction.lifted.as_ref().map_or(sanction.until, |lifted| lifted.at);
            recent(end, retention.sanctions)
        });
        let sanctions = &self.sanctions;
        self.latest.retain(|_, id| sanctions.contains_key(id));
        self.overrides.retain(|_, (_, _, removed)| removed.is_none_or(|at| recent(at, retention.removed)));
        self.tenants.retain(|_, (_, _, removed)| removed.is_none_or(|at| recent(at, retention.removed)));
        self.failures.retain(|_, failures| recent(failures.tally.last(), retention.failures));
        self.devices.retain(|_, device| recent(device.used, retention.devices));
        self.audit.retain(|_, audit| recent(audit.at, retention.audit));
        before - self.size()
    }

    fn size(&self) -> usize {
        self.windows.len()
            + self.standings.len()
            + self.violations.len()
            + self.sanctions.len()
            + self.overrides.len()
            + self.tenants.len()
            + self.failures.len()
            + self.devices.len()
            + self.audit.len()
    }
}

/// All numbers above.
const fn beyond(after: u64) -> (Bound<u64>, Bound<u64>) {
    (Bound::Excluded(after), Bound::Unbounded)
}

/// All numbers below; all that there are for 0.
const fn below(before: u64) -> (Bound<u64>, Bound<u64>) {
    match before {
        0 => (Bound::Unbounded, Bound::Unbounded),
        before => (Bound::Unbounded, Bound::Excluded(before)),
    }
}

/// The first of `all`, in its order, of one subject or of everybody.
fn violations<'a>(
    all: impl Iterator<Item = (&'a u64, &'a ViolationRecord)>,
    subject: Option<SubjectId>,
    most: usize,
) -> Vec<Record> {
    let of = all.map(|(_, violation)| violation);
    let of = of.filter(|violation| subject.is_none_or(|subject| subject == violation.subject));
    of.take(most).cloned().map(Record::Violation).collect()
}

/// The first of `all`, in its order.
fn audits<'a>(all: impl Iterator<Item = (&'a u64, &'a Audit)>, most: usize) -> Vec<Record> {
    all.take(most).map(|(_, audit)| Record::Audit(audit.clone())).collect()
}

/// False for what was removed.
fn lasts(record: &Record) -> bool {
    !matches!(record, Record::Override { removed: true, .. } | Record::Tenant { removed: true, .. })
}

/// Those after the version, in the order of changes.
fn kept(records: impl Iterator<Item = Record>, after: u64, most: usize) -> Vec<Record> {
    let version = |record: &Record| record.number(&Query::Changes { after });
    let mut records: Vec<Record> = records.filter(|record| version(record) > after).collect();
    records.sort_by_key(version);
    records.truncate(most);
    records
}

impl Rows for Tables {
    fn next(&mut self) -> Result<u64, StoreError> {
        self.last += 1;
        Ok(self.last)
    }

    fn claim(
        &mut self,
        subject: SubjectId,
        limit: &str,
        at: Timestamp,
        until: Timestamp,
    ) -> Result<bool, StoreError> {
        let window = self.windows.entry((subject, limit.to_owned())).or_default();
        let free = *window <= at;
        if free {
            *window = until;
        }
        Ok(free)
    }

    fn standing(&mut self, subject: SubjectId) -> Result<Option<Standing>, StoreError> {
        Ok(self.standings.get(&subject).copied())
    }

    fn put_standing(&mut self, standing: &Standing) -> Result<(), StoreError> {
        self.standings.insert(standing.subject, *standing);
        Ok(())
    }

    fn add_violation(&mut self, violation: &ViolationRecord) -> Result<(), StoreError> {
        self.violations.insert(violation.id, violation.clone());
        Ok(())
    }

    fn worsen(&mut self, worse: &Worse, since: Timestamp) -> Result<bool, StoreError> {
        let same = |violation: &&mut ViolationRecord| {
            violation.subject == worse.subject && violation.limit == worse.limit && violation.at >= since
        };
        let last = self.violations.values_mut().rev().find(same);
        let Some(last) = last.filter(|last| last.kind < worse.kind) else { return Ok(false) };
        (last.kind, last.count) = (worse.kind, worse.count.max(last.count));
        Ok(true)
    }

    fn active(
        &mut self,
        subject: SubjectId,
        kind: SanctionKind,
        now: Timestamp,
    ) -> Result<Option<Sanction>, StoreError> {
        let latest = self.latest.get(&(subject, kind)).and_then(|id| self.sanctions.get(id));
        Ok(latest.filter(|sanction| sanction.is_active(now)).cloned())
    }

    fn put_sanction(&mut self, sanction: &Sanction) -> Result<(), StoreError> {
        self.latest.insert((sanction.subject, sanction.kind), sanction.id);
        self.sanctions.insert(sanction.id, sanction.clone());
        Ok(())
    }

    fn find_override(&mut self, id: &str) -> Result<Option<Override>, StoreError> {
        let found = self.overrides.get(id).filter(|(_, _, removed)| removed.is_none());
        Ok(found.map(|(change, ..)| change.clone()))
    }

    fn put_override(
        &mut self,
        change: &Override,
        version: u64,
        removed_at: Option<Timestamp>,
    ) -> Result<(), StoreError> {
        self.overrides.insert(change.id.clone(), (change.clone(), version, removed_at));
        Ok(())
    }

    fn find_tenant(&mut self, subject: SubjectId) -> Result<Option<Tenant>, StoreError> {
        let found = self.tenants.get(&subject).filter(|(_, _, removed)| removed.is_none());
        Ok(found.map(|(tenant, ..)| tenant.clone()))
    }

    fn put_tenant(
        &mut self,
        tenant: &Tenant,
        version: u64,
        removed_at: Option<Timestamp>,
    ) -> Result<(), StoreError> {
        self.tenants.insert(tenant.subject, (tenant.clone(), version, removed_at));
        Ok(())
    }

    fn failures(&mut self, source: SubjectId) -> Result<Option<Failures>, StoreError> {
        Ok(self.failures.get(&source).copied())
    }

    fn put_failures(&mut self, failures: &Failures) -> Result<(), StoreError> {
        self.failures.insert(failures.source, *failures);
        Ok(())
    }

    fn devices(&mut self, account: SubjectId) -> Result<Vec<Device>, StoreError> {
        let all = self.devices.values().filter(|device| device.account == account);
        let mut devices: Vec<Device> = all.copied().collect();
        devices.sort_by_key(|device| device.used);
        Ok(devices)
    }

    fn put_device(&mut self, device: &Device) -> Result<(), StoreError> {
        self.devices.insert((device.account, device.device), *device);
        Ok(())
    }

    fn forget_device(&mut self, device: &Device) -> Result<(), StoreError> {
        self.devices.remove(&(device.account, device.device));
        Ok(())
    }

    fn erase(&mut self, class: RecordClass, subject: SubjectId) -> Result<usize, StoreError> {
        let before = self.size();
        match class {
            RecordClass::Windows => self.windows.retain(|(of, _), _| *of != subject),
            RecordClass::Standings => drop(self.standings.remove(&subject)),
            RecordClass::Sanctions => {
                self.latest.retain(|(of, _), _| *of != subject);
                self.sanctions.retain(|_, sanction| sanction.subject != subject);
            }
            RecordClass::Violations => self.violations.retain(|_, violation| violation.subject != subject),
            RecordClass::Overrides => {
                self.overrides.retain(|_, (change, ..)| change.subject != Some(subject));
            }
            RecordClass::Tenants => drop(self.tenants.remove(&subject)),
            RecordClass::Failures => {
                self.failures.retain(|source, failures| *source != subject && failures.account != subject);
            }
            RecordClass::Devices => self.devices.retain(|(account, _), _| *account != subject),
        }
        Ok(before - self.size())
    }

    fn add_audit(&mut self, audit: &Audit) -> Result<(), StoreError> {
        self.audit.insert(audit.id, audit.clone());
        Ok(())
    }
}
