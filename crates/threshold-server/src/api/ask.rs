//! What is asked of the engine, as futures that may be sent: the compiler sees that only where the engine's stores are
//! any stores, not the ones that a server was told to use.

use std::future::Future;
use std::pin::Pin;

use threshold::engine::{Charge, ChargeError, Charged, Decision, Engine, Extras, Receipt};
use threshold::identify::{Facts, Identity};
use threshold::login::{Attempt, LoginAnswer};
use threshold::{Clock, Ledger, Store, StoreError};
use threshold_http::Answer;

use super::Settings;
use super::check::{self, Verdict};

/// An answer of the engine.
type Asking<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What is asked about, and where the decision goes.
pub(super) struct About<'a> {
    pub(super) facts: &'a Facts<'a>,
    pub(super) identity: &'a Identity<'a>,
    pub(super) extras: Extras<'a>,
}

pub(super) fn decide<'a, S: Store, C: Clock, L: Ledger>(
    engine: &'a Engine<S, C, L>,
    about: &'a About<'a>,
    decision: &'a mut Decision,
) -> Asking<'a, Result<(), StoreError>> {
    Box::pin(engine.decide_for_into(about.facts, about.identity, about.extras, decision))
}

/// [`check::decide`](super::check::decide).
pub(super) fn check<'a, S: Store, C: Clock, L: Ledger>(
    engine: &'a Engine<S, C, L>,
    settings: &'a Settings,
    body: &'a [u8],
    explain: bool,
) -> Asking<'a, Result<Verdict, Box<Answer>>> {
    Box::pin(check::decide(engine, settings, body, explain))
}

pub(super) fn charge<'a, S: Store, C: Clock, L: Ledger>(
    engine: &'a Engine<S, C, L>,
    charges: &'a [Charge<'a>],
) -> Asking<'a, Result<Vec<Charged>, ChargeError>> {
    Box::pin(engine.charge(charges))
}

pub(super) fn peek<'a, S: Store, C: Clock, L: Ledger>(
    engine: &'a Engine<S, C, L>,
    charges: &'a [Charge<'a>],
) -> Asking<'a, Result<Vec<Charged>, ChargeError>> {
    Box::pin(engine.peek_charges(charges))
}

pub(super) fn refund<'a, S: Store, C: Clock, L: Ledger>(
    engine: &'a Engine<S, C, L>,
    charge: &'a Charge<'a>,
    receipt: &'a Receipt,
) -> Asking<'a, Result<Charged, ChargeError>> {
    Box::pin(engine.refund_charge(charge, receipt))
}

/// An attempt to log in; only looked at if nobody knows what came of it.
pub(super) fn attempt<'a, S: Store, C: Clock, L: Ledger>(
    engine: &'a Engine<S, C, L>,
    attempt: &'a Attempt<'a>,
    success: Option<bool>,
) -> Asking<'a, Result<LoginAnswer, StoreError>> {
    match success {
        Some(success) => Box::pin(engine.attempt(attempt, success)),
        None => Box::pin(engine.look_at_attempt(attempt)),
    }
}
