//! What queries look for among the rows.

use threshold_core::ledger::{Page, Query, Record};
use threshold_core::{StoreError, Timestamp};

use super::codec;
use super::row::{Class, Id, bytes};

/// What a query looks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    /// One row or none.
    One(Id),
    /// What decisions are made by and changed after a version, in the order of changes.
    Changes { after: u64 },
    /// Rows of a class, in the order of their numbers or against it.
    List(List),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct List {
    pub(crate) class: Class,
    /// Only whose these are.
    pub(crate) whom: Option<Vec<u8>>,
    /// Only those that are in force then.
    pub(crate) at: Option<Timestamp>,
    /// The number before the first.
    pub(crate) after: u64,
    /// The newest first: then it is the number after the first, and none for 0.
    pub(crate) newest: bool,
}

impl Ask {
    pub(crate) fn of(query: &Query) -> Self {
        let list = |class, after| List { class, whom: None, at: None, after, newest: false };
        match query {
            Query::Changes { after } => Self::Changes { after: *after },
            Query::Sanctions { subject, active_at, after } => {
                let whom = subject.map(bytes);
                Self::List(List { whom, at: *active_at, ..list(Class::Sanction, *after) })
            }
            Query::Standing(subject) => Self::One(Id::of_subject(Class::Standing, *subject)),
            Query::Violations { subject, after } => {
                Self::List(List { whom: subject.map(bytes), ..list(Class::Violation, *after) })
            }
            Query::LatestViolations { subject, before } => {
                let list = list(Class::Violation, *before);
                Self::List(List { whom: subject.map(bytes), newest: true, ..list })
            }
            Query::Overrides { after } => Self::List(Self::lasting(list(Class::Override, *after))),
            Query::Tenants { after } => Self::List(Self::lasting(list(Class::Tenant, *after))),
            Query::Failures(source) => Self::One(Id::of_subject(Class::Failures, *source)),
            Query::Lockouts { at, account, after } => {
                let whom = account.map(bytes);
                Self::List(List { whom, at: Some(*at), ..list(Class::Failures, *after) })
            }
            Query::Device { account, device } => Self::One(Id::device(*account, *device)),
            Query::Audit { after } => Self::List(list(Class::Audit, *after)),
            Query::LatestAudit { before } => Self::List(List { newest: true, ..list(Class::Audit, *before) }),
        }
    }

    /// What was removed is in force at no time.
    fn lasting(list: List) -> List {
        List { at: Some(Timestamp::default()), ..list }
    }
}

/// The page of up to one record more than a page has, as class and record.
pub(crate) fn page(query: &Query, rows: Vec<(Class, String)>) -> Result<Page, StoreError> {
    let records: Result<Vec<Record>, StoreError> =
        rows.iter().map(|(class, record)| codec::record(*class, record)).collect();
    Ok(Page::of(records?, query))
}
