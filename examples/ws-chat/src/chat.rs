//! A connection, and what its messages do.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use axum::extract::ws::{Message, Utf8Bytes, WebSocket};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use serde_json::{Value as Json, json};
use threshold::{Clock, Store};
use threshold_http::Client;
use threshold_http::body::Held;
use threshold_http::websocket::{LimitedSocket, MessageLimiter, Received, SocketMessage as _};
use tokio::sync::mpsc;

use crate::rooms::{Rooms, Seat};
use crate::users::User;

/// How many messages may wait for a client that reads slowly.
const MAILBOX: usize = 256;

/// What `Compute` does with its number.
pub type Work = Arc<dyn Fn(u64) -> Pin<Box<dyn Future<Output = u64> + Send>> + Send + Sync>;

/// What all connections share.
pub struct Chat<S, C> {
    limiter: MessageLimiter<S, C>,
    rooms: Arc<Rooms>,
    work: Work,
}

/// Whoever is at the other end of a connection.
struct Guest {
    user: User,
    seat: Option<Seat>,
    /// Where the room puts what is said there.
    mailbox: mpsc::Sender<Utf8Bytes>,
    /// What is being computed. It ends with the connection.
    working: FuturesUnordered<Working>,
}

type Working = Pin<Box<dyn Future<Output = Outgoing> + Send>>;

/// What is to be sent to a client.
struct Outgoing {
    text: Utf8Bytes,
    /// What is given back once it was sent.
    held: Option<Held>,
}

/// What came of a message.
enum Done {
    /// It was done, and this is to be said about it.
    Now(Json),
    /// It is answered later.
    Later,
    /// It cannot be done.
    Not(&'static str),
}

impl<S: Store + 'static, C: Clock + 'static> Chat<S, C> {
    /// A chat without anybody.
    pub fn new(limiter: MessageLimiter<S, C>, work: Work) -> Self {
        Self { limiter, rooms: Arc::default(), work }
    }

    /// The largest message.
    pub fn max_bytes(&self) -> u64 {
        self.limiter.max_bytes()
    }

    /// Talks with one client until one side ends.
    pub async fn serve(&self, socket: WebSocket, user: User, client: Client) {
        let mut socket = LimitedSocket::new(socket, self.limiter.connect(client, None, "/chat"));
        let (sender, mut mailbox) = mpsc::channel(MAILBOX);
        let mut guest = Guest { user, seat: None, mailbox: sender, working: FuturesUnordered::new() };
        loop {
            // What is to be sent comes first: whoever sends without reading is not read either.
            let outgoing = tokio::select! {
                biased;
                Some(computed) = guest.working.next() => Some(computed),
                Some(text) = mailbox.recv() => Some(Outgoing { text, held: None }),
                came = socket.next() => {
                    let Some(Ok(message)) = came else { return };
                    match socket.judge(message).await {
                        Ok(Some(received)) => self.receive(&mut guest, received),
                        Ok(None) => None,
                        Err(_) => return,
                    }
                }
            };
            let Some(Outgoing { text, held }) = outgoing else { continue };
            if socket.send(Message::Text(text)).await.is_err() {
                return;
            }
            // From here on another one may be in flight.
            drop(held);
        }
    }

    /// Does what a message asks for; gives what is to be answered at once.
    fn receive(&self, guest: &mut Guest, received: Received<Message>) -> Option<Outgoing> {
        let said: Json = serde_json::from_slice(received.message.payload()?).unwrap_or_default();
        let answer = match self.act(guest, &said, received.passed.held) {
            Done::Now(mut answer) => {
                answer["id"] = said["id"].clone();
                answer
            }
            Done::Later => return None,
            Done::Not(why) => error(&said["id"], why),
        };
        Some(Outgoing { text: answer.to_string().into(), held: None })
    }

    fn act(&self, guest: &mut Guest, said: &Json, held: Option<Held>) -> Done {
        match said["type"].as_str() {
            Some("Join") => self.join(guest, said),
            Some("SendMessage") => {
                let text = &said["text"];
                guest.speak(
                    said,
                    |user| json!({ "type": "Message", "from": user, "text": text }),
                    Seat::tell_room,
                )
            }
            Some("Typing") => {
                guest.speak(said, |user| json!({ "type": "Typing", "from": user }), Seat::tell_others)
            }
            Some("Announce") => {
                let told = json!({ "type": "Announcement", "from": guest.user.name, "text": said["text"] });
                self.rooms.tell_all(&told.to_string().into());
                Done::Now(json!({ "type": "Ok" }))
            }
            Some("Compute") => self.compute(guest, said, held),
            _ => Done::Not("there is no such type of message"),
        }
    }

    /// Leaves the room before, if there was one.
    fn join(&self, guest: &mut Guest, said: &Json) -> Done {
        let Some(room) = said["room"].as_str() else { return Done::Not("name a room") };
        guest.seat = None;
        let seat = self.rooms.enter(room, guest.mailbox.clone());
        let joined = json!({ "type": "Ok", "room": room, "members": seat.members() });
        guest.seat = Some(seat);
        Done::Now(joined)
    }

    /// Computes beside the conversation. What the message holds goes with the result, until that was sent.
    fn compute(&self, guest: &Guest, said: &Json, held: Option<Held>) -> Done {
        let Some(number) = said["number"].as_u64() else { return Done::Not("give a number") };
        let (result, id) = ((self.work)(number), said["id"].clone());
        guest.working.push(Box::pin(async move {
            let computed = json!({ "type": "Computed", "id": id, "number": number, "result": result.await });
            Outgoing { text: computed.to_string().into(), held }
        }));
        Done::Later
    }
}

impl Guest {
    /// Says something in the room that the guest is in. The message has to name it: that is the room whose limit has paid.
    fn speak(&self, said: &Json, what: impl Fn(&str) -> Json, tell: fn(&Seat, &Utf8Bytes)) -> Done {
        match &self.seat {
            Some(seat) if said["room"] == seat.room() => {
                let mut told = what(self.user.name);
                told["room"] = json!(seat.room());
                tell(seat, &told.to_string().into());
                Done::Now(json!({ "type": "Ok" }))
            }
            _ => Done::Not("join that room first"),
        }
    }
}

/// An error in the form that limits have as well.
fn error(id: &Json, message: &str) -> Json {
    json!({
        "type": "ERROR",
        "meta": { "correlationId": id },
        "payload": { "code": "INVALID_ARGUMENT", "message": message, "retryable": false, "retryAfterMs": null },
    })
}
