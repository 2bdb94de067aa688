//! RESP: whoever has a client of Redis asks for decisions, by the commands of redis-cell and throttlecrab and by our own.
//!
//! | module | holds |
//! | --- | --- |
//! | `parse` | commands out of bytes |
//! | `serve`, `round` | one connection: read once, decide about all that came, write once |
//! | `commands` | which command it is |
//! | `throttle` | limits that come with the question |
//! | `policy`, `check` | limits of the policy, and requests by all its layers |
//! | `session`, `catalogue` | what clients say and ask when they connect |
//! | `write` | replies as bytes |

mod catalogue;
mod check;
mod commands;
pub(crate) mod parse;
mod policy;
mod round;
mod serve;
mod session;
mod throttle;
mod write;

use std::future::Future;
use std::io::Write as _;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use threshold::policy::Policy;
use threshold_http::respond::Shown;
use tokio::net::TcpListener;
use tokio::sync::{Notify, watch};

use crate::engine::Engine;
use crate::keys::Keys;
use crate::workers::{self, Doors, Workers, told};
use serve::{Accepted, work};

/// The most connections at the same time.
const CONNECTIONS: usize = 10_000;
/// How long nobody is accepted after that failed, as it does without files left.
const PAUSE: Duration = Duration::from_millis(50);
/// How long commands in flight may take when the server stops.
const LAST_ANSWERS: Duration = Duration::from_secs(5);

/// A reply that has to be waited for.
type Answering<'e> = Pin<Box<dyn Future<Output = Vec<u8>> + Send + 'e>>;

/// A listener for clients of Redis.
pub(crate) struct Resp {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
    accepting: tokio::task::JoinHandle<()>,
    workers: Workers,
}

/// What all connections share.
struct Shared {
    engine: Arc<Engine>,
    settings: ArcSwap<Settings>,
    connections: AtomicUsize,
    /// The number of the last connection.
    ids: AtomicU64,
    /// Told when a connection has ended.
    ended: Notify,
}

/// What a policy says of it.
pub(crate) struct Settings {
    keys: Keys,
    shown: Shown,
}

impl Settings {
    /// Reads what `policy` says.
    pub(crate) fn new(policy: &Policy) -> Self {
        let legacy = policy.server.as_ref().is_none_or(|server| server.legacy_headers);
        Self { keys: Keys::new(policy), shown: Shown { legacy } }
    }
}

impl Resp {
    /// Answers by `engine` who asks at `listener`.
    pub(crate) fn start(
        listener: TcpListener,
        engine: &Arc<Engine>,
        settings: Settings,
    ) -> std::io::Result<Self> {
        let address = listener.local_addr()?;
        let (stop, stopped) = watch::channel(false);
        let shared = Arc::new(Shared {
            engine: Arc::clone(engine),
            settings: ArcSwap::from_pointee(settings),
            connections: AtomicUsize::new(0),
            ids: AtomicU64::new(0),
            ended: Notify::new(),
        });
        let (doors, workers) = workers::start("resp", workers::count(), || {
            let stopped = stopped.clone();
            |arrivals| work(stopped, arrivals)
        })?;
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared), doors, stopped));
        Ok(Self { address, shared, stop, accepting, workers })
    }

    /// Where it listens.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Goes by `settings` from the next commands on.
    pub(crate) fn change(&self, settings: Settings) {
        self.shared.settings.store(Arc::new(settings));
    }

    /// Accepts nobody any more, and lets commands in flight be answered.
    pub(crate) async fn stop(self) {
        let _ = self.stop.send(true);
        let _ = self.accepting.await;
        let empty = async {
            while self.shared.connections.load(Ordering::Acquire) > 0 {
                self.shared.ended.notified().await;
            }
        };
        let _ = tokio::time::timeout(LAST_ANSWERS, empty).await;
        self.workers.end().await;
    }
}

async fn accept(
    listener: TcpListener,
    shared: Arc<Shared>,
    doors: Doors<Accepted>,
    mut stopped: watch::Receiver<bool>,
) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = told(&mut stopped) => return,
        };
        let Ok((stream, peer)) = accepted else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let _ = stream.set_nodelay(true);
        // Without its connection to this thread's runtime, for the worker's.
        let Ok(mut stream) = stream.into_std() else { continue };
        if shared.connections.load(Ordering::Relaxed) >= CONNECTIONS {
            // As much as fits without waiting.
            let _ = stream.write(b"-ERR max number of clients reached\r\n");
            continue;
        }
        doors.hand(Accepted::new(stream, peer, &shared));
    }
}
