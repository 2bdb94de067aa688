//! The visitors at work: real requests over real connections, through the gateway like everybody else's.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use super::cast::{Cast, STEPS};
use super::visit::Visit;

/// The most requests under way; who comes while there are so many goes away again.
const MOST: usize = 256;
/// The most bytes of an answer that are read.
const LONGEST: usize = 1 << 16;
/// How long a visitor waits.
const PATIENCE: Duration = Duration::from_secs(10);

/// What the visitors met with.
#[derive(Default)]
pub(crate) struct Tally {
    passed: AtomicU64,
    refused: AtomicU64,
    lost: AtomicU64,
}

impl Tally {
    /// How many requests passed, were refused, and had no answer.
    pub(crate) fn counts(&self) -> (u64, u64, u64) {
        (self.passed.load(Relaxed), self.refused.load(Relaxed), self.lost.load(Relaxed))
    }

    fn count(&self, status: Option<StatusCode>) {
        let what = match status {
            Some(StatusCode::TOO_MANY_REQUESTS | StatusCode::FORBIDDEN) => &self.refused,
            Some(_) => &self.passed,
            None => &self.lost,
        };
        what.fetch_add(1, Relaxed);
    }
}

/// Sends the visitors through a gateway.
pub(crate) struct Driver {
    cast: Cast,
    step: Duration,
    line: Arc<Line>,
}

impl Driver {
    /// Visitors of `seed` for `gateway`, at `pace` times the ordinary speed; what they meet with is counted in `tally`.
    pub(crate) fn new(gateway: SocketAddr, (seed, pace): (u64, f64), tally: &Arc<Tally>) -> Self {
        let line = Line { gateway, idle: Mutex::default(), tally: Arc::clone(tally) };
        let step = Duration::from_secs_f64(1.0 / (STEPS as f64 * pace));
        Self { cast: Cast::new(seed), step, line: Arc::new(line) }
    }

    /// Never ends; dropped, it leaves nothing under way.
    pub(crate) async fn run(mut self) {
        let mut steps = tokio::time::interval(self.step);
        // Who could not come in time does not come twice.
        steps.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut under_way = JoinSet::new();
        loop {
            steps.tick().await;
            while under_way.try_join_next().is_some() {}
            for visit in self.cast.next() {
                if under_way.len() < MOST {
                    under_way.spawn(Arc::clone(&self.line).visit(visit));
                }
            }
        }
    }
}

/// Connections to the gateway, which are used again.
struct Line {
    gateway: SocketAddr,
    idle: Mutex<Vec<SendRequest<Full<Bytes>>>>,
    tally: Arc<Tally>,
}

impl Line {
    async fn visit(self: Arc<Self>, visit: Visit) {
        let answered = tokio::time::timeout(PATIENCE, self.ask(visit)).await;
        self.tally.count(answered.ok().flatten());
    }

    /// The status of the answer; none if there is none.
    async fn ask(&self, visit: Visit) -> Option<StatusCode> {
        let request = visit.request(&self.gateway.to_string()).ok()?;
        let mut connection = self.connection().await?;
        let answer = connection.send_request(request).await.ok()?;
        let status = answer.status();
        if Limited::new(answer.into_body(), LONGEST).collect().await.is_ok() {
            self.idle().push(connection);
        }
        Some(status)
    }

    async fn connection(&self) -> Option<SendRequest<Full<Bytes>>> {
        while let Some(mut idle) = self.waiting() {
            if idle.ready().await.is_ok() {
                return Some(idle);
            }
        }
        let stream = TcpStream::connect(self.gateway).await.ok()?;
        stream.set_nodelay(true).ok()?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.ok()?;
        // It ends with its sender.
        tokio::spawn(connection);
        Some(sender)
    }

    fn waiting(&self) -> Option<SendRequest<Full<Bytes>>> {
        self.idle().pop()
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<SendRequest<Full<Bytes>>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
