//! The headers of requests and answers on their way through: what belongs to one hop stays there, and who asked is told
//! as it is and not as the client says.

use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};

use bytes::BytesMut;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const X_FORWARDED_PORT: HeaderName = HeaderName::from_static("x-forwarded-port");
const X_REAL_IP: HeaderName = HeaderName::from_static("x-real-ip");
const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
pub(super) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The longest id of a request that is taken over.
const MAX_ID: usize = 128;

/// How a request came.
pub(super) struct Came<'a> {
    pub(super) peer: SocketAddr,
    pub(super) secure: bool,
    pub(super) host: Option<&'a HeaderValue>,
    /// True if the peer may speak for others.
    pub(super) trusted: bool,
}

/// Takes out what belongs to one hop: what the standard names, and what `Connection` names.
pub(super) fn strip_hop(headers: &mut HeaderMap) {
    if headers.contains_key(header::CONNECTION) {
        let named: Vec<HeaderName> = headers
            .get_all(header::CONNECTION)
            .iter()
            .filter_map(|line| line.to_str().ok())
            .flat_map(|line| line.split(','))
            .filter_map(|name| name.trim().parse().ok())
            .collect();
        // What routes and frames a message is no hop's to take away.
        let kept = [header::HOST, header::CONTENT_LENGTH, header::TRANSFER_ENCODING];
        for name in named.iter().filter(|name| !kept.contains(name)) {
            headers.remove(name);
        }
        headers.remove(header::CONNECTION);
    }
    for name in [KEEP_ALIVE, PROXY_CONNECTION, header::TE, header::UPGRADE, header::TRANSFER_ENCODING] {
        headers.remove(name);
    }
    headers.remove(header::PROXY_AUTHENTICATE);
    headers.remove(header::PROXY_AUTHORIZATION);
}

/// True if the sender takes trailers.
pub(super) fn takes_trailers(headers: &HeaderMap) -> bool {
    let lines = headers.get_all(header::TE).iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).any(|one| one.trim().eq_ignore_ascii_case("trailers"))
}

/// Says who asked: a trusted proxy's word is gone on with, anybody else's is replaced.
pub(super) fn forward(headers: &mut HeaderMap, came: &Came<'_>) {
    let proto = if came.secure { "https" } else { "http" };
    let mut text = BytesMut::with_capacity(128);
    if came.trusted {
        extend(headers, &X_FORWARDED_FOR, &mut text, |text| write!(text, "{}", came.peer.ip()));
        extend(headers, &header::FORWARDED, &mut text, |text| hop(text, came, proto));
        // What the first proxy saw of the client is what counts.
        headers.entry(X_FORWARDED_PROTO).or_insert(HeaderValue::from_static(proto));
        if let Some(host) = came.host {
            headers.entry(X_FORWARDED_HOST).or_insert_with(|| host.clone());
        }
        return;
    }
    headers.remove(X_FORWARDED_PORT);
    headers.remove(X_REAL_IP);
    headers.insert(X_FORWARDED_FOR, value(&mut text, |text| write!(text, "{}", came.peer.ip())));
    headers.insert(header::FORWARDED, value(&mut text, |text| hop(text, came, proto)));
    headers.insert(X_FORWARDED_PROTO, HeaderValue::from_static(proto));
    match came.host {
        Some(host) => drop(headers.insert(X_FORWARDED_HOST, host.clone())),
        None => drop(headers.remove(X_FORWARDED_HOST)),
    }
}

/// `for=192.0.2.1;host="example.com";proto=http`.
fn hop(text: &mut BytesMut, came: &Came<'_>, proto: &str) -> std::fmt::Result {
    match came.peer.ip() {
        IpAddr::V4(address) => write!(text, "for={address}")?,
        IpAddr::V6(address) => write!(text, "for=\"[{address}]\"")?,
    }
    // A host that cannot be quoted as it is is left out.
    let quotable = |byte: u8| (b' '..=b'~').contains(&byte) && !b"\"\\".contains(&byte);
    if let Some(host) = came.host.filter(|host| host.as_bytes().iter().all(|byte| quotable(*byte))) {
        text.write_str(";host=\"")?;
        text.extend_from_slice(host.as_bytes());
        text.write_str("\"")?;
    }
    write!(text, ";proto={proto}")
}

/// Adds one more to a list that may have several lines.
fn extend(
    headers: &mut HeaderMap,
    name: &HeaderName,
    text: &mut BytesMut,
    write: impl FnOnce(&mut BytesMut) -> std::fmt::Result,
) {
    for line in headers.get_all(name) {
        text.extend_from_slice(line.as_bytes());
        text.extend_from_slice(b", ");
    }
    let value = value(text, write);
    headers.insert(name.clone(), value);
}

fn value(text: &mut BytesMut, write: impl FnOnce(&mut BytesMut) -> std::fmt::Result) -> HeaderValue {
    // Memory never refuses to be written to.
    let _ = write(text);
    let bytes = text.split().freeze();
    HeaderValue::from_maybe_shared(bytes).unwrap_or_else(|_| HeaderValue::from_static(""))
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
    let mut text = BytesMut::with_capacity(32);
    let id = value(&mut text, |text| write!(text, "{:032x}", next()));
    headers.insert(X_REQUEST_ID, id.clone());
    id
}

/// The protocol that the request wants to change to.
pub(super) fn wanted_upgrade(headers: &HeaderMap) -> Option<HeaderValue> {
    let lines = headers.get_all(header::CONNECTION).iter().filter_map(|line| line.to_str().ok());
    let asks = lines.flat_map(|line| line.split(',')).any(|one| one.trim().eq_ignore_ascii_case("upgrade"));
    headers.get(header::UPGRADE).filter(|_| asks).cloned()
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

    fn came(trusted: bool, host: Option<&HeaderValue>) -> Came<'_> {
        Came { peer: SocketAddr::from(([192, 0, 2, 1], 4711)), secure: true, host, trusted }
    }

    #[test]
    fn what_belongs_to_one_hop_is_taken_out() {
        let mut all = headers(&[
            ("connection", "close, X-Secret"),
            ("connection", "host"),
            ("x-secret", "1"),
            ("host", "a"),
            ("keep-alive", "5"),
            ("te", "trailers"),
            ("upgrade", "websocket"),
            ("proxy-authorization", "x"),
            ("accept", "*/*"),
        ]);
        strip_hop(&mut all);
        assert_eq!(all, headers(&[("host", "a"), ("accept", "*/*")]));
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
        forward(&mut all, &came(false, Some(&host)));
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
        forward(&mut all, &came(true, Some(&host)));
        assert_eq!(all["x-forwarded-for"], "203.0.113.9, 192.0.2.1");
        assert_eq!(all["forwarded"], "for=203.0.113.9, for=192.0.2.1;host=\"inner\";proto=https");
        assert_eq!(all["x-forwarded-host"], "example.com");
        assert_eq!(all["x-forwarded-proto"], "https");
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
}
