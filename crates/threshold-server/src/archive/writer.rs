//! The thread that writes what was counted, and what it does when the disk fails.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use threshold::node::{Breaker, BreakerSettings, ComponentState};
use threshold::usage::{Drained, Row, Usage};
use threshold::{Clock as _, Span, SystemClock, Timestamp, random_token};

use super::columns;
use super::folder::{Folder, Hour};
use crate::health::Health;
use crate::log::Log;

/// How often the thread looks whether there is something to do.
const LOOK: Duration = Duration::from_millis(250);
/// How many rows are counted in memory between two files.
const COUNTED: usize = 1 << 16;
/// How many files there may be in the time of one, when there are many rows.
const EARLY: u64 = 10;
/// How many rows wait in memory while the disk fails.
const WAITING: usize = 1 << 18;
/// How often days that are too old are looked for.
const FORGET: Span = Span::HOUR;

/// How an archive is kept.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) folder: PathBuf,
    /// How often files are written.
    pub(crate) every: Span,
    /// How long they are kept.
    pub(crate) keep: Span,
    pub(crate) breaker: BreakerSettings,
}

/// An archive at work.
pub(crate) struct Archive {
    usage: Arc<Usage>,
    /// Dropped, it has the thread write what there is and end.
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

struct Writer {
    settings: Settings,
    folder: Folder,
    usage: Arc<Usage>,
    /// In all names of this process' files: others may write into the same folder.
    node: String,
    files: u64,
    waiting: Vec<Row>,
    /// Requests that found no room, and are not told in a file yet.
    dropped: u64,
    breaker: Breaker,
    clock: SystemClock,
    log: Arc<Log>,
    health: Arc<Health>,
}

impl Archive {
    /// Makes the folder ready and starts the thread.
    pub(crate) fn start(settings: Settings, log: &Arc<Log>, health: &Arc<Health>) -> Result<Self, String> {
        let folder = Folder::new(settings.folder.clone());
        folder.prepare().map_err(|error| {
            format!(
                "--archive {}: the folder cannot be used ({error}); make it writable for who runs the server, or name \
                 another",
                settings.folder.display()
            )
        })?;
        health.archive(false);
        let usage = Arc::new(Usage::new(COUNTED));
        let (stop, told) = channel();
        let node = random_token().chars().filter(char::is_ascii_alphanumeric).take(12).collect();
        let mut writer = Writer {
            breaker: Breaker::new(settings.breaker),
            settings,
            folder,
            usage: Arc::clone(&usage),
            node,
            files: 0,
            waiting: Vec::new(),
            dropped: 0,
            clock: SystemClock::new(),
            log: Arc::clone(log),
            health: Arc::clone(health),
        };
        let thread = std::thread::Builder::new().name("archive".to_owned()).spawn(move || writer.run(&told));
        let thread =
            thread.map_err(|error| format!("--archive: no thread could be started: {error}; try again"))?;
        Ok(Self { usage, stop, thread })
    }

    /// Where decisions are counted.
    pub(crate) fn usage(&self) -> Arc<Usage> {
        Arc::clone(&self.usage)
    }

    /// Writes what there is, and ends.
    pub(crate) fn stop(self) {
        drop(self.stop);
        // What it had to say is in the log.
        let _ = self.thread.join();
    }
}

impl Writer {
    fn run(&mut self, told: &Receiver<()>) {
        let mut gathered = self.clock.now();
        let mut forgotten = None;
        // However many new addresses a flood comes from, what it makes this write is bounded.
        let early = Span::from_micros(self.settings.every.as_micros() / EARLY);
        loop {
            let stop = told.recv_timeout(LOOK) != Err(RecvTimeoutError::Timeout);
            let now = self.clock.now();
            let waited = now.since(gathered);
            let full = self.usage.len() >= self.usage.room() / 2 && waited >= early;
            if stop || full || waited >= self.settings.every {
                self.gather();
                gathered = now;
            }
            self.write(stop);
            if stop {
                return;
            }
            if forgotten.is_none_or(|before: Timestamp| now.since(before) >= FORGET) {
                self.forget(now);
                forgotten = Some(now);
            }
        }
    }

    /// Takes over what was counted, as far as there is room.
    fn gather(&mut self) {
        let Drained { mut rows, mut dropped } = self.usage.drain();
        let room = WAITING.saturating_sub(self.waiting.len());
        let over = rows.split_off(rows.len().min(room));
        dropped += over.iter().map(|row| row.requests).sum::<u64>();
        self.waiting.append(&mut rows);
        if dropped > 0 {
            self.dropped += dropped;
            self.log.warning(&format!("the archive had no room for {dropped} counts, which are lost"));
        }
    }

    /// Writes what waits, unless the disk is left alone for now.
    fn write(&mut self, stop: bool) {
        if self.waiting.is_empty() || !(stop || self.breaker.admits(self.clock.now())) {
            return;
        }
        let begun = self.clock.now();
        match self.try_write() {
            Ok(()) => {
                if self.breaker.succeeded(self.clock.now().since(begun)) {
                    self.changed(ComponentState::Up, "it can be written again");
                }
            }
            Err(error) => {
                if self.breaker.failed(self.clock.now()) {
                    self.changed(ComponentState::Down, &format!("{}: {error}", self.folder.path().display()));
                }
                if stop {
                    let lost = self.waiting.len();
                    self.log
                        .error(&format!("the archive lost {lost} rows that could not be written: {error}"));
                }
            }
        }
    }

    fn changed(&self, state: ComponentState, reason: &str) {
        self.health.archive(state == ComponentState::Down);
        self.log.component_changed("archive", state, reason);
    }

    /// A file for each hour that windows began in; mostly that is one. What is written waits no more.
    fn try_write(&mut self) -> io::Result<()> {
        let mut hours: BTreeMap<Hour, Vec<Row>> = BTreeMap::new();
        for row in self.waiting.drain(..) {
            hours.entry(Hour::of(row.window_start)).or_default().push(row);
        }
        let mut done = Ok(());
        for (hour, rows) in hours {
            if done.is_ok() {
                done = self.put(&hour, &rows);
            }
            if done.is_err() {
                self.waiting.extend(rows);
            }
        }
        done
    }

    fn put(&mut self, hour: &Hour, rows: &[Row]) -> io::Result<()> {
        let bytes = columns::encode(rows, self.dropped).map_err(io::Error::other)?;
        self.files += 1;
        let name = format!("{}-{}-{}", self.clock.now().as_micros() / 1_000, self.node, self.files);
        self.folder.put(hour, &name, &bytes)?;
        self.dropped = 0;
        Ok(())
    }

    fn forget(&self, now: Timestamp) {
        match self.folder.forget(now, self.settings.keep) {
            Ok(0) => {}
            Ok(days) => self.log.debug(&format!("the archive forgot {days} days")),
            Err(error) => {
                self.log.warning(&format!("the archive could not remove what is too old: {error}"));
            }
        }
    }
}
