//! What is asked of the engine, as futures that may be sent: the compiler sees that only where the engine's stores are
//! any stores, not the ones that a server was told to use.

use std::future::Future;
use std::pin::Pin;

use serde_json::Value as Json;
use threshold::engine::{Client, Endpoint, Engine, Forgetting, Forgotten, Override, OverrideError};
use threshold::ledger::{Change, Page, Query};
use threshold::{Clock, Ledger, Store, StoreError, Swept};
use threshold_http::Answer;

use crate::api;

/// An answer of the engine.
type Asking<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Makes a change in the name of `by`; false if it changed nothing.
pub(super) fn operate<'a, S: Store, C: Clock, L: Ledger>(
    engine: &'a Engine<S, C, L>,
    by: &'a str,
    change: Change,
) -> Asking<'a, Result<bool, StoreError>> {
    Box::pin(engine.operate(by, change))
}

pub(super) fn set_override<'a, S: Store, C: Clock, L: Ledger>(
    engine: &'a Engine<S, C, L>,
    by: &'a str,
    change: Override,
) -> Asking<'a, Result<(), OverrideError>> {
    Box::pin(engine.set_override(by, change))
}

pub(super) fn read<'a, S: Store, C: Clock, L: Ledger>(
    engine: &'a Engine<S, C, L>,
    query: &'a Query,
) -> Asking<'a, Result<Page, StoreError>> {
    Box::pin(engine.ledger().read(query))
}

pub(super) fn reset<'a, S: Store, C: Clock, L: Ledger>(
    engine: &'a Engine<S, C, L>,
    client: Client<'a>,
    endpoint: Endpoint<'a>,
) -> Asking<'a, Result<Vec<&'static str>, StoreError>> {
    Box::pin(engine.reset_counters(client, endpoint))
}

pub(super) fn erase<'a, S: Store, C: Clock, L: Ledger>(
    engine: &'a Engine<S, C, L>,
    by: &'a str,
    forgetting: &'a Forgetting<'a>,
) -> Asking<'a, Result<Forgotten, StoreError>> {
    Box::pin(engine.erase(by, forgetting))
}

/// Forgets counters that are over, of about so many.
pub(super) fn sweep_store<S: Store, C: Clock, L: Ledger>(
    engine: &Engine<S, C, L>,
    budget: usize,
) -> Asking<'_, Result<Swept, StoreError>> {
    Box::pin(engine.sweep_counters(budget))
}

/// Forgets records that need not be kept.
pub(super) fn sweep_ledger<S: Store, C: Clock, L: Ledger>(
    engine: &Engine<S, C, L>,
) -> Asking<'_, Result<usize, StoreError>> {
    Box::pin(engine.sweep())
}

pub(super) fn explain<'a, S: Store, C: Clock, L: Ledger>(
    engine: &'a Engine<S, C, L>,
    body: &'a [u8],
) -> Asking<'a, Result<Json, Box<Answer>>> {
    Box::pin(api::explain_only(engine, body))
}
