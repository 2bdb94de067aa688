//! Envoy's rate limit service: proxies ask over gRPC whether a request's descriptors may pass.
//!
//! | module | holds |
//! | --- | --- |
//! | `serve` | one connection: HTTP/2, its calls and their bounds |
//! | `call` | one call: which it is, who may make it, its message and its answer |
//! | `limit` | `ShouldRateLimit`: from the bytes of a question to those of its answer |
//! | `health`, `reflection` | what gRPC has every service tell of itself |
//! | `wire` | protobuf, read where it lies and written as it is made |

mod call;
mod health;
mod limit;
mod reflection;
mod serve;
mod wire;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use threshold::policy::Policy;
use threshold_http::respond::Shown;
use tokio::net::TcpListener;
use tokio::sync::{Notify, watch};

use crate::engine::Engine;
use crate::health::Health;
use crate::keys::Keys;
use crate::workers::{self, Doors, Workers, told};
use serve::{Accepted, work};

/// The most connections at the same time.
const CONNECTIONS: usize = 10_000;
/// How long nobody is accepted after that failed, as it does without files left.
const PAUSE: Duration = Duration::from_millis(50);
/// How long calls in flight may take when the server stops.
const LAST_ANSWERS: Duration = Duration::from_secs(5);

/// A rate limit service that listens.
pub(crate) struct Rls {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
    accepting: tokio::task::JoinHandle<()>,
    workers: Workers,
}

/// What all calls share.
struct Shared {
    engine: Arc<Engine>,
    health: Arc<Health>,
    settings: ArcSwap<Settings>,
    /// True if callers are on this machine, and so need no key.
    near: bool,
    connections: AtomicUsize,
    /// Told when a connection has ended.
    ended: Notify,
}

/// What a policy says of the service.
pub(crate) struct Settings {
    keys: Keys,
    /// Which headers proxies are told to add; none if none.
    shown: Option<Shown>,
}

impl Settings {
    /// Reads what `policy` says.
    pub(crate) fn new(policy: &Policy) -> Self {
        let server = policy.server.as_ref();
        let headers = server.is_none_or(|server| server.rls_headers);
        let legacy = server.is_none_or(|server| server.legacy_headers);
        Self { keys: Keys::new(policy), shown: headers.then_some(Shown { legacy }) }
    }
}

impl Rls {
    /// Answers by `engine` who calls at `listener`.
    pub(crate) fn start(
        listener: TcpListener,
        (engine, health): (&Arc<Engine>, &Arc<Health>),
        settings: Settings,
    ) -> std::io::Result<Self> {
        let address = listener.local_addr()?;
        let (stop, stopped) = watch::channel(false);
        let shared = Arc::new(Shared {
            engine: Arc::clone(engine),
            health: Arc::clone(health),
            settings: ArcSwap::from_pointee(settings),
            near: address.ip().is_loopback(),
            connections: AtomicUsize::new(0),
            ended: Notify::new(),
        });
        let (doors, workers) = workers::start("rls", workers::count(), || {
            let (shared, stopped) = (Arc::clone(&shared), stopped.clone());
            |arrivals| work(shared, stopped, arrivals)
        })?;
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared), doors, stopped));
        Ok(Self { address, shared, stop, accepting, workers })
    }

    /// Where it listens.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Goes by `settings` from the next call on.
    pub(crate) fn change(&self, settings: Settings) {
        self.shared.settings.store(Arc::new(settings));
    }

    /// Accepts nobody any more, and lets calls in flight be answered.
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
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let _ = stream.set_nodelay(true);
        if shared.connections.load(Ordering::Relaxed) >= CONNECTIONS {
            continue;
        }
        // Without its connection to this thread's runtime, for the worker's.
        if let Ok(stream) = stream.into_std() {
            doors.hand(Accepted::new(stream, &shared));
        }
    }
}
