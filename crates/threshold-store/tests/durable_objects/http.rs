//! Requests in plain bytes, as any client might send them.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(of, _)| of == name).map(|(_, value)| value.as_str())
    }
}

/// Sends what is written and reads until the other side has no more to say.
pub(crate) fn raw(port: u16, bytes: &[u8]) -> Answer {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    // Who waits for longer waits for ever.
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(bytes).unwrap();
    let mut text = Vec::new();
    stream.read_to_end(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).unwrap().parse().unwrap();
    let header = |line: &str| {
        let (name, value) = line.split_once(": ").unwrap();
        (name.to_lowercase(), value.to_owned())
    };
    Answer { status, headers: lines.map(header).collect(), body: body.to_owned() }
}

/// A request with these headers.
pub(crate) fn send(port: u16, line: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let length =
        if line.starts_with("POST") { format!("Content-Length: {}\r\n", body.len()) } else { String::new() };
    let request = format!("{line} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{headers}{length}\r\n{body}");
    raw(port, request.as_bytes())
}

/// A request of somebody who has the token.
pub(crate) fn post(port: u16, target: &str, body: &str) -> Answer {
    send(port, &format!("POST {target}"), &[("Authorization", "Bearer secret")], body)
}

pub(crate) fn get(port: u16, target: &str) -> Answer {
    send(port, &format!("GET {target}"), &[], "")
}

/// Sends a request on a connection that stays open, and gives the body of the answer, which worked.
pub(crate) fn again(stream: &mut TcpStream, request: &str) -> String {
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let (mut bytes, mut read) = ([0; 4096], 0);
    loop {
        let more = stream.read(&mut bytes[read..]).unwrap();
        assert!(more > 0, "the answer ended too early");
        read += more;
        let text = String::from_utf8_lossy(&bytes[..read]);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        assert!(head.starts_with("HTTP/1.1 200"), "{text}");
        let length =
            head.lines().find_map(|line| line.strip_prefix("Content-Length: ")?.parse::<usize>().ok());
        if body.len() >= length.unwrap() {
            return body.to_owned();
        }
    }
}
