//! Sockets without a client around them: bytes as they are written.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

use super::good::PATIENCE;

/// Connects from the address `local`.
pub(crate) async fn connect_from(local: Ipv4Addr, to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::from((local, 0)))?;
    socket.connect(to).await
}

/// Everything that comes until the other side closes; none if it does not.
pub(crate) async fn read_to_end(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut all = Vec::new();
    match tokio::time::timeout(PATIENCE, stream.read_to_end(&mut all)).await {
        // A connection that is reset is closed as well.
        Ok(_) => Some(all),
        Err(_) => None,
    }
}

/// An answer of HTTP/1 as it came.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Raw {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

/// Why there is no whole answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// Not one byte came.
    All,
    /// Some bytes came.
    Rest,
}

impl Raw {
    /// Sends `request` and reads the whole answer to it.
    pub(crate) async fn ask(stream: &mut TcpStream, request: &[u8]) -> Result<Self, Missing> {
        // Whether it could be written shows by what comes back.
        let _ = stream.write_all(request).await;
        Self::read(stream).await
    }

    /// Reads one answer with a length or in chunks.
    pub(crate) async fn read(stream: &mut TcpStream) -> Result<Self, Missing> {
        let mut bytes = Vec::new();
        loop {
            if let Some(raw) = Self::parse(&bytes) {
                return Ok(raw);
            }
            let mut piece = [0; 16 * 1024];
            match tokio::time::timeout(PATIENCE, stream.read(&mut piece)).await {
                Ok(Ok(count)) if count > 0 => bytes.extend_from_slice(&piece[..count]),
                _ if bytes.is_empty() => return Err(Missing::All),
                _ => return Err(Missing::Rest),
            }
        }
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap().to_ascii_lowercase();
        let rest = &bytes[end + 4..];
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let body = match length {
            Some(length) => rest.get(..length.parse().unwrap())?.to_vec(),
            None => unchunked(rest)?,
        };
        Some(Self { head, body })
    }

    pub(crate) fn status(&self) -> u16 {
        self.head.split(' ').nth(1).unwrap().parse().unwrap()
    }

    /// True if the connection ends with it.
    pub(crate) fn is_last(&self) -> bool {
        self.head.contains("\r\nconnection: close")
    }
}

/// The body in chunks, once the last of them is there.
fn unchunked(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = rest.windows(2).position(|two| two == b"\r\n")?;
        let length = usize::from_str_radix(std::str::from_utf8(&rest[..line]).unwrap(), 16).unwrap();
        let chunk = rest.get(line + 2..line + 2 + length)?;
        rest = rest.get(line + 2 + length + 2..)?;
        if length == 0 {
            return Some(body);
        }
        body.extend_from_slice(chunk);
    }
}

/// Writes as much of `bytes` as the other side takes; true if all of it.
pub(crate) async fn flood(stream: &mut TcpStream, bytes: &[u8]) -> bool {
    for piece in bytes.chunks(64 * 1024) {
        // Who is not read from any more was held up, which is an answer to a flood, too.
        match tokio::time::timeout(Duration::from_secs(2), stream.write_all(piece)).await {
            Ok(Ok(())) => {}
            _ => return false,
        }
    }
    true
}
