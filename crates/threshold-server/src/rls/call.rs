//! One call: which it is, who may make it, its message and its answer.

use std::future::poll_fn;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use h2::server::SendResponse;
use h2::{RecvStream, SendStream};
use http::header::{self, HeaderValue};
use http::{HeaderMap, HeaderName, Request, Response, StatusCode, request};

use super::limit::{Begun, Place, Run};
use super::{Shared, health, limit, reflection};

/// The largest message: descriptors are small.
pub(super) const MESSAGE: usize = 64 * 1024;
/// The largest of calls that need no key.
const OPEN_MESSAGE: usize = 1_024;
/// What stands before each message: whether it is compressed, and its length.
pub(super) const PREFIX: usize = 5;

const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");
const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const GRPC_ACCEPT_ENCODING: HeaderName = HeaderName::from_static("grpc-accept-encoding");

/// The codes of gRPC that are used here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Code {
    InvalidArgument = 3,
    DeadlineExceeded = 4,
    NotFound = 5,
    ResourceExhausted = 8,
    Unimplemented = 12,
    Internal = 13,
    Unavailable = 14,
    Unauthenticated = 16,
}

/// Why a call has no answer, or ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Status {
    code: Code,
    message: String,
}

impl Status {
    pub(super) fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// The fields that say so.
    fn write(&self, fields: &mut HeaderMap) {
        fields.insert(GRPC_STATUS, HeaderValue::from(self.code as u16));
        if self.code == Code::Unimplemented {
            fields.insert(GRPC_ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        }
        if let Ok(message) = HeaderValue::from_str(&escaped(&self.message)) {
            fields.insert(GRPC_MESSAGE, message);
        }
    }
}

/// Percent-encoded but for what gRPC lets stand.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b' '..=b'~' if byte != b'%' => escaped.push(char::from(byte)),
            _ => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

/// What can be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Called {
    ShouldRateLimit,
    Check,
    Watch,
    Reflection,
}

impl Called {
    fn find(path: &str) -> Option<Self> {
        Some(match path {
            "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit" => Self::ShouldRateLimit,
            "/grpc.health.v1.Health/Check" => Self::Check,
            "/grpc.health.v1.Health/Watch" => Self::Watch,
            "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
            | "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo" => Self::Reflection,
            _ => return None,
        })
    }

    /// True if whoever looks after the server may make it: no key is needed to ask how it is.
    const fn is_open(self) -> bool {
        matches!(self, Self::Check | Self::Watch)
    }

    /// The largest message.
    const fn most(self) -> usize {
        if self.is_open() { OPEN_MESSAGE } else { MESSAGE }
    }
}

/// A call whose message is still to come.
pub(super) struct Call {
    pub(super) called: Called,
    pub(super) messages: Messages,
    pub(super) respond: SendResponse<Bytes>,
}

impl Call {
    /// Finds out what is called; what makes no sense is answered at once.
    pub(super) fn begin(
        shared: &Shared,
        request: Request<RecvStream>,
        mut respond: SendResponse<Bytes>,
    ) -> Option<Self> {
        let (head, body) = request.into_parts();
        if let Err(status) = is_grpc(&head) {
            let mut response = Response::new(());
            *response.status_mut() = status;
            let _ = respond.send_response(response, true);
            return None;
        }
        match admit(shared, &head) {
            Ok(called) => Some(Self { called, messages: Messages::new(body, called.most()), respond }),
            Err(status) => {
                refuse(&mut respond, &status);
                None
            }
        }
    }
}

/// What is no call is told so in the terms of HTTP.
fn is_grpc(head: &request::Parts) -> Result<(), StatusCode> {
    let kind = head.headers.get(header::CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
    let plain = kind.strip_prefix(b"application/grpc").is_some_and(|rest| {
        matches!(rest, b"" | b"+proto") || rest.starts_with(b";") || rest.starts_with(b"+proto;")
    });
    match (head.method == http::Method::POST, plain) {
        (true, true) => Ok(()),
        (false, _) => Err(StatusCode::METHOD_NOT_ALLOWED),
        (true, false) => Err(StatusCode::UNSUPPORTED_MEDIA_TYPE),
    }
}

/// What is called, by whom it may be.
fn admit(shared: &Shared, head: &request::Parts) -> Result<Called, Status> {
    let Some(called) = Called::find(head.uri.path()) else {
        let what = format!("there is no {}; reflection lists what there is", head.uri.path());
        return Err(Status::new(Code::Unimplemented, what));
    };
    if shared.near || called.is_open() {
        return Ok(called);
    }
    let shown = head.headers.get(header::AUTHORIZATION).map(HeaderValue::as_bytes);
    match shared.settings.load().keys.find_bearer(shown) {
        Some(_) => Ok(called),
        None => {
            let what = "a key is needed; send one of [api].keys as `authorization: Bearer KEY`";
            Err(Status::new(Code::Unauthenticated, what))
        }
    }
}

/// What a caller sends, message by message.
pub(super) struct Messages {
    body: RecvStream,
    /// What has come of the next message. Its caller may send as much again only when it is whole: so a connection holds no
    /// more than its window, whatever number of calls it has.
    received: BytesMut,
    /// The largest message.
    most: usize,
    ended: bool,
}

impl Messages {
    fn new(body: RecvStream, most: usize) -> Self {
        Self { body, received: BytesMut::new(), most, ended: false }
    }

    /// The only message of a call.
    pub(super) fn poll_only(&mut self, cx: &mut Context<'_>) -> Poll<Result<Bytes, Status>> {
        loop {
            match ready!(self.poll_data(cx))? {
                // Most come whole.
                Some(data) if self.received.is_empty() && self.body.is_end_stream() => {
                    return Poll::Ready(self.unwrap_only(data));
                }
                Some(data) => self.keep(&data)?,
                None => {
                    let received = self.received.split().freeze();
                    return Poll::Ready(self.unwrap_only(received));
                }
            }
        }
    }

    /// Lets the caller send as much again as has come, for calls that are not answered at once: the answer does it else.
    pub(super) fn release(&mut self) {
        let flow = self.body.flow_control();
        let _ = flow.release_capacity(flow.used_capacity());
    }

    /// The next of several messages; none at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Status> {
        loop {
            if let Some(length) = self.length(&self.received)? {
                let end = PREFIX + length;
                if self.received.len() >= end {
                    let mut message = self.received.split_to(end);
                    let _ = self.body.flow_control().release_capacity(end);
                    message.advance(PREFIX);
                    return Ok(Some(message.freeze()));
                }
            }
            match poll_fn(|cx| self.poll_data(cx)).await? {
                Some(data) => self.keep(&data)?,
                None if self.received.is_empty() => return Ok(None),
                None => return Err(broken_off()),
            }
        }
    }

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Status>> {
        if self.ended {
            return Poll::Ready(Ok(None));
        }
        match ready!(self.body.poll_data(cx)) {
            Some(Ok(data)) => Poll::Ready(Ok(Some(data))),
            Some(Err(_)) => Poll::Ready(Err(broken_off())),
            None => {
                self.ended = true;
                Poll::Ready(Ok(None))
            }
        }
    }

    fn keep(&mut self, data: &[u8]) -> Result<(), Status> {
        if self.received.len() + data.len() > PREFIX + self.most {
            return Err(self.too_large());
        }
        self.received.extend_from_slice(data);
        Ok(())
    }

    /// How long the message is that `received` begins with; none if not enough is there to tell.
    fn length(&self, received: &[u8]) -> Result<Option<usize>, Status> {
        let Some((prefix, _)) = received.split_first_chunk::<PREFIX>() else { return Ok(None) };
        let [compressed, length @ ..] = *prefix;
        let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
        match compressed {
            _ if length > self.most => Err(self.too_large()),
            0 => Ok(Some(length)),
            _ => Err(Status::new(
                Code::Unimplemented,
                "messages are not taken compressed; send them as they are",
            )),
        }
    }

    /// The message that is all of `received`.
    fn unwrap_only(&self, mut received: Bytes) -> Result<Bytes, Status> {
        match self.length(&received)? {
            Some(length) if received.len() == PREFIX + length => {
                received.advance(PREFIX);
                Ok(received)
            }
            Some(length) if received.len() > PREFIX + length => {
                Err(Status::new(Code::Internal, "there is more than one message; this call takes one"))
            }
            _ => Err(broken_off()),
        }
    }

    fn too_large(&self) -> Status {
        let what = format!("the message is larger than {} bytes; send less in one", self.most);
        Status::new(Code::ResourceExhausted, what)
    }
}

fn broken_off() -> Status {
    Status::new(Code::Internal, "the message breaks off; send all of it")
}

/// Writes how long the message is that stands behind the prefix in `out`.
pub(super) fn prefix(out: &mut [u8]) {
    let length = u32::try_from(out.len().saturating_sub(PREFIX)).unwrap_or(u32::MAX);
    if let Some(place) = out.get_mut(1..PREFIX) {
        place.copy_from_slice(&length.to_be_bytes());
    }
}

/// Begins an answer of messages.
pub(super) fn begin(respond: &mut SendResponse<Bytes>) -> Option<SendStream<Bytes>> {
    let mut response = Response::new(());
    response.headers_mut().insert(header::CONTENT_TYPE, GRPC);
    respond.send_response(response, false).ok()
}

/// How long a caller may take to read.
const PATIENCE: Duration = Duration::from_secs(10);

/// Sends one of several messages as the caller makes room for it; none if it is gone, or makes none for too long.
pub(super) async fn send(stream: &mut SendStream<Bytes>, mut message: Bytes) -> Option<()> {
    while !message.is_empty() {
        stream.reserve_capacity(message.len());
        let room = match stream.capacity() {
            0 => tokio::time::timeout(PATIENCE, poll_fn(|cx| stream.poll_capacity(cx))).await.ok()??.ok()?,
            room => room,
        };
        let piece = message.split_to(room.min(message.len()));
        stream.send_data(piece, false).ok()?;
    }
    Some(())
}

/// Ends an answer well, or as `status` says.
pub(super) fn end(mut stream: SendStream<Bytes>, status: Option<&Status>) {
    let mut trailers = HeaderMap::with_capacity(3);
    match status {
        None => {
            trailers.insert(GRPC_STATUS, HeaderValue::from_static("0"));
        }
        Some(status) => status.write(&mut trailers),
    }
    let _ = stream.send_trailers(trailers);
}

/// Answers with one message; who has gone is not told.
pub(super) fn reply(respond: &mut SendResponse<Bytes>, answer: Result<Bytes, Status>) {
    match answer {
        Ok(message) => {
            let Some(mut stream) = begin(respond) else { return };
            if stream.send_data(message, false).is_ok() {
                end(stream, None);
            }
        }
        Err(status) => refuse(respond, &status),
    }
}

/// Answers with headers alone.
pub(super) fn refuse(respond: &mut SendResponse<Bytes>, status: &Status) {
    let mut response = Response::new(());
    response.headers_mut().insert(header::CONTENT_TYPE, GRPC);
    status.write(response.headers_mut());
    let _ = respond.send_response(response, true);
}

/// Answers a call that takes one message, which is there, if nothing is to be waited for.
pub(super) fn answer(shared: &Shared, called: Called, message: &[u8]) -> Result<Begun, Status> {
    match called {
        Called::Check => health::check(shared, message).map(Begun::Answered),
        _ => limit::begin(&*shared.engine, message, shared.settings.load().shown),
    }
}

/// Answers `times` calls whose message is the same, if nothing is to be waited for.
pub(super) fn answer_run(shared: &Shared, message: &[u8], times: NonZeroU64) -> Result<Run, Status> {
    limit::begin_run(&*shared.engine, (message, times), shared.settings.load().shown)
}

/// Waits for the answer to a run of like calls, and gives it to all of them; or answers them one by one.
pub(super) async fn answer_run_later(
    shared: Arc<Shared>,
    (message, place): (Bytes, Place),
    mut responds: Vec<SendResponse<Bytes>>,
) {
    let shown = shared.settings.load().shown;
    match limit::finish_run(&*shared.engine, place, shown).await {
        Ok(Some(answer)) => responds.iter_mut().for_each(|respond| reply(respond, Ok(answer.clone()))),
        Ok(None) => answer_apart(&shared, &message, responds).await,
        Err(status) => responds.iter_mut().for_each(|respond| refuse(respond, &status)),
    }
}

/// Answers like calls one by one, none of which waits for the answer to another.
async fn answer_apart(shared: &Arc<Shared>, message: &[u8], responds: Vec<SendResponse<Bytes>>) {
    let waiting = FuturesUnordered::new();
    for mut respond in responds {
        match answer(shared, Called::ShouldRateLimit, message) {
            Ok(Begun::Answered(answer)) => reply(&mut respond, Ok(answer)),
            Ok(Begun::Waits(place)) => waiting.push(answer_later(Arc::clone(shared), place, respond)),
            Err(status) => refuse(&mut respond, &status),
        }
    }
    waiting.collect::<()>().await;
}

/// Waits for the answer to a call, and gives it.
pub(super) async fn answer_later(shared: Arc<Shared>, place: Place, mut respond: SendResponse<Bytes>) {
    let shown = shared.settings.load().shown;
    let answer = limit::finish(&*shared.engine, place, shown).await;
    reply(&mut respond, answer);
}

/// Answers a call of many messages until it ends.
pub(super) async fn converse(shared: Arc<Shared>, mut call: Call) {
    let Some(stream) = begin(&mut call.respond) else { return };
    match call.called {
        Called::Reflection => reflection::converse(call.messages, stream).await,
        _ => health::watch(&shared, call.messages, stream).await,
    }
}
