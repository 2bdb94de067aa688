//! The thread that sends the spool's files to a bucket, and removes those that have arrived.
//!
//! A file is sent under the name that it has here: sent twice, after a crash between its arrival and its removal, it is the
//! same object. What cannot be sent stays, also across a restart.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use threshold::node::{Breaker, BreakerSettings, ComponentState};
use threshold::{Clock as _, Span, SystemClock, Timestamp};
use tokio::sync::{Mutex, watch};

use super::bucket::{Bucket, BucketPlace};
use super::folder::{ENDING, Folder, ROWS, keys_before};
use crate::health::Health;
use crate::log::Log;

/// How often the thread looks whether there is something to send.
const LOOK: Duration = Duration::from_millis(250);
/// How long a file may still take when the server stops, and how long it may go on with others.
const PARTING: Duration = Duration::from_secs(5);
/// The fewest and the longest that a bucket which fails is left alone: it is far away, and nobody waits for it.
const BREAKER: BreakerSettings =
    BreakerSettings { failures: 2, open: Span::from_secs(2), probe: Span::from_secs(5) };

/// How often objects that are too old are looked for, and how many are removed then at most.
const FORGET: Span = Span::HOUR;
const FORGOTTEN: usize = 1_000;

/// Files on their way.
pub(super) struct Upload {
    /// Dropped, it has the thread send what there is and end.
    stop: watch::Sender<()>,
    thread: JoinHandle<()>,
}

struct Sending {
    folder: Folder,
    bucket: Bucket,
    shown: String,
    told: watch::Receiver<()>,
    /// Held while a file is on its way: nobody changes it meanwhile.
    moving: Arc<Mutex<()>>,
    /// How long objects are kept, and when those that are too old were removed.
    keep: Span,
    forgot: Option<Timestamp>,
    started: Timestamp,
    breaker: Breaker,
    clock: SystemClock,
    log: Arc<Log>,
    health: Arc<Health>,
}

impl Upload {
    pub(super) fn start(
        place: &BucketPlace,
        (folder, keep, moving): (Folder, Span, &Arc<Mutex<()>>),
        (log, health): (&Arc<Log>, &Arc<Health>),
    ) -> Result<Self, String> {
        let failed = |error| format!("--archive: no thread could be started: {error}; try again");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let ((stop, told), clock) = (watch::channel(()), SystemClock::new());
        let mut sending = Sending {
            folder,
            bucket: Bucket::new(place)?,
            shown: place.to_string(),
            told,
            moving: Arc::clone(moving),
            keep,
            forgot: None,
            started: clock.now(),
            breaker: Breaker::new(BREAKER),
            clock,
            log: Arc::clone(log),
            health: Arc::clone(health),
        };
        let run = move || {
            runtime.block_on(sending.run());
            // A name that is being resolved may take its time; nobody waits for it.
            runtime.shutdown_background();
        };
        let thread =
            std::thread::Builder::new().name("archive-upload".to_owned()).spawn(run).map_err(failed)?;
        Ok(Self { stop, thread })
    }

    /// Sends what there is, as far as it does not take long, and ends.
    pub(super) fn stop(self) {
        drop(self.stop);
        // What it had to say is in the log.
        let _ = self.thread.join();
    }
}

impl Sending {
    async fn run(&mut self) {
        loop {
            let stop = tokio::time::timeout(LOOK, self.told.changed()).await.is_ok();
            if stop || self.breaker.admits(self.clock.now()) {
                self.send_all(stop).await;
            }
            if stop {
                return;
            }
        }
    }

    /// Sends every file, until one fails.
    async fn send_all(&mut self, stop: bool) {
        let begun = self.clock.now();
        let files = match self.folder.files() {
            Ok(files) => files,
            Err(error) => return self.failed(&format!("{}: {error}", self.folder.path().display())),
        };
        let count = files.len();
        for (sent, file) in files.into_iter().enumerate() {
            let done = self.send(&file).await;
            if let Err(why) = &done {
                self.failed(why);
            }
            if done.is_err() || (stop && self.is_late(begun)) {
                if stop {
                    let left = count - sent;
                    self.log.warning(&format!("{left} files of the archive are sent at the next start"));
                }
                return;
            }
        }
        self.folder.tidy(begun);
        // At first after something has arrived; where nothing has for an hour, somebody else's may still be too old.
        let never = if count > 0 { Timestamp::default() } else { self.started };
        if !stop && begun.since(self.forgot.unwrap_or(never)) >= FORGET {
            self.forgot = Some(begun);
            self.forget(begun).await;
        }
    }

    /// Removes what is too old, unless the server stops.
    async fn forget(&self, now: Timestamp) {
        let mut told = self.told.clone();
        let removed = tokio::select! {
            removed = forget(&self.bucket, now.minus(self.keep)) => removed,
            _ = told.changed() => return,
        };
        match removed {
            Ok(0) => {}
            Ok(objects) => self.log.debug(&format!("the archive forgot {objects} objects")),
            Err(why) => {
                self.log
                    .warning(&format!("the archive could not remove what is too old: {}: {why}", self.shown));
            }
        }
    }

    async fn send(&mut self, file: &Path) -> Result<(), String> {
        let key = self.key(file)?;
        let moving = Arc::clone(&self.moving);
        let _moving = moving.lock().await;
        let bytes = match fs::read(file) {
            Ok(bytes) => Bytes::from(bytes),
            // Its time was over.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(format!("{}: {error}", file.display())),
        };
        let begun = self.clock.now();
        let mut told = self.told.clone();
        let overdue = async {
            // Nothing is ever said but that it is over.
            let _ = told.changed().await;
            tokio::time::sleep(PARTING).await;
        };
        tokio::select! {
            put = self.bucket.put(&key, bytes) => put?,
            () = overdue => return Err("the server stops".to_owned()),
        }
        if self.breaker.succeeded(self.clock.now().since(begun)) {
            self.changed(ComponentState::Up, "files arrive again");
        }
        self.log.debug(&format!("the archive sent {key} to {}", self.shown));
        match fs::remove_file(file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(format!("{}: {error}", file.display()))
            }
            _ => Ok(()),
        }
    }

    fn is_late(&self, begun: Timestamp) -> bool {
        u128::from(self.clock.now().since(begun).as_micros()) >= PARTING.as_micros()
    }

    fn key(&self, file: &Path) -> Result<String, String> {
        let path: PathBuf = file.strip_prefix(self.folder.path()).map_err(|error| error.to_string())?.into();
        path.to_str().map(str::to_owned).ok_or_else(|| format!("{} is no name for an object", path.display()))
    }

    fn failed(&mut self, why: &str) {
        if self.breaker.failed(self.clock.now()) {
            self.changed(ComponentState::Down, &format!("{}: {why}", self.shown));
        }
    }

    fn changed(&self, state: ComponentState, reason: &str) {
        self.health.archive(state == ComponentState::Down);
        self.log.component_changed("archive", state, reason);
    }
}

/// Removes objects of days before that of `oldest`, some at a time, and says how many.
pub(super) async fn forget(bucket: &Bucket, oldest: Timestamp) -> Result<usize, String> {
    let mut old = bucket.list(&format!("{ROWS}/"), "", Some(&keys_before(oldest))).await?;
    // Others may keep things there, too.
    old.retain(|key| Path::new(key).extension().is_some_and(|ending| ending == ENDING));
    old.truncate(FORGOTTEN);
    for key in &old {
        bucket.delete(key).await?;
    }
    Ok(old.len())
}
