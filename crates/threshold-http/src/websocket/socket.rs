//! Sockets whose messages are limited: those of axum and of tungstenite, and others that can be taught.

use futures_util::{Sink, SinkExt as _, Stream, StreamExt as _};
use threshold::{Clock, Ledger, Store};

use super::connection::{Connection, Passed};
use super::refuse::{Refused, Then};

/// A message of some socket.
pub trait SocketMessage: Sized {
    /// What it carries, if it is one that an application reads; pings, pongs and the end are none.
    fn payload(&self) -> Option<&[u8]>;
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
    pub async fn recv<M, E>(&mut self) -> Option<Result<Received<M>, E>>
    where
        W: Stream<Item = Result<M, E>> + Sink<M, Error = E> + Unpin,
        M: SocketMessage,
    {
        while !self.closed {
            let message = match self.socket.next().await? {
                Ok(message) => message,
                Err(error) => return Some(Err(error)),
            };
            let judged = match message.payload() {
                Some(payload) => self.connection.judge(payload).await,
                None => self.connection.keep_pace().map(|()| Passed::default()),
            };
            match judged {
                Ok(passed) => return Some(Ok(Received { message, passed })),
                Err(refused) => {
                    if let Err(error) = self.answer(*refused).await {
                        return Some(Err(error));
                    }
                }
            }
        }
        None
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
        W: Sink<M, Error = E> + Unpin,
        M: SocketMessage,
    {
        match refused.then {
            Then::Nothing => Ok(()),
            Then::Send(text) => self.socket.send(M::text(text)).await,
            Then::Close(code, reason) => {
                self.closed = true;
                self.socket.send(M::close(code, reason)).await
            }
        }
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

        fn text(text: String) -> Self {
            Self::Text(text.into())
        }

        fn close(code: u16, reason: &'static str) -> Self {
            Self::Close(Some(CloseFrame { code: code.into(), reason: reason.into() }))
        }
    }
}
