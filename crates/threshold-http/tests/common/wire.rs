//! A limited application on a real socket, and a client that keeps its connection.
#![allow(dead_code, reason = "each test program uses its own part of this")]

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body::{Body, Frame};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::Value as Json;
use threshold::engine::{Engine, Rules, Secrets};
use threshold::policy::Policy;
use threshold::{ManualClock, MemoryStore, Secret, Timestamp};
use threshold_http::Peer;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tower_service::Service;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// An engine whose time is set by hand.
pub(crate) type ManualEngine = Engine<MemoryStore<ManualClock>, ManualClock>;

/// 2027-01-15, a Friday, at 08:00 UTC.
pub(crate) const START: Timestamp = Timestamp::from_micros(1_800_000_000_000_000);

/// The engine of `policy`, and its clock.
pub(crate) fn engine(policy: &str) -> (Arc<ManualEngine>, ManualClock) {
    let (policy, secrets) = (read(policy), Secrets::new(Secret::new([7; 16])));
    let rules = Rules::new(&policy, &secrets, &|_| None).unwrap_or_else(|error| panic!("{error}"));
    let clock = ManualClock::starting_at(START);
    let store = || MemoryStore::builder().max_bytes(1 << 20).clock(clock.clone()).build().unwrap();
    (Arc::new(Engine::new(rules, secrets, store(), store())), clock)
}

fn read(policy: &str) -> Policy {
    Policy::read("test.toml", policy, &|_| None).unwrap_or_else(|error| panic!("{error}\n{policy}"))
}

/// A service that is a function.
#[derive(Clone)]
pub(crate) struct App<F>(pub(crate) F);

impl<F, Q, A, E, R> Service<Request<Q>> for App<F>
where
    F: Fn(Request<Q>) -> A,
    A: Future<Output = Result<Response<R>, E>>,
{
    type Response = Response<R>;
    type Error = E;
    type Future = A;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), E>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Q>) -> A {
        (self.0)(request)
    }
}

/// Answers `ok` without reading the request.
pub(crate) async fn ok<Q>(_: Request<Q>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::from("ok")))
}

/// Reads the whole request and answers how long it was; fails as its body fails.
pub(crate) async fn measure<Q>(request: Request<Q>) -> Result<Response<Full<Bytes>>, Q::Error>
where
    Q: Body<Data = Bytes>,
{
    let read = request.into_body().collect().await?.to_bytes();
    Ok(Response::new(Full::from(read.len().to_string())))
}

/// A server on a free port; gone when it is dropped.
pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    accepting: JoinHandle<()>,
}

/// Serves `service` over HTTP/1, telling it who is at the other end.
pub(crate) async fn serve<S, R>(service: S) -> Served
where
    S: Service<Request<Incoming>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Into<BoxError>,
    R: Body<Data = Bytes> + Send + 'static,
    R::Error: Into<BoxError>,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let accepting = tokio::spawn(async move {
        let mut serving = JoinSet::new();
        while let Ok((stream, peer)) = listener.accept().await {
            let service = service.clone();
            let service = service_fn(move |mut request: Request<Incoming>| {
                request.extensions_mut().insert(Peer(peer));
                service.clone().call(request)
            });
            stream.set_nodelay(true).unwrap();
            let serve = hyper::server::conn::http1::Builder::new();
            serving.spawn(async move {
                // A connection that breaks off is the client's business.
                let _ = serve.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    Served { address, accepting }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

pub(crate) type Sent = UnsyncBoxBody<Bytes, Infallible>;

/// A client with one connection, which it keeps.
pub(crate) struct Client {
    sender: SendRequest<Sent>,
}

/// An answer, read whole.
#[derive(Clone, Debug)]
pub(crate) struct Answered {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        Self { sender }
    }

    /// Sends a request and leaves the answer's body unread.
    pub(crate) async fn begin(&mut self, request: Request<Sent>) -> hyper::Result<Response<Incoming>> {
        self.sender.ready().await?;
        self.sender.send_request(request).await
    }

    pub(crate) async fn send(&mut self, request: Request<Sent>) -> Answered {
        let (parts, body) = self.begin(request).await.unwrap().into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Answered { status: parts.status, headers: parts.headers, body }
    }

    pub(crate) async fn get(&mut self, path: &str) -> Answered {
        self.send(request("GET", path, &[], "")).await
    }
}

/// A request with a body of known length.
pub(crate) fn request(
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: impl Into<Bytes>,
) -> Request<Sent> {
    build(method, path, headers, Full::new(body.into()).boxed_unsync())
}

/// A request whose body comes in pieces that nobody has counted.
pub(crate) fn streamed(path: &str, pieces: impl IntoIterator<Item = usize>) -> Request<Sent> {
    let pieces = pieces.into_iter().map(|length| Bytes::from(vec![b'x'; length])).collect();
    build("POST", path, &[], Pieces(pieces).boxed_unsync())
}

fn build(method: &str, path: &str, headers: &[(&str, &str)], body: Sent) -> Request<Sent> {
    let mut request = Request::builder().method(method).uri(path).header("host", "test");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(body).unwrap()
}

/// A body that does not say how long it is.
struct Pieces(VecDeque<Bytes>);

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop_front().map(|piece| Ok(Frame::data(piece))))
    }
}

impl Answered {
    /// The header called `name`, or nothing.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    pub(crate) fn json(&self) -> Json {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// What `RateLimit` says is left.
    pub(crate) fn left(&self) -> Option<u64> {
        parameter(self.header("ratelimit"), "r")
    }
}

/// The parameter `name` of a structured field with one member.
pub(crate) fn parameter(field: &str, name: &str) -> Option<u64> {
    let (_, parameters) = field.strip_prefix('"')?.split_once('"')?;
    let mut parameters = parameters.split(';').filter_map(|parameter| parameter.split_once('='));
    parameters.find(|(other, _)| *other == name)?.1.parse().ok()
}
