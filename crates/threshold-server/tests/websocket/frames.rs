//! Frames as bytes: messages in pieces, and what is no WebSocket at all.

use std::net::SocketAddr;

use futures_util::{SinkExt as _, StreamExt as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};

use super::common::{ask, closed, code, connect, hear, policy};
use crate::support::echo::{Echo, exchange};
use crate::support::server::Server;
use crate::support::wire::soon;

/// What a client that is written by hand asks with.
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";

fn piece(text: &str, kind: Data, last: bool) -> Message {
    Message::Frame(Frame::message(text.to_owned(), OpCode::Data(kind), last))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_in_pieces_is_one_message() {
    let echo = Echo::start().await;
    let server = Server::start(&policy("types = [\"Chat\"]", "rate = \"2/day\""), echo.address);
    let mut socket = connect(&server, "alice").await;
    for _ in 0..2 {
        socket.send(piece("{\"ty", Data::Text, false)).await.unwrap();
        socket.send(Message::Ping("between".into())).await.unwrap();
        socket.send(piece("pe\":\"Chat\"", Data::Continue, false)).await.unwrap();
        socket.send(piece("}", Data::Continue, true)).await.unwrap();
        let mut heard = Vec::new();
        while heard.len() < 2 {
            heard.push(soon(socket.next()).await.unwrap().unwrap());
        }
        assert!(heard.contains(&Message::Pong("between".into())), "{heard:?}");
        assert!(heard.contains(&Message::text("{\"type\":\"Chat\"}")), "{heard:?}");
    }
    assert_eq!(code(&ask(&mut socket, "{}").await), "RESOURCE_EXHAUSTED");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_grows_too_large_is_refused_once() {
    let echo = Echo::start().await;
    let server = Server::start(&policy("max_payload = 100", "rate = \"9/day\""), echo.address);
    let mut socket = connect(&server, "alice").await;
    socket.send(piece(&"x".repeat(60), Data::Text, false)).await.unwrap();
    for _ in 0..5 {
        socket.send(piece(&"x".repeat(60), Data::Continue, false)).await.unwrap();
    }
    socket.send(piece("x", Data::Continue, true)).await.unwrap();
    assert_eq!(code(&hear(&mut socket).await), "FAILED_PRECONDITION");
    exchange(&mut socket, Message::text("and on")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pieces_without_end_are_a_message_that_is_too_large() {
    let echo = Echo::start().await;
    let server = Server::start(&policy("max_payload = 100", "rate = \"9/day\""), echo.address);
    let mut socket = connect(&server, "alice").await;
    socket.send(piece("x", Data::Text, false)).await.unwrap();
    for _ in 0..300 {
        socket.send(piece("", Data::Continue, false)).await.unwrap();
    }
    socket.send(piece("", Data::Continue, true)).await.unwrap();
    assert_eq!(code(&hear(&mut socket).await), "FAILED_PRECONDITION");
    exchange(&mut socket, Message::text("and on")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pieces_count_for_the_pace_of_a_connection() {
    let echo = Echo::start().await;
    let server = Server::start(
        &policy("connection_rate = \"5/day\"\non_exceed = \"close\"", "rate = \"9/day\""),
        echo.address,
    );
    let mut socket = connect(&server, "alice").await;
    socket.send(piece("x", Data::Text, false)).await.unwrap();
    for _ in 0..8 {
        // The connection may be closed before the last.
        let _ = socket.send(piece("", Data::Continue, false)).await;
    }
    assert_eq!(closed(&mut socket).await, 1013);
}

/// Opens a WebSocket by hand.
async fn opened(address: SocketAddr) -> TcpStream {
    opened_as(address, "Upgrade: websocket").await
}

/// The same, asking for it in other words.
async fn opened_as(address: SocketAddr, upgrade: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = "GET /chat HTTP/1.1\r\nHost: gateway.test\r\nConnection: Upgrade\r\n\
                Sec-WebSocket-Version: 13\r\n";
    let head = format!("{head}{upgrade}\r\nSec-WebSocket-Key: {KEY}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(soon(stream.read_u8()).await.unwrap());
    }
    assert!(answer.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&answer));
    stream
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_frame_ends_the_connection() {
    let echo = Echo::start().await;
    let server = Server::start(&policy("", "rate = \"9/day\""), echo.address);
    let masked = [0_u8; 4];
    for (what, bytes) in [
        ("no mask", vec![0x81, 0x02, b'h', b'i']),
        ("a reserved bit", [&[0xC1, 0x80][..], &masked].concat()),
        ("an unknown kind", [&[0x83, 0x80][..], &masked].concat()),
        ("a piece of nothing", [&[0x80, 0x80][..], &masked].concat()),
        ("a message within another", [&[0x01, 0x80][..], &masked, &[0x81, 0x80], &masked].concat()),
        ("a ping in pieces", [&[0x09, 0x80][..], &masked].concat()),
        ("a ping too large", [&[0x89, 0xFE, 0x00, 0x7E][..], &masked].concat()),
    ] {
        let mut stream = opened(server.gateway).await;
        stream.write_all(&bytes).await.unwrap();
        let mut heard = Vec::new();
        soon(stream.read_to_end(&mut heard)).await.unwrap();
        assert_eq!(heard[..1], [0x88], "{what}: {heard:?}");
        assert_eq!(heard[2..4], 1002_u16.to_be_bytes(), "{what}");
    }
    assert!(echo.heard.lock().unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_length_that_nobody_can_send_is_no_trouble() {
    let echo = Echo::start().await;
    let server = Server::start(&policy("", "rate = \"9/day\""), echo.address);
    let mut stream = opened(server.gateway).await;
    let head = [&[0x82, 0xFF][..], &(u64::MAX >> 1).to_be_bytes(), &[0; 4]].concat();
    stream.write_all(&head).await.unwrap();
    stream.write_all(&vec![0; 1 << 20]).await.unwrap();
    let mut heard = [0; 4];
    soon(stream.read_exact(&mut heard)).await.unwrap();
    assert_eq!(heard[0], 0x81, "it is told that the message is too large");
}

/// An application's end of a WebSocket, after the first piece of a message.
async fn begun(listener: TcpListener) -> TcpStream {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    let accept = derive_accept_key(KEY.as_bytes());
    let answer = format!(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: {accept}\r\n\r\n"
    );
    stream.write_all(answer.as_bytes()).await.unwrap();
    stream.write_all(b"\x01\x05hello").await.unwrap();
    stream
}

/// An application that sends a message in two pieces with a second between them, and then `broken`.
async fn slow(listener: TcpListener, broken: &'static [u8]) {
    let mut stream = begun(listener).await;
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    stream.write_all(b"\x80\x05world").await.unwrap();
    stream.write_all(broken).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
}

/// An application that answers its end in the middle of its own message.
async fn obedient(listener: TcpListener) {
    let mut stream = begun(listener).await;
    let mut told = [0; 8];
    stream.read_exact(&mut told).await.unwrap();
    assert_eq!(told[..2], [0x88, 0x82], "it is told to end: {told:?}");
    stream.write_all(b"\x88\x02\x03\xE9").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_hears_why_we_close_and_not_what_the_application_says_to_it() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let application = tokio::spawn(obedient(listener));
    let server = Server::start(&policy("", "rate = \"9/day\""), address);
    let mut stream = opened(server.gateway).await;
    let mut hello = [0; 7];
    soon(stream.read_exact(&mut hello)).await.unwrap();
    stream.write_all(b"\x81\x02hi").await.unwrap();
    let mut heard = Vec::new();
    soon(stream.read_to_end(&mut heard)).await.unwrap();
    assert_eq!(heard[..1], [0x88], "{heard:?}");
    assert_eq!(heard[2..4], 1002_u16.to_be_bytes(), "{heard:?}");
    assert_eq!(heard.len(), 2 + usize::from(heard[1]), "nothing behind it: {heard:?}");
    application.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_comes_behind_the_end_that_the_application_has_said() {
    let end = b"\x88\x02\x0F\xA1";
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(slow(listener, end));
    let server = Server::start(&policy("", "rate = \"1/day\""), address);
    let mut stream = opened(server.gateway).await;
    let mut heard = vec![0; 14 + end.len()];
    soon(stream.read_exact(&mut heard)).await.unwrap();
    assert!(heard.ends_with(end), "{heard:?}");
    stream.write_all(&[0x81, 0x80, 0, 0, 0, 0, 0x81, 0x80, 0, 0, 0, 0]).await.unwrap();
    let mut rest = Vec::new();
    soon(stream.read_to_end(&mut rest)).await.unwrap();
    assert!(rest.is_empty(), "{rest:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_hold_however_a_socket_is_asked_for() {
    for upgrade in [
        "Upgrade: WebSocket",
        "Upgrade: foo, websocket",
        "Upgrade: websocket/13",
        "Upgrade: foo\r\nUpgrade: websocket",
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(slow(listener, b""));
        let server = Server::start(&policy("", "rate = \"1/day\""), address);
        let mut stream = opened_as(server.gateway, upgrade).await;
        stream.write_all(&[0x81, 0x80, 0, 0, 0, 0, 0x81, 0x80, 0, 0, 0, 0]).await.unwrap();
        // Between the messages of the application, or before them.
        let mut heard = Vec::new();
        while !heard.windows(18).any(|some| some == b"RESOURCE_EXHAUSTED") {
            let count = soon(stream.read_buf(&mut heard)).await.unwrap();
            assert!(count > 0, "the second message was not refused: {upgrade}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_we_say_stands_between_the_messages_of_the_application() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(slow(listener, b"\xF1\x00"));
    let server = Server::start(&policy("", "rate = \"1/day\""), address);
    let mut stream = opened(server.gateway).await;
    let mut hello = [0; 7];
    soon(stream.read_exact(&mut hello)).await.unwrap();
    assert_eq!(&hello, b"\x01\x05hello");
    // Two empty messages, of which one is too many, while the application is in the middle of its own.
    stream.write_all(&[0x81, 0x80, 0, 0, 0, 0, 0x81, 0x80, 0, 0, 0, 0]).await.unwrap();
    let mut world = [0; 7];
    soon(stream.read_exact(&mut world)).await.unwrap();
    assert_eq!(&world, b"\x80\x05world");
    let mut rest = Vec::new();
    soon(stream.read_to_end(&mut rest)).await.unwrap();
    // Then what we say, or that the application broke the rules, or both; whichever was first.
    assert!(rest.starts_with(b"\x81") || rest.starts_with(b"\x88"), "{rest:?}");
    let at = rest.windows(4).rposition(|four| four[0] == 0x88 && four[2..] == 1014_u16.to_be_bytes());
    assert!(at.is_some(), "{rest:?}");
}
