//! Whether a store that was given up answers again, where no decision asks it.

use std::num::NonZeroU64;

use threshold_core::{Algorithm, Batch, Clock, Key, Rate, Span, Step, Store};

use super::{ComponentState, NodeStore};

impl<S: Store, C: Clock> NodeStore<S, C> {
    /// Tries a store that was given up, as the next decision would: where none comes, a store that is back would be told to
    /// fail for as long.
    pub(super) async fn probe(&self) {
        if self.store.state() == ComponentState::Up {
            return;
        }
        let Some(batch) = trial() else { return };
        // What comes of it is told like any answer.
        let _ = self.ask_store(self.store.inner().apply(&batch)).await;
    }
}

/// A charge to a key that is nobody's: a store that answers and cannot write is not well.
fn trial() -> Option<Batch> {
    let algorithm = Algorithm::token_bucket(&Rate::new(1_000_000, Span::SECOND).ok()?).ok()?;
    Some(Batch::from(Step::consume(Key::from_raw(0, 1), algorithm, NonZeroU64::MIN)))
}
