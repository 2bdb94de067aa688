//! The chat on a free port, on a clock that is set by hand, and clients of it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value as Json, json};
use threshold::{ManualClock, MemoryStore, Span, Timestamp};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async};
use ws_chat::chat::Work;
use ws_chat::{Counters, Log, app, serve};

/// More than any test computes.
const PLENTY: usize = 1_000;

/// A running chat.
pub(crate) struct Site {
    pub(crate) address: SocketAddr,
    clock: ManualClock,
    said: Arc<Mutex<Vec<String>>>,
    /// What may be computed.
    gate: Arc<Semaphore>,
}

/// How many of some messages were taken, and how many each limit refused.
pub(crate) type Tally = BTreeMap<String, usize>;

impl Site {
    /// Starts it with these values for what its policy leaves open.
    pub(crate) async fn start(variables: &[(&str, &str)]) -> Self {
        let clock = ManualClock::starting_at(Timestamp::from_micros(1_800_000_000_000_000));
        let memory = || MemoryStore::builder().max_bytes(1 << 20).clock(clock.clone()).build().unwrap();
        let said = Arc::<Mutex<Vec<String>>>::default();
        let lines = Arc::clone(&said);
        let log: Log = Arc::new(move |line: &str| lines.lock().unwrap().push(line.to_owned()));
        let gate = Arc::new(Semaphore::new(PLENTY));
        let variable = |name: &str| {
            variables.iter().find(|(other, _)| *other == name).map(|(_, value)| (*value).to_owned())
        };
        let counters = Counters { store: memory(), edge: memory() };
        let app = app(counters, &variable, log, squares(&gate)).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(serve(listener, app));
        Self { address, clock, said, gate }
    }

    pub(crate) fn wait_ms(&self, milliseconds: u64) {
        self.clock.advance(Span::from_millis(milliseconds));
    }

    /// Nothing is computed to its end from now on.
    pub(crate) fn hold(&self) {
        self.gate.forget_permits(PLENTY);
    }

    /// So many more are computed to their end.
    pub(crate) fn finish(&self, count: usize) {
        self.gate.add_permits(count);
    }

    /// What was said about refused messages.
    pub(crate) fn said(&self) -> Vec<Json> {
        self.said.lock().unwrap().iter().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    pub(crate) fn url(&self, user: &str) -> String {
        format!("ws://{}/chat?token=demo-{user}", self.address)
    }

    /// A connection of `user`.
    pub(crate) async fn connect(&self, user: &str) -> Talker {
        let socket = self.try_connect(&self.url(user)).await.unwrap();
        Talker { socket, asked: 0 }
    }

    pub(crate) async fn try_connect(&self, url: &str) -> Result<WebSocketStream<TcpStream>, Error> {
        let stream = TcpStream::connect(self.address).await.unwrap();
        soon(client_async(url, stream)).await.map(|(socket, _)| socket)
    }
}

/// Squares, as far as the gate lets them.
fn squares(gate: &Arc<Semaphore>) -> Work {
    let gate = Arc::clone(gate);
    Arc::new(move |number: u64| {
        let gate = Arc::clone(&gate);
        Box::pin(async move {
            gate.acquire_owned().await.unwrap().forget();
            number * number
        })
    })
}

/// A client that talks.
pub(crate) struct Talker {
    pub(crate) socket: WebSocketStream<TcpStream>,
    asked: u64,
}

impl Talker {
    /// Sends a message and waits for its answer.
    pub(crate) async fn ask(&mut self, message: Json) -> Json {
        let id = self.say(message).await;
        self.answer_to(&id).await
    }

    /// Sends a message; gives the id by which it is answered.
    pub(crate) async fn say(&mut self, mut message: Json) -> String {
        self.asked += 1;
        let id = self.asked.to_string();
        message["id"] = json!(id);
        self.send(&message.to_string()).await;
        id
    }

    pub(crate) async fn send(&mut self, text: &str) {
        soon(self.socket.send(Message::text(text))).await.unwrap();
    }

    /// Waits for the answer to a message, and passes over what others say.
    pub(crate) async fn answer_to(&mut self, id: &str) -> Json {
        loop {
            let heard = self.hear().await;
            if heard["id"] == id || heard["meta"]["correlationId"] == id {
                return heard;
            }
        }
    }

    /// The next message, whatever it is.
    pub(crate) async fn hear(&mut self) -> Json {
        loop {
            match soon(self.socket.next()).await {
                Some(Ok(Message::Text(text))) => return serde_json::from_str(&text).unwrap(),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                other => panic!("the connection has ended: {other:?}"),
            }
        }
    }

    pub(crate) async fn join(&mut self, room: &str) {
        assert_eq!(self.ask(json!({ "type": "Join", "room": room })).await["type"], "Ok");
    }

    /// Sends `message` so many times, each after the answer to the one before, and counts what became of it.
    pub(crate) async fn repeat(&mut self, times: usize, message: Json) -> Tally {
        let mut tally = Tally::new();
        for _ in 0..times {
            let answer = self.ask(message.clone()).await;
            *tally.entry(outcome(&answer)).or_default() += 1;
        }
        tally
    }
}

/// `taken`, the limit that refused it, or the code of another error.
pub(crate) fn outcome(answer: &Json) -> String {
    let error = &answer["payload"];
    let refused = error["details"]["limitId"].as_str().or(error["code"].as_str());
    if answer["type"] == "ERROR" { refused.unwrap().to_owned() } else { "taken".to_owned() }
}

/// The tally with these counts.
pub(crate) fn tally(counts: &[(&str, usize)]) -> Tally {
    counts.iter().map(|(outcome, count)| ((*outcome).to_owned(), *count)).collect()
}

/// Waits, but not for ever.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), future).await.expect("it never comes")
}
