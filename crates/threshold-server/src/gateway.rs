//! The gateway: a reverse proxy with limits in front of applications.
//!
//! | module | holds |
//! | --- | --- |
//! | `settings` | what it goes by, made of the policy |
//! | `connections`, `ear` | who is connected, how many may be, who is told to go |
//! | `serve` | one connection: TLS, HTTP/1.1 or HTTP/2, its limits |
//! | `shortcut`, `lines` | the commonest requests on a shorter way |
//! | `proxy` | one request: limits around it, on to the application and back |
//! | `upstream` | which application, and the connections to it that are kept |
//! | `upgrade` | connections that become something else |
//! | `websocket` | those that become WebSockets with limits on their messages |
//! | `headers`, `body`, `linger`, `tls`, `trouble` | what their names say |
//!
//! One thread accepts connections and hands each to a worker, which serves it to its end. Workers share nothing that a
//! request waits for but the store.

mod body;
mod connections;
mod ear;
mod headers;
mod lines;
mod linger;
mod proxy;
mod serve;
mod settings;
mod shortcut;
mod tls;
mod trouble;
mod upgrade;
mod upstream;
mod websocket;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use threshold::{Span, UniqueIds};
use threshold_http::delay::DelayPool;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};

use connections::{Connections, Room};
use proxy::Worker;
use serve::{Accepted, serve};
pub(crate) use settings::{Prepared, Settings};
use trouble::Trouble;
use upstream::Pool;
pub(crate) use upstream::{Wire, secured};

use crate::log::Log;
use crate::trace::{Exporter, Tracer};
use crate::workers::{self, Doors, Workers, told};

/// How often connections are looked at for those that have waited too long.
const LOOK: Duration = Duration::from_millis(250);
/// How long clients may still ask on connections that are kept alive, when the server stops: a request that is on its way
/// already is answered, and told that it was the last.
const LAST_ORDERS: Duration = Duration::from_secs(1);
/// How long nobody is accepted after that failed, as it does without files left.
const PAUSE: Duration = Duration::from_millis(50);

/// A gateway that accepts connections.
pub(crate) struct Gateway {
    address: SocketAddr,
    settings: Arc<ArcSwap<Settings>>,
    connections: Arc<Connections>,
    /// The connections to applications, of each worker.
    pools: Vec<Arc<Pool>>,
    stop_accepting: watch::Sender<bool>,
    accepting: tokio::task::JoinHandle<()>,
    workers: Workers,
    /// Who sends traces of requests.
    traces: Option<Exporter>,
}

/// What there is to see of a gateway.
pub(crate) struct View {
    connections: Arc<Connections>,
    settings: Arc<ArcSwap<Settings>>,
    pools: Vec<Arc<Pool>>,
}

impl View {
    /// How many connections of clients and requests in flight there are.
    pub(crate) fn load(&self) -> (usize, u64) {
        (self.connections.count(), self.connections.in_flight())
    }

    /// How many connections to applications wait for the next request.
    pub(crate) fn idle_upstream(&self) -> usize {
        self.pools.iter().map(|pool| pool.idle()).sum()
    }

    /// Where requests are held back.
    pub(crate) fn delays(&self) -> DelayPool {
        self.settings.load().delays.clone()
    }
}

/// What was left when a gateway stopped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Drained {
    /// Requests that were in flight when it was told to stop, and later.
    pub(crate) finished: u64,
    /// Those that did not end in time.
    pub(crate) cut_off: u64,
}

impl Gateway {
    /// Starts serving `listener` by `settings`, with a thread for each processor.
    pub(crate) fn start(
        listener: TcpListener,
        settings: Settings,
        traces: Option<Exporter>,
        log: &Arc<Log>,
    ) -> std::io::Result<Self> {
        let address = listener.local_addr()?;
        let settings = Arc::new(ArcSwap::from_pointee(settings));
        let connections = Arc::new(Connections::default());
        let (stop_accepting, stopped) = watch::channel(false);
        let (ids, trouble) = (Arc::new(UniqueIds::new()), Arc::new(Trouble::new(Arc::clone(log))));
        let mut pools = Vec::new();
        let (doors, workers) = workers::start("gateway", workers::count(), || {
            let pool = Arc::default();
            pools.push(Arc::clone(&pool));
            let worker = Worker {
                settings: Arc::clone(&settings),
                pool,
                ids: Arc::clone(&ids),
                trouble: Arc::clone(&trouble),
                tracer: traces.as_ref().map(Exporter::tracer),
            };
            |arrivals| work(worker, arrivals)
        })?;
        let accepting = Accepting {
            listener,
            settings: Arc::clone(&settings),
            connections: Arc::clone(&connections),
            doors,
        };
        let accepting = tokio::spawn(accepting.run(stopped));
        Ok(Self { address, settings, connections, pools, stop_accepting, accepting, workers, traces })
    }

    /// Where it listens.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it goes by.
    pub(crate) fn settings(&self) -> Arc<Settings> {
        self.settings.load_full()
    }

    /// Goes by `settings` from the next request on.
    pub(crate) fn change(&self, settings: Settings) {
        self.settings.store(Arc::new(settings));
    }

    /// What there is to see of it.
    pub(crate) fn view(&self) -> View {
        let (connections, settings) = (Arc::clone(&self.connections), Arc::clone(&self.settings));
        View { connections, settings, pools: self.pools.clone() }
    }

    /// Who traces requests.
    pub(crate) fn tracer(&self) -> Option<Arc<Tracer>> {
        self.traces.as_ref().map(Exporter::tracer)
    }

    /// How many connections and requests there are.
    pub(crate) fn load(&self) -> (usize, u64) {
        (self.connections.count(), self.connections.in_flight())
    }

    /// Accepts nobody any more, lets requests in flight end, and cuts off what takes too long.
    pub(crate) async fn stop(self) -> Drained {
        let patience: Duration = self.settings.load().numbers.drain_timeout.into();
        let begun = self.connections.in_flight();
        self.connections.drain();
        let _ = self.stop_accepting.send(true);
        let _ = self.accepting.await;
        let connections = &self.connections;
        let empty = || async {
            while connections.count() > 0 {
                connections.changed.notified().await;
            }
        };
        let _ = tokio::time::timeout(LAST_ORDERS.min(patience), empty()).await;
        connections.last_requests();
        let _ = tokio::time::timeout(patience, empty()).await;
        let cut_off = connections.in_flight();
        self.workers.end().await;
        if let Some(traces) = self.traces {
            traces.stop().await;
        }
        Drained { finished: begun.saturating_sub(cut_off), cut_off }
    }
}

/// Takes connections in and hands them to workers in turn.
struct Accepting {
    listener: TcpListener,
    settings: Arc<ArcSwap<Settings>>,
    connections: Arc<Connections>,
    doors: Doors<Accepted>,
}

impl Accepting {
    async fn run(self, mut stopped: watch::Receiver<bool>) {
        let mut looking = tokio::time::interval(LOOK);
        loop {
            tokio::select! {
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, peer)) => self.take_in(stream, peer),
                    Err(_) => tokio::time::sleep(PAUSE).await,
                },
                _ = looking.tick() => {
                    let numbers = self.settings.load().numbers;
                    let still = Span::from_micros(
                        numbers.response_timeout.as_micros() + numbers.idle_timeout.as_micros(),
                    );
                    self.connections.close_idle(numbers.header_timeout, still);
                }
                () = told(&mut stopped) => break,
            }
        }
        // Who was accepted by the machine already is not turned away.
        while let Ok(Ok((stream, peer))) =
            tokio::time::timeout(Duration::from_millis(1), self.listener.accept()).await
        {
            self.take_in(stream, peer);
        }
    }

    fn take_in(&self, stream: tokio::net::TcpStream, peer: SocketAddr) {
        let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
        let settings = self.settings.load();
        let numbers = &settings.numbers;
        let of_address = (!settings.trusts(peer.ip())).then_some(numbers.max_connections_per_address);
        let Some(member) =
            self.connections.join(peer.ip(), Room { all: numbers.max_connections, of_address })
        else {
            return;
        };
        let _ = stream.set_nodelay(true);
        // Without its connection to this thread's runtime, for the worker's.
        if let Ok(stream) = stream.into_std() {
            self.doors.hand(Accepted { stream, peer, member });
        }
    }
}

/// What one worker does: it serves who arrives, and keeps its connections to applications tidy.
async fn work(worker: Worker, mut arrivals: mpsc::UnboundedReceiver<Accepted>) {
    let worker = Arc::new(worker);
    let pool = Arc::clone(&worker.pool);
    let mut sweeping = tokio::time::interval(Duration::from_secs(5));
    let mut open = true;
    loop {
        tokio::select! {
            accepted = arrivals.recv(), if open => match accepted {
                Some(accepted) => {
                    tokio::spawn(serve(accepted, Arc::clone(&worker)));
                }
                None => open = false,
            },
            _ = sweeping.tick() => pool.sweep(),
        }
    }
}
