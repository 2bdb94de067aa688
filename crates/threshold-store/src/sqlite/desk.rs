//! One connection to a file, and what becomes of it when the disk fails.

use rusqlite::Connection;
use rusqlite::config::DbConfig;
use threshold_core::{StoreError, StoreErrorKind};

use super::error::{self, failed};
use super::file::{self, Place};

/// What a thread works on.
pub(crate) struct Desk {
    place: Place,
    /// None while a file that one process has for itself cannot be opened again.
    connection: Option<Connection>,
    /// True if the disk failed under this connection: its files may never come back, even if the disk does.
    doubtful: bool,
}

impl Desk {
    /// Opens the file, and makes it if it is missing.
    pub(crate) fn open(place: Place) -> Result<Self, StoreError> {
        let connection = Some(place.open()?);
        Ok(Self { place, connection, doubtful: false })
    }

    /// Does something with the file. If that fails, nothing of it is left.
    pub(crate) fn on_file<T>(
        &mut self,
        act: impl FnOnce(&mut Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let Some(connection) = &mut self.connection else { return Err(self.lost()) };
        let outcome = act(connection);
        self.doubtful |= outcome.as_ref().is_err_and(error::is_of_the_disk);
        if !connection.is_autocommit() {
            self.doubtful |= connection.execute_batch("ROLLBACK").is_err();
        }
        outcome
    }

    /// Opens the file anew if the disk failed before. As long as that does not work either, the old connection stays:
    /// reading with it may still work. One that has the file for itself has to go first, or it would be in the way.
    pub(crate) fn renew(&mut self) {
        if !self.doubtful {
            return;
        }
        if self.place.format().exclusive {
            self.connection.take().into_iter().for_each(let_go);
        }
        if let Ok(fresh) = self.place.reopen() {
            self.connection.replace(fresh).into_iter().for_each(let_go);
            self.doubtful = false;
        }
    }

    fn lost(&self) -> StoreError {
        let detail = format!("{} was let go when its disk failed; check its disk", self.place.shown());
        StoreError::new(StoreErrorKind::Unavailable, self.place.format().open, detail)
    }

    /// Moves everything into the file and closes it.
    pub(crate) fn close(mut self) -> Result<(), StoreError> {
        self.renew();
        let close = self.place.format().close;
        let Some(connection) = self.connection else { return Err(self.lost()) };
        let settled = file::settle(&connection).map_err(failed(close));
        let closed = connection.close().map_err(|(_, error)| failed(close)(error));
        settled.and(closed)
    }
}

/// Closes a connection that a better one follows. What it remembers is written already, or is for the next one to find.
fn let_go(old: Connection) {
    // If this cannot be set, closing it looks once more than it need.
    let _ = old.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
}
