//! One row of a shared ledger.

use threshold_core::ledger::{RecordClass, Retention, SanctionKind};
use threshold_core::{Span, StoreError, StoreErrorKind, SubjectId, Timestamp};

/// What a row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Class {
    /// Until when the window of a subject under a limit has its strike.
    Window,
    Standing,
    Sanction,
    /// The last sanction of a kind against a subject, once more, to be found by them.
    Latest,
    Violation,
    Override,
    Tenant,
    Failures,
    Device,
    Audit,
}

impl Class {
    pub(crate) const ALL: [Self; 10] = [
        Self::Window,
        Self::Standing,
        Self::Sanction,
        Self::Latest,
        Self::Violation,
        Self::Override,
        Self::Tenant,
        Self::Failures,
        Self::Device,
        Self::Audit,
    ];

    /// The name that it is kept under: it stays what it is for as long as there are ledgers.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Window => "window",
            Self::Standing => "standing",
            Self::Sanction => "sanction",
            Self::Latest => "latest",
            Self::Violation => "violation",
            Self::Override => "override",
            Self::Tenant => "tenant",
            Self::Failures => "failures",
            Self::Device => "device",
            Self::Audit => "audit",
        }
    }

    pub(crate) fn named(name: &str) -> Result<Self, StoreError> {
        let found = Self::ALL.into_iter().find(|class| class.name() == name);
        found.ok_or_else(|| corrupt(format!("there are no rows called {name:?}")))
    }

    /// The classes that have records of a class of the ledger.
    pub(crate) const fn of(class: RecordClass) -> &'static [Self] {
        match class {
            RecordClass::Windows => &[Self::Window],
            RecordClass::Standings => &[Self::Standing],
            RecordClass::Sanctions => &[Self::Sanction, Self::Latest],
            RecordClass::Violations => &[Self::Violation],
            RecordClass::Overrides => &[Self::Override],
            RecordClass::Tenants => &[Self::Tenant],
            RecordClass::Failures => &[Self::Failures],
            RecordClass::Devices => &[Self::Device],
        }
    }

    /// How long a row is kept after its time.
    pub(crate) const fn kept(self, retention: &Retention) -> Span {
        match self {
            Self::Window => Span::ZERO,
            Self::Standing => retention.standings,
            Self::Sanction | Self::Latest => retention.sanctions,
            Self::Violation => retention.violations,
            Self::Override | Self::Tenant => retention.removed,
            Self::Failures => retention.failures,
            Self::Device => retention.devices,
            Self::Audit => retention.audit,
        }
    }

    /// False for what only repeats another row.
    pub(crate) const fn counts(self) -> bool {
        !matches!(self, Self::Latest)
    }

    /// The latest time of rows that need not be kept at `now`; none if all must be.
    pub(crate) fn last_dropped(self, now: Timestamp, retention: &Retention) -> Option<Timestamp> {
        // No time is later than the last one, so at that time everything is over.
        let last = (now == Timestamp::MAX).then_some(now);
        let kept = self.kept(retention).as_micros();
        last.or_else(|| now.as_micros().checked_sub(kept).map(Timestamp::from_micros))
    }
}

/// What tells a row from all others.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Id {
    pub(crate) class: Class,
    pub(crate) key: Vec<u8>,
}

impl Id {
    pub(crate) fn new(class: Class, key: Vec<u8>) -> Self {
        Self { class, key }
    }

    pub(super) fn of_number(class: Class, number: u64) -> Self {
        // Ordered as the numbers are.
        Self::new(class, number.to_be_bytes().to_vec())
    }

    pub(super) fn of_subject(class: Class, subject: SubjectId) -> Self {
        Self::new(class, bytes(subject))
    }

    pub(super) fn window(subject: SubjectId, limit: &str) -> Self {
        // A subject is always as long, so what follows it cannot be mistaken for a part of it.
        Self::new(Class::Window, [&bytes(subject), limit.as_bytes()].concat())
    }

    pub(super) fn latest(subject: SubjectId, kind: SanctionKind) -> Self {
        Self::new(Class::Latest, [&bytes(subject), kind.name().as_bytes()].concat())
    }

    pub(super) fn text(class: Class, id: &str) -> Self {
        Self::new(class, id.as_bytes().to_vec())
    }

    pub(super) fn device(account: SubjectId, device: SubjectId) -> Self {
        Self::new(Class::Device, [bytes(account), bytes(device)].concat())
    }
}

/// A subject in 17 bytes: its kind's place, then its hash.
pub(crate) fn bytes(subject: SubjectId) -> Vec<u8> {
    let [low, high] = subject.halves();
    let mut bytes = vec![super::codec::kind_number(subject.kind())];
    bytes.extend(high.to_be_bytes());
    bytes.extend(low.to_be_bytes());
    bytes
}

/// One row: what it is found by, and its record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) id: Id,
    /// Its place in lists of its class.
    pub(crate) number: u64,
    /// Its place in the order of changes, if decisions are made by it.
    pub(crate) version: Option<u64>,
    /// Whose it is, where that is asked for.
    pub(crate) whom: Option<Vec<u8>>,
    /// Until when it is in force, where that is asked for.
    pub(crate) until: Option<Timestamp>,
    /// From when on it is kept for its span; without one it is kept.
    pub(crate) since: Option<Timestamp>,
    /// The record, as JSON.
    pub(crate) record: String,
}

/// A row that says what no ledger writes.
pub(crate) fn corrupt(what: impl Into<String>) -> StoreError {
    StoreError::new(StoreErrorKind::Corrupt, "read a row of the ledger", what)
}
