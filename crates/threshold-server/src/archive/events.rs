//! Events that wait to be written: strikes, sanctions, lockouts, changes by operators.
//!
//! Whoever tells of one never waits: there is room for so many, and what comes then is counted and lost.

use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value as Json;
use threshold::event::Event;
use threshold::{Span, Timestamp};

/// A file is written for so many, or after so long; and so many may wait.
const BATCH: usize = 100;
const LONGEST: Span = Span::MINUTE;
const ROOM: usize = 1_000;

/// An event as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) at: Timestamp,
    pub(super) event: String,
    pub(super) subject: Option<String>,
    pub(super) limit: Option<String>,
    pub(super) kind: Option<String>,
    pub(super) layer: Option<String>,
    /// All of it, as JSON.
    pub(super) detail: String,
}

impl Told {
    fn new(event: &Event) -> Self {
        let json = event.to_json();
        // The names are those of other tools, and differ for the same thing.
        let text = |names: &[&str]| names.iter().find_map(|name| Some(json.get(name)?.as_str()?.to_owned()));
        Self {
            at: event.at(),
            event: event.name().to_owned(),
            subject: text(&["subject", "userId", "username", "ip"]),
            limit: text(&["limit", "limitId"]),
            kind: text(&["kind", "violation"]),
            layer: text(&["layer"]),
            detail: Json::to_string(&json),
        }
    }
}

/// Events that wait to be written.
#[derive(Debug, Default)]
pub(crate) struct Events(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    told: Vec<Told>,
    dropped: u64,
}

/// What was taken over.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Taken {
    pub(super) told: Vec<Told>,
    /// How many found no room since the last time.
    pub(super) dropped: u64,
}

impl Events {
    /// Keeps `event` until it is written, if there is room.
    pub(crate) fn note(&self, event: &Event) {
        let told = Told::new(event);
        let mut waiting = self.lock();
        match waiting.told.len() < ROOM {
            true => waiting.told.push(told),
            false => waiting.dropped += 1,
        }
    }

    /// Takes over what waits, if it is time to write it; `at_once` whether it is or not.
    pub(super) fn take(&self, now: Timestamp, at_once: bool) -> Taken {
        let mut waiting = self.lock();
        let old = waiting.told.first().is_some_and(|first| now.since(first.at) >= LONGEST);
        if !(at_once || old || waiting.told.len() >= BATCH) {
            return Taken::default();
        }
        let Waiting { told, dropped } = std::mem::take(&mut *waiting);
        Taken { told, dropped }
    }

    /// Forgets what waits and is about somebody; says how many events that were.
    pub(super) fn forget(&self, is_meant: impl Fn(&Told) -> bool) -> usize {
        let mut waiting = self.lock();
        let before = waiting.told.len();
        waiting.told.retain(|told| !is_meant(told));
        before - waiting.told.len()
    }

    /// Takes back what could not be written, as far as there is room.
    pub(super) fn give_back(&self, mut told: Vec<Told>) {
        let mut waiting = self.lock();
        told.append(&mut waiting.told);
        waiting.dropped += told.len().saturating_sub(ROOM) as u64;
        told.truncate(ROOM);
        waiting.told = told;
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(second: u64) -> Event {
        let at = Timestamp::from_micros(second * 1_000_000);
        Event::SettingChanged { at, what: "launch".to_owned(), by: "me".to_owned() }
    }

    fn at(second: u64) -> Timestamp {
        Timestamp::from_micros(second * 1_000_000)
    }

    #[test]
    fn a_file_is_due_for_a_hundred_or_after_a_minute() {
        let events = Events::default();
        assert_eq!(events.take(at(500), false), Taken::default());
        (0..99).for_each(|_| events.note(&changed(100)));
        assert_eq!(events.take(at(159), false), Taken::default());
        assert_eq!(events.take(at(160), false).told.len(), 99);
        (0..100).for_each(|_| events.note(&changed(200)));
        assert_eq!(events.take(at(200), false).told.len(), 100);
        events.note(&changed(201));
        assert_eq!(events.take(at(201), true).told.len(), 1, "all of it at the end");
    }

    #[test]
    fn what_finds_no_room_is_counted_and_what_was_not_written_is_not_lost() {
        let events = Events::default();
        (0..1_005).for_each(|second| events.note(&changed(second)));
        let taken = events.take(at(1), false);
        assert_eq!((taken.told.len(), taken.dropped), (1_000, 5));
        events.note(&changed(2_000));
        events.give_back(taken.told);
        let taken = events.take(at(1), false);
        assert_eq!((taken.told.len(), taken.dropped), (1_000, 1));
        assert_eq!(taken.told[0].at, at(0), "the oldest are kept");
    }
}
