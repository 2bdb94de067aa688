//! A folder for one test, gone afterwards.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A temporary folder; dropped, it is removed with all that is in it.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// An empty folder that nobody else has.
    ///
    /// # Panics
    ///
    /// If it cannot be made.
    #[must_use]
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let (process, next) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(format!("threshold-{process}-{next}"));
        std::fs::create_dir_all(&path).expect("the temporary folder is writable");
        Self(path)
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Default for Folder {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A test that failed may have left something open; what stays is in a temporary folder.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
