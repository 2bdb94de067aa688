//! The rows that a group of entries needs, while the entries are applied to them.

use std::collections::{BTreeMap, BTreeSet};

use threshold_core::ledger::{
    Audit, Device, Entry, Failures, Override, Record, RecordClass, Rows, Sanction, SanctionKind, Standing,
    Tenant, ViolationRecord, Worse, Written, apply,
};
use threshold_core::{StoreError, SubjectId, Timestamp};

use super::codec;
use super::needs::{Needs, Wanted};
use super::row::{Class, Id, Row, bytes, corrupt};

/// Rows as they are read, and what becomes of them.
pub(crate) struct Draft {
    /// The last number in the order of changes.
    last: u64,
    /// Every row that was looked for; none where there was none, or is none any more.
    rows: BTreeMap<Id, Option<Row>>,
    changed: BTreeSet<Id>,
    /// Those of the rows that were read and can be dropped, as they were.
    read: BTreeMap<Id, Row>,
    /// What rows were before this caller's entries, in the order in which they were changed.
    undo: Vec<(Id, Option<Option<Row>>, bool)>,
}

/// What has to be written.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    pub(crate) last: u64,
    pub(crate) put: Vec<Row>,
    pub(crate) dropped: Vec<Row>,
}

impl Changes {
    pub(crate) fn is_empty(&self) -> bool {
        self.put.is_empty() && self.dropped.is_empty()
    }

    /// True if decisions are made by any of it.
    pub(crate) fn is_news(&self) -> bool {
        self.put.iter().any(|row| row.version.is_some())
    }
}

/// What each caller is answered.
pub(crate) type Answers = Vec<Result<Vec<Written>, StoreError>>;

impl Draft {
    /// The rows that were found of those that were needed.
    pub(crate) fn new(last: u64, needs: &Needs, found: impl IntoIterator<Item = Row>) -> Self {
        let mut rows: BTreeMap<Id, Option<Row>> = needs.ids.iter().map(|id| (id.clone(), None)).collect();
        let mut read = BTreeMap::new();
        for row in found {
            if needs.erases || matches!(row.id.class, Class::Failures | Class::Device) {
                read.insert(row.id.clone(), row.clone());
            }
            rows.insert(row.id.clone(), Some(row));
        }
        Self { last, rows, changed: BTreeSet::new(), read, undo: Vec::new() }
    }

    /// Applies each caller's entries, all or none of them.
    pub(crate) fn apply<'a>(&mut self, callers: impl IntoIterator<Item = &'a [Entry]>) -> Answers {
        let mut answers = Vec::new();
        for entries in callers {
            let last = self.last;
            self.undo.clear();
            let written: Result<Vec<Written>, StoreError> =
                entries.iter().map(|entry| apply(self, entry)).collect();
            if written.is_err() {
                self.take_back();
                self.last = last;
            }
            answers.push(written);
        }
        answers
    }

    fn take_back(&mut self) {
        while let Some((id, row, was_changed)) = self.undo.pop() {
            if !was_changed {
                self.changed.remove(&id);
            }
            match row {
                Some(row) => drop(self.rows.insert(id, row)),
                None => drop(self.rows.remove(&id)),
            }
        }
    }

    /// What became different.
    pub(crate) fn changes(mut self) -> Changes {
        let mut changes = Changes { last: self.last, ..Changes::default() };
        for id in self.changed {
            match self.rows.remove(&id).flatten() {
                Some(row) => changes.put.push(row),
                // One that was made and dropped again was never there.
                None => changes.dropped.extend(self.read.remove(&id)),
            }
        }
        changes
    }

    fn set(&mut self, id: Id, row: Option<Row>) {
        let was_changed = !self.changed.insert(id.clone());
        let before = self.rows.insert(id.clone(), row);
        self.undo.push((id, before, was_changed));
    }

    fn put(&mut self, row: Row) -> Result<(), StoreError> {
        self.set(row.id.clone(), Some(row));
        Ok(())
    }

    fn find(&self, id: &Id) -> Result<Option<&Row>, StoreError> {
        match self.rows.get(id) {
            Some(row) => Ok(row.as_ref()),
            None => Err(corrupt(format!("a {} was not read before it was needed", id.class.name()))),
        }
    }

    fn record(&self, id: &Id) -> Result<Option<Record>, StoreError> {
        self.find(id)?.map(|row| codec::record(row.id.class, &row.record)).transpose()
    }

    /// The rows of a class that are there, in the order of their keys.
    fn all(&self, class: Class) -> impl Iterator<Item = &Row> {
        let rows = self.rows.range(Id::new(class, Vec::new())..);
        rows.take_while(move |(id, _)| id.class == class).filter_map(|(_, row)| row.as_ref())
    }

    fn violations(&self) -> impl Iterator<Item = &Row> {
        // The order of keys is the order of numbers; a range that is cut at its end cannot be walked from there.
        let rows: Vec<&Row> = self.all(Class::Violation).collect();
        rows.into_iter().rev()
    }
}

/// The violation that a row holds, if it is the wanted one.
pub(crate) fn wanted(row: &Row, wanted: &Wanted) -> Result<Option<ViolationRecord>, StoreError> {
    if row.whom.as_ref() != Some(&wanted.whom) {
        return Ok(None);
    }
    match codec::record(row.id.class, &row.record)? {
        Record::Violation(violation) => {
            Ok(Some(violation).filter(|it| it.limit == wanted.limit && it.at >= wanted.since))
        }
        _ => Ok(None),
    }
}

impl Rows for Draft {
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
        let claimed = self.find(&Id::window(subject, limit))?;
        let claimed = claimed.map(|row| codec::read_window(&row.record)).transpose()?;
        let free = claimed.is_none_or(|until| until <= at);
        if free {
            self.put(codec::window(subject, limit, until))?;
        }
        Ok(free)
    }

    fn standing(&mut self, subject: SubjectId) -> Result<Option<Standing>, StoreError> {
        match self.record(&Id::of_subject(Class::Standing, subject))? {
            Some(Record::Standing(standing)) => Ok(Some(standing)),
            _ => Ok(None),
        }
    }

    fn put_standing(&mut self, standing: &Standing) -> Result<(), StoreError> {
        self.put(codec::standing(standing))
    }

    fn add_violation(&mut self, violation: &ViolationRecord) -> Result<(), StoreError> {
        self.put(codec::violation(violation))
    }

    fn worsen(&mut self, worse: &Worse, since: Timestamp) -> Result<bool, StoreError> {
        let last = Wanted { whom: bytes(worse.subject), limit: worse.limit.clone(), since };
        let mut found = None;
        for row in self.violations() {
            found = wanted(row, &last)?;
            if found.is_some() {
                break;
            }
        }
        let Some(mut last) = found.filter(|last| last.kind < worse.kind) else { return Ok(false) };
        (last.kind, last.count) = (worse.kind, worse.count.max(last.count));
        self.put(codec::violation(&last))?;
        Ok(true)
    }

    fn active(
        &mut self,
        subject: SubjectId,
        kind: SanctionKind,
        now: Timestamp,
    ) -> Result<Option<Sanction>, StoreError> {
        // Earlier ones have ended or were lifted: only the latest can be in force.
        match self.record(&Id::latest(subject, kind))? {
            Some(Record::Sanction(sanction)) => Ok(Some(sanction).filter(|it| it.is_active(now))),
            _ => Ok(None),
        }
    }

    fn put_sanction(&mut self, sanction: &Sanction) -> Result<(), StoreError> {
        codec::sanction(sanction).into_iter().try_for_each(|row| self.put(row))
    }

    fn find_override(&mut self, id: &str) -> Result<Option<Override>, StoreError> {
        match self.record(&Id::text(Class::Override, id))? {
            Some(Record::Override { change, removed: false, .. }) => Ok(Some(change)),
            _ => Ok(None),
        }
    }

    fn put_override(
        &mut self,
        change: &Override,
        version: u64,
        removed_at: Option<Timestamp>,
    ) -> Result<(), StoreError> {
        self.put(codec::overriding(change, version, removed_at))
    }

    fn find_tenant(&mut self, subject: SubjectId) -> Result<Option<Tenant>, StoreError> {
        match self.record(&Id::of_subject(Class::Tenant, subject))? {
            Some(Record::Tenant { tenant, removed: false, .. }) => Ok(Some(tenant)),
            _ => Ok(None),
        }
    }

    fn put_tenant(
        &mut self,
        tenant: &Tenant,
        version: u64,
        removed_at: Option<Timestamp>,
    ) -> Result<(), StoreError> {
        self.put(codec::tenant(tenant, version, removed_at))
    }

    fn failures(&mut self, source: SubjectId) -> Result<Option<Failures>, StoreError> {
        match self.record(&Id::of_subject(Class::Failures, source))? {
            Some(Record::Failures(failures)) => Ok(Some(failures)),
            _ => Ok(None),
        }
    }

    fn put_failures(&mut self, failures: &Failures) -> Result<(), StoreError> {
        self.put(codec::failures(failures))
    }

    fn devices(&mut self, account: SubjectId) -> Result<Vec<Device>, StoreError> {
        let whom = Some(bytes(account));
        let mut devices = Vec::new();
        for row in self.all(Class::Device).filter(|row| row.whom == whom) {
            if let Record::Device(device) = codec::record(Class::Device, &row.record)? {
                devices.push(device);
            }
        }
        devices.sort_by_key(|device| device.used);
        Ok(devices)
    }

    fn put_device(&mut self, device: &Device) -> Result<(), StoreError> {
        self.put(codec::device(device))
    }

    fn forget_device(&mut self, device: &Device) -> Result<(), StoreError> {
        self.set(Id::device(device.account, device.device), None);
        Ok(())
    }

    fn erase(&mut self, class: RecordClass, subject: SubjectId) -> Result<usize, StoreError> {
        let (whom, mut count) = (bytes(subject), 0);
        for class in Class::of(class) {
            let own = |row: &&Row| row.whom.as_ref() == Some(&whom) || row.id.key == whom;
            let of_subject =
                |row: &&Row| own(row) || (*class == Class::Latest && row.id.key.starts_with(&whom));
            let ids: Vec<Id> = self.all(*class).filter(of_subject).map(|row| row.id.clone()).collect();
            count += if class.counts() { ids.len() } else { 0 };
            ids.into_iter().for_each(|id| self.set(id, None));
        }
        Ok(count)
    }

    fn add_audit(&mut self, audit: &Audit) -> Result<(), StoreError> {
        self.put(codec::audit(audit))
    }
}
