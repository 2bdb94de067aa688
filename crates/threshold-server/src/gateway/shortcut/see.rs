//! Which requests are plain.

use std::mem::MaybeUninit;

use bytes::BytesMut;
use http::Method;

use crate::gateway::lines::{LONGEST, Lines, Place, place};

/// The most header lines of a plain request.
const MOST: usize = 32;

/// Headers that need more than being handed on: those of one hop, those that frame a body, and those that the gateway
/// writes itself.
const NOT_PLAIN: [&str; 17] = [
    "te",
    "expect",
    "trailer",
    "upgrade",
    "forwarded",
    "x-real-ip",
    "keep-alive",
    "x-request-id",
    "content-length",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-port",
    "proxy-connection",
    "x-forwarded-proto",
    "transfer-encoding",
    "proxy-authenticate",
    "proxy-authorization",
];
/// The cookie that is ours.
const DEVICE: &[u8] = b"threshold_device";
/// How the content of gRPC is called.
const GRPC: &[u8] = b"application/grpc";

/// What a plain target is made of: nothing that anybody reads differently.
const PLAIN: [bool; 256] = {
    let mut plain = [false; 256];
    let all = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._~%?&=+,;:@!$'()*-";
    let mut at = 0;
    while at < all.len() {
        plain[all[at] as usize] = true;
        at += 1;
    }
    plain
};

/// A plain request: one without a body that asks nothing of the connection.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) method: Method,
    pub(super) lines: Lines,
    target: Place,
    host: Place,
}

impl Asked {
    /// Takes a plain request out of what was `received`, if it begins with one that is whole and no longer than `longest`.
    /// Headers that are `forged` make it one that is not plain.
    pub(super) fn take(
        received: &mut BytesMut,
        longest: usize,
        forged: impl Fn(&str) -> bool,
    ) -> Option<Self> {
        let mut lines = [const { MaybeUninit::uninit() }; MOST];
        let mut request = httparse::Request::new(&mut []);
        let length = match request.parse_with_uninit_headers(received, &mut lines) {
            Ok(httparse::Status::Complete(length)) if length <= longest.min(LONGEST) => length,
            _ => return None,
        };
        let method = match (request.method, request.version) {
            (Some("GET"), Some(1)) => Method::GET,
            (Some("HEAD"), Some(1)) => Method::HEAD,
            _ => return None,
        };
        let target = request.path.filter(|target| {
            target.starts_with('/') && target.bytes().all(|byte| PLAIN[usize::from(byte)])
        })?;
        let host = host(request.headers, forged)?;
        let (target, host) = (place(received, target.as_bytes()), place(received, host));
        let places = Lines::find(received, request.headers);
        let lines = Lines::new(received.split_to(length).freeze(), places);
        Some(Self { method, lines, target, host })
    }

    /// What it asks for: a path, and perhaps a query.
    pub(super) fn target(&self) -> &str {
        self.text(self.target)
    }

    pub(super) fn host(&self) -> &str {
        self.text(self.host)
    }

    /// Both were found to be nothing else.
    fn text(&self, place: Place) -> &str {
        std::str::from_utf8(self.lines.at(place)).unwrap_or_default()
    }
}

/// The one host of a request whose headers are plain.
fn host<'a>(lines: &[httparse::Header<'a>], forged: impl Fn(&str) -> bool) -> Option<&'a [u8]> {
    let mut host = None;
    for line in lines {
        let (name, value) = (line.name, line.value);
        let plain = match name.len() {
            4 if name.eq_ignore_ascii_case("host") => {
                let readable = !value.is_empty() && value.iter().all(u8::is_ascii_graphic);
                host.replace(value).is_none() && readable
            }
            6 if name.eq_ignore_ascii_case("cookie") => memchr::memmem::find(value, DEVICE).is_none(),
            10 if name.eq_ignore_ascii_case("connection") => value.eq_ignore_ascii_case(b"keep-alive"),
            12 if name.eq_ignore_ascii_case("content-type") => {
                !value.get(..GRPC.len()).is_some_and(|kind| kind.eq_ignore_ascii_case(GRPC))
            }
            _ => !NOT_PLAIN.iter().any(|other| name.eq_ignore_ascii_case(other)),
        };
        if !plain || forged(name) {
            return None;
        }
    }
    host
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::headers::{HOP, OURS};

    fn take(text: &str) -> Option<Asked> {
        Asked::take(&mut BytesMut::from(text), 1024, |name| name.eq_ignore_ascii_case("x-user"))
    }

    fn plain(lines: &str) -> bool {
        take(&format!("GET /a HTTP/1.1\r\nHost: a\r\n{lines}\r\n")).is_some()
    }

    #[test]
    fn a_plain_request_is_taken_and_what_follows_is_left() {
        let head = "HEAD /a/b?c=%20 HTTP/1.1\r\nhost: a.example:80\r\nX-A: 1\r\nx-a:  2 \r\n\r\n";
        let mut received = BytesMut::from(format!("{head}GET /").as_str());
        let asked = Asked::take(&mut received, 1024, |_| false).unwrap();
        assert_eq!((asked.target(), asked.host()), ("/a/b?c=%20", "a.example:80"));
        assert_eq!(asked.method, Method::HEAD);
        let lines: Vec<_> = asked.lines.iter().skip(1).collect();
        assert_eq!(lines, [(&b"X-A"[..], &b"1"[..]), (b"x-a", b"2")]);
        assert_eq!(received, "GET /");
        for length in 0..head.len() {
            assert!(take(&head[..length]).is_none(), "{length}");
        }
    }

    #[test]
    fn what_most_clients_send_is_plain() {
        assert!(plain(""));
        assert!(plain(
            "Connection: Keep-Alive\r\nCookie: a=b; c=d\r\nAccept: */*\r\nContent-Type: text/plain\r\n"
        ));
        assert!(plain("Authorization: Bearer x\r\nUpgrade-Insecure-Requests: 1\r\nX-Name: \u{fc}\r\n"));
    }

    #[test]
    fn what_belongs_to_a_hop_or_frames_a_body_or_is_ours_is_not_plain() {
        let framing = ["content-length", "expect", "trailer"].map(str::to_owned);
        let names = HOP.into_iter().chain(OURS).map(|name| name.as_str().to_owned());
        for name in names.chain(framing) {
            assert!(!plain(&format!("{}: close\r\n", name.to_ascii_uppercase())), "{name}");
        }
        for line in [
            "Host: b",
            "X-User: root",
            "Connection: keep-alive, upgrade",
            "Cookie: a=b; threshold_device=t",
            "Content-Type: application/grpc+proto",
        ] {
            assert!(!plain(&format!("{line}\r\n")), "{line}");
        }
    }

    #[test]
    fn other_methods_targets_and_versions_are_not_plain() {
        let taken = |begin: &str| take(&format!("{begin}\r\nHost: a\r\n\r\n")).is_some();
        assert!(taken("GET / HTTP/1.1"));
        for begin in [
            "POST / HTTP/1.1",
            "get / HTTP/1.1",
            "OPTIONS * HTTP/1.1",
            "GET / HTTP/1.0",
            "GET http://a/ HTTP/1.1",
            "GET a HTTP/1.1",
            "GET /a#b HTTP/1.1",
            "GET /a\"b HTTP/1.1",
            "GET /a\\b HTTP/1.1",
            "GET /\u{fc} HTTP/1.1",
            "PRI * HTTP/2.0",
        ] {
            assert!(!taken(begin), "{begin}");
        }
        for lines in ["", "Host: \r\n", "Host: a b\r\n", "Host: \u{fc}\r\n"] {
            assert!(take(&format!("GET / HTTP/1.1\r\n{lines}\r\n")).is_none(), "{lines}");
        }
    }

    #[test]
    fn what_is_long_is_not_plain() {
        assert!(!plain(&format!("x-a: {}\r\n", "a".repeat(1024))));
        assert!(!plain(&"x-a: 1\r\n".repeat(MOST)));
    }
}
