//! To the client: whatever the application sends, and between its messages what we have to say.

use std::sync::atomic::{AtomicBool, Ordering};

use bytes::{Buf as _, Bytes, BytesMut};
use threshold_http::websocket::reply_id;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadHalf, WriteHalf};
use tokio::sync::mpsc;

use super::frames::{self, Broken, Kind};
use super::{Notice, Waiting};

/// What is read at once.
const READ: usize = 16 * 1024;
/// The largest answer that is looked at for whose it is.
const ANSWER: u64 = 64 * 1024;
/// The code for an application that speaks no WebSocket.
const BAD_GATEWAY: u16 = 1014;

/// What goes to a client.
pub(super) struct Outbound<'a, R, W> {
    from: ReadHalf<R>,
    to: WriteHalf<W>,
    waiting: &'a Waiting,
    id_field: String,
    moved: &'a AtomicBool,
    received: BytesMut,
    /// The bytes of a frame that are still to come.
    left: u64,
    /// True between the frames of one message.
    within: bool,
    /// True once the application has said that this is the end: nothing comes behind that.
    closed: bool,
}

impl<'a, R: AsyncRead, W: AsyncWrite> Outbound<'a, R, W> {
    pub(super) fn new(
        (from, to): (ReadHalf<R>, WriteHalf<W>),
        received: Bytes,
        (waiting, id_field): (&'a Waiting, String),
        moved: &'a AtomicBool,
    ) -> Self {
        let received = BytesMut::from(received);
        Self { from, to, waiting, id_field, moved, received, left: 0, within: false, closed: false }
    }

    /// Hands on what comes, until one side ends.
    pub(super) async fn run(mut self, mut notices: mpsc::Receiver<Notice>) {
        let last = self.pass(&mut notices).await;
        if let Some((code, reason)) = last {
            let _ = self.to.write_all(&frames::close(code, reason)).await;
        }
        let _ = self.to.shutdown().await;
    }

    /// Ends with what is to be said last, if anything.
    async fn pass(&mut self, notices: &mut mpsc::Receiver<Notice>) -> Option<(u16, &'static str)> {
        loop {
            match self.hand_on().await {
                Ok(Ok(())) => {}
                Ok(Err(Broken)) => return Some((BAD_GATEWAY, "the application broke the protocol")),
                Err(_) => return None,
            }
            self.received.reserve(READ);
            let between = self.left == 0 && !self.within;
            tokio::select! {
                read = self.from.read_buf(&mut self.received) => match read {
                    Ok(0) | Err(_) => return None,
                    Ok(_) => self.moved.store(true, Ordering::Relaxed),
                },
                notice = notices.recv(), if between => match notice {
                    Some(Notice::Frame(_)) if self.closed => {}
                    Some(Notice::Frame(frame)) => self.say(&frame).await.ok()?,
                    Some(Notice::Close(..)) if self.closed => return None,
                    Some(Notice::Close(code, reason)) => return Some((code, reason)),
                    None => {}
                },
            }
        }
    }

    async fn say(&mut self, frame: &[u8]) -> std::io::Result<()> {
        self.to.write_all(frame).await?;
        self.to.flush().await
    }

    /// Hands on what was received, but for a head or an answer of which there is more to come.
    async fn hand_on(&mut self) -> std::io::Result<Result<(), Broken>> {
        let (ready, broken) = self.ready();
        if ready > 0 {
            self.to.write_all(&self.received[..ready]).await?;
            self.received.advance(ready);
            // Within TLS what was written may stay here until it is asked for.
            self.to.flush().await?;
        }
        Ok(broken)
    }

    /// How many of the bytes that were received can be handed on, and whether what follows them can ever be.
    fn ready(&mut self) -> (usize, Result<(), Broken>) {
        let mut ready = 0;
        loop {
            let here = self.received.len() - ready;
            let some = usize::try_from(self.left).unwrap_or(usize::MAX).min(here);
            (ready, self.left) = (ready + some, self.left - some as u64);
            if self.left > 0 {
                return (ready, Ok(()));
            }
            let rest = &self.received[ready..];
            let head = match frames::head(rest) {
                Ok(Some(head)) => head,
                Ok(None) => return (ready, Ok(())),
                Err(broken) => return (ready, Err(broken)),
            };
            let payload = &rest[head.size..];
            if head.kind == Kind::Begins && head.last && head.length <= ANSWER && !self.waiting.is_empty() {
                let length = usize::try_from(head.length).unwrap_or(usize::MAX);
                let Some(payload) = payload.get(..length) else { return (ready, Ok(())) };
                if let Some(id) = reply_id(payload, &self.id_field) {
                    self.waiting.answered(&id);
                }
            }
            match head.kind {
                Kind::Begins | Kind::GoesOn => self.within = !head.last,
                Kind::Close => self.closed = true,
                Kind::Control => {}
            }
            (ready, self.left) = (ready + head.size, head.length);
        }
    }
}
