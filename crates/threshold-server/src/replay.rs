//! Replay: requests of the past, decided anew by a policy, at the times when they came.
//!
//! Where they come from is nobody's business here. The engine is the real one, over a store, a ledger and clocks of its own:
//! what it counts and whom it strikes is felt nowhere else. Its counters begin empty, and nothing is held against anybody.
//!
//! What cannot be said again is passed over: how long requests took, and with that limits of how many at the same time; the
//! bytes of bodies that were not declared; logins; messages of WebSockets.

use std::sync::Mutex;

use threshold::engine::{Decision, Extras, Rules};
use threshold::figures::{Ending, Seen, Watcher};
use threshold::policy::Layer;
use threshold::recent::Asked;
use threshold::{ManualClock, MemoryLedger, MemoryStore, StoreError, SubjectId};

use crate::engine::Engine;

/// How much the counters of one policy may take, in each of its stores.
const BYTES: usize = 64 << 20;

/// A policy that is tried.
pub(crate) struct Replay {
    engine: threshold::engine::Engine<MemoryStore<ManualClock>, ManualClock, MemoryLedger>,
    /// The edge's limits and the others judge a request one after the other, at times of their own.
    edge: ManualClock,
    store: ManualClock,
    /// A place for decisions, which are large.
    decision: Decision,
}

/// What a request came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Judged {
    pub(crate) ending: Ending,
    /// The limit that refused it, if one did.
    pub(crate) limit: Option<(&'static str, Layer)>,
    /// Who asked, as operators know them.
    pub(crate) subject: SubjectId,
}

impl Replay {
    /// Tries `rules`, with the overrides and tenants of `live`.
    pub(crate) fn new(live: &Engine, rules: Rules) -> Result<Self, String> {
        let (edge, store) = (ManualClock::default(), ManualClock::default());
        let memory = |clock: &ManualClock| {
            MemoryStore::builder()
                .max_bytes(BYTES)
                .clock(clock.clone())
                .build()
                .map_err(|error| format!("no memory for trying it: {error}"))
        };
        let engine = live.rehearsal(rules, memory(&store)?, memory(&edge)?);
        Ok(Self { engine, edge, store, decision: Decision::default() })
    }

    /// Decides about the next request. They come by their times.
    pub(crate) async fn ask(&mut self, asked: &Asked) -> Result<Judged, StoreError> {
        let Self { engine, edge, store, decision } = self;
        edge.set(asked.edge);
        store.set(asked.store);
        let (facts, identity) = (asked.facts(), asked.identity());
        let extras = Extras { account: asked.account.as_deref(), cost: asked.cost, ..Extras::default() };
        engine.decide_for_into(&facts, &identity, extras, decision).await?;
        let shown = Shown::default();
        engine.show_to(&shown, (&facts, &identity, extras), decision);
        let (ending, limit, user) =
            shown.0.into_inner().unwrap_or_default().unwrap_or((Ending::Allowed, None, None));
        let subject = user.unwrap_or_else(|| engine.subjects().address(asked.client()));
        Ok(Judged { ending, limit: limit.filter(|_| ending == Ending::Limited), subject })
    }
}

/// What a decision shows of itself: what it came to, the limit, and the user.
type About = (Ending, Option<(&'static str, Layer)>, Option<SubjectId>);

/// Keeps what it is shown.
#[derive(Default)]
struct Shown(Mutex<Option<About>>);

impl Watcher for Shown {
    fn wants(&self, _: Ending) -> bool {
        true
    }

    fn see(&self, seen: &Seen<'_>) {
        if let Ok(mut shown) = self.0.lock() {
            *shown = Some((seen.ending, seen.limit, seen.user));
        }
    }
}
