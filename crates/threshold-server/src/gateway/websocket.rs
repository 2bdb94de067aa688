//! WebSockets with limits on their messages: frames pass in both directions, and those of the client are judged.
//!
//! | module | holds |
//! | --- | --- |
//! | `frames` | frames as bytes |
//! | `inbound` | from the client: each message is read, judged, and handed on as it came or not at all |
//! | `outbound` | to the client: whatever the application sends, and between its messages what we have to say |

mod frames;
mod inbound;
mod outbound;

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use threshold::{Clock, Ledger, SharedLedger, SharedStore, Store, SystemClock};
use threshold_http::body::Held;
use threshold_http::websocket::{Connection, MessageLimiter};
use tokio::io::split;
use tokio::sync::mpsc;

use super::ear::Ear;
use super::upstream::Wire;
use inbound::Inbound;
use outbound::Outbound;

/// Limits for messages, over a server's engine.
pub(super) type Limiter = MessageLimiter<SharedStore, SystemClock, SharedLedger>;
/// What the messages of a gateway's connection are limited by.
pub(super) type ServerTerms = Terms<SharedStore, SystemClock, SharedLedger>;

/// How much may wait to be said to a client that does not read.
const NOTICES: usize = 64;
/// How long a connection that we close may take for its part of it.
const CLOSING: Duration = Duration::from_secs(2);
/// The code that says that this end goes away.
const GOING_AWAY: u16 = 1001;

/// What we have to say to a client.
enum Notice {
    /// A message, as a frame.
    Frame(Bytes),
    /// The end, with a code and a reason.
    Close(u16, &'static str),
}

/// What a connection is limited by.
pub(super) struct Terms<S, C, L> {
    pub(super) limited: Connection<S, C, L>,
    pub(super) most: u64,
    /// The field by which answers name their messages.
    pub(super) id_field: String,
}

/// What both directions know.
#[derive(Default)]
struct Shared {
    waiting: Waiting,
    /// What we have closed the connection with. The application is told to end as well, and what it says to that is not what
    /// the client is to hear.
    closing: OnceLock<(u16, &'static str)>,
}

/// Messages that were not answered yet, and what they hold: by their ids, which a client may use several times.
#[derive(Default)]
struct Waiting(Mutex<HashMap<String, Vec<Held>>>);

impl Waiting {
    fn add(&self, id: String, held: Held) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(id).or_default().push(held);
    }

    fn is_empty(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    fn answered(&self, id: &str) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(held) = waiting.get_mut(id) {
            held.pop();
            if held.is_empty() {
                waiting.remove(id);
            }
        }
    }
}

/// Passes frames until both sides have ended, one is broken, or somebody is told to leave. `moved` is set whenever something
/// moves.
pub(super) fn relay<'a, S, C, L>(
    client: Upgraded,
    application: (Wire, Bytes),
    terms: Terms<S, C, L>,
    (ear, moved): (&'a Ear, &'a AtomicBool),
) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>>
where
    S: Store + 'static,
    C: Clock + 'static,
    L: Ledger + 'static,
{
    // Made into what may be sent here, where the compiler sees that it may: for any store, not for a given one.
    Box::pin(pass(client, application, terms, (ear, moved)))
}

async fn pass<S, C, L>(
    client: Upgraded,
    (application, received): (Wire, Bytes),
    terms: Terms<S, C, L>,
    (ear, moved): (&Ear, &AtomicBool),
) where
    S: Store + 'static,
    C: Clock + 'static,
    L: Ledger + 'static,
{
    let (client_reads, client_writes) = split(TokioIo::new(client));
    let (application_reads, application_writes) = split(application);
    let (notices, to_tell) = mpsc::channel(NOTICES);
    let shared = Shared::default();
    let Terms { limited, most, id_field } = terms;
    let inbound = Inbound::new((client_reads, application_writes), (limited, most), &notices, &shared, moved);
    let outbound = Outbound::new((application_reads, client_writes), received, (&shared, id_field), moved);
    let mut passing = std::pin::pin!(async { tokio::join!(inbound.run(), outbound.run(to_tell)) });
    tokio::select! {
        _ = passing.as_mut() => return,
        () = ear.leave() => {}
    }
    let _ = notices.try_send(Notice::Close(GOING_AWAY, "going away"));
    let _ = tokio::time::timeout(CLOSING, passing).await;
}
