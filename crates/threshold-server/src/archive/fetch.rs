//! A bucket's files, brought here to be read.

use std::path::PathBuf;

use threshold::Timestamp;

use super::bucket::{Bucket, BucketPlace};
use super::folder::{EVENTS, Folder, Hour, ROWS};

/// How many files are fetched at once.
const AT_ONCE: usize = 8;

/// Brings the rows of `place` from `since` on into `scratch`, a folder of their own.
pub(crate) fn fetch(place: &BucketPlace, since: Timestamp, scratch: PathBuf) -> Result<Folder, String> {
    let bucket = Bucket::new(place)?;
    let folder = Folder::temporary(scratch);
    let unwritten = |error| format!("{}: {error}; see whether the disk has room", folder.path().display());
    folder.prepare().map_err(unwritten)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("no runtime could be started: {error}; try again"))?;
    let unread = |why| format!("{place}: {why}");
    let earliest = format!("{ROWS}/{}", Hour::before(since).path().display());
    let keys = runtime.block_on(bucket.list(&format!("{ROWS}/"), &earliest, None)).map_err(unread)?;
    let is_rows = |key: &&String| !key.rsplit('/').next().unwrap_or_default().starts_with(EVENTS);
    let keys: Vec<&String> = keys.iter().filter(is_rows).collect();
    for keys in keys.chunks(AT_ONCE) {
        let all = keys.iter().map(|key| bucket.get(key));
        let fetched = runtime.block_on(futures_util::future::join_all(all));
        for (key, bytes) in keys.iter().zip(fetched) {
            folder.keep(key, &bytes.map_err(unread)?).map_err(unwritten)?;
        }
    }
    Ok(folder)
}
