//! To the client: whatever the application sends, and between its messages what we have to say.

use std::sync::atomic::{AtomicBool, Ordering};

use bytes::{Buf as _, Bytes, BytesMut};
use threshold_http::websocket::reply_id;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadHalf, WriteHalf};
use tokio::sync::mpsc;

use super::frames::{self, Kind};
use super::{Notice, Shared};

/// What is read at once.
const READ: usize = 16 * 1024;
/// The largest answer that is looked at for whose it is.
const ANSWER: u64 = 64 * 1024;
/// What is said for an application that speaks no WebSocket.
const BAD_GATEWAY: Last = (1014, "the application broke the protocol");

/// The last that is said: a code and a reason.
type Last = (u16, &'static str);

/// What goes to a client.
pub(super) struct Outbound<'a, R, W> {
    from: ReadHalf<R>,
    to: WriteHalf<W>,
    shared: &'a Shared,
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
        (shared, id_field): (&'a Shared, String),
        moved: &'a AtomicBool,
    ) -> Self {
        let received = BytesMut::from(received);
        Self { from, to, shared, id_field, moved, received, left: 0, within: false, closed: false }
    }

    /// Hands on what comes, until one side ends.
    pub(super) async fn run(mut self, mut notices: mpsc::Receiver<Notice>) {
        let last = self.pass(&mut notices).await;
        // An end can be said between any two frames, but only once.
        if let Some((code, reason)) = last
            && self.left == 0
            && !self.closed
        {
            let _ = self.to.write_all(&frames::close(code, reason)).await;
        }
        let _ = self.to.shutdown().await;
    }

    /// Ends with what is to be said last, if anything.
    async fn pass(&mut self, notices: &mut mpsc::Receiver<Notice>) -> Option<Last> {
        loop {
            if let Some(last) = self.hand_on().await.ok()? {
                return Some(last);
            }
            self.received.reserve(READ);
            let between = self.left == 0 && !self.within;
            tokio::select! {
                // What we say to a client comes before what the application says to the same.
                biased;
                notice = notices.recv(), if between => match notice {
                    Some(Notice::Frame(_)) if self.closed => {}
                    Some(Notice::Frame(frame)) => self.say(&frame).await.ok()?,
                    Some(Notice::Close(code, reason)) => return Some((code, reason)),
                    None => {}
                },
                read = self.from.read_buf(&mut self.received) => match read {
                    Ok(0) | Err(_) => return self.shared.closing.get().copied(),
                    Ok(_) => self.moved.store(true, Ordering::Relaxed),
                },
            }
        }
    }

    async fn say(&mut self, frame: &[u8]) -> std::io::Result<()> {
        self.to.write_all(frame).await?;
        self.to.flush().await
    }

    /// Hands on what was received, but for a head or an answer of which there is more to come. Tells what is to be said in
    /// place of the rest, if that is not to be handed on.
    async fn hand_on(&mut self) -> std::io::Result<Option<Last>> {
        let (ready, last) = self.ready();
        if ready > 0 {
            self.to.write_all(&self.received[..ready]).await?;
            self.received.advance(ready);
            // Within TLS what was written may stay here until it is asked for.
            self.to.flush().await?;
        }
        Ok(last)
    }

    /// How many of the bytes that were received can be handed on, and what is to be said in place of those that follow.
    fn ready(&mut self) -> (usize, Option<Last>) {
        let mut ready = 0;
        loop {
            let here = self.received.len() - ready;
            let some = usize::try_from(self.left).unwrap_or(usize::MAX).min(here);
            (ready, self.left) = (ready + some, self.left - some as u64);
            if self.left > 0 {
                return (ready, None);
            }
            let rest = &self.received[ready..];
            let head = match frames::head(rest) {
                Ok(Some(head)) => head,
                Ok(None) => return (ready, None),
                Err(_) => return (ready, Some(BAD_GATEWAY)),
            };
            if head.kind == Kind::Close
                && let Some(ours) = self.shared.closing.get()
            {
                return (ready, Some(*ours));
            }
            let payload = &rest[head.size..];
            if head.kind == Kind::Begins
                && head.last
                && head.length <= ANSWER
                && !self.shared.waiting.is_empty()
            {
                let length = usize::try_from(head.length).unwrap_or(usize::MAX);
                let Some(payload) = payload.get(..length) else { return (ready, None) };
                if let Some(id) = reply_id(payload, &self.id_field) {
                    self.shared.waiting.answered(&id);
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
