//! The rows that entries are judged by.

use std::collections::BTreeSet;

use threshold_core::ledger::{Change, Entry, SanctionKind};
use threshold_core::{SubjectId, SubjectKind, Timestamp};

use super::row::{Class, Id, bytes};

/// What has to be read before entries can be applied.
#[derive(Debug, Default)]
pub(crate) struct Needs {
    /// Single rows.
    pub(crate) ids: BTreeSet<Id>,
    /// All rows of a class that are somebody's.
    pub(crate) of: BTreeSet<(Class, Vec<u8>)>,
    /// The last violation of each of these.
    pub(crate) last: Vec<Wanted>,
    /// True if rows of any class may have to be dropped.
    pub(crate) erases: bool,
}

/// The last violation of a subject under a limit that is not older than a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) whom: Vec<u8>,
    pub(crate) limit: String,
    pub(crate) since: Timestamp,
}

impl Needs {
    pub(crate) fn of<'a>(entries: impl Iterator<Item = &'a Entry>) -> Self {
        let mut needs = Self::default();
        entries.for_each(|entry| needs.add(entry));
        needs
    }

    fn add(&mut self, entry: &Entry) {
        match entry {
            Entry::Strike(strike) => {
                for subject in strike.before.into_iter().chain([strike.subject]) {
                    self.subject(Class::Standing, subject);
                    self.ids.insert(Id::window(subject, &strike.limit));
                }
                self.sanctions(strike.subject);
            }
            Entry::Worse(worse) => self.last.push(Wanted {
                whom: bytes(worse.subject),
                limit: worse.limit.clone(),
                since: worse.at.minus(worse.window),
            }),
            Entry::Operator { change, .. } => self.change(change),
            Entry::LoginFailed(failed) => self.logins(failed.before, failed.source),
            Entry::LoginSucceeded(succeeded) => {
                self.logins(succeeded.before, succeeded.source);
                self.of.insert((Class::Device, bytes(succeeded.account)));
            }
        }
    }

    fn change(&mut self, change: &Change) {
        match change {
            Change::Impose { subject, .. } => self.sanctions(*subject),
            Change::Lift { subject, .. } => {
                self.sanctions(*subject);
                self.subject(Class::Standing, *subject);
            }
            Change::SetOverride(set) => drop(self.ids.insert(Id::text(Class::Override, &set.id))),
            Change::RemoveOverride(id) => drop(self.ids.insert(Id::text(Class::Override, id))),
            Change::SetTenant(tenant) => self.subject(Class::Tenant, tenant.subject),
            Change::RemoveTenant(subject) => self.subject(Class::Tenant, *subject),
            Change::Unlock(of) if of.kind() == SubjectKind::Account => {
                self.of.insert((Class::Failures, bytes(*of)));
            }
            Change::Unlock(source) => self.subject(Class::Failures, *source),
            Change::Erase(erasure) => self.everything(erasure.subject),
            Change::Note { .. } => {}
        }
    }

    /// All that is kept about somebody: what is found by its key, and what is found by whose it is.
    fn everything(&mut self, subject: SubjectId) {
        self.erases = true;
        self.sanctions(subject);
        for class in [Class::Standing, Class::Tenant, Class::Failures] {
            self.subject(class, subject);
        }
        let whose = [
            Class::Window,
            Class::Sanction,
            Class::Violation,
            Class::Override,
            Class::Failures,
            Class::Device,
        ];
        self.of.extend(whose.map(|class| (class, bytes(subject))));
    }

    fn logins(&mut self, before: Option<SubjectId>, source: SubjectId) {
        before.into_iter().chain([source]).for_each(|source| self.subject(Class::Failures, source));
    }

    fn sanctions(&mut self, subject: SubjectId) {
        self.ids.extend(SanctionKind::ALL.map(|kind| Id::latest(subject, kind)));
    }

    fn subject(&mut self, class: Class, subject: SubjectId) {
        self.ids.insert(Id::of_subject(class, subject));
    }
}
