//! One connection, and the path of its messages.

use std::borrow::Cow;
use std::num::NonZeroU64;
use std::sync::Arc;

use threshold::engine::{Decision, Extras, Message};
use threshold::identify::{Doubts, Facts, Identity, UserKind};
use threshold::{Clock, Ledger, PermitId, Retry, Store};

use super::limiter::{Incoming, Shared};
use super::read::{self, Read};
use super::refuse::{Refused, Said, Why};
use crate::body::Held;
use crate::later;
use crate::place::Place;
use crate::service::Client;

/// A connection whose messages are limited.
pub struct Connection<S, C, L> {
    shared: Arc<Shared<S, C, L>>,
    client: Client,
    host: Option<String>,
    path: String,
    id: u128,
    /// How many messages came.
    messages: u64,
    /// How many of those to come have kept their pace already.
    paced: u64,
}

/// A message that goes on.
#[derive(Default)]
#[non_exhaustive]
pub struct Passed {
    /// The id by which its sender knows it, if it has one and limits count how many are in flight.
    pub id: Option<String>,
    /// What it holds: keep it until the message was answered, or drop it if nobody can tell when that is.
    pub held: Option<Held>,
    /// True if it is over a limit and passes on grace.
    pub warned: bool,
}

impl<S, C, L> Connection<S, C, L> {
    pub(super) fn new(
        shared: Arc<Shared<S, C, L>>,
        client: Client,
        (host, path): (Option<String>, String),
    ) -> Self {
        let id = shared.ids.next();
        Self { shared, client, host, path, id, messages: 0, paced: 0 }
    }
}

impl<S: Store + 'static, C: Clock + 'static, L: Ledger + 'static> Connection<S, C, L> {
    /// Judges a message by all that it has to go through.
    ///
    /// # Errors
    ///
    /// What is to be done instead of handing it on.
    pub async fn judge(&mut self, payload: &[u8]) -> Result<Passed, Box<Refused>> {
        self.admit(payload.len() as u64)?;
        self.judge_admitted(payload).await
    }

    /// The first part of [`judge`](Self::judge), for who has not read the message yet and knows its size: that, the pace of
    /// the connection and how many messages it has sent.
    ///
    /// # Errors
    ///
    /// What is to be done instead of reading it.
    pub fn admit(&mut self, bytes: u64) -> Result<(), Box<Refused>> {
        let settings = &self.shared.settings;
        if bytes > settings.max_payload {
            return Err(self.refuse(&Why::Payload(settings.max_payload), &self.said(None, bytes)));
        }
        self.keep_pace()?;
        self.messages += 1;
        match self.shared.settings.lifetime {
            Some(most) if self.messages > most => {
                Err(self.refuse(&Why::Lifetime(most), &self.said(None, bytes)))
            }
            _ => Ok(()),
        }
    }

    /// Whether the connection keeps its pace with something that is no message, such as a ping.
    ///
    /// # Errors
    ///
    /// What is to be done if it does not.
    pub fn keep_pace(&mut self) -> Result<(), Box<Refused>> {
        if self.paced > 0 {
            self.paced -= 1;
            return Ok(());
        }
        let Some(pace) = &self.shared.settings.pace else { return Ok(()) };
        match self.shared.engine.pace(self.id, pace, NonZeroU64::MIN) {
            Retry::Now => Ok(()),
            retry => Err(self.refuse(&Why::Pace(pace.capacity(), retry), &self.said(None, 0))),
        }
    }

    /// The type of a message, if that is all that anybody asks about it and it shows at once: such messages may be judged
    /// by [`judge_run`](Self::judge_run).
    #[must_use]
    pub fn plain_kind<'a>(&self, payload: &'a [u8]) -> Option<&'a str> {
        let settings = &self.shared.settings;
        let asks = self.shared.engine.message_asks();
        let only_kind = !asks.room && !asks.id && settings.cost.is_none() && settings.key.is_none();
        only_kind.then(|| read::read_kind(payload, &settings.finder)).flatten()
    }

    /// Judges `count` messages of one [plain type](Self::plain_kind) at once, none larger than allowed and of `bytes`
    /// together: true if all of them go on. If not, nothing was said or charged, and they are to be judged one by one.
    pub async fn judge_run(&mut self, kind: &str, count: NonZeroU64, bytes: u64) -> bool {
        let messages = self.messages.saturating_add(count.get());
        if self.paced > 0 || self.shared.settings.lifetime.is_some_and(|most| messages > most) {
            return false;
        }
        if let Some(pace) = &self.shared.settings.pace {
            if self.shared.engine.pace(self.id, pace, count) != Retry::Now {
                return false;
            }
            self.paced = count.get();
        }
        let message = Message {
            kind: Some(kind),
            connection: self.id,
            bytes,
            count: Some(count),
            ..Message::default()
        };
        let extras = Extras { message: Some(message), ..Extras::default() };
        let mut decision = Place::take();
        let facts = self.facts();
        let passed = self.shared.engine.pass_run(&facts, &self.identity(), extras, &mut decision).await;
        let passed = passed.unwrap_or(false);
        if passed {
            (self.messages, self.paced) = (messages, 0);
        }
        passed
    }

    /// The second part of [`judge`](Self::judge), for a message that was admitted.
    ///
    /// # Errors
    ///
    /// What is to be done instead of handing it on.
    pub async fn judge_admitted(&mut self, payload: &[u8]) -> Result<Passed, Box<Refused>> {
        let read = self.read(payload);
        let bytes = payload.len() as u64;
        let said = self.said(Some(&read), bytes);
        if read.ambiguous {
            return Err(self.refuse(&Why::Invalid("a field of the message comes twice; send it once"), &said));
        }
        if read.unreadable {
            return Err(
                self.refuse(&Why::Invalid("the message cannot be read; send it as plain JSON"), &said)
            );
        }
        let incoming =
            Incoming { kind: read.kind.as_deref(), room: read.room.as_deref(), bytes, client: &self.client };
        let cost = match self.shared.settings.cost.as_ref().map(|cost| cost(&incoming)) {
            None => None,
            Some(cost) => match u64::try_from(cost).ok().and_then(NonZeroU64::new) {
                Some(cost) => Some(cost),
                None => {
                    return Err(self.refuse(&Why::Invalid("the cost of a message must be at least 1"), &said));
                }
            },
        };
        let key = self.shared.settings.key.as_ref().map(|key| key(&incoming));
        let room = key.as_deref().or(incoming.room);
        let message = Message { kind: incoming.kind, room, connection: self.id, bytes, cost, count: None };
        // With or without an id: who leaves it out must not get past those who are in flight.
        let permit = Some(PermitId::new(self.shared.ids.next()));
        let mut decision = Place::take();
        let extras = Extras { permit, message: Some(message), ..Extras::default() };
        if self.decide(extras, &mut decision).await.is_err() {
            return Err(self.refuse(&Why::Unavailable, &said));
        }
        if !decision.allowed() {
            // Now its sender is to be told which one it was.
            let read = read::read(payload, &self.shared.settings.names);
            return Err(self.refuse(&Why::Decision(&decision), &self.said(Some(&read), bytes)));
        }
        let held = Held::new(&self.shared.engine, decision.permits());
        if !decision.delay().is_zero() {
            self.hold_back(&decision, &said).await?;
        }
        let id = held.as_ref().and(read.id).map(Cow::into_owned);
        Ok(Passed { id, held, warned: decision.warned() })
    }

    /// Reads as much of a message as somebody asks for.
    fn read<'a>(&self, payload: &'a [u8]) -> Read<'a> {
        match self.plain_kind(payload) {
            Some(kind) => Read { kind: Some(Cow::Borrowed(kind)), ..Read::default() },
            None => read::read(payload, &self.shared.settings.names),
        }
    }

    async fn decide(&self, extras: Extras<'_>, decision: &mut Decision) -> Result<(), threshold::StoreError> {
        self.shared.engine.decide_for_into(&self.facts(), &self.identity(), extras, decision).await
    }

    /// The request that opened the connection.
    fn facts(&self) -> Facts<'_> {
        let (peer, host) = (self.client.address, self.host.as_deref());
        Facts { peer, method: "GET", host, path: &self.path, bytes: Some(0), headers: &() }
    }

    fn identity(&self) -> Identity<'_> {
        let Client { address, tenant, tenant_verified, tier, user, verified } = &self.client;
        let kind = if *verified { UserKind::Proxy } else { UserKind::Cookie };
        Identity {
            client: *address,
            tenant: tenant.as_deref().map(Cow::Borrowed),
            tenant_verified: *tenant_verified,
            tier: tier.as_deref().map(Cow::Borrowed),
            user: user.as_deref().map(Cow::Borrowed),
            user_kind: user.as_ref().map(|_| kind),
            doubts: Doubts::new(),
        }
    }

    /// Holds the message back as long as the decision says, if there is a place.
    async fn hold_back(&self, decision: &Decision, said: &Said<'_>) -> Result<(), Box<Refused>> {
        match self.shared.settings.delays.take() {
            Some(_place) => {
                tokio::time::sleep(decision.delay()).await;
                Ok(())
            }
            None => {
                let capacity = decision.quota().map_or(0, |quota| quota.capacity);
                let retry = Retry::After(decision.delay().into());
                Err(self.refuse(&Why::Pace(capacity, retry), said))
            }
        }
    }

    fn said<'a>(&self, read: Option<&'a Read<'_>>, bytes: u64) -> Said<'a> {
        Said {
            client_id: self.id,
            kind: read.and_then(|read| read.kind.as_deref()),
            id: read.and_then(|read| read.id.as_deref()),
            bytes,
        }
    }

    /// The gate: tells the hook, once, and says what is to be done.
    #[cold]
    fn refuse(&self, why: &Why<'_>, said: &Said<'_>) -> Box<Refused> {
        let settings = &self.shared.settings;
        let exceeded = why.exceeded(said);
        if let (Some(hook), Some(exceeded)) = (&settings.hook, &exceeded) {
            later::beside(hook(exceeded.clone()));
        }
        let then = why.then(said, self.shared.engine.now(), (settings.on_exceed, settings.close_code));
        Box::new(Refused { exceeded, then })
    }
}
