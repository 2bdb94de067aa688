//! The rows of an archive, an hour at a time.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use threshold::{Span, SubjectId, Timestamp};

use super::columns::{self, Entry};
use super::folder::{ENDING, Folder};

/// The most rows of one hour, over all its files: some hundred bytes each.
const MOST_ROWS: usize = 4_000_000;

/// What is read of an archive, and what came in its way.
pub(crate) struct Reading {
    folder: Folder,
    since: Timestamp,
    /// Requests that found no room when they were to be counted.
    pub(crate) dropped: u64,
    /// Files that could not be read: which, and why.
    pub(crate) broken: Vec<String>,
    names: HashSet<Arc<str>>,
}

/// What makes rows of several files one row: a window that was not over when the first was written.
type Same = (Timestamp, Span, Arc<str>, SubjectId);

impl Reading {
    /// Reads of `folder` what was after `since`.
    pub(crate) fn new(folder: Folder, since: Timestamp) -> Self {
        Self { folder, since, dropped: 0, broken: Vec::new(), names: HashSet::new() }
    }

    /// Gives every row that is wanted to `each`, in the order of the hours that their windows began in. What went wrong is
    /// said with its remedy.
    pub(crate) fn each(
        &mut self,
        wanted: impl Fn(&Entry) -> bool,
        mut each: impl FnMut(Entry) -> Result<(), String>,
    ) -> Result<(), String> {
        let shown = self.folder.path().display().to_string();
        if !self.folder.path().is_dir() {
            return Err(format!(
                "{shown}: there is no archive; name its folder with --archive, or have the server write one with \
                 `threshold serve --archive DIR`"
            ));
        }
        let unreadable = |error| format!("{shown}: the archive cannot be read ({error}); run as its owner");
        for hour in self.folder.hours(self.since).map_err(unreadable)? {
            let mut rows: HashMap<Same, Entry> = HashMap::new();
            let files = match fs::read_dir(&hour) {
                // Its time was over.
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                files => files.map_err(unreadable)?,
            };
            for file in files {
                let path = file.map_err(unreadable)?.path();
                if path.extension().is_some_and(|ending| ending == ENDING) {
                    self.read_file(&path, &wanted, &mut rows)?;
                }
            }
            let mut rows: Vec<Entry> = rows.into_values().collect();
            rows.sort_by(|one, other| {
                let order = |entry: &Entry| (entry.window_start, Arc::clone(&entry.limit), entry.subject);
                order(one).cmp(&order(other))
            });
            rows.into_iter().try_for_each(&mut each)?;
        }
        Ok(())
    }

    fn read_file(
        &mut self,
        path: &Path,
        wanted: &impl Fn(&Entry) -> bool,
        rows: &mut HashMap<Same, Entry>,
    ) -> Result<(), String> {
        let file = match File::open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            file => file.map_err(parquet::errors::ParquetError::from),
        };
        let (entries, dropped) = match file.and_then(|file| columns::decode(file, &mut self.names)) {
            Ok(read) => read,
            Err(error) => {
                self.broken.push(format!("{}: {error}", path.display()));
                return Ok(());
            }
        };
        self.dropped += dropped;
        let since = self.since;
        for entry in entries.into_iter().filter(|entry| entry.last >= since && wanted(entry)) {
            let same = (entry.window_start, entry.window, Arc::clone(&entry.limit), entry.subject);
            if let Some(known) = rows.get_mut(&same) {
                known.add(&entry);
            } else if rows.len() < MOST_ROWS {
                rows.insert(same, entry);
            } else {
                return Err(format!(
                    "one hour has more than {MOST_ROWS} rows; ask for one limit with --limit, or one client with --client"
                ));
            }
        }
        Ok(())
    }
}

impl Entry {
    fn add(&mut self, other: &Self) {
        self.requests = self.requests.saturating_add(other.requests);
        self.refused = self.refused.saturating_add(other.refused);
        self.first = self.first.min(other.first);
        self.last = self.last.max(other.last);
    }
}
