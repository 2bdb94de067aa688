//! What SQLite says, in the words of a ledger or a store.

use rusqlite::{Error, ErrorCode};
use threshold_core::{StoreError, StoreErrorKind};

/// An error while doing `operation`.
pub(crate) fn failed(operation: &'static str) -> impl Fn(Error) -> StoreError {
    move |error| StoreError::new(kind(&error), operation, detail(&error)).caused_by(error)
}

/// The same error for another caller who asked for `operation` and whose work went the same way.
pub(crate) fn again(error: &StoreError, operation: &'static str) -> StoreError {
    let detail = cause(error).map_or_else(|| error.to_string(), detail);
    StoreError::new(error.kind(), operation, detail)
}

fn cause(error: &StoreError) -> Option<&Error> {
    std::error::Error::source(error).and_then(|cause| cause.downcast_ref())
}

fn detail(error: &Error) -> String {
    match remedy(error) {
        "" => error.to_string(),
        remedy => format!("{error}; {remedy}"),
    }
}

/// A row that says what was never written.
pub(crate) fn corrupt(operation: &'static str, what: impl Into<String>) -> StoreError {
    StoreError::new(StoreErrorKind::Corrupt, operation, what)
}

/// Disks fill up and recover, and others hold locks: all that passes. A file with nonsense in it does not.
fn kind(error: &Error) -> StoreErrorKind {
    match error.sqlite_error_code() {
        Some(
            ErrorCode::DatabaseCorrupt
            | ErrorCode::NotADatabase
            | ErrorCode::ConstraintViolation
            | ErrorCode::TypeMismatch
            | ErrorCode::Unknown,
        )
        | None => StoreErrorKind::Corrupt,
        Some(ErrorCode::TooBig) => StoreErrorKind::Misconfigured,
        Some(_) => StoreErrorKind::Unavailable,
    }
}

/// True if the disk failed, and not another process or what was asked.
pub(crate) fn is_of_the_disk(error: &StoreError) -> bool {
    matches!(
        cause(error).and_then(Error::sqlite_error_code),
        Some(
            ErrorCode::SystemIoFailure
                | ErrorCode::DiskFull
                | ErrorCode::CannotOpen
                | ErrorCode::ReadOnly
                | ErrorCode::NotADatabase
                | ErrorCode::DatabaseCorrupt
        )
    )
}

fn remedy(error: &Error) -> &'static str {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => "make room on its disk",
        Some(ErrorCode::SystemIoFailure) => "check its disk",
        Some(ErrorCode::DatabaseBusy) => "another process holds it; wait for that one or end it",
        Some(ErrorCode::ReadOnly) => "make its file and its folder writable",
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => "restore it from a backup",
        _ => "",
    }
}
