//! What can be set on the limits of messages.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use memchr::memmem::Finder;
use threshold::engine::Engine;
use threshold::policy::{self, MAX_PAYLOAD, OnExceed};
use threshold::{Algorithm, AlgorithmKind, MemoryLedger, MemoryStore, SystemClock, UniqueIds};

use super::connection::Connection;
use super::read::Names;
use super::refuse::Exceeded;
use crate::delay::DelayPool;
use crate::service::Client;

/// The code that a connection is closed with: try again later.
const TRY_AGAIN_LATER: u16 = 1013;

/// Limits the messages of connections.
pub struct MessageLimiter<S = MemoryStore, C = SystemClock, L = MemoryLedger> {
    pub(super) shared: Arc<Shared<S, C, L>>,
}

/// What all connections share.
pub(super) struct Shared<S, C, L> {
    pub(super) engine: Arc<Engine<S, C, L>>,
    pub(super) settings: Settings,
    pub(super) ids: Arc<UniqueIds>,
}

/// What can be set.
#[derive(Clone)]
pub(super) struct Settings {
    pub(super) max_payload: u64,
    pub(super) names: Names,
    /// Finds the name of the type.
    pub(super) finder: Finder<'static>,
    /// The pace of one connection, whatever it sends.
    pub(super) pace: Option<Algorithm>,
    pub(super) lifetime: Option<u64>,
    pub(super) on_exceed: OnExceed,
    pub(super) close_code: u16,
    pub(super) delays: DelayPool,
    pub(super) cost: Option<Arc<CostOf>>,
    pub(super) key: Option<Arc<KeyOf>>,
    pub(super) hook: Option<Arc<Hook>>,
}

/// What is known of a message before the application has read it: nothing that it carries.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Incoming<'a> {
    /// Its type.
    pub kind: Option<&'a str>,
    /// Its room.
    pub room: Option<&'a str>,
    /// Its size.
    pub bytes: u64,
    /// Who sent it.
    pub client: &'a Client,
}

type CostOf = dyn Fn(&Incoming<'_>) -> i64 + Send + Sync;
type KeyOf = dyn Fn(&Incoming<'_>) -> String + Send + Sync;
type Hook = dyn Fn(Exceeded) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync;

impl<S, C, L> MessageLimiter<S, C, L> {
    /// Limits by the limits of `engine` that are for messages.
    pub fn new(engine: Arc<Engine<S, C, L>>) -> Self {
        let settings = Settings {
            max_payload: MAX_PAYLOAD,
            names: Names::default(),
            finder: Finder::new("type"),
            pace: None,
            lifetime: None,
            on_exceed: OnExceed::Send,
            close_code: TRY_AGAIN_LATER,
            delays: DelayPool::default(),
            cost: None,
            key: None,
            hook: None,
        };
        Self { shared: Arc::new(Shared { engine, settings, ids: Arc::default() }) }
    }

    fn with(self, change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = self.shared.settings.clone();
        change(&mut settings);
        let (engine, ids) = (Arc::clone(&self.shared.engine), Arc::clone(&self.shared.ids));
        Self { shared: Arc::new(Shared { engine, settings, ids }) }
    }

    /// As `[websocket]` of a policy says.
    #[must_use]
    pub fn reading(self, written: &policy::WebSocket) -> Self {
        self.with(|settings| {
            settings.max_payload = written.max_payload.as_ref().map_or(MAX_PAYLOAD, |most| most.value);
            settings.names = Names {
                kind: written.type_field.clone(),
                room: written.room_field.clone(),
                id: written.id_field.clone(),
            };
            settings.finder = Finder::new(&written.type_field).into_owned();
            let rate = written.connection_rate.as_ref();
            // What cannot be built was refused when the policy was read.
            settings.pace =
                rate.and_then(|rate| Algorithm::new(AlgorithmKind::TokenBucket, &rate.value).ok());
            settings.lifetime = written.lifetime;
            settings.on_exceed = written.on_exceed;
            settings.close_code = written.close_code.as_ref().map_or(TRY_AGAIN_LATER, |code| code.value);
        })
    }

    /// Refuses messages of more than `most` bytes.
    #[must_use]
    pub fn max_payload(self, most: u64) -> Self {
        self.with(|settings| settings.max_payload = most)
    }

    /// Does this about a message that is refused.
    #[must_use]
    pub fn on_exceed(self, on_exceed: OnExceed) -> Self {
        self.with(|settings| settings.on_exceed = on_exceed)
    }

    /// What messages cost, in the place of what the limits say. It must be at least 1; the client of a message whose cost is
    /// not is told `INVALID_ARGUMENT`.
    #[must_use]
    pub fn cost_by(self, cost: impl Fn(&Incoming<'_>) -> i64 + Send + Sync + 'static) -> Self {
        self.with(|settings| settings.cost = Some(Arc::new(cost)))
    }

    /// What limits with `per = "room"` count by, in the place of the field of that name: whatever the application likes.
    #[must_use]
    pub fn key_by(self, key: impl Fn(&Incoming<'_>) -> String + Send + Sync + 'static) -> Self {
        self.with(|settings| settings.key = Some(Arc::new(key)))
    }

    /// Calls `hook` once for each message that is refused. Nobody waits for it.
    #[must_use]
    pub fn on_limit_exceeded<F>(self, hook: impl Fn(Exceeded) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.with(|settings| settings.hook = Some(Arc::new(move |exceeded| Box::pin(hook(exceeded)))))
    }

    /// Holds messages back out of `pool`.
    #[must_use]
    pub fn delaying(self, pool: DelayPool) -> Self {
        self.with(|settings| settings.delays = pool)
    }

    /// The largest message.
    #[must_use]
    pub fn max_bytes(&self) -> u64 {
        self.shared.settings.max_payload
    }

    /// The field by which an answer names its message.
    #[must_use]
    pub fn id_field(&self) -> &str {
        &self.shared.settings.names.id
    }

    /// A connection of `client`, opened by a request for `path`.
    pub fn connect(&self, client: Client, host: Option<&str>, path: &str) -> Connection<S, C, L> {
        Connection::new(Arc::clone(&self.shared), client, (host.map(str::to_owned), path.to_owned()))
    }
}

impl<S, C, L> Clone for MessageLimiter<S, C, L> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}
