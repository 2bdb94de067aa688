//! Connections to applications that are kept for the next request. Each worker has its own, so nobody waits for a lock.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::Either;
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use threshold::{Clock as _, Span, SystemClock, Timestamp};

use super::Sending;
use super::connect::{ConnectError, Wire, connect};
use super::http1::{Arriving, Exchange, Failed, Head, Link, Malformed, Outgoing};
use super::target::{Speaks, Target, Targets};

/// The most connections to one application that are kept while nobody needs them.
const KEPT: usize = 256;
/// How long one is kept.
const KEPT_FOR: Span = Span::from_secs(60);

/// The connections that are kept, by the number of their target.
#[derive(Default)]
pub(in crate::gateway) struct Pool {
    clock: SystemClock,
    kept: Mutex<Vec<Vec<Idle>>>,
    /// Those that carry many requests at the same time.
    shared: Mutex<Vec<Option<http2::SendRequest<Sending>>>>,
}

struct Idle {
    link: Box<Link>,
    since: Timestamp,
}

/// Why there is no answer.
#[derive(Debug)]
pub(in crate::gateway) enum SendError {
    Connect(ConnectError),
    /// The body of the request broke off.
    Body,
    /// The connection broke, or what came was no answer.
    Broken(String),
}

impl SendError {
    pub(super) fn broken(error: impl fmt::Display) -> Self {
        Self::Broken(error.to_string())
    }
}

impl From<Malformed> for SendError {
    fn from(Malformed(how): Malformed) -> Self {
        Self::broken(how)
    }
}

impl From<hyper::Error> for SendError {
    fn from(error: hyper::Error) -> Self {
        if error.is_user() { Self::Body } else { Self::broken(error) }
    }
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect(ConnectError::Timeout) => f.write_str("it could not be connected to in time"),
            Self::Connect(ConnectError::Failed(error)) => write!(f, "it could not be connected to ({error})"),
            Self::Body => f.write_str("the body of the request broke off"),
            Self::Broken(error) => write!(f, "it broke off ({error})"),
        }
    }
}

impl std::error::Error for SendError {}

/// The body of an answer: by a connection of its own, or by one that carries many and runs by itself.
pub(in crate::gateway) type Linked = Either<Arriving, Incoming>;

/// What an application answered.
pub(in crate::gateway) enum Answered {
    Response(Response<Linked>),
    /// It speaks another protocol from now on: its connection, and what came of that already.
    Switched(Response<()>, Wire, Bytes),
}

/// What came of a request.
pub(in crate::gateway) enum Sent {
    /// By a connection of its own.
    Alone(Box<Head>),
    /// By one that carries many.
    Shared(Box<Response<Incoming>>),
}

impl Sent {
    /// What the application answered.
    pub(in crate::gateway) fn answered(self) -> Result<Answered, SendError> {
        match self {
            Self::Alone(head) => answered(*head),
            Self::Shared(response) => Ok(Answered::Response(response.map(Either::Right))),
        }
    }
}

impl Pool {
    /// Sends what is `outgoing` to the first of `targets` that can be reached.
    pub(in crate::gateway) async fn send(
        self: &Arc<Self>,
        targets: &Targets,
        mut outgoing: Outgoing<Sending>,
        connecting: Duration,
    ) -> Result<Sent, SendError> {
        let turn = targets.turn();
        if let Some(link) = self.take(targets.first(turn)) {
            // An application may close a connection just as it is used again. What can be sent twice is, then.
            match Exchange::run(link, outgoing).await {
                Ok(head) => return Ok(Sent::Alone(head)),
                Err(Failed { error, again }) => outgoing = *again.ok_or(error)?,
            }
        }
        // Rare, and what it waits for is large: it is taken from the heap when it is needed.
        Box::pin(self.send_anew((targets, turn), outgoing, connecting)).await
    }

    /// Sends what is `outgoing` by a new connection, or by one that carries many.
    async fn send_anew(
        self: &Arc<Self>,
        (targets, turn): (&Targets, usize),
        mut outgoing: Outgoing<Sending>,
        connecting: Duration,
    ) -> Result<Sent, SendError> {
        let mut failed = SendError::Connect(ConnectError::Failed(std::io::ErrorKind::NotFound.into()));
        for target in targets.from(turn) {
            let sent = match target.speaks {
                Speaks::Http2 => self.send_shared(target, outgoing, connecting).await,
                Speaks::Http1 | Speaks::Tls => self.send_alone(target, outgoing, connecting).await,
            };
            (outgoing, failed) = match sent {
                Ok(sent) => return Ok(sent),
                // Whoever could be connected to and broke off would do so again.
                Err(Failed { error: error @ SendError::Connect(_), again: Some(again) }) => (*again, error),
                Err(Failed { error, .. }) => return Err(error),
            };
        }
        Err(failed)
    }

    async fn send_alone(
        self: &Arc<Self>,
        target: &Target,
        outgoing: Outgoing<Sending>,
        connecting: Duration,
    ) -> Result<Sent, Failed> {
        let wire = match connect(target, connecting).await {
            Ok(wire) => wire,
            Err(error) => {
                return Err(Failed { error: SendError::Connect(error), again: Some(Box::new(outgoing)) });
            }
        };
        let link = Box::new(Link::new(wire, Arc::clone(self), target.number));
        Exchange::run(link, outgoing).await.map(Sent::Alone)
    }

    async fn send_shared(
        &self,
        target: &Target,
        outgoing: Outgoing<Sending>,
        connecting: Duration,
    ) -> Result<Sent, Failed> {
        let mut sender = match self.shared_sender(target.number) {
            Some(sender) => sender,
            None => match self.open_shared(target, connecting).await {
                Ok(sender) => sender,
                Err(error) => return Err(Failed { error, again: Some(Box::new(outgoing)) }),
            },
        };
        let Some(request) = outgoing.into_request(Sending::empty) else {
            let error = SendError::broken("the request cannot be sent in HTTP/2");
            return Err(Failed { error, again: None });
        };
        match sender.try_send_request(*request).await {
            Ok(response) => Ok(Sent::Shared(Box::new(response))),
            Err(mut error) => {
                let again = error.take_message();
                let again = again.map(|request| Box::new(Outgoing::new(Box::new(request), None)));
                let error = error.into_error();
                // It was closed before anything was sent: a new one may do better.
                let error = match again {
                    Some(_) => SendError::Connect(ConnectError::Failed(std::io::Error::other(error))),
                    None => error.into(),
                };
                Err(Failed { error, again })
            }
        }
    }

    fn shared_sender(&self, number: usize) -> Option<http2::SendRequest<Sending>> {
        let shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        shared.get(number)?.as_ref().filter(|sender| !sender.is_closed()).cloned()
    }

    async fn open_shared(
        &self,
        target: &Target,
        connecting: Duration,
    ) -> Result<http2::SendRequest<Sending>, SendError> {
        let wire = connect(target, connecting).await.map_err(SendError::Connect)?;
        let handshake = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .handshake::<TokioIo<Wire>, Sending>(TokioIo::new(wire))
            .await;
        let (sender, connection) = handshake?;
        tokio::spawn(async move {
            let _ = connection.await;
        });
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if shared.len() <= target.number {
            shared.resize_with(target.number + 1, || None);
        }
        shared[target.number] = Some(sender.clone());
        Ok(sender)
    }

    /// The connection that was used last, which is the one least likely to be closed.
    fn take(&self, target: &Target) -> Option<Box<Link>> {
        let mut kept = self.kept();
        let kept = kept.get_mut(target.number)?;
        while let Some(Idle { mut link, .. }) = kept.pop() {
            if link.is_alive() {
                return Some(link);
            }
        }
        None
    }

    pub(super) fn put(&self, number: usize, link: Box<Link>) {
        let mut kept = self.kept();
        if kept.len() <= number {
            kept.resize_with(number + 1, Vec::new);
        }
        if kept[number].len() < KEPT {
            kept[number].push(Idle { link, since: self.clock.now() });
        }
    }

    /// Lets go of connections that nobody has needed for a while.
    pub(in crate::gateway) fn sweep(&self) {
        let now = self.clock.now();
        for kept in self.kept().iter_mut() {
            kept.retain_mut(|idle| now.since(idle.since) < KEPT_FOR && idle.link.is_alive());
        }
    }

    /// How many connections are kept.
    pub(in crate::gateway) fn idle(&self) -> usize {
        self.kept().iter().map(Vec::len).sum()
    }

    fn kept(&self) -> MutexGuard<'_, Vec<Vec<Idle>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn answered(head: Head) -> Result<Answered, SendError> {
    let mut response = Response::new(());
    (*response.status_mut(), *response.headers_mut()) = (head.status, head.headers()?);
    let Head { status, rest, .. } = head;
    if status != StatusCode::SWITCHING_PROTOCOLS {
        return Ok(Answered::Response(response.map(|()| Either::Left(rest.settled()))));
    }
    let (wire, received) = rest.into_wire().ok_or_else(|| SendError::broken("its connection is gone"))?;
    Ok(Answered::Switched(response, wire, received))
}
