//! An instance of the service on a free port, and clients of it.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use communique::limits::{Limits, Listener};
use communique::settings::{Settings, Window};
use communique::{app, sweep_every};
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::{Value as Json, json};
use threshold::{Secret, SharedStore};
use tokio::net::{TcpListener, TcpStream};

pub(crate) const SECRET: &str = "a secret of 24 letters..";

/// The servers that there are.
#[derive(Default)]
pub(crate) struct Stores {
    pub(crate) postgres: Option<String>,
    pub(crate) redis: Option<String>,
}

/// Looks names up in a list.
pub(crate) fn variables(given: &[(&str, &str)]) -> impl Fn(&str) -> Option<String> {
    let given: Vec<(String, String)> =
        given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    move |wanted| given.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.clone())
}

/// Settings as the environment would give them.
pub(crate) fn settings(implementation: &str, window: Window, stores: &Stores) -> Settings {
    let window = if window == Window::Day { "day" } else { "24h" };
    let mut given = vec![
        ("RATE_LIMIT", implementation),
        ("RATE_LIMIT_WINDOW", window),
        ("RATE_LIMIT_NODES", "2"),
        ("RATE_LIMIT_SECRET", SECRET),
    ];
    // Patience: these are tests of what is counted, on machines that are busy.
    let postgres = stores.postgres.as_ref().map(|url| format!("{url}?timeout=5000"));
    let redis = stores.redis.as_ref().map(|url| format!("{url}?timeout=5000"));
    given.extend(postgres.as_deref().map(|url| ("DATABASE_URL", url)));
    given.extend(redis.as_deref().map(|url| ("REDIS_URL", url)));
    Settings::read(&variables(&given)).unwrap()
}

/// A running instance.
#[derive(Clone)]
pub(crate) struct Site {
    address: SocketAddr,
    limits: Arc<Limits>,
    said: Arc<Mutex<Vec<String>>>,
}

/// An answer, read whole.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) status: u16,
    pub(crate) json: Json,
}

impl Site {
    pub(crate) async fn start(settings: &Settings) -> Self {
        let (said, listener) = ear();
        Self::serve(Limits::open(settings, listener).await.unwrap(), said).await
    }

    /// An instance over a store of the test's own.
    pub(crate) async fn over(store: SharedStore, settings: &Settings) -> Self {
        let (said, listener) = ear();
        let secret = Secret::from_text(SECRET);
        Self::serve(Limits::over((store, None), secret, settings, listener).unwrap(), said).await
    }

    async fn serve(limits: Limits, said: Arc<Mutex<Vec<String>>>) -> Self {
        let limits = Arc::new(limits);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let service = app(Arc::clone(&limits)).into_make_service_with_connect_info::<SocketAddr>();
        tokio::spawn(async move { axum::serve(listener, service).await });
        Self { address, limits, said }
    }

    pub(crate) async fn post(&self, path: &str, body: &Json) -> Answered {
        self.send("POST", path, body.to_string()).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answered {
        self.send("GET", path, String::new()).await
    }

    async fn send(&self, method: &str, path: &str, body: String) -> Answered {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let request = Request::builder().method(method).uri(path).header("host", "test");
        let request = request.header("content-type", "application/json").body(Full::<Bytes>::from(body));
        let answer = sender.send_request(request.unwrap()).await.unwrap();
        let status = answer.status().as_u16();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        Answered { status, json: serde_json::from_slice(&body).unwrap_or_default() }
    }

    /// One contribution from each of so many addresses.
    pub(crate) async fn contribute_from(&self, addresses: usize) {
        let key = |last| json!({"address": format!("192.0.2.{last}"), "metric": "page_view"});
        let keys: Vec<Json> = (0..addresses).map(key).collect();
        assert_eq!(self.post("/check", &json!({ "keys": keys })).await.status, 200);
    }

    /// Lets the sweeper have one turn.
    pub(crate) async fn sweep_once(&self) {
        let said = Arc::clone(&self.said);
        let say = move |line: &str| said.lock().unwrap().push(line.to_owned());
        let before = self.said().len();
        let sweeping = sweep_every(&self.limits, Duration::from_secs(3_600), say);
        let turn = async {
            while self.said().len() == before {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            () = sweeping => unreachable!("it never ends"),
            () = turn => {}
        }
    }

    /// What was said so far.
    pub(crate) fn said(&self) -> Vec<String> {
        self.said.lock().unwrap().clone()
    }
}

fn ear() -> (Arc<Mutex<Vec<String>>>, Listener) {
    let said = Arc::<Mutex<Vec<String>>>::default();
    let lines = Arc::clone(&said);
    let listener: Listener = Arc::new(move |transition| {
        lines.lock().unwrap().push(format!("{} is {}", transition.component.name(), transition.state.name()));
    });
    (said, listener)
}
