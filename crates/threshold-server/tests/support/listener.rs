//! Somebody who listens to events.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use super::server::Server;

/// A listener, and all that it has heard.
pub(crate) struct Listener(TcpStream, pub(crate) String);

impl Listener {
    /// Listens with a token to what a query asks for.
    pub(crate) fn new(server: &Server, token: &str, query: &str) -> Self {
        let mut stream = TcpStream::connect(server.admin).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let head = format!(
            "GET /api/admin/events{query} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut listener = Self(stream, String::new());
        listener.hears(": listening");
        assert!(listener.1.contains("text/event-stream"), "{}", listener.1);
        listener
    }

    /// Reads until `text` came.
    pub(crate) fn hears(&mut self, text: &str) {
        while !self.1.contains(text) {
            let mut piece = [0; 4_096];
            let read = self.0.read(&mut piece).unwrap_or_else(|error| panic!("{error} after\n{}", self.1));
            assert!(read > 0, "it ended after\n{}", self.1);
            self.1.push_str(&String::from_utf8_lossy(&piece[..read]));
        }
    }

    /// Reads until there is nothing more to come: the last chunk is empty.
    pub(crate) fn ends(&mut self) {
        self.hears("\r\n0\r\n\r\n");
    }

    /// The documents of all events that came.
    pub(crate) fn documents(&self) -> Vec<serde_json::Value> {
        let lines = self.1.lines().filter_map(|line| line.strip_prefix("data: "));
        lines.map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}
