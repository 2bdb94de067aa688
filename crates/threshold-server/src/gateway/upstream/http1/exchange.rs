//! One request and its answer on one connection.

use std::future::{Future as _, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf as _, Bytes, BytesMut};
use http::{HeaderMap, StatusCode};
use http_body::{Body, Frame, SizeHint};
use tokio::io::{AsyncReadExt as _, AsyncWrite as _};
use tokio::task::unconstrained;

use super::chunks::{Chunks, Piece};
use super::request::Outgoing;
use super::response::{self, Framing, read_head};
use crate::gateway::body::BoxError;
use crate::gateway::lines::Lines;
use crate::gateway::upstream::Sending;
use crate::gateway::upstream::connect::Wire;
use crate::gateway::upstream::pool::{Pool, SendError};

/// What is read at once: at first, and when there is much.
const READ: usize = 8 * 1024;
const READ_MOST: usize = 64 * 1024;
/// What is taken from the body of a request before it is written.
const WRITE: usize = 16 * 1024;
/// The longest body that is copied to be sent with its head.
const POURED: u64 = 16 * 1024;
/// How many answers that only announce another one are passed over.
const MAX_ANNOUNCED: usize = 16;

/// A connection to an application, and where it belongs.
pub(in crate::gateway::upstream) struct Link {
    wire: Wire,
    received: BytesMut,
    read: usize,
    pool: Arc<Pool>,
    number: usize,
}

impl Link {
    /// A connection to the target of this number.
    pub(in crate::gateway::upstream) fn new(wire: Wire, pool: Arc<Pool>, number: usize) -> Self {
        Self { wire, received: BytesMut::new(), read: READ, pool, number }
    }

    /// True if it can be used again, as far as is known by now: what comes without being asked for is its end or nonsense.
    pub(in crate::gateway::upstream) fn is_alive(&mut self) -> bool {
        // Without regard to how much this task has done already: what was not looked at is not known to be alive.
        let looking = pin!(unconstrained(poll_fn(|cx| self.poll_read(cx))));
        looking.poll(&mut Context::from_waker(Waker::noop())).is_pending()
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.received.capacity() - self.received.len() < self.read / 2 {
            self.received.reserve(self.read);
        }
        let room = self.received.capacity() - self.received.len();
        let count = ready!(pin!(self.wire.read_buf(&mut self.received)).poll(cx))?;
        if count == room {
            self.read = READ_MOST.min(self.read * 2);
        }
        Poll::Ready(Ok(count))
    }

    /// Keeps it for the next request.
    fn give_back(mut self: Box<Self>) {
        if self.read > READ {
            (self.read, self.received) = (READ, BytesMut::new());
        }
        let (pool, number) = (Arc::clone(&self.pool), self.number);
        pool.put(number, self);
    }
}

/// Why there is no answer, and the request if it may be sent again.
pub(in crate::gateway::upstream) struct Failed {
    pub(in crate::gateway::upstream) error: SendError,
    pub(in crate::gateway::upstream) again: Option<Box<Outgoing<Sending>>>,
}

/// The head of an answer.
pub(in crate::gateway) struct Head {
    pub(in crate::gateway) status: StatusCode,
    pub(in crate::gateway) lines: Lines,
    pub(in crate::gateway) rest: Arriving,
}

impl Head {
    pub(in crate::gateway::upstream) fn headers(&self) -> Result<HeaderMap, SendError> {
        Ok(response::headers(&self.lines)?)
    }
}

/// A request on its way, and what came of it.
pub(in crate::gateway) struct Exchange {
    link: Box<Link>,
    outgoing: Outgoing<Sending>,
    /// How much of what is to be written was.
    written: usize,
    /// True once all is sent that will ever be.
    quiet: bool,
    /// True if that is the whole request.
    sent: bool,
    /// True once anything came back.
    heard: bool,
    /// How many answers only announced another one.
    announced: usize,
}

impl Exchange {
    /// Sends `outgoing` by `link` and waits for the head of its answer.
    pub(in crate::gateway::upstream) async fn run(
        link: Box<Link>,
        outgoing: Outgoing<Sending>,
    ) -> Result<Box<Head>, Failed> {
        let mut exchange =
            Self { link, outgoing, written: 0, quiet: false, sent: false, heard: false, announced: 0 };
        match poll_fn(|cx| exchange.poll_head(cx)).await {
            Ok(response::Head { status, lines, framing, reusable }) => {
                let rest =
                    Arriving { exchange: Some(exchange), framing, chunks: Chunks::default(), reusable };
                // On the heap, once: it is handed on from here to who answers the client.
                Ok(Box::new(Head { status, lines, rest }))
            }
            Err(error) => Err(exchange.fail(error)),
        }
    }

    /// What nobody has read may be sent again, and what does no harm twice.
    fn fail(self, error: SendError) -> Failed {
        let Self { outgoing, written, heard, .. } = self;
        let unanswered = !heard && matches!(error, SendError::Broken(_));
        let unread = outgoing.is_whole() && written == 0;
        let again = unanswered && (unread || outgoing.is_repeatable());
        Failed { error, again: again.then(|| Box::new(outgoing)) }
    }

    fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<response::Head, SendError>> {
        self.poll_send(cx)?;
        loop {
            match read_head(&mut self.link.received, self.outgoing.method())? {
                Some(head)
                    if head.status.is_informational() && head.status != StatusCode::SWITCHING_PROTOCOLS =>
                {
                    self.announced += 1;
                    if self.announced > MAX_ANNOUNCED {
                        return Poll::Ready(Err(SendError::broken("it announces answers and gives none")));
                    }
                }
                Some(head) => return Poll::Ready(Ok(head)),
                None => {
                    if ready!(self.link.poll_read(cx)).map_err(SendError::broken)? == 0 {
                        return Poll::Ready(Err(SendError::broken("it closed the connection")));
                    }
                    self.heard = true;
                }
            }
        }
    }

    /// Sends what can be sent now. An application may answer, and stop reading, before it has read everything: what it
    /// says counts for more than that the rest cannot be told, so that only the body's own failure is one here.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Result<(), SendError> {
        while !self.quiet {
            let waits = self.fill(cx)?;
            match self.poll_write(cx) {
                Poll::Ready(Ok(())) if self.outgoing.ended() => (self.quiet, self.sent) = (true, true),
                Poll::Ready(Ok(())) if !waits => {}
                Poll::Ready(Err(_)) => self.quiet = true,
                Poll::Ready(Ok(())) | Poll::Pending => return Ok(()),
            }
        }
        Ok(())
    }

    /// Takes from the body what is there and can be sent soon; true if the body has to go on first.
    fn fill(&mut self, cx: &mut Context<'_>) -> Result<bool, SendError> {
        while !self.outgoing.ended() && self.outgoing.bytes.len() - self.written < WRITE {
            let frame = match self.outgoing.body().map(|body| Pin::new(body).poll_frame(cx)) {
                Some(Poll::Ready(frame)) => frame.transpose().map_err(|_| SendError::Body)?,
                Some(Poll::Pending) => return Ok(true),
                None => None,
            };
            self.outgoing.push(frame).map_err(|_| SendError::Body)?;
        }
        Ok(false)
    }

    /// Writes all that is to be written; with a body it is forgotten then.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let bytes = &mut self.outgoing.bytes;
        while self.written < bytes.len() {
            let wire = Pin::new(&mut self.link.wire);
            match ready!(wire.poll_write(cx, &bytes[self.written..]))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                count => self.written += count,
            }
        }
        if !self.outgoing.is_whole() {
            self.outgoing.bytes.clear();
            self.written = 0;
        }
        Pin::new(&mut self.link.wire).poll_flush(cx)
    }
}

/// The body of an answer, and the connection that it comes by.
pub(in crate::gateway) struct Arriving {
    /// None once all is there and the connection was given back.
    exchange: Option<Exchange>,
    framing: Framing,
    chunks: Chunks,
    reusable: bool,
}

impl Arriving {
    /// The connection itself, for a protocol that both sides have changed to, and what came of it already.
    pub(in crate::gateway::upstream) fn into_wire(self) -> Option<(Wire, Bytes)> {
        let Link { wire, received, .. } = *self.exchange?.link;
        Some((wire, received.freeze()))
    }

    /// Gives the connection back if nothing more comes of this answer.
    pub(in crate::gateway::upstream) fn settled(mut self) -> Self {
        if self.framing == Framing::Length(0) {
            self.finish();
        }
        self
    }

    /// Adds all of it to `out` and gives the connection back, if it is all here and short enough to be copied.
    pub(in crate::gateway) fn pour(&mut self, out: &mut Vec<u8>) -> bool {
        let (Framing::Length(length @ 0..=POURED), Some(exchange)) = (self.framing, &mut self.exchange)
        else {
            return false;
        };
        let received = &mut exchange.link.received;
        let Some(body) = received.get(..length as usize) else { return false };
        out.extend_from_slice(body);
        received.advance(length as usize);
        self.finish();
        true
    }

    fn finish(&mut self) {
        self.framing = Framing::Length(0);
        let Some(Exchange { link, sent, .. }) = self.exchange.take() else { return };
        // What nobody asked for would be taken for the next answer.
        if self.reusable && sent && link.received.is_empty() {
            link.give_back();
        }
    }

    /// The next piece of what was received already; none if more has to be.
    fn next(&mut self) -> Result<Option<Piece>, SendError> {
        let Some(exchange) = &mut self.exchange else { return Ok(Some(Piece::End)) };
        let received = &mut exchange.link.received;
        Ok(match &mut self.framing {
            Framing::Chunked => Some(self.chunks.next(received)?).filter(|piece| *piece != Piece::More),
            Framing::Length(0) => Some(Piece::End),
            _ if received.is_empty() => None,
            Framing::UntilClose => Some(Piece::Data(received.split().freeze())),
            Framing::Length(left) => {
                let here = usize::try_from(*left).unwrap_or(usize::MAX).min(received.len());
                *left -= here as u64;
                Some(Piece::Data(received.split_to(here).freeze()))
            }
        })
    }

    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<Piece, SendError>> {
        if let Some(exchange) = &mut self.exchange
            && exchange.poll_send(cx).is_err()
        {
            // The rest of the request will never come; the answer still may.
            exchange.quiet = true;
        }
        loop {
            if let Some(piece) = self.next()? {
                return Poll::Ready(Ok(piece));
            }
            let Some(exchange) = &mut self.exchange else { return Poll::Ready(Ok(Piece::End)) };
            match ready!(exchange.link.poll_read(cx)).map_err(SendError::broken)? {
                0 if self.framing == Framing::UntilClose => return Poll::Ready(Ok(Piece::End)),
                0 => return Poll::Ready(Err(SendError::broken("it closed the connection"))),
                _ => {}
            }
        }
    }
}

impl Body for Arriving {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = match ready!(self.poll_piece(cx)) {
            Ok(Piece::Data(data)) => Some(Ok(Frame::data(data))),
            Ok(Piece::Trailers(trailers)) => {
                self.finish();
                Some(Ok(Frame::trailers(trailers)))
            }
            Ok(Piece::End | Piece::More) => None,
            Err(error) => {
                self.exchange = None;
                Some(Err(error.into()))
            }
        };
        if frame.is_none() || self.framing == Framing::Length(0) {
            self.finish();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.framing == Framing::Length(0)
    }

    fn size_hint(&self) -> SizeHint {
        match self.framing {
            Framing::Length(left) => SizeHint::with_exact(left),
            Framing::Chunked | Framing::UntilClose => SizeHint::default(),
        }
    }
}
