//! Who is told what an engine does, counts it and remembers it.

use std::sync::Arc;

use threshold_core::{Clock, Ledger, Store};

use super::Engine;
use crate::event::Event;
use crate::figures::{Figures, Watcher};
use crate::recent::Recent;
use crate::usage::Usage;

impl<S: Store, C: Clock, L: Ledger> Engine<S, C, L> {
    /// The same engine, telling `listener` what happens. It is called while a decision is made, so it should not take
    /// long.
    #[must_use]
    pub fn telling(self, listener: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        Self { listener: Some(Box::new(listener)), ..self }
    }

    /// The same engine, counting every decision in `usage`, which is no other engine's with another secret. Without one that
    /// costs nothing.
    #[must_use]
    pub fn tracking(self, usage: Arc<Usage>) -> Self {
        usage.named_by(self.subject_keys.current());
        Self { usage: Some(usage), ..self }
    }

    /// The same engine, remembering in `recent` what it was asked. Without one that costs nothing.
    #[must_use]
    pub fn recalling(self, recent: Arc<Recent>) -> Self {
        Self { recent: Some(recent), ..self }
    }

    /// The same engine, counting in `figures` what every decision came to. Without one that costs nothing.
    #[must_use]
    pub fn measured(self, figures: Arc<Figures>) -> Self {
        Self { figures: Some(figures), ..self }
    }

    /// The same engine, showing decisions to `watcher`, one by one.
    #[must_use]
    pub fn watched(self, watcher: Arc<dyn Watcher>) -> Self {
        Self { watcher: Some(watcher), ..self }
    }
}
