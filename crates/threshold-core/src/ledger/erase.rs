//! Erasure: somebody is forgotten as a whole.
//!
//! Each ledger knows one verb for it, [`Rows::erase`]; what is forgotten, what stays, and that it was done is said here.
//! The change in the audit log is also how other nodes hear of it: it names nothing but the subject's hash.

use std::fmt;
use std::str::FromStr as _;

use super::apply::Rows;
use super::records::{Audit, Sanction, SanctionKind};
use super::subject::SubjectId;
use crate::store::StoreError;
use crate::time::Timestamp;

/// What a change in the audit log is called that erased somebody, and one that left its sanctions in force.
const ERASE: &str = "erase";
const BUT_SANCTIONS: &str = "erase but sanctions";

/// Rows that are somebody's, by what they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(usize)]
pub enum RecordClass {
    /// Windows that have their strike.
    Windows = 0,
    /// Standings.
    Standings = 1,
    /// Sanctions, in force or not.
    Sanctions = 2,
    /// Violations.
    Violations = 3,
    /// Overrides for it.
    Overrides = 4,
    /// A tenant's tier.
    Tenants = 5,
    /// Failed logins: of an account, or of one source.
    Failures = 6,
    /// Devices that an account is known on.
    Devices = 7,
}

impl RecordClass {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 8] = [
        Self::Windows,
        Self::Standings,
        Self::Sanctions,
        Self::Violations,
        Self::Overrides,
        Self::Tenants,
        Self::Failures,
        Self::Devices,
    ];

    /// The name, as it is shown and written down.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Windows => "windows",
            Self::Standings => "standings",
            Self::Sanctions => "sanctions",
            Self::Violations => "violations",
            Self::Overrides => "overrides",
            Self::Tenants => "tenants",
            Self::Failures => "failures",
            Self::Devices => "devices",
        }
    }
}

/// Who is to be forgotten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Erasure {
    /// Who.
    pub subject: SubjectId,
    /// True if sanctions stay that are in force.
    pub keep_sanctions: bool,
    /// Operators' changes that named it, as they are to read from now on.
    pub redacted: Vec<Audit>,
}

/// How much was forgotten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Erased {
    rows: [usize; RecordClass::ALL.len()],
    /// How many of the operators' changes read otherwise now.
    pub redacted: usize,
}

impl Erased {
    /// How many rows of a class.
    #[must_use]
    pub const fn of(&self, class: RecordClass) -> usize {
        self.rows[class as usize]
    }

    /// How many rows in all.
    #[must_use]
    pub fn total(&self) -> usize {
        self.rows.iter().sum()
    }

    /// The same and what another erasure came to.
    #[must_use]
    pub fn and(mut self, other: &Self) -> Self {
        self.rows.iter_mut().zip(other.rows).for_each(|(rows, more)| *rows += more);
        self.redacted += other.redacted;
        self
    }
}

impl fmt::Display for Erased {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let some = RecordClass::ALL.into_iter().zip(self.rows).filter(|(_, rows)| *rows > 0);
        let mut parts: Vec<String> = some.map(|(class, rows)| format!("{} {rows}", class.name())).collect();
        if self.redacted > 0 {
            parts.push(format!("audit redacted {}", self.redacted));
        }
        f.write_str(&parts.join(", "))
    }
}

impl Audit {
    /// Whom this change erased, and whether its sanctions stayed in force; none if it is another change.
    #[must_use]
    pub fn erases(&self) -> Option<(SubjectId, bool)> {
        let keeps = match self.action.as_str() {
            ERASE => false,
            BUT_SANCTIONS => true,
            _ => return None,
        };
        Some((SubjectId::from_str(&self.target).ok()?, keeps))
    }
}

/// The actions of the changes that [`Audit::erases`] knows, for ledgers that look for them.
pub const ERASING: [&str; 2] = [ERASE, BUT_SANCTIONS];

/// Forgets somebody, and writes down who did and how much that was.
pub(super) fn erase(
    rows: &mut impl Rows,
    (by, at): (&str, Timestamp),
    erasure: &Erasure,
) -> Result<Erased, StoreError> {
    let Erasure { subject, keep_sanctions, ref redacted } = *erasure;
    let kept = if keep_sanctions { in_force(rows, subject, at)? } else { Vec::new() };
    let mut erased = Erased { redacted: redacted.len(), ..Erased::default() };
    for class in RecordClass::ALL {
        erased.rows[class as usize] = rows.erase(class, subject)?;
    }
    for sanction in &kept {
        rows.put_sanction(sanction)?;
    }
    let sanctions = &mut erased.rows[RecordClass::Sanctions as usize];
    *sanctions = sanctions.saturating_sub(kept.len());
    for audit in redacted {
        rows.add_audit(audit)?;
    }
    let (id, action) = (rows.next()?, if keep_sanctions { BUT_SANCTIONS } else { ERASE });
    let kinds: Vec<&str> = kept.iter().map(|sanction| sanction.kind.name()).collect();
    rows.add_audit(&Audit {
        id,
        at,
        by: by.to_owned(),
        action: action.to_owned(),
        target: subject.to_string(),
        before: erased.to_string(),
        after: kinds.join(", "),
    })?;
    Ok(erased)
}

fn in_force(rows: &mut impl Rows, subject: SubjectId, at: Timestamp) -> Result<Vec<Sanction>, StoreError> {
    let mut kept = Vec::new();
    for kind in SanctionKind::ALL {
        kept.extend(rows.active(subject, kind, at)?);
    }
    Ok(kept)
}
