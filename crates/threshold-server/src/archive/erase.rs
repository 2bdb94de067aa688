//! Erasure: files of the archive without somebody's rows, each put in the place of the one before as a whole.

use std::fs;
use std::io::{self, ErrorKind};

use bytes::Bytes;
use futures_util::future::join_all;
use tokio::sync::Mutex;

use super::bucket::{Bucket, BucketPlace};
use super::events::Told;
use super::folder::{ENDING, Folder, ROWS};
use super::rewrite::{Rewritten, without};

/// How many objects of a bucket are worked on at once.
const AT_ONCE: usize = 8;

/// Whom rows are about.
#[derive(Clone, Debug, Default)]
pub(crate) struct Named {
    /// The subjects, as they are written down.
    pub(crate) subjects: Vec<String>,
    /// How its address is shown in events, where that shows nobody else's.
    pub(crate) shown: Vec<String>,
}

/// How much was erased.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ErasedRows {
    /// Rows of usage, and events.
    pub(crate) usage: usize,
    pub(crate) events: usize,
    /// Files that are others now, or gone.
    pub(crate) files: usize,
}

impl ErasedRows {
    pub(super) fn add(&mut self, other: Self) {
        self.usage += other.usage;
        self.events += other.events;
        self.files += other.files;
    }

    fn of(rewritten: &Rewritten) -> Self {
        Self { usage: rewritten.usage, events: rewritten.events, files: 1 }
    }
}

impl Named {
    pub(super) fn is_subject(&self, subject: &str) -> bool {
        self.subjects.iter().any(|own| own == subject)
    }

    /// Whether an event is about it. That it was erased is what is left of it.
    pub(super) fn is_in(&self, event: &str, detail: &str) -> bool {
        let tells =
            event == "subject_erased" || (event == "admin_changed" && detail.contains(r#""action":"erase"#));
        let names = |text: &String| detail.contains(text.as_str());
        let shown = |text: &String| detail.contains(&format!("\"{text}\""));
        !tells && (self.subjects.iter().any(names) || self.shown.iter().any(shown))
    }

    pub(super) fn is_told(&self, told: &Told) -> bool {
        self.is_in(&told.event, &told.detail)
    }
}

/// Erases somebody from the files of a folder. `moving` is held while one is looked at: whoever sends files away does not
/// send one that is being changed.
pub(super) fn from_folder(folder: &Folder, moving: &Mutex<()>, named: &Named) -> io::Result<ErasedRows> {
    let mut erased = ErasedRows::default();
    for file in folder.files()? {
        let _moving = moving.blocking_lock();
        let bytes = match fs::read(&file) {
            Ok(bytes) => Bytes::from(bytes),
            // Its time was over, or it was sent away.
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        let rewritten = without(bytes, named).map_err(|error| {
            io::Error::other(format!("{}: {error}; put it right, or move it away", file.display()))
        })?;
        let Some(rewritten) = rewritten else { continue };
        match &rewritten.bytes {
            Some(bytes) => folder.replace(&file, bytes)?,
            None => fs::remove_file(&file)?,
        }
        erased.add(ErasedRows::of(&rewritten));
    }
    Ok(erased)
}

/// Erases somebody from the objects of a bucket. An object is replaced as a whole, or not at all.
pub(super) fn from_bucket(place: &BucketPlace, named: &Named) -> Result<ErasedRows, String> {
    let bucket = Bucket::new(place)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("no runtime could be started: {error}; try again"))?;
    runtime.block_on(async {
        let mut keys = bucket.list(&format!("{ROWS}/"), "", None).await?;
        keys.retain(|key| key.rsplit_once('.').is_some_and(|(_, ending)| ending == ENDING));
        let mut erased = ErasedRows::default();
        for keys in keys.chunks(AT_ONCE) {
            for done in join_all(keys.iter().map(|key| from_object(&bucket, key, named))).await {
                erased.add(done?);
            }
        }
        Ok(erased)
    })
}

async fn from_object(bucket: &Bucket, key: &str, named: &Named) -> Result<ErasedRows, String> {
    let bytes = bucket.get(key).await?;
    let rewritten = without(bytes, named).map_err(|error| format!("{key}: {error}"))?;
    let Some(rewritten) = rewritten else { return Ok(ErasedRows::default()) };
    let erased = ErasedRows::of(&rewritten);
    match rewritten.bytes {
        Some(bytes) => bucket.put(key, Bytes::from(bytes)).await?,
        None => bucket.delete(key).await?,
    }
    Ok(erased)
}
