//! Connections that are closed, and the codes that say why.

use futures_util::{SinkExt as _, StreamExt as _};
use tokio_tungstenite::tungstenite::Message;

use super::common::{closed, connect, policy};
use crate::support::echo::{Echo, exchange};
use crate::support::server::Server;
use crate::support::wire::soon;

#[tokio::test(flavor = "multi_thread")]
async fn one_too_many_closes_the_connection_where_that_is_asked_for() {
    let echo = Echo::start().await;
    for (websocket, expected) in
        [("on_exceed = \"close\"", 1013), ("on_exceed = \"close\"\nclose_code = 4029", 4029)]
    {
        let server = Server::start(&policy(websocket, "rate = \"2/day\""), echo.address);
        let mut socket = connect(&server, "alice").await;
        for text in ["one", "two"] {
            exchange(&mut socket, Message::text(text)).await;
        }
        socket.send(Message::text("three")).await.unwrap();
        assert_eq!(closed(&mut socket).await, expected);
        assert!(soon(socket.next()).await.is_none_or(|end| end.is_err()));
    }
    assert_eq!(echo.count("three"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_allowed_before_still_arrives() {
    let echo = Echo::start().await;
    let server = Server::start(&policy("on_exceed = \"close\"", "rate = \"50/day\""), echo.address);
    let mut socket = connect(&server, "alice").await;
    // All at once, so that they are read together.
    for number in 0..60 {
        socket.feed(Message::text(format!("message {number}"))).await.unwrap();
    }
    socket.flush().await.unwrap();
    assert_eq!(closed(&mut socket).await, 1013);
    crate::support::wire::until(|| async { (echo.count("message") == 50).then_some(()) }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_but_an_event_follows_where_that_is_asked_for() {
    let echo = Echo::start().await;
    let upstream = format!("http://{}", echo.address);
    let policy = policy("on_exceed = \"custom\"", "rate = \"1/day\"");
    let mut server = Server::with(&policy, &["--upstream", &upstream], &[("THRESHOLD_DEBUG", "true")]);
    let mut socket = connect(&server, "alice").await;
    exchange(&mut socket, Message::text("one")).await;
    for _ in 0..3 {
        socket.send(Message::text("too many")).await.unwrap();
    }
    server.hears("message_refused", 3);
    socket.send(Message::Ping("still here".into())).await.unwrap();
    assert_eq!(soon(socket.next()).await.unwrap().unwrap(), Message::Pong("still here".into()));
    assert_eq!(echo.count("too many"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_banned_is_shown_out() {
    let echo = Echo::start().await;
    let server = Server::start(&policy("", "rate = \"1000/day\""), echo.address);
    let mut socket = connect(&server, "alice").await;
    exchange(&mut socket, Message::text("hello")).await;
    server.command("bans add --address 127.0.0.1 --for 1h --reason flooding");
    // The server takes it over within a second, and the next message after that is the last.
    let shown_out = async {
        loop {
            if socket.send(Message::text("still here?")).await.is_err() {
                panic!("it was not closed in words");
            }
            match socket.next().await.unwrap().unwrap() {
                Message::Text(_) => tokio::time::sleep(std::time::Duration::from_millis(20)).await,
                Message::Close(frame) => return u16::from(frame.unwrap().code),
                other => panic!("{other:?}"),
            }
        }
    };
    assert_eq!(soon(shown_out).await, 1008);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_says_so() {
    let echo = Echo::start().await;
    let mut server = Server::start(&policy("", "rate = \"1000/day\""), echo.address);
    let mut sockets = Vec::new();
    for _ in 0..10 {
        let mut socket = connect(&server, "alice").await;
        exchange(&mut socket, Message::text("hello")).await;
        sockets.push(socket);
    }
    server.signal("TERM");
    for socket in &mut sockets {
        assert_eq!(closed(socket).await, 1001);
    }
    assert!(server.ends().success());
}
