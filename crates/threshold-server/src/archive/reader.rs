//! The rows of an archive, an hour at a time, and no more of them at once than fit.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use threshold::{Span, SubjectId, Timestamp};

use super::columns::{self, Entry};
use super::folder::{ENDING, EVENTS, Folder};

/// The most rows or clients that are told apart at once: one takes up to two hundred bytes.
pub(crate) const MOST: usize = 1 << 20;
/// The most parts that are read one after the other.
const MOST_PARTS: u64 = 1 << 12;

/// What is read of an archive.
#[derive(Clone)]
pub(crate) struct Reading {
    folder: Folder,
    since: Timestamp,
}

/// What came in the way.
#[derive(Debug, Default)]
pub(crate) struct Missing {
    /// Requests that found no room when they were to be counted.
    pub(crate) dropped: u64,
    /// Files that could not be read: which, and why.
    pub(crate) broken: Vec<String>,
}

/// Some of the clients: where there are too many for memory, all rows are read again for each part of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    index: u64,
    of: u64,
    /// How many may be told apart at once.
    pub(crate) most: usize,
}

/// Why reading ends early.
#[derive(Debug)]
pub(crate) enum Halt {
    /// There is more than fits at once.
    TooMany,
    /// Something went wrong: what and remedy.
    Failed(String),
}

impl From<String> for Halt {
    fn from(what: String) -> Self {
        Self::Failed(what)
    }
}

impl Part {
    fn has(self, subject: &SubjectId) -> bool {
        // The other bits choose places in tables.
        (subject.halves()[1] >> 32) % self.of == self.index
    }

    /// True for the first: what is the same for all of them is told once.
    pub(crate) const fn is_first(self) -> bool {
        self.index == 0
    }

    /// Ends the attempt if `held` are more than may be.
    pub(crate) const fn check(self, held: usize) -> Result<(), Halt> {
        if held > self.most { Err(Halt::TooMany) } else { Ok(()) }
    }
}

/// Has `read` add all clients to an `A`, in as many parts as it takes for no more than `most` to be held at once.
pub(crate) fn in_parts<A: Default>(
    most: usize,
    mut read: impl FnMut(&mut A, Part) -> Result<(), Halt>,
) -> Result<A, String> {
    let mut of = 1;
    loop {
        let mut all = A::default();
        match (0..of).try_for_each(|index| read(&mut all, Part { index, of, most })) {
            Ok(()) => return Ok(all),
            Err(Halt::TooMany) if of < MOST_PARTS => of *= 4,
            Err(Halt::TooMany) => {
                return Err("there are too many rows; ask for a shorter time with --since, or for one limit with --limit"
                    .to_owned());
            }
            Err(Halt::Failed(what)) => return Err(what),
        }
    }
}

/// What makes rows of several files one row: a window that was not over when the first was written.
type Same = (Timestamp, Span, Arc<str>, SubjectId);

/// The rows of one hour, added up.
struct Hour<'a, W> {
    since: Timestamp,
    part: Part,
    wanted: W,
    names: &'a mut HashSet<Arc<str>>,
    rows: HashMap<Same, Entry>,
}

impl Reading {
    /// Reads of `folder` what was after `since`.
    pub(crate) const fn new(folder: Folder, since: Timestamp) -> Self {
        Self { folder, since }
    }

    /// Gives every row of `part` that is wanted to `each`, in the order of the hours that their windows began in.
    pub(crate) fn each(
        &self,
        part: Part,
        wanted: impl Fn(&Entry) -> bool,
        mut each: impl FnMut(Entry) -> Result<(), Halt>,
    ) -> Result<Missing, Halt> {
        let shown = self.folder.path().display().to_string();
        if !self.folder.path().is_dir() {
            return Err(Halt::Failed(format!(
                "{shown}: there is no archive; name its folder with --archive, or have the server write one with \
                 `threshold serve --archive DIR`"
            )));
        }
        let unreadable =
            |error| Halt::Failed(format!("{shown}: the archive cannot be read ({error}); run as its owner"));
        let (mut missing, mut names) = (Missing::default(), HashSet::new());
        for folder in self.folder.hours(self.since).map_err(unreadable)? {
            let (since, wanted, names) = (self.since, &wanted, &mut names);
            let mut hour = Hour { since, part, wanted, names, rows: HashMap::new() };
            let files = match fs::read_dir(&folder) {
                // Its time was over.
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                files => files.map_err(unreadable)?,
            };
            for file in files {
                let path = file.map_err(unreadable)?.path();
                let rows = path.file_name().is_some_and(|name| !name.to_string_lossy().starts_with(EVENTS));
                if rows && path.extension().is_some_and(|ending| ending == ENDING) {
                    hour.read(&path, &mut missing)?;
                }
            }
            hour.sorted().into_iter().try_for_each(&mut each)?;
        }
        Ok(missing)
    }
}

impl<W: Fn(&Entry) -> bool> Hour<'_, W> {
    fn read(&mut self, path: &Path, missing: &mut Missing) -> Result<(), Halt> {
        let file = match File::open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            file => file.map_err(parquet::errors::ParquetError::from),
        };
        let (entries, dropped) = match file.and_then(|file| columns::decode(file, self.names)) {
            Ok(read) => read,
            Err(error) => {
                missing.broken.push(format!("{}: {error}", path.display()));
                return Ok(());
            }
        };
        missing.dropped += dropped;
        let (since, part) = (self.since, self.part);
        for entry in entries {
            if entry.last >= since && part.has(&entry.subject) && (self.wanted)(&entry) {
                self.add(entry)?;
            }
        }
        Ok(())
    }

    fn add(&mut self, entry: Entry) -> Result<(), Halt> {
        let same = (entry.window_start, entry.window, Arc::clone(&entry.limit), entry.subject);
        if let Some(known) = self.rows.get_mut(&same) {
            known.add(&entry);
            return Ok(());
        }
        self.rows.insert(same, entry);
        self.part.check(self.rows.len())
    }

    fn sorted(self) -> Vec<Entry> {
        let mut rows: Vec<Entry> = self.rows.into_values().collect();
        rows.sort_by(Entry::order);
        rows
    }
}

impl Entry {
    fn add(&mut self, other: &Self) {
        self.requests = self.requests.saturating_add(other.requests);
        self.refused = self.refused.saturating_add(other.refused);
        self.first = self.first.min(other.first);
        self.last = self.last.max(other.last);
    }

    /// By window, then by limit and client.
    pub(crate) fn order(&self, other: &Self) -> std::cmp::Ordering {
        let windows = self.window_start.cmp(&other.window_start);
        windows.then_with(|| self.limit.cmp(&other.limit)).then_with(|| self.subject.cmp(&other.subject))
    }
}

impl Missing {
    /// Takes over what came in the way of the first part: the others read the same files.
    pub(crate) fn note(&mut self, part: Part, missing: Self) {
        if part.is_first() {
            *self = missing;
        }
    }
}
