//! Clients of limited sockets.

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::Value as Json;
use tokio::net::TcpStream;
use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::support::echo::Socket;
use crate::support::server::Server;
use crate::support::wire::soon;

/// Where users are named by a trusted proxy, as every client of these tests is.
pub(crate) const IDENTITY: &str =
    "[identity]\ntrusted_proxies = [\"127.0.0.1\"]\nuser = { header = \"x-user\" }\n";

/// A policy with one limit of messages, `more` of it, and `[websocket]`.
pub(crate) fn policy(websocket: &str, limit: &str) -> String {
    format!(
        "{IDENTITY}[websocket]\n{websocket}\n[[limit]]\nid = \"chat\"\nlayer = \"user\"\nmessages = \"*\"\n{limit}\n"
    )
}

/// Connects as `user`.
pub(crate) async fn connect(server: &Server, user: &str) -> Socket {
    try_connect(server, user).await.unwrap()
}

pub(crate) async fn try_connect(server: &Server, user: &str) -> Result<Socket, Error> {
    let stream = TcpStream::connect(server.gateway).await.unwrap();
    let mut request = "ws://gateway.test/chat".into_client_request().unwrap();
    request.headers_mut().insert("x-user", user.parse().unwrap());
    // What browsers offer.
    let offered = "permessage-deflate; client_max_window_bits";
    request.headers_mut().insert("sec-websocket-extensions", offered.parse().unwrap());
    Ok(soon(client_async(request, stream)).await?.0)
}

/// Sends a text and gives what comes back.
pub(crate) async fn ask(socket: &mut Socket, text: &str) -> Json {
    socket.send(Message::text(text)).await.unwrap();
    hear(socket).await
}

/// The next message, as JSON.
pub(crate) async fn hear(socket: &mut Socket) -> Json {
    loop {
        match soon(socket.next()).await.unwrap().unwrap() {
            Message::Text(text) => return serde_json::from_str(&text).unwrap(),
            Message::Ping(_) | Message::Pong(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

/// The code of an error, or nothing if it is none.
pub(crate) fn code(answer: &Json) -> &str {
    if answer["type"] == "ERROR" { answer["payload"]["code"].as_str().unwrap() } else { "" }
}

/// The code that the connection is closed with.
pub(crate) async fn closed(socket: &mut Socket) -> u16 {
    loop {
        match soon(socket.next()).await {
            Some(Ok(Message::Close(Some(frame)))) => return frame.code.into(),
            Some(Ok(_)) => {}
            other => panic!("it was not closed in words: {other:?}"),
        }
    }
}
