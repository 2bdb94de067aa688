//! A surface that listens: whoever arrives is counted, handed to a worker, and waited for at the end.

use std::future::Future;
use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc, watch};

use crate::workers::{self, Doors, Workers, told};

/// The most connections of a surface at the same time.
const CONNECTIONS: usize = 10_000;
/// How long nobody is accepted after that failed, as it does without files left.
const PAUSE: Duration = Duration::from_millis(50);
/// How long what is in flight may take when the server stops.
const LAST_ANSWERS: Duration = Duration::from_secs(5);

/// A surface that listens.
pub(crate) struct Listening {
    address: SocketAddr,
    crowd: Arc<Crowd>,
    stop: watch::Sender<bool>,
    accepting: tokio::task::JoinHandle<()>,
    workers: Workers,
}

/// Whoever is connected.
#[derive(Default)]
pub(crate) struct Crowd {
    connections: AtomicUsize,
    /// Told when a connection has ended.
    ended: Notify,
}

impl Crowd {
    /// How many they are.
    pub(crate) fn count(&self) -> usize {
        self.connections.load(Ordering::Acquire)
    }
}

/// A connection, before anything was read from it. It has its place among the others until this is dropped.
pub(crate) struct Arrived {
    pub(crate) stream: std::net::TcpStream,
    pub(crate) peer: SocketAddr,
    pub(crate) place: Place,
}

/// A connection's place among the others, given back when it is dropped.
pub(crate) struct Place(Arc<Crowd>);

impl Arrived {
    fn new(stream: std::net::TcpStream, peer: SocketAddr, crowd: &Arc<Crowd>) -> Self {
        crowd.connections.fetch_add(1, Ordering::AcqRel);
        Self { stream, peer, place: Place(Arc::clone(crowd)) }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::AcqRel);
        self.0.ended.notify_one();
    }
}

impl Listening {
    /// Has workers called `name` do `serve` for whoever connects to `listener` and finds a place in the crowd; who finds
    /// none is told `full`.
    pub(crate) fn start<F: Future<Output = ()> + Send + 'static>(
        name: &str,
        listener: TcpListener,
        (crowd, full): (Arc<Crowd>, &'static [u8]),
        serve: impl Fn(Arrived, watch::Receiver<bool>) -> F + Clone + Send + 'static,
    ) -> std::io::Result<Self> {
        let address = listener.local_addr()?;
        let (stop, stopped) = watch::channel(false);
        let (doors, workers) = workers::start(name, workers::count(), || {
            let (serve, stopped) = (serve.clone(), stopped.clone());
            move |arrivals| work(serve, stopped, arrivals)
        })?;
        let accepting = tokio::spawn(accept(listener, Arc::clone(&crowd), doors, (stopped, full)));
        Ok(Self { address, crowd, stop, accepting, workers })
    }

    /// Where it listens.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Accepts nobody any more, and lets what is in flight be answered.
    pub(crate) async fn stop(self) {
        let _ = self.stop.send(true);
        let _ = self.accepting.await;
        let empty = async {
            while self.crowd.count() > 0 {
                self.crowd.ended.notified().await;
            }
        };
        let _ = tokio::time::timeout(LAST_ANSWERS, empty).await;
        self.workers.end().await;
    }
}

/// Serves who arrives.
async fn work<F: Future<Output = ()> + Send + 'static>(
    serve: impl Fn(Arrived, watch::Receiver<bool>) -> F,
    stopped: watch::Receiver<bool>,
    mut arrivals: mpsc::UnboundedReceiver<Arrived>,
) {
    while let Some(arrived) = arrivals.recv().await {
        tokio::spawn(serve(arrived, stopped.clone()));
    }
    // The last ones are still served.
    std::future::pending::<()>().await;
}

async fn accept(
    listener: TcpListener,
    crowd: Arc<Crowd>,
    doors: Doors<Arrived>,
    (mut stopped, full): (watch::Receiver<bool>, &'static [u8]),
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
        if crowd.count() >= CONNECTIONS {
            // As much as fits without waiting.
            let _ = stream.write(full);
            continue;
        }
        doors.hand(Arrived::new(stream, peer, &crowd));
    }
}
