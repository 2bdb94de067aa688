//! Connections of operators and of whoever looks after the server.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::MissedTickBehavior;

use super::answer::answer;
use super::guard::Guard;
use super::tokens::{TokenChange, Tokens};
use super::{Admin, Noted};
use crate::health::Health;

/// The most connections at the same time.
const CONNECTIONS: usize = 256;
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
const HEADER_BYTES: usize = 64 * 1024;
/// How often somebody looks whether tokens were made or revoked.
const LOOK: Duration = Duration::from_millis(500);
/// Who changes the file of tokens is whoever may write it: nothing says more.
const WHO: &str = "token file";

/// An admin listener at work. It tells how the server is from the start, and does more once it was
/// [opened](Self::open).
pub(crate) struct Listener {
    address: SocketAddr,
    shared: Arc<Shared>,
}

/// What all connections share.
pub(super) struct Shared {
    pub(super) health: Arc<Health>,
    pub(super) guard: Guard,
    /// What there is to work on, once everything is open.
    pub(super) admin: OnceLock<Arc<Admin>>,
}

impl Listener {
    /// Serves `listener` until the process ends.
    pub(crate) fn start(listener: TcpListener, health: &Arc<Health>, tokens: Tokens) -> Result<Self, String> {
        let address = listener.local_addr().map_err(|error| format!("--admin: {error}; try again"))?;
        let guard = Guard::new(tokens)?;
        let shared = Arc::new(Shared { health: Arc::clone(health), guard, admin: OnceLock::new() });
        tokio::spawn(accept(listener, Arc::clone(&shared)));
        Ok(Self { address, shared })
    }

    /// Where it listens.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Has operators work on `admin` from now on.
    pub(crate) fn open(&self, admin: Arc<Admin>) {
        // Opened once.
        if self.shared.admin.set(Arc::clone(&admin)).is_ok() {
            tokio::spawn(tell_of_tokens(Arc::clone(&self.shared), admin));
        }
    }
}

/// Writes down which tokens are made and revoked while the server runs.
async fn tell_of_tokens(shared: Arc<Shared>, admin: Arc<Admin>) {
    let mut looking = tokio::time::interval(LOOK);
    looking.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        looking.tick().await;
        for change in shared.guard.token_changes() {
            let (action, name, [before, after]) = match &change {
                TokenChange::Made(name, scope) => ("make", name, ["", scope.name()]),
                TokenChange::Revoked(name, scope) => ("revoke", name, [scope.name(), ""]),
            };
            let (target, before, after) = (format!("token {name}"), before.to_owned(), after.to_owned());
            admin.note(WHO, Noted { action, target: &target, before, after }).await;
        }
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let Ok((stream, peer)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            serve(stream, peer, shared).await;
            drop(place);
        });
    }
}

async fn serve(stream: TcpStream, peer: SocketAddr, shared: Arc<Shared>) {
    let peer = peer.ip().to_canonical();
    let service = service_fn(move |request| {
        let shared = Arc::clone(&shared);
        async move { Ok::<_, Infallible>(answer(&shared, peer, request).await) }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT).max_buf_size(HEADER_BYTES);
    // How it ends is the client's business.
    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
}
