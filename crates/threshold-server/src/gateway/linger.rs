//! The end of a client's connection. A client that is still sending when its answer is there has often not read it yet;
//! closing at once would make the machine throw the answer away. So what it still sends is taken for a while, and dropped.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use super::connections::Member;

/// How long a client may go on sending what nobody wants.
const LINGER: Duration = Duration::from_secs(2);
const PIECE: usize = 8 * 1024;

/// A client's connection.
pub(super) struct Lingering<I> {
    stream: I,
    connection: Arc<Member>,
    /// True once nothing more is written.
    silent: bool,
    until: Option<Pin<Box<Sleep>>>,
}

impl<I: AsyncRead + AsyncWrite + Unpin> Lingering<I> {
    pub(super) fn new(stream: I, connection: &Arc<Member>) -> Self {
        Self { stream, connection: Arc::clone(connection), silent: false, until: None }
    }

    /// Waits until the client has ended, too, or for long enough.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let until = self.until.get_or_insert_with(|| Box::pin(sleep(LINGER)));
        if until.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        let mut piece = [0; PIECE];
        loop {
            let mut piece = ReadBuf::new(&mut piece);
            match ready!(Pin::new(&mut self.stream).poll_read(cx, &mut piece)) {
                Ok(()) if !piece.filled().is_empty() => {}
                _ => return Poll::Ready(()),
            }
        }
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for Lingering<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<I: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Lingering<I> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.silent {
            ready!(Pin::new(&mut self.stream).poll_shutdown(cx))?;
            self.silent = true;
        }
        if self.connection.was_cut_off() {
            ready!(self.poll_end(cx));
        }
        Poll::Ready(Ok(()))
    }
}
