//! What a node remembers of its store over a restart: since when that has been kept. One that is younger when the node comes
//! back has lost all that it had while nobody looked.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use threshold::{Timestamp, without_password};

/// In the data folder: a line for each store, the one of last time first.
const FILE: &str = "store-since";
/// How many stores are remembered: who tries out several comes back to some of them.
const MOST: usize = 16;

/// What is remembered of one store.
pub(crate) struct Remembered {
    file: PathBuf,
    store: String,
}

impl Remembered {
    /// Of the store at `url`, in the folder `data_dir`.
    pub(crate) fn new(data_dir: &Path, url: &str) -> Self {
        Self { file: data_dir.join(FILE), store: place(url) }
    }

    /// Since when it had been kept; none if that is not known.
    pub(crate) fn since(&self) -> Option<Timestamp> {
        let kept = fs::read_to_string(&self.file).ok()?;
        let mut lines = kept.lines().filter_map(|line| line.split_once(' '));
        let (since, _) = lines.find(|(_, store)| *store == self.store)?;
        since.parse().ok().map(Timestamp::from_micros)
    }

    /// Remembers it for the next time.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub(crate) fn keep(&self, since: Timestamp) -> io::Result<()> {
        if self.since() == Some(since) {
            return Ok(());
        }
        let kept = fs::read_to_string(&self.file).unwrap_or_default();
        let others = kept.lines().filter(|line| line.split_once(' ').is_some_and(|(_, of)| of != self.store));
        let mut text = format!("{} {}\n", since.as_micros(), self.store);
        others.take(MOST - 1).for_each(|line| text.extend([line, "\n"]));
        if let Some(folder) = self.file.parent() {
            fs::create_dir_all(folder)?;
        }
        let new = self.file.with_extension("new");
        fs::write(&new, text)?;
        fs::rename(&new, &self.file)
    }
}

/// What tells one store from another: neither who asks nor how long it may take.
fn place(url: &str) -> String {
    let shown = without_password(url);
    let (scheme, rest) = shown.split_once("://").unwrap_or(("", &shown));
    let (at, parameters) = rest.split_once('?').unwrap_or((rest, ""));
    let at = at.rsplit_once('@').map_or(at, |(_, at)| at);
    let prefix = parameters.split('&').find_map(|parameter| parameter.strip_prefix("prefix="));
    format!("{scheme}://{at} {}", prefix.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use threshold_testkit::folder::Folder;

    use super::*;

    #[test]
    fn each_store_is_remembered_for_itself() {
        let folder = Folder::new();
        let of = |url: &str| Remembered::new(&folder.path().join("data"), url);
        let at = Timestamp::from_micros;
        assert_eq!(of("redis://a").since(), None);
        of("redis://a?prefix=x").keep(at(5)).unwrap();
        of("redis://b").keep(at(6)).unwrap();
        of("redis://b").keep(at(7)).unwrap();
        assert_eq!(of("redis://me:password@a?timeout=9&prefix=x").since(), Some(at(5)));
        assert_eq!(of("redis://b").since(), Some(at(7)));
        assert_eq!(of("redis://a").since(), None);
        for number in 0..MOST as u64 {
            of(&format!("redis://c{number}")).keep(at(number)).unwrap();
        }
        assert_eq!((of("redis://b").since(), of("redis://c0").since()), (None, Some(at(0))));
    }

    #[test]
    fn what_cannot_be_read_is_not_remembered() {
        let folder = Folder::new();
        fs::write(folder.path().join(FILE), "nonsense\nnumber redis://a \n").unwrap();
        let remembered = Remembered::new(folder.path(), "redis://a");
        assert_eq!(remembered.since(), None);
        remembered.keep(Timestamp::from_micros(3)).unwrap();
        assert_eq!(remembered.since(), Some(Timestamp::from_micros(3)));
    }
}
