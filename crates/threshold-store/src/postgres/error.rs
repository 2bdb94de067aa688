//! What Postgres says, in the words of a store.

use threshold_core::{StoreError, StoreErrorKind};
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

/// An error while doing `operation`.
pub(crate) fn failed(operation: &'static str) -> impl Fn(Error) -> StoreError + Copy {
    move |error| StoreError::new(kind(&error), operation, detail(&error)).caused_by(error)
}

/// An error while doing `operation` at `place`.
pub(super) fn failed_at(operation: &'static str, place: &str) -> impl Fn(Error) -> StoreError {
    move |error| {
        StoreError::new(kind(&error), operation, format!("{place}: {}", detail(&error))).caused_by(error)
    }
}

/// The same error for another caller whose entries went the same way.
pub(crate) fn again(error: &StoreError, operation: &'static str) -> StoreError {
    let cause: Option<&Error> = std::error::Error::source(error).and_then(|cause| cause.downcast_ref());
    StoreError::new(error.kind(), operation, cause.map_or_else(|| error.to_string(), detail))
}

/// What is over soon, and what somebody has to mend.
fn kind(error: &Error) -> StoreErrorKind {
    let Some(state) = error.code() else { return StoreErrorKind::Unavailable };
    match state.code().get(..2) {
        // The statement took too long, or waited too long for a lock.
        _ if [SqlState::QUERY_CANCELED, SqlState::LOCK_NOT_AVAILABLE].contains(state) => {
            StoreErrorKind::Timeout
        }
        // Connections, resources, an operator's hand, the system around it.
        Some("08" | "53" | "57" | "58") => StoreErrorKind::Unavailable,
        // Deadlocks, and transactions that went another way.
        Some("40") => StoreErrorKind::Conflict,
        // Rights and passwords, what is not there, what this version does not know.
        Some("28" | "3D" | "3F" | "42" | "0A" | "25") => StoreErrorKind::Misconfigured,
        _ => StoreErrorKind::Corrupt,
    }
}

/// What went wrong, what Postgres said about it, and the remedy.
fn detail(error: &Error) -> String {
    let what = match (error.as_db_error(), std::error::Error::source(error)) {
        (Some(said), _) => format!("{} (SQLSTATE {})", said.message(), said.code().code()),
        (None, Some(cause)) => format!("{error}: {cause}"),
        (None, None) => error.to_string(),
    };
    match remedy(error) {
        "" => what,
        remedy => format!("{what}; {remedy}"),
    }
}

fn remedy(error: &Error) -> &'static str {
    let Some(state) = error.code() else { return "" };
    match state.code() {
        "42501" => "have an administrator grant that right, or give a user who has it",
        "28P01" | "28000" => "check the user and the password in the URL, and pg_hba.conf",
        "3D000" => "create the database, or name another in the URL",
        "53100" => "make room on the disk of Postgres",
        "53300" => "raise max_connections, or end what holds connections",
        "25006" => "give the URL of the primary: a replica takes no writes",
        _ => "",
    }
}
