//! Connections of operators and of whoever looks after the server.
//!
//! They have a thread and a runtime of their own: that of the main loop also drives the connections of stores, and a large
//! answer must not keep decisions waiting.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::time::MissedTickBehavior;

use super::answer::{Visitor, answer};
use super::guard::Guard;
use super::seats::{Seats, Taken};
use super::tokens::{Made, TokenChange, Tokens};
use super::{Admin, Noted};
use crate::health::Health;
use crate::workers::{self, Workers, told};

/// The most connections at the same time.
const CONNECTIONS: usize = 256;
/// How long what is under way may take when the server stops.
const LAST_ANSWERS: Duration = Duration::from_secs(2);
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
    stop: watch::Sender<bool>,
    /// One thread.
    workers: Workers,
}

/// What all connections share.
pub(super) struct Shared {
    pub(super) health: Arc<Health>,
    pub(super) guard: Guard,
    /// What there is to work on, once everything is open.
    pub(super) admin: OnceLock<Arc<Admin>>,
    /// A seat for each connection.
    seats: Arc<Seats>,
}

impl Listener {
    /// Serves `listener` until it is [stopped](Self::stop).
    pub(crate) fn start(listener: TcpListener, health: &Arc<Health>, tokens: Tokens) -> Result<Self, String> {
        let failed = |error: io::Error| format!("--admin: {error}; try again");
        let address = listener.local_addr().map_err(failed)?;
        let guard = Guard::new(tokens)?;
        let seats = Seats::new(CONNECTIONS);
        let shared = Shared { health: Arc::clone(health), guard, admin: OnceLock::new(), seats };
        let shared = Arc::new(shared);
        let (stop, stopped) = watch::channel(false);
        let (door, workers) = workers::start("admin", 1, || {
            let (shared, stopped) = (Arc::clone(&shared), stopped.clone());
            |arrivals| work(arrivals, shared, stopped)
        })
        .map_err(failed)?;
        // Without its connection to this thread's runtime, for the worker's.
        door.hand(listener.into_std().map_err(failed)?);
        Ok(Self { address, shared, stop, workers })
    }

    /// Where it listens.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Makes a token where there is none. It can be shown once, so this comes when nothing can fail any more.
    pub(crate) fn first_token(&self) -> Option<Made> {
        self.shared.guard.first_token()
    }

    /// Has operators work on `admin` from now on.
    pub(crate) fn open(&self, admin: Arc<Admin>) {
        // Opened once.
        if self.shared.admin.set(Arc::clone(&admin)).is_ok() {
            tokio::spawn(tell_of_tokens(Arc::clone(&self.shared), admin));
        }
    }

    /// Accepts nobody any more, and lets what is under way be answered. Who listens to what happens has heard all of it.
    pub(crate) async fn stop(self) {
        if let Some(admin) = self.shared.admin.get() {
            admin.live.end();
        }
        let _ = self.stop.send(true);
        let _ = tokio::time::timeout(LAST_ANSWERS, self.shared.seats.empty()).await;
        self.workers.end().await;
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

/// What the one thread does: it serves the one listener that it is handed.
async fn work(
    mut arrivals: mpsc::UnboundedReceiver<std::net::TcpListener>,
    shared: Arc<Shared>,
    mut stopped: watch::Receiver<bool>,
) {
    let Some(Ok(listener)) = arrivals.recv().await.map(TcpListener::from_std) else { return };
    let connections = stopped.clone();
    tokio::select! {
        () = accept(listener, shared, connections) => {}
        () = told(&mut stopped) => {}
    }
    // The last ones are still answered.
    std::future::pending::<()>().await;
}

async fn accept(listener: TcpListener, shared: Arc<Shared>, stopped: watch::Receiver<bool>) {
    loop {
        let Ok((stream, peer)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        // Where all others are at work for operators, a newcomer has to try again.
        let Some(taken) = shared.seats.take() else { continue };
        tokio::spawn(serve(stream, peer, (Arc::clone(&shared), taken), stopped.clone()));
    }
}

async fn serve(
    stream: TcpStream,
    peer: SocketAddr,
    (shared, taken): (Arc<Shared>, Taken),
    mut stopped: watch::Receiver<bool>,
) {
    let visitor = Arc::new(Visitor { peer: peer.ip().to_canonical(), seat: Arc::clone(taken.seat()) });
    let service = service_fn(move |request| {
        let (shared, visitor) = (Arc::clone(&shared), Arc::clone(&visitor));
        async move { Ok::<_, Infallible>(answer(&shared, &visitor, request).await) }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT).max_buf_size(HEADER_BYTES);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    // How it ends is the client's business.
    tokio::select! {
        _ = connection.as_mut() => return,
        () = taken.seat().left() => return,
        () = told(&mut stopped) => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}
