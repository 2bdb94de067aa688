//! From the client: each message is read, judged, and handed on as it came or not at all.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::BytesMut;
use threshold::{Clock, Ledger, Store};
use threshold_http::websocket::{Connection, Refused, Then};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadHalf, WriteHalf};
use tokio::sync::mpsc;

use super::frames::{self, Broken, Head, Kind, unmask, whole};
use super::{CLOSING, GOING_AWAY, Notice, Shared};

/// What is read at once.
const READ: usize = 16 * 1024;
/// How many messages are judged at once at most.
const LONGEST_RUN: u64 = 64;
/// The code for what is no WebSocket.
const PROTOCOL_ERROR: u16 = 1002;

/// What comes from a client.
pub(super) struct Inbound<'a, R, W, S, C, L> {
    from: ReadHalf<R>,
    to: WriteHalf<W>,
    limited: Connection<S, C, L>,
    /// The largest message.
    most: u64,
    notices: &'a mpsc::Sender<Notice>,
    shared: &'a Shared,
    moved: &'a AtomicBool,
    received: BytesMut,
    /// What is to be handed on.
    out: BytesMut,
    /// The message that is being read.
    message: Option<Partial>,
    /// The bytes of a refused message that are still to come of its frame.
    skip: u64,
    /// What the message says, without its mask.
    payload: Vec<u8>,
    /// The type of the messages in a run.
    kind: String,
    /// How many of the next messages are to be judged one by one.
    singly: u64,
}

/// Like messages, one behind the other.
#[derive(Default)]
struct Run {
    count: u64,
    /// What they say, and with their heads.
    bytes: u64,
    length: usize,
}

/// A message of which something came.
#[derive(Default)]
struct Partial {
    /// Its frames as they came.
    frames: BytesMut,
    bytes: u64,
    refused: bool,
}

/// Why no more is read.
enum Stop {
    /// The client has ended, or something is broken.
    Ended,
    /// We close the connection.
    Closing(u16, &'static str),
}

impl From<Broken> for Stop {
    fn from(_: Broken) -> Self {
        Self::Closing(PROTOCOL_ERROR, "protocol error")
    }
}

impl<'a, R, W, S, C, L> Inbound<'a, R, W, S, C, L>
where
    R: AsyncRead,
    W: AsyncWrite,
    S: Store + 'static,
    C: Clock + 'static,
    L: Ledger + 'static,
{
    pub(super) fn new(
        (from, to): (ReadHalf<R>, WriteHalf<W>),
        (limited, most): (Connection<S, C, L>, u64),
        notices: &'a mpsc::Sender<Notice>,
        shared: &'a Shared,
        moved: &'a AtomicBool,
    ) -> Self {
        let (received, out) = (BytesMut::with_capacity(READ), BytesMut::new());
        Self {
            from,
            to,
            limited,
            most,
            notices,
            shared,
            moved,
            received,
            out,
            message: None,
            skip: 0,
            payload: Vec::new(),
            kind: String::new(),
            singly: 0,
        }
    }

    /// Hands on what may pass, until one side ends.
    pub(super) async fn run(mut self) {
        let stop = loop {
            let told = self.take().await;
            // What was allowed before goes on whatever comes after it.
            if self.hand_on().await.is_err() {
                break Stop::Ended;
            }
            if let Err(stop) = told {
                break stop;
            }
            self.received.reserve(READ);
            match self.from.read_buf(&mut self.received).await {
                Ok(0) | Err(_) => break Stop::Ended,
                Ok(_) => self.moved.store(true, Ordering::Relaxed),
            }
        };
        match stop {
            Stop::Ended => {
                let _ = self.to.shutdown().await;
            }
            Stop::Closing(code, reason) => self.close(code, reason).await,
        }
    }

    /// Judges all that was received whole.
    async fn take(&mut self) -> Result<(), Stop> {
        loop {
            if !self.skipped() {
                return Ok(());
            }
            if self.take_run().await {
                continue;
            }
            let Some(head) = frames::head(&self.received)? else { return Ok(()) };
            let Some(mask) = head.mask else { return Err(Broken.into()) };
            let more = match head.kind {
                Kind::Close | Kind::Control => self.control(&head).await?,
                Kind::Begins | Kind::GoesOn => self.data(&head, mask).await?,
            };
            if !more {
                return Ok(());
            }
        }
    }

    /// Hands on a run of like messages at once, if there is one and all of them may pass.
    async fn take_run(&mut self) -> bool {
        if self.singly > 0 || self.message.is_some() {
            return false;
        }
        let mut run = Run::default();
        while run.count < LONGEST_RUN
            && let Some(length) = self.goes_on(&run)
        {
            run.count += 1;
            run.bytes += self.payload.len() as u64;
            run.length += length;
        }
        let Some(count) = NonZeroU64::new(run.count).filter(|_| run.count > 1) else { return false };
        if !self.limited.judge_run(&self.kind, count, run.bytes).await {
            self.singly = run.count;
            return false;
        }
        self.out.extend_from_slice(&self.received.split_to(run.length));
        true
    }

    /// The length of the frame behind `run`, if it is all there and a message like those in it, which is in `payload` then.
    fn goes_on(&mut self, run: &Run) -> Option<usize> {
        let rest = &self.received[run.length..];
        let head = frames::head(rest).ok().flatten()?;
        let plain = head.kind == Kind::Begins && head.last && head.length <= self.most;
        let length = usize::try_from(head.length).ok().filter(|_| plain)? + head.size;
        // One alone is no run.
        let alone = run.count == 0 && rest.len() == length;
        let masked = rest.get(head.size..length).filter(|_| !alone)?;
        self.payload.clear();
        unmask(masked, head.mask?, &mut self.payload);
        let kind = self.limited.plain_kind(&self.payload)?;
        if run.count == 0 {
            self.kind.clear();
            self.kind.push_str(kind);
        }
        (kind == self.kind).then_some(length)
    }

    /// Passes over what is left of a frame that is refused; false if there is more to come of it.
    fn skipped(&mut self) -> bool {
        let here = usize::try_from(self.skip).unwrap_or(usize::MAX).min(self.received.len());
        let _ = self.received.split_to(here);
        self.skip -= here as u64;
        self.skip == 0
    }

    /// Hands on a frame that is no message; false if there is more to come of it.
    async fn control(&mut self, head: &Head) -> Result<bool, Stop> {
        let Some(frame) = whole(&mut self.received, head) else { return Ok(false) };
        // An end is always heard.
        let paced = if head.kind == Kind::Close { Ok(()) } else { self.limited.keep_pace() };
        match paced {
            Ok(()) => self.out.extend_from_slice(&frame),
            Err(refused) => self.refuse(*refused).await?,
        }
        Ok(true)
    }

    /// Takes a frame of a message; false if there is more to come of it.
    async fn data(&mut self, head: &Head, mask: [u8; 4]) -> Result<bool, Stop> {
        if (head.kind == Kind::Begins) == self.message.is_some() {
            return Err(Broken.into());
        }
        let part = self.message.as_ref().map(|part| (part.bytes, part.refused, part.frames.len() as u64));
        let (before, refused, kept) = part.unwrap_or_default();
        let bytes = before.saturating_add(head.length);
        // Pieces have heads, which are kept as well: of one byte each they come to seven times what they say.
        if refused || bytes > self.most || kept > self.most.saturating_mul(8) {
            return self.pass_over(head, bytes.max(self.most.saturating_add(1))).await;
        }
        let Some(frame) = whole(&mut self.received, head) else { return Ok(false) };
        if head.kind == Kind::Begins {
            self.payload.clear();
        }
        unmask(&frame[head.size..], mask, &mut self.payload);
        match (self.message.take(), head.last) {
            (None, true) => self.judge(&frame).await?,
            (Some(mut part), true) => {
                part.frames.extend_from_slice(&frame);
                self.judge(&part.frames).await?;
            }
            (part, false) => {
                let mut part = part.unwrap_or_default();
                part.frames.extend_from_slice(&frame);
                part.bytes = bytes;
                self.message = Some(part);
                // The last one is judged as the message.
                if let Err(refused) = self.limited.keep_pace() {
                    self.message = Some(Partial { refused: true, ..Partial::default() });
                    self.refuse(*refused).await?;
                }
            }
        }
        Ok(true)
    }

    /// Passes over a frame of a message that is refused, now or before.
    async fn pass_over(&mut self, head: &Head, bytes: u64) -> Result<bool, Stop> {
        let before = self.message.take().is_some_and(|part| part.refused);
        let _ = self.received.split_to(head.size);
        self.skip = head.length;
        if !head.last {
            self.message = Some(Partial { refused: true, bytes, ..Partial::default() });
        }
        let paced = if before { self.limited.keep_pace() } else { self.limited.admit(bytes) };
        match (paced, before) {
            (Err(refused), false) => self.refuse(*refused).await?,
            // One refusal for one message; but whoever only sends parts of it does not stay.
            (Err(refused), true) => match refused.then {
                Then::Close(code, reason) => return Err(Stop::Closing(code, reason)),
                Then::Send(_) | Then::Nothing => {}
            },
            (Ok(()), _) => {}
        }
        Ok(true)
    }

    /// Judges the message in `payload`, which came as `frames`.
    async fn judge(&mut self, frames: &[u8]) -> Result<(), Stop> {
        self.singly = self.singly.saturating_sub(1);
        let judged = match self.limited.admit(self.payload.len() as u64) {
            Ok(()) => self.limited.judge_admitted(&self.payload).await,
            Err(refused) => Err(refused),
        };
        match judged {
            Ok(passed) => {
                self.out.extend_from_slice(frames);
                // Without an id nobody can tell when it is answered: that there was a place is all that counts.
                if let (Some(id), Some(held)) = (passed.id, passed.held) {
                    self.shared.waiting.add(id, held);
                }
                Ok(())
            }
            Err(refused) => self.refuse(*refused).await,
        }
    }

    async fn refuse(&mut self, refused: Refused) -> Result<(), Stop> {
        match refused.then {
            Then::Nothing => Ok(()),
            Then::Send(text) => {
                // What was allowed before is not kept waiting by a client that does not listen.
                self.hand_on().await.map_err(|_| Stop::Ended)?;
                let notice = Notice::Frame(frames::text(text));
                self.notices.send(notice).await.map_err(|_| Stop::Ended)
            }
            Then::Close(code, reason) => Err(Stop::Closing(code, reason)),
        }
    }

    async fn hand_on(&mut self) -> std::io::Result<()> {
        if self.out.is_empty() {
            return Ok(());
        }
        self.to.write_all(&self.out).await?;
        self.out.clear();
        // Within TLS what was written may stay here until it is asked for.
        self.to.flush().await
    }

    /// Closes the connection from our side, and listens until the client has done so from its own: what is not listened to
    /// could take the last word with it.
    async fn close(mut self, code: u16, reason: &'static str) {
        let closing = async {
            // Before the application hears of it, so that what it answers comes too late.
            let _ = self.shared.closing.set((code, reason));
            let _ = self.notices.send(Notice::Close(code, reason)).await;
            let _ = self.to.write_all(&frames::close_as_client(GOING_AWAY)).await;
            let _ = self.to.shutdown().await;
            loop {
                self.received.clear();
                self.received.reserve(READ);
                if !self.from.read_buf(&mut self.received).await.is_ok_and(|count| count > 0) {
                    return;
                }
            }
        };
        let _ = tokio::time::timeout(CLOSING, closing).await;
    }
}
