//! One connection of a client, from its first byte to its last.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::BytesMut;
use http::header::{self, HeaderValue};
use http::{Request, Response, StatusCode, Version};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use threshold::policy::GatewayNumbers;
use threshold_http::body::ResponseBody;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tower_layer::Layer as _;

use super::body::{Ending, Progress, ProxyBody, Timed};
use super::connections::{Flight, Member};
use super::ear::Word;
use super::headers::Introduction;
use super::linger::Lingering;
use super::proxy::{Client, Proxy, Worker};
use super::settings::Settings;
use super::shortcut::converse;
use crate::rewound::Rewound;
use crate::trace::Trace;

/// Streams that a client of HTTP/2 takes back before they are looked at, and mistakes that make us take them back:
/// beyond so many the connection is closed.
const TAKEN_BACK: usize = 20;
const BROKEN: usize = 100;
/// What is kept of an answer that a client of HTTP/2 does not take.
const SEND_BUFFER: usize = 64 * 1024;
/// How much a client of HTTP/2 may send ahead, for each stream and for all.
const STREAM_WINDOW: u32 = 256 * 1024;
const CONNECTION_WINDOW: u32 = 1024 * 1024;

/// A client's connection, before anything was read from it.
pub(super) struct Accepted {
    pub(super) stream: std::net::TcpStream,
    pub(super) peer: SocketAddr,
    pub(super) member: Member,
}

/// Serves `accepted` until it ends.
pub(super) async fn serve(accepted: Accepted, worker: Arc<Worker>) {
    let Accepted { stream, peer, member } = accepted;
    let Ok(stream) = TcpStream::from_std(stream) else { return };
    let settings = worker.settings.load_full();
    let connection = Arc::new(member);
    let introduction = Introduction::new(peer.ip(), settings.tls.is_some());
    let client = Client { worker, introduction, connection: Arc::clone(&connection) };
    let front = Front { client: Arc::new(client) };
    match &settings.tls {
        None => answer(stream, front, &settings.numbers).await,
        Some(tls) => {
            let handshake = TlsAcceptor::from(Arc::clone(tls)).accept(stream);
            // Whoever takes too long for it is waiting like anybody else.
            let stream = tokio::select! {
                stream = handshake => stream,
                () = connection.ear.leave() => return,
            };
            if let Ok(stream) = stream {
                answer(stream, front, &settings.numbers).await;
            }
        }
    }
}

/// Answers on the short way as long as that will do, and on the long one from then on.
async fn answer<I>(stream: I, front: Front, numbers: &GatewayNumbers)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let left = match front.client.worker.tracer {
        // Who is traced is traced on the whole way.
        Some(_) => Some(Rewound { received: BytesMut::new(), stream }),
        None => converse(stream, &front.client).await,
    };
    if let Some(stream) = left {
        speak(stream, front, numbers).await;
    }
}

async fn speak<I>(stream: Rewound<I>, front: Front, numbers: &GatewayNumbers)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let connection = Arc::clone(&front.client.connection);
    let builder = builder(numbers);
    let mut speaking = pin!(
        builder.serve_connection_with_upgrades(TokioIo::new(Lingering::new(stream, &connection)), front)
    );
    let mut known = Word::GoOn;
    loop {
        let word = poll_fn(|cx| match speaking.as_mut().poll(cx) {
            // How it ends is the client's business.
            Poll::Ready(_) => Poll::Ready(Word::Leave),
            Poll::Pending => connection.ear.poll_word(cx, known),
        });
        known = word.await;
        if known == Word::Leave {
            return;
        }
        speaking.as_mut().graceful_shutdown();
    }
}

/// The limits of the protocols.
fn builder(numbers: &GatewayNumbers) -> auto::Builder<TokioExecutor> {
    let header_bytes = numbers.max_header_bytes;
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        // Whoever takes too long for a head is waiting, and closed as such.
        .header_read_timeout(None)
        .max_buf_size(header_bytes as usize);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(numbers.max_streams)
        .max_header_list_size(header_bytes)
        .max_pending_accept_reset_streams(TAKEN_BACK)
        .max_local_error_reset_streams(BROKEN)
        .max_send_buf_size(SEND_BUFFER)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .keep_alive_interval(Duration::from_secs(30))
        .keep_alive_timeout(Duration::from_secs(15));
    builder
}

/// Where requests arrive.
#[derive(Clone)]
struct Front {
    client: Arc<Client>,
}

impl hyper::service::Service<Request<Incoming>> for Front {
    type Response = Response<Ending<ResponseBody<ProxyBody>>>;
    type Error = Infallible;
    type Future = Answering;

    fn call(&self, mut request: Request<Incoming>) -> Answering {
        let connection = &self.client.connection;
        let flight = Some(connection.begin());
        // One request goes by one set of settings, whatever happens to them meanwhile.
        let settings = self.client.worker.settings.load_full();
        let trace = self.trace(&mut request, &settings);
        let http1 = request.version() < Version::HTTP_2;
        let progress =
            (!request.body().is_end_stream()).then(|| Arc::new(Progress::new(Arc::clone(connection))));
        let idle = settings.numbers.idle_timeout.into();
        let request = request.map(|body| Timed::new(body, idle, progress.clone()));
        let layer = settings.layer.clone();
        let proxy = Proxy {
            client: Arc::clone(&self.client),
            settings,
            progress: progress.clone(),
            trace: trace.clone(),
        };
        let answer = layer.layer(proxy).of_peer(self.client.introduction.peer()).once(request);
        Answering { answer, flight, connection: Arc::clone(connection), progress, http1, trace }
    }
}

impl Front {
    /// The trace of `request`, if it is traced.
    #[inline]
    fn trace(&self, request: &mut Request<Incoming>, settings: &Settings) -> Option<Arc<Trace>> {
        let tracer = self.client.worker.tracer.as_ref()?;
        let trusted = settings.trusts(self.client.introduction.peer());
        tracer.begin(request, (trusted, settings.tls.is_some()))
    }
}

type Answer = Pin<Box<dyn Future<Output = Result<Response<ResponseBody<ProxyBody>>, Infallible>> + Send>>;

/// An answer under way, and the request that is in flight until it is sent.
struct Answering {
    answer: Answer,
    flight: Option<Flight>,
    connection: Arc<Member>,
    progress: Option<Arc<Progress>>,
    http1: bool,
    trace: Option<Arc<Trace>>,
}

impl Future for Answering {
    type Output = Result<Response<Ending<ResponseBody<ProxyBody>>>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut response = ready!(self.answer.as_mut().poll(cx))?;
        if self.progress.as_ref().is_some_and(|progress| progress.stalled()) {
            response = stood_still().into_response().map(ResponseBody::refusal);
        }
        if self.http1 && self.connection.connections().is_draining() {
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        if let Some(trace) = self.trace.take() {
            trace.answered(response.status());
        }
        let flight = self.flight.take().unwrap_or_else(|| self.connection.begin());
        Poll::Ready(Ok(response.map(|body| Ending::new(body, flight))))
    }
}

fn stood_still() -> threshold_http::Answer {
    let detail = "the body of the request stood still for too long";
    threshold_http::Answer::new(StatusCode::REQUEST_TIMEOUT, "body_timeout", detail)
}
