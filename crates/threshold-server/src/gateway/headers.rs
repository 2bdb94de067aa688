//! The headers of requests and answers on their way through: what belongs to one hop stays there, and who asked is told
//! as it is and not as the client says.

use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use bytes::{Bytes, BytesMut};
use http::header::{self, Entry, HeaderMap, HeaderName, HeaderValue};

use crate::heads;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const X_FORWARDED_PORT: HeaderName = HeaderName::from_static("x-forwarded-port");
const X_REAL_IP: HeaderName = HeaderName::from_static("x-real-ip");
const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
pub(super) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// What belongs to one hop.
pub(super) const HOP: [HeaderName; 8] = [
    header::CONNECTION,
    KEEP_ALIVE,
    PROXY_CONNECTION,
    header::TE,
    header::UPGRADE,
    header::TRANSFER_ENCODING,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
];

/// What the gateway says of a request itself.
pub(super) const OURS: [HeaderName; 7] = [
    X_FORWARDED_FOR,
    X_FORWARDED_HOST,
    X_FORWARDED_PROTO,
    X_FORWARDED_PORT,
    X_REAL_IP,
    header::FORWARDED,
    X_REQUEST_ID,
];

/// The longest id of a request that is taken over.
const MAX_ID: usize = 128;

/// How a client is made known to applications.
pub(super) struct Introduction {
    peer: IpAddr,
    secure: bool,
    /// The value of `X-Forwarded-For`.
    address: HeaderValue,
    /// The last host, and what is said of requests for it: one connection mostly asks for one host.
    last: Mutex<Option<(Bytes, Bytes)>>,
}

/// What we say of a request, to be written behind its own headers: making it part of them takes much longer.
pub(super) struct Introduced {
    /// The same for all requests of a connection: lines with their ends.
    pub(super) lines: Bytes,
    pub(super) id: HeaderValue,
}

impl Introduced {
    /// Makes it part of the headers after all.
    pub(super) fn join(self, headers: &mut HeaderMap) {
        for line in self.lines.split(|byte| *byte == b'\n') {
            let mut parts = line.trim_ascii_end().splitn(2, |byte| *byte == b':');
            if let (Some(name), Some(value)) = (parts.next(), parts.next())
                && let Ok(name) = HeaderName::from_bytes(name)
                && let Ok(value) = HeaderValue::from_bytes(value.trim_ascii_start())
            {
                headers.insert(name, value);
            }
        }
        headers.insert(X_REQUEST_ID, self.id);
    }
}

/// True if something belongs to one hop.
pub(super) fn has_hop(headers: &HeaderMap) -> bool {
    headers.keys().any(|name| HOP.contains(name))
}

/// Takes out what belongs to one hop: what the standard names, and what `Connection` names.
pub(super) fn strip_hop(headers: &mut HeaderMap) {
    let lines = headers.get_all(header::CONNECTION).iter();
    // What nearly all of them say names nothing.
    let telling = lines.filter(|line| *line != "keep-alive" && *line != "close");
    let words = telling.filter_map(|line| line.to_str().ok()).flat_map(|line| line.split(','));
    let named: Vec<HeaderName> = words.filter_map(|name| name.trim().parse().ok()).collect();
    // What routes and frames a message is no hop's to take away, nor is what we say of it.
    let kept = [header::HOST, header::CONTENT_LENGTH, header::TRANSFER_ENCODING];
    for name in named.iter().filter(|name| !kept.contains(name) && !OURS.contains(name)) {
        headers.remove(name);
    }
    // Only those that are there: each look for one costs as much as finding it.
    while let Some(name) = headers.keys().find(|name| HOP.contains(name)).cloned() {
        headers.remove(name);
    }
}

/// True if the sender takes trailers.
pub(super) fn takes_trailers(headers: &HeaderMap) -> bool {
    let lines = headers.get_all(header::TE).iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).any(|one| one.trim().eq_ignore_ascii_case("trailers"))
}

impl Introduction {
    pub(super) fn new(peer: IpAddr, secure: bool) -> Self {
        let address =
            HeaderValue::from_str(&peer.to_string()).unwrap_or_else(|_| HeaderValue::from_static(""));
        Self { peer, secure, address, last: Mutex::new(None) }
    }

    pub(super) const fn peer(&self) -> IpAddr {
        self.peer
    }

    /// Says who asked and gives the request an id, if it says nothing of the kind itself, as most do not.
    pub(super) fn introduce(
        &self,
        headers: &HeaderMap,
        host: Option<&HeaderValue>,
        next: impl FnOnce() -> u128,
    ) -> Option<Introduced> {
        let ours = |name: &HeaderName| {
            // All of ours begin like this, and most others do not.
            let text = name.as_str();
            (text.starts_with("x-") || text.starts_with("fo")) && OURS.contains(name)
        };
        if headers.keys().any(ours) {
            return None;
        }
        let host = host.map_or(&b""[..], HeaderValue::as_bytes);
        Some(Introduced { lines: self.lines(host), id: hexadecimal(next()) })
    }

    /// What is said of a request for `host` that says nothing of the kind itself: lines with their ends.
    pub(super) fn lines(&self, host: &[u8]) -> Bytes {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some((of, lines)) if of == host => lines.clone(),
            _ => {
                let mut said = HeaderMap::new();
                let value = HeaderValue::from_bytes(host).ok().filter(|_| !host.is_empty());
                self.forward(&mut said, value.as_ref(), false);
                let mut lines = BytesMut::new();
                said.iter().for_each(|(name, value)| write_line(name, value, &mut lines));
                let lines = lines.freeze();
                *last = Some((Bytes::copy_from_slice(host), lines.clone()));
                lines
            }
        }
    }

    /// Says who asked in the headers: a trusted proxy's word is gone on with, anybody else's is replaced.
    pub(super) fn forward(&self, headers: &mut HeaderMap, host: Option<&HeaderValue>, trusted: bool) {
        let proto = HeaderValue::from_static(if self.secure { "https" } else { "http" });
        let forwarded = self.hop(host);
        if trusted {
            extend(headers, X_FORWARDED_FOR, &self.address);
            extend(headers, header::FORWARDED, &forwarded);
            // What the first proxy saw of the client is what counts.
            headers.entry(X_FORWARDED_PROTO).or_insert(proto);
            if let Some(host) = host {
                headers.entry(X_FORWARDED_HOST).or_insert_with(|| host.clone());
            }
            return;
        }
        headers.remove(X_FORWARDED_PORT);
        headers.remove(X_REAL_IP);
        headers.insert(X_FORWARDED_FOR, self.address.clone());
        headers.insert(header::FORWARDED, forwarded);
        headers.insert(X_FORWARDED_PROTO, proto);
        match host {
            Some(host) => drop(headers.insert(X_FORWARDED_HOST, host.clone())),
            None => drop(headers.remove(X_FORWARDED_HOST)),
        }
    }

    /// `for=192.0.2.1;host="example.com";proto=http`.
    fn hop(&self, host: Option<&HeaderValue>) -> HeaderValue {
        let mut hop = match self.peer {
            IpAddr::V4(address) => format!("for={address}"),
            IpAddr::V6(address) => format!("for=\"[{address}]\""),
        };
        // A host that cannot be quoted as it is is left out.
        let quotable = |byte: &u8| (b' '..=b'~').contains(byte) && !b"\"\\".contains(byte);
        if let Some(Ok(host)) = host.map(HeaderValue::to_str)
            && !host.is_empty()
            && host.as_bytes().iter().all(quotable)
        {
            hop.push_str(&format!(";host=\"{host}\""));
        }
        hop.push_str(if self.secure { ";proto=https" } else { ";proto=http" });
        HeaderValue::from_str(&hop).unwrap_or_else(|_| HeaderValue::from_static(""))
    }
}

/// Writes a header as HTTP/1.1 has it.
pub(super) fn write_line(name: &HeaderName, value: &HeaderValue, bytes: &mut BytesMut) {
    let (name, value) = (name.as_str().as_bytes(), value.as_bytes());
    // Asked for once, for all four pieces.
    bytes.reserve(name.len() + value.len() + 4);
    heads::write_line(name, value, bytes);
}

/// Adds one more to a list that may have several lines.
fn extend(headers: &mut HeaderMap, name: HeaderName, one: &HeaderValue) {
    let mut list = match headers.entry(name) {
        Entry::Vacant(vacant) => {
            vacant.insert(one.clone());
            return;
        }
        Entry::Occupied(occupied) => occupied,
    };
    let mut text = BytesMut::new();
    for line in list.iter() {
        text.extend_from_slice(line.as_bytes());
        text.extend_from_slice(b", ");
    }
    text.extend_from_slice(one.as_bytes());
    list.insert(HeaderValue::from_maybe_shared(text.freeze()).unwrap_or_else(|_| one.clone()));
}

/// The id of the request: a trusted proxy's, or a new one.
pub(super) fn request_id(headers: &mut HeaderMap, trusted: bool, next: impl FnOnce() -> u128) -> HeaderValue {
    let usable = |id: &&HeaderValue| {
        let bytes = id.as_bytes();
        !bytes.is_empty() && bytes.len() <= MAX_ID && bytes.iter().all(u8::is_ascii_graphic)
    };
    if trusted && let Some(id) = headers.get(X_REQUEST_ID).filter(usable) {
        return id.clone();
    }
    let id = hexadecimal(next());
    headers.insert(X_REQUEST_ID, id.clone());
    id
}

/// 32 digits.
fn hexadecimal(number: u128) -> HeaderValue {
    HeaderValue::from_bytes(&digits(number)).unwrap_or_else(|_| HeaderValue::from_static("0"))
}

/// The same as bytes.
pub(super) fn digits(number: u128) -> [u8; 32] {
    let mut digits = [0; 32];
    for (byte, pair) in number.to_be_bytes().into_iter().zip(digits.chunks_exact_mut(2)) {
        let digit = |half: u8| b"0123456789abcdef"[usize::from(half & 15)];
        pair.copy_from_slice(&[digit(byte >> 4), digit(byte)]);
    }
    digits
}

/// The protocol that the request wants to change to.
pub(super) fn wanted_upgrade(headers: &HeaderMap) -> Option<HeaderValue> {
    let lines = headers.get_all(header::CONNECTION).iter().filter_map(|line| line.to_str().ok());
    let asks = lines.flat_map(|line| line.split(',')).any(|one| one.trim().eq_ignore_ascii_case("upgrade"));
    let wanted = headers.get(header::UPGRADE).filter(|_| asks)?;
    // Requests within another protocol would pass unseen.
    let mut words = wanted.as_bytes().split(|byte| !byte.is_ascii_alphanumeric());
    let http = words
        .any(|word| [&b"h2c"[..], b"h2", b"http", b"tls"].iter().any(|http| word.eq_ignore_ascii_case(http)));
    (!http).then(|| wanted.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        headers
    }

    fn introduction() -> Introduction {
        Introduction::new(IpAddr::from([192, 0, 2, 1]), true)
    }

    #[test]
    fn what_belongs_to_one_hop_is_taken_out() {
        let mut all = headers(&[
            ("connection", "close, X-Secret"),
            ("connection", "host, x-forwarded-for, Forwarded, x-request-id"),
            ("x-forwarded-for", "192.0.2.1"),
            ("x-secret", "1"),
            ("host", "a"),
            ("keep-alive", "5"),
            ("te", "trailers"),
            ("upgrade", "websocket"),
            ("proxy-authorization", "x"),
            ("accept", "*/*"),
        ]);
        strip_hop(&mut all);
        // Nor may a client take away what we say of it.
        assert_eq!(all, headers(&[("x-forwarded-for", "192.0.2.1"), ("host", "a"), ("accept", "*/*")]));
    }

    #[test]
    fn forged_words_about_the_client_are_replaced() {
        let host = HeaderValue::from_static("example.com");
        let mut all = headers(&[
            ("x-forwarded-for", "10.0.0.1"),
            ("x-forwarded-for", "10.0.0.2"),
            ("x-forwarded-host", "evil"),
            ("x-forwarded-proto", "ftp"),
            ("x-real-ip", "10.0.0.1"),
            ("x-forwarded-port", "1"),
            ("forwarded", "for=10.0.0.1"),
        ]);
        introduction().forward(&mut all, Some(&host), false);
        let expected = headers(&[
            ("x-forwarded-for", "192.0.2.1"),
            ("x-forwarded-host", "example.com"),
            ("x-forwarded-proto", "https"),
            ("forwarded", "for=192.0.2.1;host=\"example.com\";proto=https"),
        ]);
        assert_eq!(all, expected);
    }

    #[test]
    fn a_trusted_proxys_word_is_gone_on_with() {
        let host = HeaderValue::from_static("inner");
        let mut all = headers(&[
            ("x-forwarded-for", "203.0.113.9"),
            ("x-forwarded-host", "example.com"),
            ("forwarded", "for=203.0.113.9"),
        ]);
        introduction().forward(&mut all, Some(&host), true);
        assert_eq!(all["x-forwarded-for"], "203.0.113.9, 192.0.2.1");
        assert_eq!(all["forwarded"], "for=203.0.113.9, for=192.0.2.1;host=\"inner\";proto=https");
        assert_eq!(all["x-forwarded-host"], "example.com");
        assert_eq!(all["x-forwarded-proto"], "https");
    }

    #[test]
    fn what_is_said_behind_the_headers_is_what_would_be_said_in_them() {
        for host in
            [None, Some(HeaderValue::from_static("example.com")), Some(HeaderValue::from_static("a\"b"))]
        {
            let (mut direct, mut joined) = (headers(&[("accept", "*/*")]), headers(&[("accept", "*/*")]));
            let one = introduction();
            let introduced = one.introduce(&joined, host.as_ref(), || 7).unwrap();
            introduced.join(&mut joined);
            one.forward(&mut direct, host.as_ref(), false);
            request_id(&mut direct, false, || 7);
            assert_eq!(joined, direct);
        }
        for name in OURS {
            let name: &'static str = name.as_str().to_owned().leak();
            assert!(introduction().introduce(&headers(&[(name, "x")]), None, || 7).is_none(), "{name}");
        }
    }

    #[test]
    fn an_id_is_taken_from_a_trusted_proxy_alone() {
        let mut all = headers(&[("x-request-id", "abc-1")]);
        assert_eq!(request_id(&mut all, true, || 7), "abc-1");
        assert_eq!(request_id(&mut all, false, || 7), format!("{:032x}", 7).as_str());
        assert_eq!(all["x-request-id"], format!("{:032x}", 7).as_str());
        let mut odd = headers(&[("x-request-id", "a b")]);
        assert_ne!(request_id(&mut odd, true, || 7), "a b");
    }

    #[test]
    fn other_protocols_of_requests_are_not_changed_to() {
        let wanted = |protocol| wanted_upgrade(&headers(&[("connection", "upgrade"), ("upgrade", protocol)]));
        assert!(wanted("websocket").is_some());
        assert!(wanted("foo, websocket").is_some());
        for http in ["h2c", "H2C", "foo, h2c", "HTTP/2.0", "TLS/1.0"] {
            assert!(wanted(http).is_none(), "{http}");
        }
    }
}
