//! Where the archive's files are, how they come to be there whole, and when they go.
//!
//! `analytics/rate-limits/2026-03-01/14/….parquet` has the rows of windows that began in that hour. A file is written
//! under another name in `unfinished/`, flushed to the disk and then renamed: whoever finds one finds all of it, whenever
//! the machine stops. While it is written it is locked, so what is not locked in `unfinished/` belongs to nobody any more.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use threshold::{Span, Timestamp};

pub(super) const ROWS: &str = "analytics/rate-limits";
const UNFINISHED: &str = "unfinished";
pub(super) const ENDING: &str = "parquet";
/// How the names of files with events begin.
pub(super) const EVENTS: &str = "events-";

/// No file comes into the folder of an hour so long after it: windows are an hour at most, and wait as long at most.
const LATE: Span = Span::DAY;

/// The folder of an archive.
#[derive(Clone, Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    /// Removes it together with the last that knows of it.
    _temporary: Option<Arc<Temporary>>,
}

/// A folder that is gone when nobody needs it any more.
#[derive(Debug)]
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        // What is left is in a folder for what may be left.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// An hour that windows began in: its folder's name, and when it began.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Hour {
    pub(super) begin: Timestamp,
}

impl Hour {
    pub(super) fn of(at: Timestamp) -> Self {
        let at = at.as_micros();
        Self { begin: Timestamp::from_micros(at - at % Span::HOUR.as_micros()) }
    }

    /// The earliest that may have a row of `since` or later.
    pub(super) fn before(since: Timestamp) -> Self {
        Self::of(since.minus(Span::HOUR))
    }

    /// `2026-03-01/14`.
    pub(super) fn path(&self) -> PathBuf {
        let text = self.begin.to_string();
        Path::new(text.get(..10).unwrap_or_default()).join(text.get(11..13).unwrap_or_default())
    }
}

/// Before which of a bucket's keys everything is older than `oldest`.
pub(super) fn keys_before(oldest: Timestamp) -> String {
    format!("{ROWS}/{}", day(oldest))
}

/// The day of an instant, such as 2026-03-01.
pub(crate) fn day(at: Timestamp) -> String {
    at.to_string().get(..10).unwrap_or_default().to_owned()
}

impl Folder {
    pub(crate) const fn new(path: PathBuf) -> Self {
        Self { path, _temporary: None }
    }

    /// One that is gone when nobody needs it any more.
    pub(super) fn temporary(path: PathBuf) -> Self {
        Self { path: path.clone(), _temporary: Some(Arc::new(Temporary(path))) }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes what is missing, and removes what a process that was killed has left unfinished.
    pub(super) fn prepare(&self) -> io::Result<()> {
        make(&self.unfinished())?;
        make(&self.rows())?;
        for entry in fs::read_dir(self.unfinished())? {
            let path = entry?.path();
            if let Ok(file) = File::open(&path) {
                match file.try_lock() {
                    Ok(()) => fs::remove_file(&path)?,
                    // Somebody writes it just now; or nobody can tell, and then it stays.
                    Err(TryLockError::WouldBlock | TryLockError::Error(_)) => {}
                }
            }
        }
        Ok(())
    }

    /// Puts a file with `bytes` among those of `hour`, whole or not at all.
    pub(super) fn put(&self, hour: &Hour, name: &str, bytes: &[u8]) -> io::Result<()> {
        // Made again if somebody removed it.
        make(&self.unfinished())?;
        let unfinished = self.unfinished().join(format!("{name}.part"));
        let put = self.try_put(hour, name, (&unfinished, bytes));
        if put.is_err() {
            // What is left is removed at the next start.
            let _ = fs::remove_file(&unfinished);
        }
        put
    }

    fn try_put(&self, hour: &Hour, name: &str, (unfinished, bytes): (&Path, &[u8])) -> io::Result<()> {
        let _locked = write_locked(unfinished, bytes)?;
        let folder = self.rows().join(hour.path());
        if !folder.is_dir() {
            make(&folder)?;
            // The folders above know of it only when they are on the disk, too.
            for above in folder.ancestors().skip(1).take_while(|above| above.starts_with(&self.path)) {
                File::open(above)?.sync_all()?;
            }
        }
        fs::rename(unfinished, folder.join(format!("{name}.{ENDING}")))?;
        File::open(&folder)?.sync_all()
    }

    /// Puts `bytes` in the place of a file that is there: whoever opens it finds what was, or what is.
    pub(super) fn replace(&self, file: &Path, bytes: &[u8]) -> io::Result<()> {
        make(&self.unfinished())?;
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let unfinished = self.unfinished().join(format!("{name}.again.part"));
        let replace = || {
            let _locked = write_locked(&unfinished, bytes)?;
            fs::rename(&unfinished, file)?;
            file.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
        };
        let replaced = replace();
        if replaced.is_err() {
            // What is left is removed at the next start.
            let _ = fs::remove_file(&unfinished);
        }
        replaced
    }

    /// Removes the days that were over before `keep` ago, and says how many.
    pub(super) fn forget(&self, now: Timestamp, keep: Span) -> io::Result<usize> {
        let oldest = day(now.minus(keep));
        let mut removed = 0;
        for (name, path) in folders(&self.rows())? {
            if is_day(&name) && name < oldest {
                fs::remove_dir_all(path)?;
                removed += 1;
            }
        }
        Ok(removed)
    }

    /// The folders of the hours from `since` on, the earliest first. A row of an hour may be of the hour after it.
    pub(super) fn hours(&self, since: Timestamp) -> io::Result<Vec<PathBuf>> {
        let earliest = Hour::before(since).path();
        let mut hours = Vec::new();
        for (day, path) in folders(&self.rows())? {
            if is_day(&day) && Path::new(&day) >= earliest.parent().unwrap_or(Path::new("")) {
                let of_day = folders(&path)?.into_iter();
                hours.extend(
                    of_day.filter(|(hour, _)| Path::new(&day).join(hour) >= earliest).map(|(_, path)| path),
                );
            }
        }
        Ok(hours)
    }

    /// All files, the earliest hour first.
    pub(super) fn files(&self) -> io::Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        for hour in self.hours(Timestamp::default())? {
            let mut of_hour = Vec::new();
            for entry in fs::read_dir(hour)? {
                of_hour.push(entry?.path());
            }
            of_hour.retain(|path| path.extension().is_some_and(|ending| ending == ENDING));
            of_hour.sort();
            files.append(&mut of_hour);
        }
        Ok(files)
    }

    /// How many bytes all files have.
    pub(super) fn size(&self) -> io::Result<u64> {
        // One that is gone by now has none.
        let sizes = self.files()?.into_iter().filter_map(|file| Some(fs::metadata(file).ok()?.len()));
        Ok(sizes.sum())
    }

    /// Removes the folders of hours that are over and have no files left.
    pub(super) fn tidy(&self, now: Timestamp) {
        let recent = Hour::of(now.minus(LATE)).path();
        for hour in self.hours(Timestamp::default()).unwrap_or_default() {
            if hour.strip_prefix(self.rows()).is_ok_and(|hour| hour < recent.as_path()) {
                // Those that have files stay by themselves.
                let _ = fs::remove_dir(&hour);
                let _ = hour.parent().map(fs::remove_dir);
            }
        }
    }

    /// Puts `bytes` at `key`, a path within this folder that somebody else named.
    pub(super) fn keep(&self, key: &str, bytes: &[u8]) -> io::Result<()> {
        let plain = |part: std::path::Component<'_>| matches!(part, std::path::Component::Normal(_));
        if !Path::new(key).components().all(plain) {
            return Err(io::Error::other(format!("{key:?} is no name of a file")));
        }
        let path = self.path.join(key);
        path.parent().map_or(Ok(()), make)?;
        fs::write(path, bytes)
    }

    fn rows(&self) -> PathBuf {
        self.path.join(ROWS)
    }

    fn unfinished(&self) -> PathBuf {
        self.path.join(UNFINISHED)
    }
}

/// Writes a new file and flushes it to the disk; it is locked as long as what is given back is there.
fn write_locked(path: &Path, bytes: &[u8]) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    // Where files cannot be locked, another process that starts may take it away; then it is written once more.
    let _ = file.lock();
    file.write_all(bytes)?;
    file.sync_all()?;
    Ok(file)
}

/// Folders that only who runs this may look into.
fn make(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(path)
}

/// The folders in a folder by name, in order. One that is gone by now has none.
fn folders(path: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    let entries = match fs::read_dir(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut folders = Vec::new();
    for entry in entries {
        let entry = entry?;
        if let (Ok(name), true) = (entry.file_name().into_string(), entry.path().is_dir()) {
            folders.push((name, entry.path()));
        }
    }
    folders.sort();
    Ok(folders)
}

/// Nothing else in there is ours to remove.
fn is_day(name: &str) -> bool {
    let shape = |(place, byte): (usize, u8)| match place {
        4 | 7 => byte == b'-',
        _ => byte.is_ascii_digit(),
    };
    name.len() == 10 && name.bytes().enumerate().all(shape)
}
