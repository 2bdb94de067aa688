//! The decision API: programs in any language, and proxies, ask for decisions over HTTP.
//!
//! | module | holds |
//! | --- | --- |
//! | `answer` | which question is asked, by whom it may be, and what is told when it makes no sense |
//! | `serve`, `shortcut`, `date` | one connection: by hyper, and the commonest question on a shorter way |
//! | `check`, `forward_auth` | may this request go on |
//! | `consume` | charges that callers name themselves |
//! | `login` | attempts to log in |
//! | `keys` | who may ask |
//! | `idempotency` | questions that were asked before |
//! | `ask` | what is asked of the engine |
//! | `read`, `write` | JSON in and out |
//! | `openapi` | the same for programs and people |

mod answer;
mod ask;
mod check;
mod consume;
mod date;
mod forward_auth;
mod idempotency;
pub(crate) mod keys;
mod login;
mod openapi;
mod read;
mod serve;
mod shortcut;
mod write;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use threshold::policy::{GatewayNumbers, Policy};
use threshold_http::delay::DelayPool;
use threshold_http::respond::Shown;
use tokio::net::TcpListener;
use tokio::sync::{Notify, watch};

use crate::engine::Engine;
use crate::workers::{self, Doors, Workers, told};
use idempotency::Idempotency;
use keys::Keys;
use serve::{Accepted, work};

/// The most connections at the same time.
const CONNECTIONS: usize = 10_000;
/// How long nobody is accepted after that failed, as it does without files left.
const PAUSE: Duration = Duration::from_millis(50);
/// How long questions in flight may take when the server stops.
const LAST_ANSWERS: Duration = Duration::from_secs(5);

/// A decision API that listens.
pub(crate) struct Api {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
    accepting: tokio::task::JoinHandle<()>,
    workers: Workers,
}

/// What all questions share.
pub(crate) struct Shared {
    engine: Arc<Engine>,
    settings: ArcSwap<Settings>,
    idempotency: Idempotency,
    connections: AtomicUsize,
    /// Told when a connection has ended.
    ended: Notify,
}

/// What a policy says of the API.
pub(crate) struct Settings {
    keys: Keys,
    shown: Shown,
    delays: DelayPool,
}

impl Settings {
    /// Reads what `policy` says.
    pub(crate) fn new(policy: &Policy) -> Self {
        let numbers: GatewayNumbers = policy.gateway.as_ref().map(|own| own.numbers()).unwrap_or_default();
        Self {
            keys: Keys::new(policy),
            shown: Shown { legacy: policy.server.as_ref().is_none_or(|server| server.legacy_headers) },
            delays: DelayPool::new(numbers.max_delayed as usize),
        }
    }
}

impl Api {
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
            idempotency: Idempotency::default(),
            connections: AtomicUsize::new(0),
            ended: Notify::new(),
        });
        let (doors, workers) = workers::start("api", workers::count(), || {
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

    /// Goes by `settings` from the next question on.
    pub(crate) fn change(&self, settings: Settings) {
        self.shared.settings.store(Arc::new(settings));
    }

    /// Accepts nobody any more, and lets questions in flight be answered.
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
        if shared.connections.load(Ordering::Relaxed) >= CONNECTIONS {
            continue;
        }
        // Without its connection to this thread's runtime, for the worker's.
        if let Ok(stream) = stream.into_std() {
            doors.hand(Accepted::new(stream, peer.ip().to_canonical(), &shared));
        }
    }
}
