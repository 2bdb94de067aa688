//! Connections to applications that are kept for the next request. Each worker has its own, so nobody waits for a lock.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::{Method, Request, Response};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use threshold::{Clock as _, Span, SystemClock, Timestamp};
use threshold_http::body::RequestBody;

use super::connect::{ConnectError, Wire, connect};
use super::target::{Speaks, Target, Targets};
use crate::gateway::body::Timed;

/// What is sent to an application.
pub(in crate::gateway) type Sending = RequestBody<Timed<Incoming>>;

/// The most connections to one application that are kept while nobody needs them.
const KEPT: usize = 256;
/// What is read ahead of an answer that a client is slow to take.
const ANSWER_BUFFER: usize = 64 * 1024;
/// How long one is kept.
const KEPT_FOR: Span = Span::from_secs(60);

/// Why there is no answer, and the request if nothing of it was sent.
type Unsent = (SendError, Option<Box<Request<Sending>>>);

/// The connections that are kept, by the number of their target.
#[derive(Default)]
pub(in crate::gateway) struct Pool {
    clock: SystemClock,
    kept: Mutex<Vec<Vec<Idle>>>,
    /// Those that carry many requests at the same time.
    shared: Mutex<Vec<Option<http2::SendRequest<Sending>>>>,
}

struct Idle {
    sender: http1::SendRequest<Sending>,
    since: Timestamp,
}

/// A connection that is given back when its answer was read.
pub(in crate::gateway) struct Returning {
    pool: Arc<Pool>,
    number: usize,
    sender: http1::SendRequest<Sending>,
}

/// Why there is no answer.
#[derive(Debug)]
pub(in crate::gateway) enum SendError {
    Connect(ConnectError),
    /// The connection broke, or what came was no answer.
    Broken(hyper::Error),
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect(ConnectError::Timeout) => f.write_str("it could not be connected to in time"),
            Self::Connect(ConnectError::Failed(error)) => write!(f, "it could not be connected to ({error})"),
            Self::Broken(error) => write!(f, "it broke off ({error})"),
        }
    }
}

/// An answer, and the connection it comes by, which is one to keep.
type Answered = (Response<Incoming>, Option<Returning>);

impl Pool {
    /// Sends `request` to the first of `targets` that can be reached.
    pub(in crate::gateway) async fn send(
        self: &Arc<Self>,
        targets: &Targets,
        request: Box<Request<Sending>>,
        connecting: Duration,
    ) -> Result<Answered, SendError> {
        let turn = targets.turn();
        let request = match self.take(targets.first(turn)) {
            None => request,
            Some(Idle { mut sender, .. }) => {
                // An application may close a connection just as it is used again. What can be sent twice is, then.
                let again = is_repeatable(&request).then(|| Box::new(clone_head(&request)));
                // On the heap, since a future is moved with all that it may ever hold.
                match Box::pin(sender.try_send_request(*request)).await {
                    Ok(response) => {
                        let number = targets.first(turn).number;
                        return Ok((response, Some(Returning { pool: Arc::clone(self), number, sender })));
                    }
                    Err(mut error) => match (error.take_message(), again) {
                        (Some(unsent), _) => Box::new(unsent),
                        (None, Some(head)) => head,
                        (None, None) => return Err(SendError::Broken(error.into_error())),
                    },
                }
            }
        };
        // Rare, and what it waits for is large: it is taken from the heap when it is needed.
        Box::pin(self.send_anew((targets, turn), request, connecting)).await
    }

    /// Sends `request` by a new connection, or by one that carries many.
    async fn send_anew(
        self: &Arc<Self>,
        (targets, turn): (&Targets, usize),
        mut request: Box<Request<Sending>>,
        connecting: Duration,
    ) -> Result<Answered, SendError> {
        let mut failed = SendError::Connect(ConnectError::Failed(std::io::ErrorKind::NotFound.into()));
        for target in targets.from(turn) {
            let sent = match target.speaks {
                Speaks::Http2 => self.send_shared(target, request, connecting).await,
                Speaks::Http1 | Speaks::Tls => self.send_alone(target, request, connecting).await,
            };
            request = match sent {
                Ok(answered) => return Ok(answered),
                Err((error, None)) => return Err(error),
                Err((error, Some(unsent))) => {
                    failed = error;
                    unsent
                }
            };
        }
        Err(failed)
    }

    async fn send_alone(
        self: &Arc<Self>,
        target: &Target,
        request: Box<Request<Sending>>,
        connecting: Duration,
    ) -> Result<Answered, Unsent> {
        let mut sender = match self.open(target, connecting).await {
            Ok(sender) => sender,
            Err(error) => return Err((error, Some(request))),
        };
        match sender.try_send_request(*request).await {
            Ok(response) => {
                let returning = Returning { pool: Arc::clone(self), number: target.number, sender };
                Ok((response, Some(returning)))
            }
            Err(mut error) => {
                let request = error.take_message().map(Box::new);
                Err((SendError::Broken(error.into_error()), request))
            }
        }
    }

    async fn open(
        &self,
        target: &Target,
        connecting: Duration,
    ) -> Result<http1::SendRequest<Sending>, SendError> {
        let wire = connect(target, connecting).await.map_err(SendError::Connect)?;
        let handshake = http1::Builder::new()
            .max_buf_size(ANSWER_BUFFER)
            .handshake::<TokioIo<Wire>, Sending>(TokioIo::new(wire))
            .await;
        let (sender, connection) = handshake.map_err(SendError::Broken)?;
        tokio::spawn(async move {
            // How it ends is told to whoever sends on it.
            let _ = connection.with_upgrades().await;
        });
        Ok(sender)
    }

    async fn send_shared(
        &self,
        target: &Target,
        request: Box<Request<Sending>>,
        connecting: Duration,
    ) -> Result<Answered, Unsent> {
        let mut sender = match self.shared_sender(target.number) {
            Some(sender) => sender,
            None => match self.open_shared(target, connecting).await {
                Ok(sender) => sender,
                Err(error) => return Err((error, Some(request))),
            },
        };
        match sender.try_send_request(*request).await {
            Ok(response) => Ok((response, None)),
            Err(mut error) => {
                let request = error.take_message().map(Box::new);
                let error = error.into_error();
                // It was closed before anything was sent: a new one may do better.
                let error = match request {
                    Some(_) => SendError::Connect(ConnectError::Failed(std::io::Error::other(error))),
                    None => SendError::Broken(error),
                };
                Err((error, request))
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
        let (sender, connection) = handshake.map_err(SendError::Broken)?;
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
    fn take(&self, target: &Target) -> Option<Idle> {
        let mut kept = self.kept();
        let kept = kept.get_mut(target.number)?;
        while let Some(idle) = kept.pop() {
            if !idle.sender.is_closed() {
                return Some(idle);
            }
        }
        None
    }

    fn put(&self, number: usize, sender: http1::SendRequest<Sending>) {
        let mut kept = self.kept();
        if kept.len() <= number {
            kept.resize_with(number + 1, Vec::new);
        }
        if kept[number].len() < KEPT {
            kept[number].push(Idle { sender, since: self.clock.now() });
        }
    }

    /// Lets go of connections that nobody has needed for a while.
    pub(in crate::gateway) fn sweep(&self) {
        let now = self.clock.now();
        for kept in self.kept().iter_mut() {
            kept.retain(|idle| !idle.sender.is_closed() && now.since(idle.since) < KEPT_FOR);
        }
    }

    fn kept(&self) -> MutexGuard<'_, Vec<Vec<Idle>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Returning {
    /// The answer was read: the connection is free for the next request, now or in a moment.
    pub(in crate::gateway) fn give_back(self) {
        let Self { pool, number, mut sender } = self;
        if sender.is_ready() {
            pool.put(number, sender);
        } else if !sender.is_closed() {
            tokio::spawn(async move {
                if sender.ready().await.is_ok() {
                    pool.put(number, sender);
                }
            });
        }
    }
}

/// True if sending the request twice does no harm and is possible.
fn is_repeatable(request: &Request<Sending>) -> bool {
    let harmless = [Method::GET, Method::HEAD, Method::OPTIONS, Method::PUT, Method::DELETE];
    harmless.contains(request.method()) && request.body().is_end_stream()
}

/// The same request, whose body is empty.
fn clone_head(request: &Request<Sending>) -> Request<Sending> {
    let mut head = Request::new(RequestBody::empty());
    *head.method_mut() = request.method().clone();
    *head.uri_mut() = request.uri().clone();
    *head.headers_mut() = request.headers().clone();
    head
}
