//! The service on a free port, with a store that fails when it is told to, and clients of it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt as _, Empty};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use open_meteo::{Counters, Log, app, node};
use serde_json::Value as Json;
use threshold::{
    Batch, Health, Key, ManualClock, MemoryStore, Outcome, Span, Store, StoreError, StoreErrorKind, Swept,
    Timestamp,
};
use tokio::net::{TcpListener, TcpSocket};

pub(crate) const ALICE: (&str, &str) = ("authorization", "Bearer demo-alice");
pub(crate) const BOB: (&str, &str) = ("authorization", "Bearer demo-bob");

/// A running service.
pub(crate) struct Site {
    address: SocketAddr,
    clock: ManualClock,
    failing: Arc<AtomicBool>,
    said: Arc<Mutex<Vec<String>>>,
}

impl Site {
    /// Starts it with these values for what its policies leave open.
    pub(crate) async fn start(variables: &[(&str, &str)]) -> Self {
        let clock = ManualClock::starting_at(Timestamp::from_micros(1_800_000_000_000_000));
        let (failing, said) = (Arc::<AtomicBool>::default(), Arc::<Mutex<Vec<String>>>::default());
        let memory = || MemoryStore::builder().max_bytes(1 << 20).clock(clock.clone()).build().unwrap();
        let lines = Arc::clone(&said);
        let log: Log = Arc::new(move |line: &str| lines.lock().unwrap().push(line.to_owned()));
        let flaky = Flaky { store: memory(), failing: Arc::clone(&failing) };
        let store = node((flaky, clock.clone()), [memory(), memory()], Arc::clone(&log));
        let variable = |name: &str| {
            variables.iter().find(|(other, _)| *other == name).map(|(_, value)| (*value).to_owned())
        };
        let app = app(&Counters { store, edge: memory() }, &variable, log).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let service = app.into_make_service_with_connect_info::<SocketAddr>();
        tokio::spawn(async move { axum::serve(listener, service).await });
        Self { address, clock, failing, said }
    }

    /// A client whose connection comes from `local`.
    pub(crate) fn client(&self, local: [u8; 4]) -> impl Future<Output = Client> + Send + use<> {
        let address = self.address;
        async move {
            let socket = TcpSocket::new_v4().unwrap();
            socket.bind((local, 0).into()).unwrap();
            let stream = socket.connect(address).await.unwrap();
            let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
            tokio::spawn(connection);
            Client(sender)
        }
    }

    /// Asks for the forecast through the proxy.
    pub(crate) async fn ask(&self, headers: &[(&str, &str)]) -> Answered {
        self.client([127, 0, 0, 1]).await.send("GET", "/v1/forecast", headers).await
    }

    pub(crate) fn wait(&self, seconds: u64) {
        self.clock.advance(Span::from_secs(seconds));
    }

    /// Whether the store fails from now on.
    pub(crate) fn fail(&self, failing: bool) {
        self.failing.store(failing, Ordering::SeqCst);
    }

    /// The lines of the log.
    pub(crate) fn said(&self) -> Vec<String> {
        self.said.lock().unwrap().clone()
    }
}

pub(crate) fn parse(line: &str) -> Json {
    serde_json::from_str(line).unwrap()
}

/// A client with a connection of its own.
pub(crate) struct Client(SendRequest<Empty<Bytes>>);

/// An answer, read whole.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl Client {
    pub(crate) async fn send(&mut self, method: &str, path: &str, headers: &[(&str, &str)]) -> Answered {
        let mut request = Request::builder().method(method).uri(path).header("host", "test");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.0.ready().await.unwrap();
        let response = self.0.send_request(request.body(Empty::new()).unwrap()).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Answered { status: parts.status, headers: parts.headers, body }
    }
}

impl Answered {
    /// The header called `name`, or nothing.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn json(&self) -> Json {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The code of an error.
    pub(crate) fn code(&self) -> String {
        self.json()["error"]["code"].as_str().unwrap().to_owned()
    }

    /// The limit that refused it.
    pub(crate) fn limit(&self) -> String {
        self.json()["error"]["limits"][0].as_str().unwrap().to_owned()
    }

    /// What is left of `limit`, if the answer says so.
    pub(crate) fn left(&self, limit: &str) -> Option<u64> {
        let lines = self.headers.get_all("ratelimit").iter().map(|line| line.to_str().unwrap());
        let mut members = lines.flat_map(|line| line.split(", "));
        let member = members.find_map(|member| member.strip_prefix(&format!("\"{limit}\";r=")))?;
        member.split(';').next()?.parse().ok()
    }
}

/// A store that fails when it is told to.
#[derive(Clone)]
struct Flaky {
    store: MemoryStore<ManualClock>,
    failing: Arc<AtomicBool>,
}

impl Flaky {
    fn works(&self, operation: &'static str) -> Result<&MemoryStore<ManualClock>, StoreError> {
        if self.failing.load(Ordering::SeqCst) {
            return Err(StoreError::new(StoreErrorKind::Unavailable, operation, "told to fail"));
        }
        Ok(&self.store)
    }
}

impl Store for Flaky {
    async fn apply(&self, batch: &Batch) -> Result<Outcome, StoreError> {
        self.works("apply")?.apply(batch).await
    }

    async fn peek(&self, batch: &Batch) -> Result<Outcome, StoreError> {
        self.works("peek")?.peek(batch).await
    }

    async fn refund(&self, batch: &Batch, outcome: &Outcome) -> Result<(), StoreError> {
        self.works("refund")?.refund(batch, outcome).await
    }

    async fn reset(&self, keys: &[Key]) -> Result<(), StoreError> {
        self.works("reset")?.reset(keys).await
    }

    async fn sweep(&self, budget: usize) -> Result<Swept, StoreError> {
        self.works("sweep")?.sweep(budget).await
    }

    async fn health(&self) -> Health {
        self.store.health().await
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.store.close().await
    }
}
