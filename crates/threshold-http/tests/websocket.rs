//! Limits of messages for library users: what passes, what is said, and who is told.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::{Arc, Mutex};

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::Value as Json;
use threshold::engine::{Engine, Rules, Secrets};
use threshold::policy::{OnExceed, Policy};
use threshold::{ManualClock, MemoryLedger, MemoryStore, Secret, Span, Timestamp};
use threshold_http::Client;
use threshold_http::websocket::{Connection, Exceeded, LimitedSocket, MessageLimiter, Refused, Then};
use tokio::io::DuplexStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;

type Limiter = MessageLimiter<MemoryStore<ManualClock>, ManualClock, MemoryLedger>;
type Limited = Connection<MemoryStore<ManualClock>, ManualClock, MemoryLedger>;

/// A limit of messages by `more`, and the clock that it goes by.
fn limiter(more: &str) -> (Limiter, ManualClock) {
    let text = format!("[[limit]]\nid = \"chat\"\nlayer = \"user\"\nmessages = \"*\"\n{more}\n");
    let policy = Policy::read("test.toml", &text, &|_| None).unwrap();
    let secrets = Secrets::new(Secret::new([5; 16]));
    let rules = Rules::new(&policy, &secrets, &|_| None).unwrap();
    let clock = ManualClock::default();
    clock.set(Timestamp::from_micros(1_700_000_000_000_000));
    let store = || MemoryStore::builder().clock(clock.clone()).build().unwrap();
    (MessageLimiter::new(Arc::new(Engine::new(rules, secrets, store(), store()))), clock)
}

fn connect(limiter: &Limiter, user: &str) -> Limited {
    limiter.connect(Client::new([192, 0, 2, 1].into()).with_user(user), None, "/chat")
}

async fn refused(connection: &mut Limited, payload: &str) -> Option<Refused> {
    connection.judge(payload.as_bytes()).await.err().map(|refused| *refused)
}

fn envelope(refused: Option<Refused>) -> Json {
    let Some(Refused { then: Then::Send(text), .. }) = refused else { panic!("{refused:?}") };
    serde_json::from_str::<Json>(&text).unwrap()["payload"].take()
}

#[tokio::test]
async fn waiting_as_long_as_told_is_enough_and_no_less() {
    let (limiter, clock) = limiter("rate = \"2/min\"");
    let mut alice = connect(&limiter, "alice");
    for _ in 0..2 {
        assert_eq!(refused(&mut alice, "{}").await, None);
    }
    let told = envelope(refused(&mut alice, "{}").await);
    assert_eq!(told["code"], "RESOURCE_EXHAUSTED");
    let wait = told["retryAfterMs"].as_u64().unwrap();
    clock.advance(Span::from_millis(wait - 1));
    assert!(refused(&mut alice, "{}").await.is_some());
    clock.advance(Span::from_millis(1));
    assert_eq!(refused(&mut alice, "{}").await, None);
}

#[tokio::test]
async fn an_application_may_say_what_messages_cost() {
    let (limiter, _) = limiter("rate = \"10/day\"");
    let limiter =
        limiter.cost_by(|message| if message.kind == Some("Dear") { 5 } else { message.bytes as i64 - 2 });
    let mut alice = connect(&limiter, "alice");
    for _ in 0..2 {
        assert_eq!(refused(&mut alice, r#"{"type":"Dear"}"#).await, None);
    }
    assert_eq!(envelope(refused(&mut alice, r#"{"type":"Dear"}"#).await)["code"], "RESOURCE_EXHAUSTED");
    // Nothing, and less than nothing, is no cost.
    for payload in ["{}", "1"] {
        let told = refused(&mut alice, payload).await;
        assert_eq!(told.as_ref().unwrap().exceeded, None, "no limit is to blame");
        assert_eq!(envelope(told)["code"], "INVALID_ARGUMENT");
    }
}

#[tokio::test]
async fn an_application_may_say_what_messages_are_counted_by() {
    let (limiter, _) = limiter("per = \"room\"\nrate = \"1/day\"");
    let limiter = limiter.key_by(|message| format!("{}/{}", message.client.address, message.bytes));
    let mut alice = connect(&limiter, "alice");
    assert_eq!(refused(&mut alice, "1").await, None);
    assert_eq!(refused(&mut alice, "22").await, None);
    assert!(refused(&mut connect(&limiter, "bob"), "2").await.is_some());
}

#[tokio::test]
async fn one_gate_for_size_pace_and_rate_and_the_hook_once_for_each() {
    let told: Arc<Mutex<Vec<Exceeded>>> = Arc::default();
    let (heard, (limiter, _)) = (Arc::clone(&told), limiter("rate = \"1/day\"\ncosts = { Huge = 7 }"));
    let limiter = limiter.max_payload(20).on_limit_exceeded(move |exceeded| {
        let heard = Arc::clone(&heard);
        async move {
            // Nobody waits for it.
            tokio::task::yield_now().await;
            heard.lock().unwrap().push(exceeded);
        }
    });
    let mut alice = connect(&limiter, "alice");
    assert_eq!(refused(&mut alice, "{}").await, None);
    for payload in ["{}", r#"{"type":"Huge"}"#, "a message of more than twenty bytes"] {
        assert!(refused(&mut alice, payload).await.is_some());
    }
    assert!(told.lock().unwrap().is_empty(), "it was not waited for");
    while told.lock().unwrap().len() < 3 {
        tokio::task::yield_now().await;
    }
    let mut told = told.lock().unwrap().clone();
    told.sort_by_key(|one| one.observed);
    let seen: Vec<_> =
        told.iter().map(|one| (one.kind, one.observed, one.limit, one.retry_after_ms.is_some())).collect();
    assert_eq!(seen, [("rate", 1, 1, true), ("rate", 7, 1, false), ("payload", 35, 20, false)]);
    assert!(told.iter().all(|one| one.client_id == told[0].client_id));
    assert_eq!(told[1].message_type.as_deref(), Some("Huge"));
}

#[tokio::test]
async fn what_follows_is_chosen() {
    let (limiter, _) = limiter("rate = \"1/day\"");
    for (on_exceed, expected) in
        [(OnExceed::Close, Then::Close(1013, "rate limit exceeded")), (OnExceed::Custom, Then::Nothing)]
    {
        let limiter = limiter.clone().on_exceed(on_exceed);
        let mut user = connect(&limiter, &format!("{on_exceed:?}"));
        assert_eq!(refused(&mut user, "{}").await, None);
        assert_eq!(refused(&mut user, "{}").await.unwrap().then, expected);
    }
}

#[tokio::test]
async fn what_is_in_flight_is_so_until_it_is_let_go() {
    let (limiter, _) = limiter("algorithm = \"concurrency\"\nrate = \"2/hour\"");
    let mut alice = connect(&limiter, "alice");
    let first = alice.judge(br#"{"id":1}"#).await.unwrap();
    let second = alice.judge(br#"{"id":"two"}"#).await.unwrap();
    assert_eq!((first.id.as_deref(), second.id.as_deref()), (Some("1"), Some("two")));
    assert!(refused(&mut alice, r#"{"id":3}"#).await.is_some());
    drop(first);
    assert!(alice.judge(br#"{"id":3}"#).await.is_ok());
}

/// Both ends of a connection in memory.
async fn pair() -> (WebSocketStream<DuplexStream>, WebSocketStream<DuplexStream>) {
    let (one, other) = tokio::io::duplex(1 << 16);
    let client = WebSocketStream::from_raw_socket(one, Role::Client, None).await;
    (client, WebSocketStream::from_raw_socket(other, Role::Server, None).await)
}

#[tokio::test]
async fn a_socket_gives_only_what_is_allowed_and_answers_the_rest() {
    let (limiter, _) = limiter("rate = \"2/day\"");
    let (mut client, server) = pair().await;
    let mut server = LimitedSocket::new(server, connect(&limiter, "alice"));
    for number in 0..4 {
        client.send(Message::text(format!("{{\"n\":{number}}}"))).await.unwrap();
    }
    client.close(None).await.unwrap();
    let mut heard = Vec::new();
    while let Some(Ok(received)) = server.recv::<Message, _>().await {
        heard.extend(
            received.message.into_text().ok().filter(|text| !text.is_empty()).map(|text| text.to_string()),
        );
    }
    assert_eq!(heard, ["{\"n\":0}", "{\"n\":1}"]);
    for _ in 0..2 {
        let Message::Text(text) = client.next().await.unwrap().unwrap() else { panic!("no text") };
        assert!(text.contains("RESOURCE_EXHAUSTED"), "{text}");
    }
}

#[tokio::test]
async fn a_socket_is_closed_where_that_is_asked_for() {
    let (limiter, _) = limiter("rate = \"1/day\"");
    let limiter = limiter.on_exceed(OnExceed::Close);
    let (mut client, server) = pair().await;
    let mut server = LimitedSocket::new(server, connect(&limiter, "alice"));
    for _ in 0..3 {
        client.send(Message::text("{}")).await.unwrap();
    }
    assert!(server.recv::<Message, _>().await.is_some());
    assert!(server.recv::<Message, _>().await.is_none());
    let Message::Close(Some(frame)) = client.next().await.unwrap().unwrap() else { panic!("no close") };
    assert_eq!(u16::from(frame.code), 1013);
}
