//! Sockets whose messages are limited: those of axum and of tungstenite, and others that can be taught.

use std::time::Duration;

use futures_util::{Sink, SinkExt as _, Stream, StreamExt as _};
use threshold::{Clock, Ledger, Store};

use super::connection::{Connection, Passed};
use super::refuse::{Refused, Then};

/// How long a connection that is closed from here may take for its part of it.
const CLOSING: Duration = Duration::from_secs(2);

/// A message of some socket.
pub trait SocketMessage: Sized {
    /// What it carries, if it is one that an application reads; pings, pongs and the end are none.
    fn payload(&self) -> Option<&[u8]>;
    /// True if it is the end.
    fn is_close(&self) -> bool;
    /// A message of text.
    fn text(text: String) -> Self;
    /// The end, with a code and a reason.
    fn close(code: u16, reason: &'static str) -> Self;
}

/// A socket whose messages are limited.
pub struct LimitedSocket<W, S, C, L> {
    socket: W,
    connection: Connection<S, C, L>,
    closed: bool,
}

/// A message that came and was not judged yet.
#[must_use = "nobody answers it before it is judged"]
pub struct Unjudged<M>(M);

/// A message that was allowed. Until it is dropped it counts as in flight.
pub struct Received<M> {
    /// The message.
    pub message: M,
    /// What it holds, and what else is known of it; nothing for pings, pongs and the end.
    pub passed: Passed,
}

impl<W, S, C, L> LimitedSocket<W, S, C, L>
where
    S: Store + 'static,
    C: Clock + 'static,
    L: Ledger + 'static,
{
    /// `socket`, with the limits of `connection`.
    pub const fn new(socket: W, connection: Connection<S, C, L>) -> Self {
        Self { socket, connection, closed: false }
    }

    /// The next message that is allowed; none at the end. Those that are not are answered here.
    ///
    /// It has to be waited for: dropped halfway, as `select!` drops what comes second, it may take a message with it. Whoever
    /// waits for other things as well waits for [`next`](Self::next) and then calls [`judge`](Self::judge).
    pub async fn recv<M, E>(&mut self) -> Option<Result<Received<M>, E>>
    where
        W: Stream<Item = Result<M, E>> + Sink<M, Error = E> + Unpin,
        M: SocketMessage,
    {
        loop {
            let judged = match self.next().await? {
                Ok(message) => self.judge(message).await,
                Err(error) => Err(error),
            };
            if let Some(received) = judged.transpose() {
                return Some(received);
            }
        }
    }

    /// The next message, whether it is allowed or not; none at the end. Nothing is lost if this is dropped.
    pub async fn next<M, E>(&mut self) -> Option<Result<Unjudged<M>, E>>
    where
        W: Stream<Item = Result<M, E>> + Unpin,
    {
        if self.closed {
            return None;
        }
        Some(self.socket.next().await?.map(Unjudged))
    }

    /// The message if it is allowed. If it is not, it is answered here.
    ///
    /// # Errors
    ///
    /// The socket's own.
    pub async fn judge<M, E>(&mut self, Unjudged(message): Unjudged<M>) -> Result<Option<Received<M>>, E>
    where
        W: Stream<Item = Result<M, E>> + Sink<M, Error = E> + Unpin,
        M: SocketMessage,
    {
        let judged = match message.payload() {
            Some(payload) => self.connection.judge(payload).await,
            // An end is always heard.
            None if message.is_close() => Ok(Passed::default()),
            None => self.connection.keep_pace().map(|()| Passed::default()),
        };
        match judged {
            Ok(passed) => Ok(Some(Received { message, passed })),
            Err(refused) => self.answer(*refused).await.map(|()| None),
        }
    }

    /// Sends a message.
    ///
    /// # Errors
    ///
    /// The socket's own.
    pub async fn send<M, E>(&mut self, message: M) -> Result<(), E>
    where
        W: Sink<M, Error = E> + Unpin,
    {
        self.socket.send(message).await
    }

    /// The socket, without limits.
    pub fn into_inner(self) -> W {
        self.socket
    }

    async fn answer<M, E>(&mut self, refused: Refused) -> Result<(), E>
    where
        W: Stream<Item = Result<M, E>> + Sink<M, Error = E> + Unpin,
        M: SocketMessage,
    {
        match refused.then {
            Then::Nothing => Ok(()),
            Then::Send(text) => self.socket.send(M::text(text)).await,
            Then::Close(code, reason) => {
                self.closed = true;
                let closing = self.close(M::close(code, reason));
                tokio::time::timeout(CLOSING, closing).await.unwrap_or(Ok(()))
            }
        }
    }

    /// Sends the end, and listens until the client has sent its own: what is not listened to could take the last word with
    /// it.
    async fn close<M, E>(&mut self, end: M) -> Result<(), E>
    where
        W: Stream<Item = Result<M, E>> + Sink<M, Error = E> + Unpin,
    {
        self.socket.send(end).await?;
        while let Some(Ok(_)) = self.socket.next().await {}
        Ok(())
    }
}

#[cfg(feature = "axum")]
mod of_axum {
    use axum::extract::ws::{CloseFrame, Message};

    impl super::SocketMessage for Message {
        fn payload(&self) -> Option<&[u8]> {
            match self {
                Self::Text(text) => Some(text.as_bytes()),
                Self::Binary(bytes) => Some(bytes),
                Self::Ping(_) | Self::Pong(_) | Self::Close(_) => None,
            }
        }

        fn is_close(&self) -> bool {
            matches!(self, Self::Close(_))
        }

        fn text(text: String) -> Self {
            Self::Text(text.into())
        }

        fn close(code: u16, reason: &'static str) -> Self {
            Self::Close(Some(CloseFrame { code, reason: reason.into() }))
        }
    }
}

#[cfg(feature = "tungstenite")]
mod of_tungstenite {
    use tungstenite::Message;
    use tungstenite::protocol::CloseFrame;

    impl super::SocketMessage for Message {
        fn payload(&self) -> Option<&[u8]> {
            match self {
                Self::Text(text) => Some(text.as_bytes()),
                Self::Binary(bytes) => Some(bytes),
                Self::Ping(_) | Self::Pong(_) | Self::Close(_) | Self::Frame(_) => None,
            }
        }

        fn is_close(&self) -> bool {
            matches!(self, Self::Close(_))
        }

        fn text(text: String) -> Self {
            Self::Text(text.into())
        }

        fn close(code: u16, reason: &'static str) -> Self {
            Self::Close(Some(CloseFrame { code: code.into(), reason: reason.into() }))
        }
    }
}
