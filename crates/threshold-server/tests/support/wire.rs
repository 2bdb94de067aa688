//! Connections of a client that are looked at closely: one at a time, byte by byte, or piece by piece.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use super::application::Body;
use super::client::Answered;

/// How long anything may take before a test gives up on it.
const PATIENCE: Duration = Duration::from_secs(30);

/// What `future` gives, which has to be soon.
pub(crate) async fn soon<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(PATIENCE, future).await.unwrap()
}

/// Asks again and again until there is something.
pub(crate) async fn until<T, F: Future<Output = Option<T>>>(mut ask: impl FnMut() -> F) -> T {
    let asking = async {
        loop {
            if let Some(found) = ask().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    soon(asking).await
}

/// One connection of HTTP/1.1.
pub(crate) async fn http1(address: SocketAddr) -> http1::SendRequest<Body> {
    let stream = TokioIo::new(TcpStream::connect(address).await.unwrap());
    let (sender, connection) = http1::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    sender
}

/// One connection of HTTP/2, which both sides know to be one.
pub(crate) async fn http2(address: SocketAddr) -> http2::SendRequest<Body> {
    let stream = TokioIo::new(TcpStream::connect(address).await.unwrap());
    let (sender, connection) = http2::handshake(TokioExecutor::new(), stream).await.unwrap();
    tokio::spawn(connection);
    sender
}

/// Asks on a connection that is kept, once it is free.
pub(crate) async fn ask(sender: &mut http1::SendRequest<Body>, request: Request<Body>) -> Response<Incoming> {
    soon(sender.ready()).await.unwrap();
    soon(sender.send_request(request)).await.unwrap()
}

/// A request for `uri` with the host `gateway.test`, if `uri` names none.
pub(crate) fn request(method: &str, uri: &str, headers: &[(&str, &str)], body: Body) -> Request<Body> {
    let mut request = Request::builder().method(method).uri(uri);
    if uri.starts_with('/') && !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
        request = request.header("host", "gateway.test");
    }
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(body).unwrap()
}

/// Reads an answer whole, and what came behind its body.
pub(crate) async fn read(response: Response<Incoming>) -> (Answered, HeaderMap) {
    let (parts, body) = response.into_parts();
    let body = soon(body.collect()).await.unwrap();
    let trailers = body.trailers().cloned().unwrap_or_default();
    (Answered { status: parts.status, headers: parts.headers, body: body.to_bytes() }, trailers)
}

/// A body, and where its pieces are put in.
pub(crate) fn piped() -> (mpsc::UnboundedSender<Frame<Bytes>>, Body) {
    let (sender, receiver) = mpsc::unbounded_channel();
    (sender, Piped(receiver).boxed())
}

/// A piece of a body.
pub(crate) fn piece(data: impl Into<Bytes>) -> Frame<Bytes> {
    Frame::data(data.into())
}

struct Piped(mpsc::UnboundedReceiver<Frame<Bytes>>);

impl http_body::Body for Piped {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(cx).map(|frame| frame.map(Ok))
    }
}

/// A connection for bytes that no client would send.
pub(crate) struct Raw(pub(crate) TcpStream);

impl Raw {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        Self(TcpStream::connect(address).await.unwrap())
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).await.unwrap();
    }

    /// The head of the next answer.
    pub(crate) async fn head(&mut self) -> String {
        let mut head = Vec::new();
        let reading = async {
            while !head.ends_with(b"\r\n\r\n") {
                match self.0.read_u8().await {
                    Ok(byte) => head.push(byte),
                    Err(error) => panic!("{error} after {:?}", String::from_utf8_lossy(&head)),
                }
            }
        };
        soon(reading).await;
        String::from_utf8(head).unwrap()
    }

    /// Everything until the other side closes.
    pub(crate) async fn rest(&mut self) -> String {
        let mut all = Vec::new();
        // However it is closed, what came counts.
        let _ = soon(self.0.read_to_end(&mut all)).await;
        String::from_utf8_lossy(&all).into_owned()
    }
}

/// Everything that is answered to `bytes` until the connection is closed.
pub(crate) async fn raw(address: SocketAddr, bytes: &[u8]) -> String {
    let mut raw = Raw::connect(address).await;
    raw.send(bytes).await;
    raw.rest().await
}

/// The status of an answer as it was sent.
pub(crate) fn status(answer: &str) -> StatusCode {
    let code = answer.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3));
    code.unwrap_or_else(|| panic!("{answer:?} is no answer")).parse().unwrap()
}
