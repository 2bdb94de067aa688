//! The reverse proxy, as it is written: what it waits for, how much it takes, and where requests go.

use threshold_core::Span;

use super::decode::{Placed, Several};
use super::table::table;

table! {
    /// The reverse proxy: what it waits for, and how much it takes.
    pub struct Gateway {
        /// How long a client may take for the head of a request, and between two requests.
        header_timeout: Placed<Span> = optional,
        /// How long nothing may move while a body or an answer is sent.
        idle_timeout: Placed<Span> = optional,
        /// How long an upgraded connection, such as a WebSocket, may be silent.
        upgraded_timeout: Placed<Span> = optional,
        /// How long a connection to the application may take.
        connect_timeout: Placed<Span> = optional,
        /// How long the application may take until it answers.
        response_timeout: Placed<Span> = optional,
        /// How long requests in flight may take to end when the server stops.
        drain_timeout: Placed<Span> = optional,
        /// The largest head of a request, in bytes.
        max_header_bytes: Placed<u32> = optional,
        /// The largest body of a request, in bytes.
        max_body_bytes: u64 = optional,
        /// The most connections.
        max_connections: Placed<u32> = optional,
        /// The most connections of one address that is no trusted proxy.
        max_connections_per_address: Placed<u32> = optional,
        /// The most requests at the same time on one HTTP/2 connection.
        max_streams: Placed<u32> = optional,
        /// The most requests that are held back at the same time.
        max_delayed: Placed<u32> = optional,
        /// Speaks TLS to clients.
        tls: Tls = optional,
    }
}

table! {
    /// The gateway's certificate. Both files are read again when they change.
    pub struct Tls {
        /// The certificate and those it is signed by, as PEM.
        certificate: Placed<String> = required,
        /// Its private key, as PEM.
        key: Placed<String> = required,
    }
}

table! {
    /// An application behind the gateway.
    pub struct Upstream {
        /// The routes that go there.
        route: Placed<Several<Placed<String>>> = required,
        /// Where it is, such as `http://127.0.0.1:3000`; several take turns.
        url: Placed<Several<Placed<String>>> = required,
    }
}

/// The numbers of a gateway, with those that nobody wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GatewayNumbers {
    /// How long a client may take for the head of a request, and between two requests.
    pub header_timeout: Span,
    /// How long nothing may move while a body or an answer is sent.
    pub idle_timeout: Span,
    /// How long an upgraded connection may be silent.
    pub upgraded_timeout: Span,
    /// How long a connection to the application may take.
    pub connect_timeout: Span,
    /// How long the application may take until it answers.
    pub response_timeout: Span,
    /// How long requests in flight may take to end when the server stops.
    pub drain_timeout: Span,
    /// The largest head of a request, in bytes.
    pub max_header_bytes: u32,
    /// The largest body of a request, in bytes.
    pub max_body_bytes: u64,
    /// The most connections.
    pub max_connections: u32,
    /// The most connections of one address that is no trusted proxy.
    pub max_connections_per_address: u32,
    /// The most requests at the same time on one HTTP/2 connection.
    pub max_streams: u32,
    /// The most requests that are held back at the same time.
    pub max_delayed: u32,
}

impl Default for GatewayNumbers {
    fn default() -> Self {
        Self {
            header_timeout: Span::from_secs(15),
            idle_timeout: Span::from_secs(60),
            upgraded_timeout: Span::from_secs(600),
            connect_timeout: Span::from_secs(5),
            response_timeout: Span::from_secs(60),
            drain_timeout: Span::from_secs(30),
            max_header_bytes: 32 * 1024,
            max_body_bytes: 64 * 1024 * 1024,
            max_connections: 16_384,
            max_connections_per_address: 1_024,
            max_streams: 128,
            max_delayed: 1_024,
        }
    }
}

impl Gateway {
    /// The numbers, with those that nobody wrote.
    #[must_use]
    pub fn numbers(&self) -> GatewayNumbers {
        let ready_made = GatewayNumbers::default();
        let span = |written: &Option<Placed<Span>>, other| written.as_ref().map_or(other, |span| span.value);
        let number =
            |written: &Option<Placed<u32>>, other| written.as_ref().map_or(other, |number| number.value);
        GatewayNumbers {
            header_timeout: span(&self.header_timeout, ready_made.header_timeout),
            idle_timeout: span(&self.idle_timeout, ready_made.idle_timeout),
            upgraded_timeout: span(&self.upgraded_timeout, ready_made.upgraded_timeout),
            connect_timeout: span(&self.connect_timeout, ready_made.connect_timeout),
            response_timeout: span(&self.response_timeout, ready_made.response_timeout),
            drain_timeout: span(&self.drain_timeout, ready_made.drain_timeout),
            max_header_bytes: number(&self.max_header_bytes, ready_made.max_header_bytes),
            max_body_bytes: self.max_body_bytes.unwrap_or(ready_made.max_body_bytes),
            max_connections: number(&self.max_connections, ready_made.max_connections),
            max_connections_per_address: number(
                &self.max_connections_per_address,
                ready_made.max_connections_per_address,
            ),
            max_streams: number(&self.max_streams, ready_made.max_streams),
            max_delayed: number(&self.max_delayed, ready_made.max_delayed),
        }
    }
}
