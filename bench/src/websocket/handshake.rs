//! As much of the opening handshake as it takes to become a WebSocket.

use std::net::SocketAddr;

use super::REQUEST;
use crate::Outcome;

/// RFC 6455's own example: a key that never changes needs no hash.
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const ACCEPT: &str = "s3pPLMBiTZaQ9kYGzzhZRbK+xOo=";

const PRESENT: &str = "HTTP/1.1 200 OK\r\ncontent-length: 4\r\nconnection: close\r\n\r\necho";

/// What a client asks, as a trusted proxy hands it on: each connection is a user's own.
pub(super) fn request(address: SocketAddr, number: usize) -> String {
    let path = REQUEST.path;
    format!(
        "GET {path} HTTP/1.1\r\nhost: {address}\r\nx-tenant: acme\r\nx-user: alice-{number}\r\nconnection: Upgrade\r\n\
         upgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: {KEY}\r\n\r\n"
    )
}

/// Whether the answer's head makes a WebSocket of the connection.
pub(super) fn is_accepted(head: &str) -> Outcome<bool> {
    let status = head.lines().next().unwrap_or_default();
    if !status.starts_with("HTTP/1.1 101 ") {
        return Err(format!("the upgrade was answered with {status:?}").into());
    }
    Ok(field(head, "sec-websocket-accept") == Some(ACCEPT))
}

/// What the echo says to a request.
pub(super) enum Reply {
    /// From here on there are frames.
    Upgrade(String),
    /// To those who only look whether it is there.
    Present(&'static str),
}

pub(super) fn reply(head: &str) -> Outcome<Reply> {
    if !field(head, "upgrade").is_some_and(|protocol| protocol.eq_ignore_ascii_case("websocket")) {
        return Ok(Reply::Present(PRESENT));
    }
    match field(head, "sec-websocket-key") {
        Some(KEY) => Ok(Reply::Upgrade(format!(
            "HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
             sec-websocket-accept: {ACCEPT}\r\n\r\n"
        ))),
        key => Err(format!("the echo knows only its own client's key, not {key:?}").into()),
    }
}

/// The value of a header line.
fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = head.lines().filter_map(|line| line.split_once(':'));
    lines.find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
}

/// Where the head ends and frames begin, if it is all there.
pub(super) fn end_of_head(received: &[u8]) -> Option<usize> {
    received.windows(4).position(|bytes| bytes == b"\r\n\r\n").map(|place| place + 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_echo_accepts_its_own_client() {
        let request = request(SocketAddr::from(([127, 0, 0, 1], 1)), 7);
        assert_eq!(end_of_head(request.as_bytes()), Some(request.len()));
        let Ok(Reply::Upgrade(answer)) = reply(&request) else { panic!("no upgrade") };
        assert!(is_accepted(&answer).unwrap());
        assert!(reply(&request.replace(KEY, "other")).is_err());
        assert!(matches!(reply("GET / HTTP/1.1\r\nhost: x\r\n\r\n"), Ok(Reply::Present(_))));
        assert!(is_accepted("HTTP/1.1 429 Too Many Requests\r\n\r\n").is_err());
    }
}
