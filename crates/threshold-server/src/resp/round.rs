//! What is done with the bytes that have come: all whole commands in them are begun in order, and answered in order.
//!
//! A store that never waits answers on the spot. A few charges are read before the first of them is made, so that the memory
//! they need is on its way meanwhile; each is still a decision of its own, in its turn. Where the store has to be waited for,
//! the commands of a pipeline are under way together.

use std::future::ready;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesOrdered;
use threshold::engine::{AdhocCharge, Engine};
use threshold::{Clock, Ledger, Store};

use super::commands::{Begun, Command, begin};
use super::parse::{Parsed, Words, parse};
use super::policy::UNAVAILABLE;
use super::session::Session;
use super::throttle::{self, Manner, Ready, Throttle};
use super::{Answering, Settings, Shared, write};

/// How many charges are read before they are made.
const AHEAD: usize = 16;
/// The most commands of a connection that are under way together.
const TOGETHER: usize = 128;
/// How much is answered before it is sent.
const ANSWERS: usize = 64 * 1024;

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// There may be more to answer already.
    GoOn,
    /// Nothing before so many bytes are there.
    Read(usize),
    /// This was all.
    End,
}

/// One look at the bytes of a connection.
pub(super) struct Round<'e, 'o, S, C, L> {
    engine: &'e Engine<S, C, L>,
    shared: &'e Shared,
    settings: &'o Settings,
    session: &'o mut Session,
    out: &'o mut Vec<u8>,
    /// Replies that have to be waited for, and those behind them.
    waiting: Vec<Answering<'e>>,
}

impl<'e, 'o, S: Store, C: Clock, L: Ledger> Round<'e, 'o, S, C, L> {
    pub(super) fn new(
        engine: &'e Engine<S, C, L>,
        (shared, settings): (&'e Shared, &'o Settings),
        (session, out): (&'o mut Session, &'o mut Vec<u8>),
    ) -> Self {
        Self { engine, shared, settings, session, out, waiting: Vec::new() }
    }

    /// Begins the commands in `bytes`: how many bytes they had, what comes next, and what is still to be waited for.
    pub(super) fn begin(mut self, bytes: &[u8]) -> (usize, Next, Vec<Answering<'e>>) {
        let (mut used, mut words) = (0, Words::new());
        let next = loop {
            if self.out.len() >= ANSWERS || self.waiting.len() >= TOGETHER {
                break Next::GoOn;
            }
            match parse(&bytes[used..], self.session.most(self.settings), &mut words) {
                Parsed::Partial(least) => break Next::Read(least),
                Parsed::Lost(lost) => {
                    self.settle();
                    self.say(|out| write::error(out, &format!("ERR {lost}")));
                    break Next::End;
                }
                Parsed::Command(length) if words.is_empty() => used += length,
                Parsed::Command(length) => {
                    let command = Command::of(&words[0]);
                    if command.is_alone() && !self.is_alone() {
                        break Next::GoOn;
                    }
                    used += length;
                    if !self.command(command, &words) {
                        break Next::End;
                    }
                    if command.is_alone() {
                        break Next::GoOn;
                    }
                }
            }
        };
        self.settle();
        (used, next, self.waiting)
    }

    /// True if nothing is under way.
    fn is_alone(&mut self) -> bool {
        self.settle();
        self.waiting.is_empty()
    }

    /// Begins one command; false if it was the last one.
    fn command(&mut self, command: Command, words: &Words<'_>) -> bool {
        let admitted = self.session.admitted(self.settings);
        if let (Command::Throttle(manner), true) = (command, admitted) {
            self.throttle(manner, words);
            return true;
        }
        self.settle();
        if !admitted && !command.is_open() {
            self.say(|out| write::error(out, "NOAUTH Authentication required; AUTH with one of [api].keys"));
            return true;
        }
        // Behind those that are waited for, if there are any.
        let mut reply = Vec::new();
        let out = if self.waiting.is_empty() { &mut *self.out } else { &mut reply };
        let begun = begin(self.engine, (self.shared, self.settings), self.session, (command, words), out);
        if !reply.is_empty() {
            self.waiting.push(Box::pin(ready(reply)));
        }
        match begun {
            Begun::Answered => true,
            Begun::Ended => false,
            Begun::Waits(answering) => {
                self.waiting.push(answering);
                true
            }
        }
    }

    #[inline]
    fn throttle(&mut self, manner: Manner, words: &Words<'_>) {
        let Session { ready, ahead, .. } = &mut *self.session;
        let (engine, out, waiting) = (self.engine, &mut *self.out, &mut self.waiting);
        let settle = |ready: &Ready| settle(engine, (ready, &mut *ahead), out, waiting);
        match throttle::read(engine, ready, (manner, words), settle) {
            Ok(throttle) => {
                self.session.ahead.push(throttle);
                if self.session.ahead.len() == AHEAD {
                    self.settle();
                }
            }
            Err(what) => {
                self.settle();
                self.say(|out| write::error(out, &what));
            }
        }
    }

    /// Makes the charges that were read.
    fn settle(&mut self) {
        let Session { ready, ahead, .. } = &mut *self.session;
        settle(self.engine, (ready, ahead), self.out, &mut self.waiting);
    }

    /// Has a reply written behind those before it.
    fn say(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        if self.waiting.is_empty() {
            return write(self.out);
        }
        let mut reply = Vec::new();
        write(&mut reply);
        self.waiting.push(Box::pin(ready(reply)));
    }
}

/// Makes the charges in `ahead`, in their order.
fn settle<'e, S: Store, C: Clock, L: Ledger>(
    engine: &'e Engine<S, C, L>,
    (ready, ahead): (&Ready, &mut Vec<Throttle>),
    out: &mut Vec<u8>,
    waiting: &mut Vec<Answering<'e>>,
) {
    for throttle in &*ahead {
        let (charge, manner, looks) = (throttle.charge(ready), throttle.manner, throttle.looks());
        // Whoever comes behind somebody who waits is not decided before it.
        let at_once = waiting.is_empty() && !looks;
        match at_once.then(|| engine.charge_adhoc_at_once(&charge)).flatten() {
            Some(charged) => throttle::reply(out, manner, false, &charged),
            None => waiting.push(throttled(engine, charge, (manner, looks))),
        }
    }
    ahead.clear();
}

/// A charge that has to be waited for.
fn throttled<S: Store, C: Clock, L: Ledger>(
    engine: &Engine<S, C, L>,
    charge: AdhocCharge,
    (manner, looks): (Manner, bool),
) -> Answering<'_> {
    Box::pin(async move {
        let mut out = Vec::new();
        match ask(engine, &charge, looks).await {
            Ok(charged) => throttle::reply(&mut out, manner, looks, &charged),
            Err(_) => write::error(&mut out, UNAVAILABLE),
        }
        out
    })
}

async fn ask<S: Store, C: Clock, L: Ledger>(
    engine: &Engine<S, C, L>,
    charge: &AdhocCharge,
    looks: bool,
) -> Result<threshold::engine::AdhocCharged, threshold::StoreError> {
    match looks {
        true => engine.peek_adhoc(charge).await,
        false => engine.charge_adhoc(charge).await,
    }
}

/// Waits for replies, all of which are under way together, and adds them in their order.
pub(super) async fn finish(waiting: Vec<Answering<'_>>, out: &mut Vec<u8>) {
    let mut waiting: FuturesOrdered<_> = waiting.into_iter().collect();
    while let Some(reply) = waiting.next().await {
        out.extend_from_slice(&reply);
    }
}
