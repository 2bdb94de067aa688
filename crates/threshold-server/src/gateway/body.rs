//! Bodies on their way through: a stop for those that stand still, and what ends with them.

use std::future::Future as _;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::{Either, Full};
use pin_project_lite::pin_project;
use tokio::time::{Sleep, sleep};

use super::connections::{Flight, Member};
use super::upstream::Linked;

pub(super) type BoxError = Box<dyn std::error::Error + Send + Sync>;

pin_project! {
    /// A body that may not stand still for longer than it is given.
    pub(super) struct Timed<B> {
        #[pin]
        body: B,
        idle: Duration,
        waiting: Option<Pin<Box<Sleep>>>,
        // Where it is told how it goes.
        progress: Option<Arc<Progress>>,
    }
}

/// How the body of a request goes on.
pub(super) struct Progress {
    connection: Arc<Member>,
    moved: AtomicBool,
    stalled: AtomicBool,
    ended: AtomicBool,
}

impl Progress {
    pub(super) fn new(connection: Arc<Member>) -> Self {
        connection.receives();
        let [moved, stalled, ended] = [false; 3].map(AtomicBool::new);
        Self { connection, moved, stalled, ended }
    }

    /// Nothing more is waited for.
    fn end(&self) {
        if !self.ended.swap(true, Ordering::AcqRel) {
            self.connection.received();
        }
    }

    fn touch(&self) {
        self.moved.store(true, Ordering::Release);
        self.connection.touch();
    }

    /// True if something came since this was asked last.
    pub(super) fn moved(&self) -> bool {
        self.moved.swap(false, Ordering::AcqRel)
    }

    /// True if it stood still for too long.
    pub(super) fn stalled(&self) -> bool {
        self.stalled.load(Ordering::Acquire)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if !self.ended.load(Ordering::Acquire) {
            self.connection.cut_off();
        }
        self.end();
    }
}

/// Nothing moved for too long.
#[derive(Debug)]
pub(super) struct Stalled;

impl std::fmt::Display for Stalled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the body stood still for too long")
    }
}

impl std::error::Error for Stalled {}

impl<B> Timed<B> {
    pub(super) fn new(body: B, idle: Duration, progress: Option<Arc<Progress>>) -> Self {
        Self { body, idle, waiting: None, progress }
    }
}

impl<B> Body for Timed<B>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let mut this = self.project();
        if let Poll::Ready(frame) = this.body.as_mut().poll_frame(cx) {
            *this.waiting = None;
            if let Some(progress) = this.progress {
                progress.touch();
                if !matches!(frame, Some(Ok(_))) || this.body.is_end_stream() {
                    progress.end();
                }
            }
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let idle = *this.idle;
        let waiting = this.waiting.get_or_insert_with(|| Box::pin(sleep(idle)));
        ready!(waiting.as_mut().poll(cx));
        if let Some(progress) = this.progress {
            progress.stalled.store(true, Ordering::Release);
        }
        Poll::Ready(Some(Err(Stalled.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// What the proxy answers with: the application's body, or its own.
pub(super) type ProxyBody = Either<Timed<Linked>, Full<Bytes>>;

pin_project! {
    /// A body with the request that ends when it is dropped.
    pub(super) struct Ending<B> {
        #[pin]
        body: B,
        flight: Flight,
    }
}

impl<B: Body> Ending<B> {
    pub(super) fn new(body: B, mut flight: Flight) -> Self {
        if body.is_end_stream() {
            flight.ended();
        }
        Self { body, flight }
    }
}

impl<B: Body> Body for Ending<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let mut this = self.project();
        let frame = ready!(this.body.as_mut().poll_frame(cx));
        this.flight.touch();
        if frame.is_none() || this.body.is_end_stream() {
            this.flight.ended();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
