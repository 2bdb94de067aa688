//! The admin listener: how the server is, and what operators change while it runs.
//!
//! | module | holds |
//! | --- | --- |
//! | `serve`, `seats` | connections, and who has to go when there are too many |
//! | `answer`, `routes` | what can be asked, by whom, and what is told when it makes no sense |
//! | `guard` | who is let in: hosts, origins, tokens, and how often |
//! | `tokens` | the file of tokens |
//! | `call`, `ask` | one question: its parts, and who is meant |
//! | `status` | how the parts are, and what an operator can have them do |
//! | `sanctions`, `lockouts`, `overrides`, `tenants`, `records` | what the ledger has |
//! | `subjects` | somebody who is forgotten as a whole |
//! | `limits` | counters that begin anew |
//! | `policy` | the policy in force: shown, checked, changed and taken back |
//! | `dry_run` | another policy, tried on what was asked of late |
//! | `explain` | what a request would meet |
//! | `analytics`, `clients` | the past |
//! | `events`, `traffic` | what happens, as it happens and in numbers |
//! | `openapi` | the same for programs |

mod analytics;
mod answer;
mod ask;
mod call;
mod clients;
mod dry_run;
mod events;
mod explain;
mod guard;
mod limits;
mod lockouts;
mod openapi;
mod overrides;
mod policy;
mod records;
mod routes;
mod sanctions;
mod seats;
mod serve;
mod status;
mod subjects;
mod tenants;
pub(crate) mod tokens;
mod traffic;

use std::sync::Arc;

use threshold::event::Event;
use threshold::ledger::Change;
use threshold::recent::Recent;
use threshold::{MemoryStore, NodeStore, SharedStore};

use crate::archive;
use crate::engine::Engine;
use crate::health::Health;
use crate::live::Live;
use crate::log::Log;
use crate::metrics::Metrics;
use crate::traffic::Traffic;

pub(crate) use policy::{PolicyDesk, Reload};
pub(crate) use serve::Listener;

/// What operators work on. Nothing in it is needed for a decision.
pub(crate) struct Admin {
    pub(crate) engine: Arc<Engine>,
    pub(crate) health: Arc<Health>,
    pub(crate) log: Arc<Log>,
    pub(crate) stores: Stores,
    pub(crate) archive: Option<archive::Handle>,
    pub(crate) policy: Arc<PolicyDesk>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) live: Arc<Live>,
    pub(crate) traffic: Arc<Traffic>,
    /// What was asked of late.
    pub(crate) recent: Option<Arc<Recent>>,
}

/// The store behind the engine, as far as there is something to see or to change.
#[derive(Clone, Default)]
pub(crate) struct Stores {
    /// A node's view of a store outside.
    pub(crate) node: Option<Arc<NodeStore<SharedStore>>>,
    /// The store in memory, where that is the store.
    pub(crate) memory: Option<Arc<MemoryStore>>,
}

/// A change that the ledger knows nothing of.
pub(crate) struct Noted<'a> {
    pub(crate) action: &'a str,
    pub(crate) target: &'a str,
    pub(crate) before: String,
    pub(crate) after: String,
}

impl Admin {
    /// Writes down that `by` made a change which is no change of the ledger. What was changed stays so if that fails: an
    /// operator may be about to put right what keeps it from being written. Says whether it is written down.
    pub(crate) async fn note(&self, by: &str, noted: Noted<'_>) -> bool {
        let Noted { action, target, before, after } = noted;
        let (said, action, target) =
            (format!("{action} {target} by {by}"), action.to_owned(), target.to_owned());
        let event = Event::AdminChanged {
            at: self.engine.now(),
            action: action.clone(),
            target: target.clone(),
            before: before.clone(),
            after: after.clone(),
            by: by.to_owned(),
        };
        match ask::operate(&*self.engine, by, Change::Note { action, target, before, after }).await {
            Ok(_) => true,
            Err(error) => {
                self.log.error(&format!("not in the audit log: {said} ({error})"));
                self.engine.tell(&event);
                false
            }
        }
    }
}
