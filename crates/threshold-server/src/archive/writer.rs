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
use tokio::sync::{Mutex, oneshot};

use super::bucket::BucketPlace;
use super::counting::Counting;
use super::erase::{ErasedRows, Named};
use super::events::{Events, Taken, Told};
use super::folder::{EVENTS, Folder, Hour};
use super::handle::{Handle, Tended};
use super::upload::Upload;
use super::{columns, event_columns};
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
    /// Where files are, or wait until they are sent.
    pub(crate) folder: PathBuf,
    /// Where they are sent, and how many bytes may wait.
    pub(crate) bucket: Option<(BucketPlace, u64)>,
    /// How often files are written.
    pub(crate) every: Span,
    /// How long they are kept.
    pub(crate) keep: Span,
    pub(crate) breaker: BreakerSettings,
}

/// An archive at work.
pub(crate) struct Archive {
    usage: Arc<Usage>,
    events: Arc<Events>,
    upload: Option<Upload>,
    /// Dropped, it has the thread write what there is and end.
    told: Arc<Sender<Asked>>,
    breaker: Arc<Breaker>,
    settings: Settings,
    moving: Arc<Mutex<()>>,
    thread: JoinHandle<()>,
    counting: Counting,
}

/// What the thread is asked for.
pub(super) enum Asked {
    /// To write what there is, and to forget what is too old.
    Tend(oneshot::Sender<Tended>),
    /// To forget somebody who waits to be written.
    Erase(Named, oneshot::Sender<ErasedRows>),
}

struct Writer {
    settings: Settings,
    folder: Folder,
    usage: Arc<Usage>,
    events: Arc<Events>,
    /// In all names of this process' files: others may write into the same folder.
    node: String,
    files: u64,
    waiting: Vec<Row>,
    /// How many of them there may be.
    most_waiting: usize,
    /// Requests that found no room, and are not told in a file yet.
    dropped: u64,
    /// Events that did not.
    dropped_events: u64,
    breaker: Arc<Breaker>,
    clock: SystemClock,
    log: Arc<Log>,
    health: Arc<Health>,
}

impl Archive {
    /// Makes the folder ready and starts the thread.
    pub(crate) fn start(settings: Settings, log: &Arc<Log>, health: &Arc<Health>) -> Result<Self, String> {
        Folder::new(settings.folder.clone()).prepare().map_err(|error| {
            format!(
                "--archive {}: the folder cannot be used ({error}); make it writable for who runs the server, or name \
                 another",
                settings.folder.display()
            )
        })?;
        health.archive(false);
        let usage = Arc::new(Usage::new(COUNTED));
        let (told, listening) = channel();
        let moving = Arc::new(Mutex::new(()));
        let start = |place| {
            let of = (Folder::new(settings.folder.clone()), settings.keep, &moving);
            Upload::start(place, of, (log, health))
        };
        let upload = settings.bucket.as_ref().map(|(place, _)| start(place));
        let upload = upload.transpose()?;
        let mut writer = Writer::new(settings.clone(), &usage, (log, health));
        let (events, breaker) = (Arc::clone(&writer.events), Arc::clone(&writer.breaker));
        let thread =
            std::thread::Builder::new().name("archive".to_owned()).spawn(move || writer.run(&listening));
        let failed = |error| format!("--archive: no thread could be started: {error}; try again");
        let (thread, counting) = (thread.map_err(failed)?, Counting::start(&usage).map_err(failed)?);
        Ok(Self { usage, events, upload, told: Arc::new(told), breaker, settings, moving, thread, counting })
    }

    /// For operators.
    pub(crate) fn handle(&self) -> Handle {
        Handle::new(&self.told, &self.breaker, &self.settings, &self.moving)
    }

    /// Where decisions are counted.
    pub(crate) fn usage(&self) -> Arc<Usage> {
        Arc::clone(&self.usage)
    }

    /// Where events are noted.
    pub(crate) fn events(&self) -> Arc<Events> {
        Arc::clone(&self.events)
    }

    /// Writes what there is, and ends.
    pub(crate) fn stop(self) {
        self.counting.stop();
        drop(self.told);
        // What it had to say is in the log.
        let _ = self.thread.join();
        if let Some(upload) = self.upload {
            upload.stop();
        }
    }
}

impl Writer {
    fn new(settings: Settings, usage: &Arc<Usage>, (log, health): (&Arc<Log>, &Arc<Health>)) -> Self {
        Self {
            breaker: Arc::new(Breaker::new(settings.breaker)),
            folder: Folder::new(settings.folder.clone()),
            settings,
            usage: Arc::clone(usage),
            events: Arc::default(),
            node: random_token().chars().filter(char::is_ascii_alphanumeric).take(12).collect(),
            files: 0,
            waiting: Vec::new(),
            most_waiting: WAITING,
            dropped: 0,
            dropped_events: 0,
            clock: SystemClock::new(),
            log: Arc::clone(log),
            health: Arc::clone(health),
        }
    }

    /// Whether it is time to take over what was counted, so long after the last time. Sooner when there is much; but however
    /// many new addresses a flood comes from, what it makes this write is bounded.
    fn is_due(&self, waited: Span) -> bool {
        let every = self.settings.every;
        let early = Span::from_micros(every.as_micros() / EARLY);
        waited >= every || (waited >= early && self.usage.len() >= self.usage.room() / 2)
    }

    fn run(&mut self, told: &Receiver<Asked>) {
        let mut gathered = self.clock.now();
        let mut forgotten = None;
        loop {
            let (stop, asked) = match told.recv_timeout(LOOK) {
                Ok(asked) => (false, Some(asked)),
                Err(RecvTimeoutError::Timeout) => (false, None),
                Err(RecvTimeoutError::Disconnected) => (true, None),
            };
            let now = self.clock.now();
            let asked = match asked {
                // Who asked may have gone.
                Some(Asked::Erase(named, reply)) => {
                    let _ = reply.send(self.erase(&named));
                    None
                }
                Some(Asked::Tend(reply)) => Some(reply),
                None => None,
            };
            if stop || asked.is_some() || self.is_due(now.since(gathered)) {
                self.gather();
                gathered = now;
            }
            let waiting = self.waiting.len();
            self.write(stop);
            let events = self.write_events(stop || asked.is_some(), stop);
            if stop {
                return;
            }
            let mut days = 0;
            if asked.is_some() || forgotten.is_none_or(|before: Timestamp| now.since(before) >= FORGET) {
                days = self.forget(now);
                forgotten = Some(now);
            }
            if let Some(reply) = asked {
                let rows = waiting - self.waiting.len();
                let _ = reply.send(Tended { rows, events, days, objects: 0 });
            }
        }
    }

    /// Forgets somebody who was counted and told of, and is in no file yet.
    fn erase(&mut self, named: &Named) -> ErasedRows {
        self.gather();
        let before = self.waiting.len();
        self.waiting.retain(|row| !named.is_subject(&row.subject.to_string()));
        let events = self.events.forget(|told| named.is_told(told));
        ErasedRows { usage: before - self.waiting.len(), events, files: 0 }
    }

    /// Takes over what was counted, as far as there is room.
    fn gather(&mut self) {
        let Drained { mut rows, mut dropped } = self.usage.drain();
        let room = self.most_waiting.saturating_sub(self.waiting.len());
        let over = rows.split_off(rows.len().min(room));
        dropped += over.iter().map(|row| row.requests).sum::<u64>();
        self.waiting.append(&mut rows);
        self.lose(dropped);
    }

    fn lose(&mut self, dropped: u64) {
        if dropped > 0 {
            self.dropped += dropped;
            self.health.archive_dropped(dropped);
            self.log.warning(&format!("the archive had no room for {dropped} counts, which are lost"));
        }
    }

    /// Writes the events that wait, if it is time or has to be `at_once`, and the disk is not left alone. Says how many.
    fn write_events(&mut self, at_once: bool, stop: bool) -> usize {
        let now = self.clock.now();
        let Taken { told, dropped } = self.events.take(now, at_once);
        self.lose_events(dropped);
        if told.is_empty() {
            return 0;
        }
        if !(stop || self.breaker.admits(now)) {
            self.events.give_back(told);
            return 0;
        }
        let count = told.len();
        match self.try_write_events(told) {
            Ok(()) => {
                if self.breaker.succeeded(self.clock.now().since(now)) {
                    self.changed(ComponentState::Up, "it can be written again");
                }
                count
            }
            Err((error, left)) => {
                self.failed(&error);
                if stop {
                    let lost = left.len();
                    self.log
                        .error(&format!("the archive lost {lost} events that could not be written: {error}"));
                }
                let written = count - left.len();
                self.events.give_back(left);
                written
            }
        }
    }

    /// A file for each hour; what is left if one cannot be written.
    fn try_write_events(&mut self, told: Vec<Told>) -> Result<(), (io::Error, Vec<Told>)> {
        let mut hours: BTreeMap<Hour, Vec<Told>> = BTreeMap::new();
        for told in told {
            hours.entry(Hour::of(told.at)).or_default().push(told);
        }
        while let Some((hour, told)) = hours.pop_first() {
            if let Err(error) = self.put_events(&hour, &told) {
                return Err((error, told.into_iter().chain(hours.into_values().flatten()).collect()));
            }
        }
        Ok(())
    }

    fn put_events(&mut self, hour: &Hour, told: &[Told]) -> io::Result<()> {
        let bytes = event_columns::encode(told, self.dropped_events).map_err(io::Error::other)?;
        if self.is_full(bytes.len())? {
            self.lose_events(told.len() as u64);
            return Ok(());
        }
        let name = format!("{EVENTS}{}", self.name());
        self.folder.put(hour, &name, &bytes)?;
        self.dropped_events = 0;
        Ok(())
    }

    fn lose_events(&mut self, dropped: u64) {
        if dropped > 0 {
            self.dropped_events += dropped;
            self.health.archive_dropped(dropped);
            self.log.warning(&format!("the archive had no room for {dropped} events, which are lost"));
        }
    }

    /// True if so many bytes more are too many to wait for the bucket.
    fn is_full(&self, more: usize) -> io::Result<bool> {
        match &self.settings.bucket {
            Some((_, most)) => Ok(self.folder.size()? + more as u64 > *most),
            None => Ok(false),
        }
    }

    /// A name that no other file has.
    fn name(&mut self) -> String {
        self.files += 1;
        format!("{}-{}-{}", self.clock.now().as_micros() / 1_000, self.node, self.files)
    }

    fn failed(&mut self, error: &io::Error) {
        if self.breaker.failed(self.clock.now()) {
            self.changed(ComponentState::Down, &format!("{}: {error}", self.folder.path().display()));
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
                self.failed(&error);
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
        if self.is_full(bytes.len())? {
            self.lose(rows.iter().map(|row| row.requests).sum());
            return Ok(());
        }
        let name = self.name();
        self.folder.put(hour, &name, &bytes)?;
        self.dropped = 0;
        Ok(())
    }

    /// Removes days that are too old, and says how many.
    fn forget(&self, now: Timestamp) -> usize {
        match self.folder.forget(now, self.settings.keep) {
            Ok(0) => 0,
            Ok(days) => {
                self.log.debug(&format!("the archive forgot {days} days"));
                days
            }
            Err(error) => {
                self.log.warning(&format!("the archive could not remove what is too old: {error}"));
                0
            }
        }
    }
}

#[cfg(test)]
mod tests;
