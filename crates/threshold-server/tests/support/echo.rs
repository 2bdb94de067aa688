//! An application that speaks WebSocket.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use futures_util::{SinkExt as _, StreamExt as _};
use http::{HeaderMap, Request};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Response as Accepted};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::{WebSocketStream, accept_hdr_async};

use super::wire::soon;

pub(crate) type Socket = WebSocketStream<TcpStream>;

/// An application that sends every message back, ends at `bye` and breaks at `break`. What says `hold` it keeps until it
/// hears `go`.
pub(crate) struct Echo {
    pub(crate) address: SocketAddr,
    pub(crate) asked: Arc<Mutex<Vec<HeaderMap>>>,
    /// Every message that arrived.
    pub(crate) heard: Arc<Mutex<Vec<String>>>,
    serving: JoinHandle<()>,
}

/// What connections share.
type Shared = (Arc<Mutex<Vec<HeaderMap>>>, Arc<Mutex<Vec<String>>>);

impl Echo {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Shared::default();
        let (asked, heard) = shared.clone();
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(echo(stream, shared.clone()));
            }
        });
        Self { address, asked, heard, serving }
    }

    /// How many messages with `text` in them arrived.
    pub(crate) fn count(&self, text: &str) -> usize {
        self.heard.lock().unwrap().iter().filter(|heard| heard.contains(text)).count()
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

#[expect(clippy::result_large_err, reason = "what the library asks for")]
async fn echo(stream: TcpStream, (asked, heard): Shared) {
    let accept = |request: &Request<()>, mut response: Accepted| -> Result<Accepted, ErrorResponse> {
        asked.lock().unwrap().push(request.headers().clone());
        response.headers_mut().insert("x-application", "echo".parse().unwrap());
        Ok(response)
    };
    let Ok(mut socket) = accept_hdr_async(stream, accept).await else { return };
    let mut held = Vec::new();
    while let Some(Ok(message)) = socket.next().await {
        if let Message::Text(text) = &message {
            heard.lock().unwrap().push(text.to_string());
        }
        match &message {
            Message::Text(text) if text.as_str() == "bye" => {
                let frame = CloseFrame { code: CloseCode::Library(4000), reason: "as you wish".into() };
                socket.close(Some(frame)).await.unwrap();
            }
            Message::Text(text) if text.as_str() == "break" => return,
            Message::Text(text) if text.contains("hold") => held.push(message),
            Message::Text(text) if text.contains("go") => {
                for one in held.drain(..) {
                    socket.send(one).await.unwrap();
                }
            }
            // Whoever has gone away hears nothing.
            Message::Text(_) | Message::Binary(_) => drop(socket.send(message).await),
            _ => {}
        }
    }
}

/// Sends `message` and waits for its echo.
pub(crate) async fn exchange(socket: &mut Socket, message: Message) {
    socket.send(message.clone()).await.unwrap();
    assert_eq!(soon(socket.next()).await.unwrap().unwrap(), message);
}
