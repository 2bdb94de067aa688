//! Opening a file: made if it is missing, brought up to date, and refused if it is not ours.

use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, Transaction, TransactionBehavior};
use threshold_core::{Secret, StoreError, StoreErrorKind};

use super::error::failed;
use crate::check::Check;
use crate::open::SecretPair;

/// What tells files of one kind from others.
pub(crate) struct Format {
    /// What such a file is called.
    pub(crate) noun: &'static str,
    /// What opening one is called where it fails.
    pub(crate) open: &'static str,
    /// What closing one is called where it fails.
    pub(crate) close: &'static str,
    /// Marks a database as one of this kind.
    pub(crate) application: i64,
    /// Each brings a file from the version of its place to the next. What was released is never changed.
    pub(crate) migrations: &'static [&'static str],
    /// The table with one row that has the fingerprint of the secret (`one`, `secret`) and, from 0 on, what came `last`.
    pub(crate) about: &'static str,
    /// What SQLite is told first, before the file is touched.
    pub(crate) settings: &'static [(&'static str, &'static str)],
    /// True if one process has the file for itself for as long as it is open.
    pub(crate) exclusive: bool,
}

/// How long another process is waited for: a command that an operator gives beside the server, or a sweep's chunk.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long another process that makes the same file is left alone between two tries.
const PAUSE: Duration = Duration::from_millis(10);

/// More than there are different statements, so that each is prepared once.
const STATEMENTS: usize = 64;

/// Where a file is, of which kind and whose: enough to open it again.
pub(crate) struct Place {
    format: &'static Format,
    path: PathBuf,
    secret: u128,
    /// What the file may be taken over from.
    previous: Option<u128>,
}

impl Place {
    pub(crate) fn new(
        format: &'static Format,
        path: &Path,
        secret: &Secret,
        previous: Option<&Secret>,
    ) -> Self {
        let previous = previous.map(Secret::fingerprint);
        Self { format, path: path.to_owned(), secret: secret.fingerprint(), previous }
    }

    pub(crate) const fn format(&self) -> &'static Format {
        self.format
    }

    /// Opens the file, and makes it if it is missing.
    pub(crate) fn open(&self) -> Result<Connection, StoreError> {
        self.make_file().map_err(|error| self.unusable(&error))?;
        self.reopen()
    }

    /// Opens a file that is there: one that has gone is not made anew, as if nothing had ever been written.
    pub(crate) fn reopen(&self) -> Result<Connection, StoreError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let open = Connection::open_with_flags(&self.path, flags);
        let mut connection = open.map_err(|error| self.refused(error))?;
        self.prepare(&mut connection).map_err(|error| self.refused(error))?;
        self.migrate(&mut connection)?;
        self.keep_secret(&mut connection)?;
        settle(&connection).map_err(failed(self.format.open))?;
        Ok(connection)
    }

    /// Only who runs the server may read it. SQLite gives the files beside it the same mode.
    fn make_file(&self) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        match options.open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(error),
            Ok(_) => self.keep_name(),
        }
    }

    /// A file is lost with the power if its folder was not written yet.
    fn keep_name(&self) -> io::Result<()> {
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        #[cfg(unix)]
        std::fs::File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
        #[cfg(not(unix))]
        let _ = folder;
        Ok(())
    }

    fn unusable(&self, error: &io::Error) -> StoreError {
        let (kind, remedy) = match error.kind() {
            io::ErrorKind::NotFound => (StoreErrorKind::Misconfigured, "make its folder first"),
            io::ErrorKind::PermissionDenied => {
                (StoreErrorKind::Misconfigured, "make its folder writable for who runs this")
            }
            io::ErrorKind::StorageFull => (StoreErrorKind::Unavailable, "make room on its disk"),
            _ => (StoreErrorKind::Unavailable, "check its disk"),
        };
        StoreError::new(kind, self.format.open, format!("{} cannot be made: {error}; {remedy}", self.shown()))
    }

    fn misconfigured(&self, what: &str) -> StoreError {
        StoreError::new(StoreErrorKind::Misconfigured, self.format.open, format!("{} {what}", self.shown()))
    }

    fn refused(&self, error: rusqlite::Error) -> StoreError {
        let what = match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => {
                "is no SQLite database; give another path, or move the file away"
            }
            Some(ErrorCode::CannotOpen) => {
                "cannot be opened; give the path of a file that may be read and written"
            }
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
                "cannot be written; make the file and its folder writable for who runs this"
            }
            Some(ErrorCode::DatabaseBusy) if self.format.exclusive => return self.taken().caused_by(error),
            _ => return failed(self.format.open)(error),
        };
        self.misconfigured(what).caused_by(error)
    }

    fn taken(&self) -> StoreError {
        let what = "is used by another process, and only one may; end that one, or give another path";
        StoreError::new(StoreErrorKind::Unavailable, self.format.open, format!("{} {what}", self.shown()))
    }

    pub(crate) fn shown(&self) -> String {
        format!("the {} {}", self.format.noun, self.path.display())
    }

    fn migrate(&self, connection: &mut Connection) -> Result<(), StoreError> {
        while self.migrate_once(connection)? {}
        Ok(())
    }

    /// What a file still needs, if it is one of ours.
    fn steps(&self, state: &FileState) -> Result<&'static [&'static str], StoreError> {
        let Format { application, migrations, .. } = self.format;
        if !state.empty && state.application != *application {
            return Err(self.misconfigured("is a database of something else; give another path"));
        }
        let steps = usize::try_from(state.version).ok().and_then(|from| migrations.get(from..));
        steps.ok_or_else(|| {
            self.misconfigured(
                "was written by a newer version of Threshold; run that version, or restore a backup from before it",
            )
        })
    }

    /// Takes one step, and says whether it was one. The version is read again in each: another process may be at it too.
    fn migrate_once(&self, connection: &mut Connection) -> Result<bool, StoreError> {
        let Format { application, open, .. } = self.format;
        let transaction = begin(connection).map_err(failed(open))?;
        let state = file_state(&transaction).map_err(failed(open))?;
        let Some(step) = self.steps(&state)?.first() else { return Ok(false) };
        let take = || {
            transaction.execute_batch(step)?;
            transaction.pragma_update(None, "application_id", application)?;
            transaction.pragma_update(None, "user_version", state.version + 1)?;
            transaction.commit()
        };
        take().map(|()| true).map_err(failed(open))
    }

    /// The fingerprint that is there.
    fn kept(&self, on: &Connection) -> rusqlite::Result<Option<u128>> {
        let sql = format!("SELECT secret FROM {}", self.format.about);
        let kept: Option<[u8; 16]> = on.query_row(&sql, [], |row| row.get(0)).optional()?;
        Ok(kept.map(u128::from_be_bytes))
    }

    /// The fingerprint in a file that is there, if it is one of ours. The file and those beside it stay as they are.
    fn look(&self) -> Result<Option<u128>, StoreError> {
        let flags =
            OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
        let refused = |error| self.refused(error);
        let connection = Connection::open_with_flags(untouched(&self.path), flags).map_err(refused)?;
        let state = file_state(&connection).map_err(refused)?;
        self.steps(&state)?;
        match state.empty {
            true => Ok(None),
            false => self.kept(&connection).map_err(refused),
        }
    }

    /// Subjects and keys under another secret are others: nobody would find what is held against them.
    fn keep_secret(&self, connection: &mut Connection) -> Result<(), StoreError> {
        let Format { about, open, .. } = self.format;
        let transaction = begin(connection).map_err(failed(open))?;
        let stored = self.kept(&transaction).map_err(failed(open))?;
        if stored == Some(self.secret) {
            return Ok(());
        }
        if stored.is_some() && stored != self.previous {
            return Err(self.misconfigured(OTHER_SECRET));
        }
        let sql = format!(
            "INSERT INTO {about} (one, secret, last) VALUES (1, ?, 0)
                ON CONFLICT (one) DO UPDATE SET secret = excluded.secret"
        );
        let keep = || {
            transaction.execute(&sql, [self.secret.to_be_bytes()])?;
            transaction.commit()
        };
        keep().map_err(failed(open))
    }

    /// Commits are on the disk when they return, and readers of other processes do not stop them.
    fn prepare(&self, connection: &mut Connection) -> rusqlite::Result<()> {
        connection.busy_timeout(PATIENCE)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        for (name, value) in self.format.settings {
            connection.pragma_update(None, name, value)?;
        }
        if self.format.exclusive {
            connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
        }
        self.use_log(connection)?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        // What a savepoint would take back needs no file.
        connection.pragma_update(None, "temp_store", "MEMORY")
    }

    /// Has commits go to a log beside the file. SQLite does not wait for a process that is just doing the same to a new
    /// file, so that is done here; it does wait for one that has the file for itself.
    fn use_log(&self, connection: &Connection) -> rusqlite::Result<()> {
        let mut tries = if self.format.exclusive { 0 } else { PATIENCE.as_millis() / PAUSE.as_millis() };
        loop {
            match connection.pragma_update(None, "journal_mode", "WAL") {
                Err(error) if tries > 0 && error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => {
                    tries -= 1;
                    std::thread::sleep(PAUSE);
                }
                outcome => return outcome,
            }
        }
    }
}

const OTHER_SECRET: &str =
    "was made with another secret; give the secret it was made with, or give that one as the previous";

/// What a file is like, if it is there. Nothing is changed, and nobody who uses it is waited for.
pub(crate) fn examine(format: &'static Format, path: &Path, secrets: Option<SecretPair<'_>>) -> Vec<Check> {
    if !path.is_file() {
        return Vec::new();
    }
    // Whose it is is compared below.
    let place = Place { format, path: path.to_owned(), secret: 0, previous: None };
    let kept = match place.look() {
        Ok(kept) => kept,
        Err(error) => return vec![Check::bad("opens", error.to_string())],
    };
    let mut checks = vec![Check::good("opens", format!("it is a {}", format.noun))];
    let other = || place.misconfigured(OTHER_SECRET).to_string();
    checks.extend(secrets.map(|secrets| Check::secret(kept, secrets, other)));
    checks
}

/// The URI that has SQLite read a file as if nobody could change it: it takes no locks and makes no files beside it. What
/// is still in the log is not seen; the fingerprint never is only there, as opening moves it into the file.
fn untouched(path: &Path) -> String {
    use std::fmt::Write as _;
    let mut uri = "file:".to_owned();
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => {
                uri.push(char::from(*byte));
            }
            // Writing to a String cannot fail.
            _ => drop(write!(uri, "%{byte:02X}")),
        }
    }
    uri + "?immutable=1"
}

/// What tells whether a file is ours, and how old.
struct FileState {
    empty: bool,
    application: i64,
    version: i64,
}

fn file_state(on: &Connection) -> rusqlite::Result<FileState> {
    let number = |sql: &str| on.query_row(sql, [], |row| row.get::<_, i64>(0));
    Ok(FileState {
        empty: number("SELECT count(*) FROM sqlite_schema")? == 0,
        application: number("PRAGMA application_id")?,
        version: number("PRAGMA user_version")?,
    })
}

fn begin(connection: &mut Connection) -> rusqlite::Result<Transaction<'_>> {
    connection.transaction_with_behavior(TransactionBehavior::Immediate)
}

/// Moves what the log beside the file holds into the file, as far as others let it.
///
/// A write to the log that the disk refused to keep may still be read from it afterwards. Were new ones written behind
/// it, they would be lost with it; so it is written anew, into the file, before anything else.
pub(crate) fn settle(connection: &Connection) -> rusqlite::Result<()> {
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
}
