//! One request and its answer.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, HOST, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::guard::Blocked;
use super::{Guard, Url};
use crate::gateway::{Wire, secured};

const AGENT: &str = concat!("threshold/", env!("CARGO_PKG_VERSION"));

/// What is asked.
pub(crate) struct Asked {
    pub(crate) method: Method,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// How long all of it may take.
    pub(crate) timeout: Duration,
    /// The most bytes of an answer.
    pub(crate) longest: usize,
}

/// What was answered.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) body: Bytes,
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It may not be asked: what and remedy.
    Refused(String),
    /// It could not be reached, or was lost.
    Lost(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(why) | Self::Lost(why) => f.write_str(why),
        }
    }
}

/// Asks `url`, if `guard` lets it.
pub(crate) async fn send(url: &Url, guard: &Guard, asked: Asked) -> Result<Answer, Failure> {
    let timeout = asked.timeout;
    match tokio::time::timeout(timeout, exchange(url, guard, asked)).await {
        Ok(answered) => answered,
        Err(_) => Err(Failure::Lost(format!("no answer within {} s", timeout.as_secs()))),
    }
}

async fn exchange(url: &Url, guard: &Guard, asked: Asked) -> Result<Answer, Failure> {
    let addresses = guard.addresses(url).await.map_err(|blocked| match blocked {
        Blocked::Unknown(error) => Failure::Lost(format!("{} cannot be resolved: {error}", url.host())),
        Blocked::Refused(why) => Failure::Refused(why),
    })?;
    let wire = connect(url, &addresses).await.map_err(lost)?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(wire)).await.map_err(lost)?;
    let longest = asked.longest;
    let request = request(url, asked)?;
    let answer = async {
        let (head, body) = sender.send_request(request).await.map_err(lost)?.into_parts();
        let body = Limited::new(body, longest).collect().await;
        let body = body.map_err(|error| Failure::Lost(format!("the answer could not be read: {error}")))?;
        Ok(Answer { status: head.status, body: body.to_bytes() })
    };
    tokio::pin!(answer);
    tokio::pin!(connection);
    tokio::select! {
        answered = &mut answer => answered,
        // The answer may be there although the connection has ended.
        ended = &mut connection => match ended {
            Ok(()) => answer.await,
            Err(error) => Err(lost(error)),
        },
    }
}

/// To the first that takes it. These are addresses, which nobody resolves once more.
async fn connect(url: &Url, addresses: &[SocketAddr]) -> std::io::Result<Wire> {
    let stream = TcpStream::connect(addresses).await?;
    stream.set_nodelay(true)?;
    match url.is_secure() {
        true => secured(stream, url.host()).await,
        false => Ok(Wire::Plain(stream)),
    }
}

fn request(url: &Url, asked: Asked) -> Result<Request<Full<Bytes>>, Failure> {
    let request = Request::builder().method(asked.method).uri(url.target()).header(HOST, url.authority());
    let mut request = request.body(Full::new(asked.body)).map_err(lost)?;
    request.headers_mut().extend(asked.headers);
    request.headers_mut().insert(USER_AGENT, HeaderValue::from_static(AGENT));
    request.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    Ok(request)
}

fn lost(error: impl fmt::Display) -> Failure {
    Failure::Lost(error.to_string())
}
