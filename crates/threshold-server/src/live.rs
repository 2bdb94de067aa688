//! What happens, as it happens: events for whoever listens, and none for nobody.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value as Json, json};
use threshold::event::Event;
use threshold::figures::{Ending, Seen, Watcher};
use tokio::sync::{broadcast, watch};

use crate::workers;

/// How many a listener may be behind before it misses some.
const BEHIND: usize = 1_024;
/// The most who listen at the same time.
const LISTENERS: usize = 64;
/// What decisions are called.
pub(crate) const DECISION: &str = "decision";
/// What is told of alarms and of stores that come and go.
pub(crate) const ALERT: &str = "alert";
pub(crate) const COMPONENT: &str = "component_changed";

/// The names of all that can be listened to.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    Event::NAMES.into_iter().chain([ALERT, COMPONENT, DECISION])
}

/// Hands what happens to whoever listens.
pub(crate) struct Live {
    told: broadcast::Sender<Arc<Told>>,
    /// True when nothing more will happen.
    over: watch::Sender<bool>,
    /// How many want to see refusals, and how many want to see every decision.
    refusals: AtomicUsize,
    decisions: AtomicUsize,
}

/// Something that happened.
#[derive(Debug)]
pub(crate) struct Told {
    /// The event's name.
    pub(crate) name: String,
    /// All of it.
    pub(crate) json: Json,
}

/// What a listener wants to hear of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// These events; all but decisions if there are none.
    pub(crate) names: Vec<String>,
    /// These values of these fields.
    pub(crate) fields: Vec<(String, String)>,
}

/// Somebody who listens, until it is dropped.
pub(crate) struct Listening {
    live: Arc<Live>,
    receiver: broadcast::Receiver<Arc<Told>>,
    over: watch::Receiver<bool>,
    wanted: Wanted,
}

/// What a listener hears.
#[derive(Debug)]
pub(crate) enum Heard {
    Told(Arc<Told>),
    /// It was too slow, and missed so many.
    Missed(u64),
}

impl Default for Live {
    fn default() -> Self {
        Self {
            told: broadcast::Sender::new(BEHIND),
            over: watch::Sender::new(false),
            refusals: AtomicUsize::new(0),
            decisions: AtomicUsize::new(0),
        }
    }
}

impl Live {
    /// Tells of the event `name`.
    pub(crate) fn tell(&self, name: &str, json: Json) {
        debug_assert!(names().any(|known| known == name), "nobody can ask for {name:?}");
        if self.told.receiver_count() == 0 {
            return;
        }
        // Nobody may be left to hear it.
        let _ = self.told.send(Arc::new(Told { name: name.to_owned(), json }));
    }

    /// Listens; none if too many do already.
    pub(crate) fn listen(self: &Arc<Self>, wanted: Wanted) -> Option<Listening> {
        if self.told.receiver_count() >= LISTENERS {
            return None;
        }
        if let Some(counter) = self.counter(&wanted) {
            counter.fetch_add(1, Ordering::AcqRel);
        }
        let (receiver, over) = (self.told.subscribe(), self.over.subscribe());
        Some(Listening { live: Arc::clone(self), receiver, over, wanted })
    }

    /// Has nobody listen any longer, but for what was told already.
    pub(crate) fn end(&self) {
        self.over.send_replace(true);
    }

    /// Who is counted for what is `wanted`.
    fn counter(&self, wanted: &Wanted) -> Option<&AtomicUsize> {
        let refusals = wanted.fields.iter().any(|(name, value)| name == "blocked" && value == "true");
        match (wanted.names.iter().any(|name| name == DECISION), refusals) {
            (false, _) => None,
            (true, true) => Some(&self.refusals),
            (true, false) => Some(&self.decisions),
        }
    }
}

impl Watcher for Live {
    fn wants(&self, ending: Ending) -> bool {
        self.decisions.load(Ordering::Relaxed) > 0
            || (ending.is_refusal() && self.refusals.load(Ordering::Relaxed) > 0)
    }

    fn see(&self, seen: &Seen<'_>) {
        let Seen { at, ending, source, limit, tenant, user, endpoint, address } = seen;
        self.tell(
            DECISION,
            json!({
                "event": DECISION,
                "timestamp": at.to_string(),
                "layer": limit.map(|(_, layer)| layer.word()),
                "limit": limit.map(|(limit, _)| limit),
                "blocked": ending.is_refusal(),
                "outcome": ending.name(),
                "source": source.name(),
                "tenant": tenant,
                "userId": user.map(|user| user.to_string()),
                "endpoint": endpoint,
                "ip": address,
            }),
        );
    }
}

impl Wanted {
    fn is_met_by(&self, told: &Told) -> bool {
        let named = match self.names.as_slice() {
            [] => told.name != DECISION,
            names => names.contains(&told.name),
        };
        named && self.fields.iter().all(|(field, value)| said(&told.json[field]) == *value)
    }
}

/// A value as a listener would write it.
fn said(value: &Json) -> String {
    match value {
        Json::String(text) => text.clone(),
        other => other.to_string(),
    }
}

impl Listening {
    /// The next that is wanted; none when the server ends.
    pub(crate) async fn next(&mut self) -> Option<Heard> {
        loop {
            let told = tokio::select! {
                biased;
                told = self.receiver.recv() => told,
                () = workers::told(&mut self.over) => return None,
            };
            match told {
                Ok(told) if self.wanted.is_met_by(&told) => return Some(Heard::Told(told)),
                Ok(_) => {}
                Err(broadcast::error::RecvError::Lagged(missed)) => return Some(Heard::Missed(missed)),
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        if let Some(counter) = self.live.counter(&self.wanted) {
            counter.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(names: &[&str], fields: &[(&str, &str)]) -> Wanted {
        let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Wanted { names: names.iter().map(|name| (*name).to_owned()).collect(), fields: fields.collect() }
    }

    #[tokio::test]
    async fn listeners_hear_what_they_want_and_nothing_is_made_for_nobody() {
        let live = Arc::new(Live::default());
        assert!(!live.wants(Ending::Limited));
        let mut all = live.listen(Wanted::default()).unwrap();
        let mut blocked =
            live.listen(wanted(&[DECISION], &[("blocked", "true"), ("tenant", "acme")])).unwrap();
        assert!(live.wants(Ending::Limited) && !live.wants(Ending::Allowed));
        for (tenant, refused) in [("acme", false), ("other", true), ("acme", true)] {
            live.tell(DECISION, json!({ "tenant": tenant, "blocked": refused, "n": 1 }));
        }
        live.tell("alert", json!({ "id": "edge" }));
        assert!(matches!(all.next().await, Some(Heard::Told(told)) if told.name == "alert"));
        let Some(Heard::Told(told)) = blocked.next().await else { panic!("nothing") };
        assert_eq!((&told.json["tenant"], &told.json["blocked"]), (&json!("acme"), &json!(true)));
        drop(blocked);
        assert!(!live.wants(Ending::Limited));
    }

    #[tokio::test]
    async fn who_is_slow_is_told_what_it_missed() {
        let live = Arc::new(Live::default());
        let mut slow = live.listen(Wanted::default()).unwrap();
        (0..BEHIND + 10).for_each(|n| live.tell("alert", json!(n)));
        assert!(matches!(slow.next().await, Some(Heard::Missed(10))));
        live.end();
        for n in 10..BEHIND + 10 {
            assert!(matches!(slow.next().await, Some(Heard::Told(told)) if told.json == json!(n)));
        }
        assert!(slow.next().await.is_none());
        let others: Vec<_> = (1..LISTENERS).map(|_| live.listen(Wanted::default()).unwrap()).collect();
        assert!(live.listen(Wanted::default()).is_none(), "{} are enough", others.len());
    }
}
