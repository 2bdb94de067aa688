//! HTTP/2 by hand: frames as RFC 9113 has them, also those that no client would send.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::good::PATIENCE;

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const PRIORITY: u8 = 2;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PUSH_PROMISE: u8 = 5;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

pub(crate) const ACK: u8 = 1;
pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;
pub(crate) const PADDED: u8 = 8;
pub(crate) const HAS_PRIORITY: u8 = 0x20;

pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A frame that came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

impl Frame {
    /// The error code of a `RST_STREAM` or `GOAWAY`.
    pub(crate) fn code(&self) -> Option<u32> {
        let at = match self.kind {
            RST_STREAM => 0,
            GOAWAY => 4,
            _ => return None,
        };
        Some(u32::from_be_bytes(self.payload[at..at + 4].try_into().unwrap()))
    }
}

/// The bytes of one frame.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut bytes = length[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// A header block in which nothing is compressed.
pub(crate) fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, value) in fields {
        bytes.push(0);
        for text in [name, value] {
            length(text.len(), &mut bytes);
            bytes.extend(text.as_bytes());
        }
    }
    bytes
}

/// A length of RFC 7541, section 5.1, in seven bits and more.
fn length(length: usize, bytes: &mut Vec<u8>) {
    let Some(mut rest) = length.checked_sub(127) else {
        bytes.push(u8::try_from(length).unwrap());
        return;
    };
    bytes.push(127);
    while rest >= 128 {
        bytes.push(u8::try_from(rest % 128).unwrap() | 128);
        rest /= 128;
    }
    bytes.push(u8::try_from(rest).unwrap());
}

/// The header block of a request.
pub(crate) fn request(method: &str, path: &str) -> Vec<u8> {
    block(&[(":method", method), (":scheme", "http"), (":authority", "a.example"), (":path", path)])
}

/// A whole `GET`.
pub(crate) fn get(stream: u32, path: &str) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | END_STREAM, stream, &request("GET", path))
}

/// The head of a `POST` whose body follows.
pub(crate) fn post(stream: u32, path: &str) -> Vec<u8> {
    frame(HEADERS, END_HEADERS, stream, &request("POST", path))
}

pub(crate) fn reset(stream: u32, code: u32) -> Vec<u8> {
    frame(RST_STREAM, 0, stream, &code.to_be_bytes())
}

pub(crate) fn window_update(stream: u32, increment: u32) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, stream, &increment.to_be_bytes())
}

/// One setting.
pub(crate) fn setting(id: u16, value: u32) -> Vec<u8> {
    let mut payload = id.to_be_bytes().to_vec();
    payload.extend(value.to_be_bytes());
    frame(SETTINGS, 0, 0, &payload)
}

/// The streams of a client, from the first on.
pub(crate) fn streams(count: u32) -> impl Iterator<Item = u32> {
    (0..count).map(|number| 2 * number + 1)
}

/// A connection on which frames are written by hand.
pub(crate) struct Peer {
    pub(crate) stream: TcpStream,
}

impl Peer {
    /// Connects and sends the preface with `settings`, frames of their own.
    pub(crate) async fn connect(gateway: SocketAddr, settings: &[u8]) -> Self {
        let mut stream = TcpStream::connect(gateway).await.unwrap();
        stream.set_nodelay(true).unwrap();
        stream.write_all(PREFACE).await.unwrap();
        stream.write_all(settings).await.unwrap();
        Self { stream }
    }

    /// Sends `bytes`; a connection that was closed meanwhile takes none, which shows when it is read from.
    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes).await;
    }

    /// The next frame; none if the connection has ended.
    pub(crate) async fn next(&mut self) -> Option<Frame> {
        let mut head = [0; 9];
        let read = tokio::time::timeout(PATIENCE, self.stream.read_exact(&mut head)).await;
        read.expect("the server neither says anything nor ends the connection").ok()?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; length as usize];
        self.stream.read_exact(&mut payload).await.ok()?;
        let stream = u32::from_be_bytes(head[5..9].try_into().unwrap()) & 0x7fff_ffff;
        Some(Frame { kind: head[3], flags: head[4], stream, payload })
    }

    /// Everything until the connection ends, which it must.
    pub(crate) async fn rest(&mut self) -> Vec<Frame> {
        let mut frames = Vec::new();
        while let Some(frame) = self.next().await {
            frames.push(frame);
        }
        frames
    }

    /// Waits for a frame that is `wanted`.
    pub(crate) async fn until(&mut self, what: &str, wanted: impl Fn(&Frame) -> bool) -> Frame {
        let mut others = Vec::new();
        loop {
            match self.next().await {
                Some(frame) if wanted(&frame) => return frame,
                Some(frame) => others.push(frame),
                None => panic!("the connection ended without {what}: {others:?}"),
            }
        }
    }
}
