//! The line to the Worker: one connection of HTTP/2 that carries everything, or connections of HTTP/1.1 where the other
//! side speaks no more; kept open, and made again when they are lost.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http1, http2};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::pki_types::ServerName;
use threshold_core::{StoreError, StoreErrorKind};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio_rustls::TlsConnector;

use super::error::Trouble;
use super::url::Place;
use crate::authorities::authorities;

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(3);
/// Connections that are made at the same time.
const CONNECTING: usize = 4;
/// The longest answer that is read.
const LONGEST: usize = 16 << 20;
/// How often an idle connection is tried, and for how long.
const PING: (Duration, Duration) = (Duration::from_secs(20), Duration::from_secs(5));
/// A connection that leaves so many in a row without an answer is given up: what is behind it may be gone.
const SILENT: u32 = 8;
/// How often something is sent that certainly did not arrive.
const TRIES: usize = 3;

/// The line. Clones share it.
#[derive(Clone)]
pub(super) struct Line(Arc<Shared>);

struct Shared {
    place: Place,
    token: HeaderValue,
    tls: Option<TlsConnector>,
    wires: Mutex<Wires>,
    connecting: Semaphore,
    /// How many in a row had no answer.
    unanswered: AtomicU32,
}

#[derive(Default)]
struct Wires {
    idle: Vec<http1::SendRequest<Full<Bytes>>>,
    many: Option<http2::SendRequest<Full<Bytes>>>,
    closed: bool,
}

/// A connection that can take a request now.
enum Wire {
    /// One request at a time.
    One(http1::SendRequest<Full<Bytes>>),
    /// Any number of them.
    Many(http2::SendRequest<Full<Bytes>>),
}

impl Line {
    /// Connects.
    pub(super) async fn open(place: Place) -> Result<Self, StoreError> {
        const OPEN: &str = "reach the Worker";
        let misconfigured = |detail: String| StoreError::new(StoreErrorKind::Misconfigured, OPEN, detail);
        let token = HeaderValue::from_str(&format!("Bearer {}", place.token));
        let mut token = token.map_err(|_| misconfigured("the token fits into no header".to_owned()))?;
        token.set_sensitive(true);
        let tls = place.tls.then(|| connector(&place)).transpose().map_err(misconfigured)?;
        let (wires, connecting) = (Mutex::default(), Semaphore::new(CONNECTING));
        let unanswered = AtomicU32::new(0);
        let line = Self(Arc::new(Shared { place, token, tls, wires, connecting, unanswered }));
        let wire = line.0.connect().await.map_err(|trouble| trouble.during(OPEN))?;
        line.0.keep(wire);
        Ok(line)
    }

    pub(super) fn place(&self) -> &Place {
        &self.0.place
    }

    /// Sends a body and gives the answer to it. It is sent again only where it certainly did not arrive.
    pub(super) async fn ask(&self, target: &str, body: String) -> Result<Bytes, Trouble> {
        let body = Bytes::from(body);
        for _ in 0..TRIES {
            let mut wire = self.0.wire().await?;
            let request = self.0.request(&wire, target, body.clone())?;
            let answered = tokio::time::timeout(self.0.place.timeout, wire.send(request)).await;
            let Ok(answered) = answered else {
                self.0.unanswered();
                let detail = format!("no answer within {} ms", self.0.place.timeout.as_millis());
                return Err(Trouble::new(StoreErrorKind::Timeout, detail));
            };
            match answered {
                Ok((status, answer)) => {
                    self.0.unanswered.store(0, Ordering::Relaxed);
                    self.0.keep(wire);
                    return if status.is_success() {
                        Ok(answer)
                    } else {
                        Err(Trouble::refused(status, &answer))
                    };
                }
                Err(Lost { arrived: false, .. }) => {}
                Err(Lost { why, .. }) => {
                    return Err(Trouble::unavailable(format!("the connection was lost: {why}")));
                }
            }
        }
        Err(Trouble::unavailable("connections are lost as soon as they are made"))
    }

    pub(super) fn close(&self) {
        *self.0.lock() = Wires { closed: true, ..Wires::default() };
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Wires> {
        self.wires.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// HTTP/1.1 names the host in a header and HTTP/2 in the address; what has both is refused by some.
    fn request(&self, wire: &Wire, target: &str, body: Bytes) -> Result<Request<Full<Bytes>>, Trouble> {
        let Place { tls, authority, base, .. } = &self.place;
        let scheme = if *tls { "https" } else { "http" };
        let request = match wire {
            Wire::One(_) => Request::post(format!("{base}{target}")).header(HOST, authority),
            Wire::Many(_) => Request::post(format!("{scheme}://{authority}{base}{target}")),
        };
        let request =
            request.header(AUTHORIZATION, self.token.clone()).header(CONTENT_TYPE, "application/json");
        let wrong = |error| Trouble::new(StoreErrorKind::Misconfigured, format!("the URL is none: {error}"));
        request.body(Full::new(body)).map_err(wrong)
    }

    /// A connection that can take a request: one that is there, or else a new one.
    async fn wire(&self) -> Result<Wire, Trouble> {
        if let Some(wire) = self.kept().await? {
            return Ok(wire);
        }
        let Ok(_turn) = self.connecting.acquire().await else { return Err(closed()) };
        // While it waited for its turn, another may have made one for all.
        match self.kept().await? {
            Some(wire) => Ok(wire),
            None => {
                let wire = self.connect().await?;
                if let Wire::Many(many) = &wire {
                    self.keep(Wire::Many(many.clone()));
                }
                Ok(wire)
            }
        }
    }

    async fn kept(&self) -> Result<Option<Wire>, Trouble> {
        loop {
            let wire = {
                let mut wires = self.lock();
                if wires.closed {
                    return Err(closed());
                }
                match (wires.idle.pop(), &wires.many) {
                    (Some(one), _) => Wire::One(one),
                    (None, Some(many)) => Wire::Many(many.clone()),
                    (None, None) => return Ok(None),
                }
            };
            match wire {
                Wire::One(mut one) => {
                    if !one.is_closed() && one.ready().await.is_ok() {
                        return Ok(Some(Wire::One(one)));
                    }
                }
                Wire::Many(mut many) => {
                    if many.ready().await.is_ok() {
                        return Ok(Some(Wire::Many(many)));
                    }
                    self.lock().many.take_if(|kept| kept.is_closed());
                }
            }
        }
    }

    fn keep(&self, wire: Wire) {
        let mut wires = self.lock();
        match wire {
            _ if wires.closed => {}
            Wire::One(one) => wires.idle.push(one),
            Wire::Many(many) => wires.many = wires.many.take().or(Some(many)),
        }
    }

    /// A request had no answer. A connection of HTTP/1.1 ends with it; one that others use as well has a few more tries.
    fn unanswered(&self) {
        if self.unanswered.fetch_add(1, Ordering::Relaxed) + 1 >= SILENT {
            self.unanswered.store(0, Ordering::Relaxed);
            let mut wires = self.lock();
            (wires.idle, wires.many) = (Vec::new(), None);
        }
    }

    async fn connect(&self) -> Result<Wire, Trouble> {
        let silent = |_| {
            Trouble::unavailable("it does not answer; see that it runs there, and that nothing is in the way")
        };
        tokio::time::timeout(CONNECT, self.connect_at_leisure()).await.map_err(silent)?
    }

    async fn connect_at_leisure(&self) -> Result<Wire, Trouble> {
        let not_connected = |error: std::io::Error| Trouble::not_connected(&error, self.tls.is_some());
        let tcp =
            TcpStream::connect((self.place.host.as_str(), self.place.port)).await.map_err(not_connected)?;
        // Not refused by any system; a delay would be all.
        let _ = tcp.set_nodelay(true);
        let Some(tls) = &self.tls else { return one(tcp).await };
        let name = ServerName::try_from(self.place.host.clone())
            .map_err(|error| Trouble::new(StoreErrorKind::Misconfigured, error.to_string()))?;
        let stream = tls.connect(name, tcp).await.map_err(not_connected)?;
        match stream.get_ref().1.alpn_protocol() {
            Some(b"h2") => many(stream).await,
            _ => one(stream).await,
        }
    }
}

async fn one(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Result<Wire, Trouble> {
    let shaken = http1::handshake(TokioIo::new(stream)).await;
    let (wire, connection) = shaken.map_err(|error| Trouble::unavailable(error.to_string()))?;
    // It ends with the connection or with the last who could use it.
    tokio::spawn(connection);
    Ok(Wire::One(wire))
}

async fn many(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Result<Wire, Trouble> {
    let shaken = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .keep_alive_interval(PING.0)
        .keep_alive_timeout(PING.1)
        .keep_alive_while_idle(true)
        .handshake(TokioIo::new(stream))
        .await;
    let (wire, connection) = shaken.map_err(|error| Trouble::unavailable(error.to_string()))?;
    tokio::spawn(connection);
    Ok(Wire::Many(wire))
}

/// Why a request has no answer, and whether it may have arrived.
struct Lost {
    arrived: bool,
    why: String,
}

impl Lost {
    fn before(mut error: TrySendError<Request<Full<Bytes>>>) -> Self {
        // It is given back exactly if nothing of it was sent.
        let arrived = error.take_message().is_none();
        Self { arrived, why: error.into_error().to_string() }
    }
}

impl Wire {
    async fn send(&mut self, request: Request<Full<Bytes>>) -> Result<(StatusCode, Bytes), Lost> {
        let answer: Response<Incoming> = match self {
            Self::One(wire) => wire.try_send_request(request).await.map_err(Lost::before)?,
            Self::Many(wire) => wire.try_send_request(request).await.map_err(Lost::before)?,
        };
        let status = answer.status();
        let body = Limited::new(answer.into_body(), LONGEST).collect().await;
        let body = body.map_err(|error| Lost { arrived: true, why: error.to_string() })?;
        Ok((status, body.to_bytes()))
    }
}

fn connector(place: &Place) -> Result<TlsConnector, String> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let roots = authorities(place.ca.as_deref(), "ca=")?;
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

fn closed() -> Trouble {
    Trouble::unavailable("it is closed")
}
