//! What operators see of an archive and have it do.

use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Weak};

use threshold::node::{Breaker, ComponentStats};
use threshold::{Clock as _, Span, SystemClock};
use tokio::sync::{Mutex, oneshot};

use super::bucket::{Bucket, BucketPlace};
use super::erase::{ErasedRows, Named, from_bucket, from_folder};
use super::folder::Folder;
use super::upload;
use super::writer::{Asked, Settings};

/// An archive at work, which this does not keep at work.
#[derive(Clone)]
pub(crate) struct Handle {
    told: Weak<Sender<Asked>>,
    breaker: Arc<Breaker>,
    folder: PathBuf,
    bucket: Option<BucketPlace>,
    keep: Span,
    /// Held while a file is sent away or changed.
    moving: Arc<Mutex<()>>,
}

/// What was tended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tended {
    /// Rows and events that were written.
    pub(crate) rows: usize,
    pub(crate) events: usize,
    /// Days that were too old and were removed from the folder, and objects from the bucket.
    pub(crate) days: usize,
    pub(crate) objects: usize,
}

impl Handle {
    pub(super) fn new(
        told: &Arc<Sender<Asked>>,
        breaker: &Arc<Breaker>,
        settings: &Settings,
        moving: &Arc<Mutex<()>>,
    ) -> Self {
        Self {
            told: Arc::downgrade(told),
            breaker: Arc::clone(breaker),
            folder: settings.folder.clone(),
            bucket: settings.bucket.as_ref().map(|(place, _)| place.clone()),
            keep: settings.keep,
            moving: Arc::clone(moving),
        }
    }

    /// The folder.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// How it is and how it has been.
    pub(crate) fn stats(&self) -> ComponentStats {
        let (failures, latency) = self.breaker.figures();
        ComponentStats { state: self.breaker.state(), latency, failures }
    }

    /// Has a disk tried again at once that was given up; true if it was.
    pub(crate) fn recover(&self) -> bool {
        self.breaker.recover()
    }

    /// Writes what there is, and removes what is too old; none if the archive has stopped.
    pub(crate) async fn tend(&self) -> Result<Option<Tended>, String> {
        let Some(tended) = self.ask(Asked::Tend).await else { return Ok(None) };
        let Some(place) = self.bucket.clone() else { return Ok(Some(tended)) };
        let oldest = SystemClock::new().now().minus(self.keep);
        let forget = move || {
            let bucket = Bucket::new(&place)?;
            runtime()?.block_on(upload::forget(&bucket, oldest)).map_err(|why| format!("{place}: {why}"))
        };
        Ok(Some(Tended { objects: aside(forget).await?, ..tended }))
    }

    /// Erases somebody from what waits, from the folder and from the bucket, in this order: what goes from one to the
    /// next meanwhile is met there. None if the archive has stopped.
    pub(crate) async fn erase(&self, named: Named) -> Result<Option<ErasedRows>, String> {
        let asked = named.clone();
        let Some(mut erased) = self.ask(|reply| Asked::Erase(asked, reply)).await else { return Ok(None) };
        let (folder, moving, bucket) =
            (Folder::new(self.folder.clone()), Arc::clone(&self.moving), self.bucket.clone());
        let files = move || {
            let unwritten = |error| format!("{}: {error}", folder.path().display());
            let mut files = from_folder(&folder, &moving, &named).map_err(unwritten)?;
            if let Some(place) = bucket {
                files.add(from_bucket(&place, &named).map_err(|why| format!("{place}: {why}"))?);
            }
            Ok(files)
        };
        erased.add(aside(files).await?);
        Ok(Some(erased))
    }

    /// What the thread answers; none if it has ended.
    async fn ask<T>(&self, asked: impl FnOnce(oneshot::Sender<T>) -> Asked) -> Option<T> {
        let (reply, answered) = oneshot::channel();
        self.told.upgrade()?.send(asked(reply)).ok()?;
        answered.await.ok()
    }
}

/// Works on files where nobody else has to wait for it.
async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| Err("it was interrupted; try again".to_owned()))
}

fn runtime() -> Result<tokio::runtime::Runtime, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| format!("no runtime could be started: {error}; try again"))
}
