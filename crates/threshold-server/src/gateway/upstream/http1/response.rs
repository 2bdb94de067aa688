//! The head of an answer, and where its body ends.

use std::mem::MaybeUninit;

use bytes::BytesMut;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode};

use super::{MAX_HEAD, MAX_HEADERS, Malformed};
use crate::gateway::lines::Lines;

/// The head of an answer.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) status: StatusCode,
    pub(super) lines: Lines,
    pub(super) framing: Framing,
    /// True if the connection can be used for another request after this answer.
    pub(super) reusable: bool,
}

/// Where the body of an answer ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// How many bytes are still to come.
    Length(u64),
    Chunked,
    /// Where the connection does.
    UntilClose,
}

/// Takes the head of the answer to a request of `method` out of what was `received`; none if it is not all there.
pub(super) fn read_head(received: &mut BytesMut, method: &Method) -> Result<Option<Head>, Malformed> {
    if received.is_empty() {
        return Ok(None);
    }
    let long = || Malformed("the head of its answer is too long");
    let mut lines = [const { MaybeUninit::uninit() }; MAX_HEADERS];
    let mut response = httparse::Response::new(&mut []);
    let config = httparse::ParserConfig::default();
    let length = match config.parse_response_with_uninit_headers(&mut response, received, &mut lines) {
        Ok(httparse::Status::Complete(length)) if length <= MAX_HEAD => length,
        Ok(httparse::Status::Partial) if received.len() <= MAX_HEAD => return Ok(None),
        Ok(_) => return Err(long()),
        Err(httparse::Error::TooManyHeaders) => {
            return Err(Malformed("its answer has too many headers"));
        }
        Err(_) => return Err(Malformed("its answer is not HTTP/1.1")),
    };
    let status = StatusCode::from_u16(response.code.unwrap_or_default())
        .map_err(|_| Malformed("its answer has no status"))?;
    let newer = response.version == Some(1);
    let said = Said::read(response.headers);
    let framing = said.framing(method, status, newer)?;
    let keeps = !said.closes && (said.stays || newer);
    let reusable = keeps && framing != Framing::UntilClose;
    let places = Lines::find(received, response.headers);
    let lines = Lines::new(received.split_to(length).freeze(), places);
    Ok(Some(Head { status, lines, framing, reusable }))
}

/// What an answer says of its connection and of its body.
#[derive(Default)]
struct Said<'a> {
    closes: bool,
    stays: bool,
    coding: Option<&'a [u8]>,
    length: Option<&'a [u8]>,
    /// True if it says several things of its body.
    doubtful: bool,
}

impl<'a> Said<'a> {
    fn read(lines: &[httparse::Header<'a>]) -> Self {
        let mut said = Self::default();
        for line in lines {
            let is = |name: &str| line.name.eq_ignore_ascii_case(name);
            // By their lengths first: most are none of these.
            match line.name.len() {
                10 if is("connection") => said.hop(line.value),
                14 if is("content-length") => {
                    said.doubtful |= said.length.is_some_and(|other| other != line.value);
                    said.length = Some(line.value);
                }
                17 if is("transfer-encoding") => {
                    said.doubtful |= said.coding.is_some();
                    said.coding = Some(line.value);
                }
                _ => {}
            }
        }
        said
    }

    fn hop(&mut self, line: &[u8]) {
        for word in words(line) {
            self.closes |= word.eq_ignore_ascii_case(b"close");
            self.stays |= word.eq_ignore_ascii_case(b"keep-alive");
        }
    }

    /// As RFC 9112 section 6.3 has it, but that what is doubtful is refused.
    fn framing(&self, method: &Method, status: StatusCode, newer: bool) -> Result<Framing, Malformed> {
        let none =
            status.is_informational() || [StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED].contains(&status);
        if none || *method == Method::HEAD {
            return Ok(Framing::Length(0));
        }
        if let Some(coding) = self.coding {
            // Any other coding would have to be undone here, since the header ends here.
            let plain = coding.eq_ignore_ascii_case(b"chunked") && !self.doubtful;
            if !plain || !newer || self.length.is_some() {
                return Err(Malformed("its answer leaves open where its body ends"));
            }
            return Ok(Framing::Chunked);
        }
        let Some(digits) = self.length else { return Ok(Framing::UntilClose) };
        if self.doubtful {
            return Err(Malformed("its answer has several lengths"));
        }
        let length = std::str::from_utf8(digits).ok().filter(|_| digits.iter().all(u8::is_ascii_digit));
        let length = length.and_then(|digits| digits.parse().ok());
        length.map(Framing::Length).ok_or(Malformed("the length of its answer is no number"))
    }
}

/// The words of a list.
fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| *byte == b',').map(<[u8]>::trim_ascii)
}

/// Whether a line called `name` only says if the connection is kept: that is for this hop.
pub(in crate::gateway) fn only_of_hop(name: &[u8], value: &[u8]) -> bool {
    let known = |word: &[u8]| word.eq_ignore_ascii_case(b"close") || word.eq_ignore_ascii_case(b"keep-alive");
    name.eq_ignore_ascii_case(b"connection") && words(value).all(known)
}

/// The headers, without what is for this hop only.
pub(super) fn headers(lines: &Lines) -> Result<HeaderMap, Malformed> {
    // Room for what is added on the way back, too.
    let mut headers = HeaderMap::with_capacity(lines.len() + 8);
    for (name, value) in lines.shared().filter(|(name, value)| !only_of_hop(name, value)) {
        let bad = || Malformed("a header of its answer cannot be read");
        let name = HeaderName::from_bytes(name).map_err(|_| bad())?;
        // Once: what is said twice is read differently by some.
        if name == header::CONTENT_LENGTH && headers.contains_key(&name) {
            continue;
        }
        headers.append(name, HeaderValue::from_maybe_shared(value).map_err(|_| bad())?);
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Option<Head>, Malformed> {
        read_head(&mut BytesMut::from(text), &Method::GET)
    }

    fn head(text: &str) -> Head {
        read(text).unwrap().unwrap()
    }

    #[test]
    fn a_head_is_read_once_it_is_whole() {
        let whole = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-A: 1\r\nx-a: 2\r\n\r\nok";
        for length in 0..whole.len() - 2 {
            assert!(read(&whole[..length]).unwrap().is_none(), "{length}");
        }
        let mut received = BytesMut::from(whole);
        let head = read_head(&mut received, &Method::GET).unwrap().unwrap();
        assert_eq!((head.status.as_u16(), head.framing, head.reusable), (200, Framing::Length(2), true));
        assert_eq!(headers(&head.lines).unwrap().get_all("x-a").iter().collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!(&received[..], b"ok");
    }

    #[test]
    fn where_the_body_ends() {
        let framing = |lines: &str| head(&format!("HTTP/1.1 {lines}\r\n\r\n")).framing;
        assert_eq!(framing("200 OK\r\ncontent-length: 5\r\ncontent-length: 5"), Framing::Length(5));
        assert_eq!(framing("200 OK\r\ntransfer-encoding: Chunked"), Framing::Chunked);
        assert_eq!(framing("200 OK"), Framing::UntilClose);
        for status in ["101 Switching Protocols", "204 No Content", "304 Not Modified", "103 Early Hints"] {
            assert_eq!(framing(&format!("{status}\r\ncontent-length: 5")), Framing::Length(0));
        }
        let mut to_head = BytesMut::from("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n");
        let to_head = read_head(&mut to_head, &Method::HEAD).unwrap().unwrap();
        assert_eq!((to_head.framing, to_head.reusable), (Framing::Length(0), true));
    }

    #[test]
    fn what_leaves_the_end_open_is_refused() {
        let doubtful = [
            "HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6",
            "HTTP/1.1 200 OK\r\ncontent-length: 5, 5",
            "HTTP/1.1 200 OK\r\ncontent-length: +5",
            "HTTP/1.1 200 OK\r\ncontent-length: -5",
            "HTTP/1.1 200 OK\r\ncontent-length: 0x5",
            "HTTP/1.1 200 OK\r\ncontent-length: ",
            "HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-length: 5",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntransfer-encoding: chunked",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: identity",
            "HTTP/1.0 200 OK\r\ntransfer-encoding: chunked",
            "HTTP/1.1 200 OK\r\nbad header: 1",
            "HTTP/1.1 200 OK\r\n folded: 1",
            "HTTP/1.1 999999 OK",
            "SSH-2.0-OpenSSH_9.2",
        ];
        for text in doubtful {
            assert!(read(&format!("{text}\r\n\r\n")).is_err(), "{text}");
        }
    }

    #[test]
    fn a_head_has_bounds() {
        let many: String = (0..=MAX_HEADERS).map(|number| format!("x-{number}: 1\r\n")).collect();
        assert!(read(&format!("HTTP/1.1 200 OK\r\n{many}\r\n")).is_err());
        for end in ["", "\r\n\r\n"] {
            assert!(read(&format!("HTTP/1.1 200 OK\r\nx: {}{end}", "a".repeat(MAX_HEAD))).is_err());
        }
    }

    #[test]
    fn a_connection_is_kept_as_its_version_and_headers_say() {
        let kept = |text: &str| head(&format!("{text}\r\ncontent-length: 0\r\n\r\n")).reusable;
        assert!(kept("HTTP/1.1 200 OK"));
        assert!(!kept("HTTP/1.1 200 OK\r\nConnection: x, Close"));
        assert!(!kept("HTTP/1.0 200 OK"));
        assert!(kept("HTTP/1.0 200 OK\r\nconnection: Keep-Alive"));
        assert!(!head("HTTP/1.1 200 OK\r\n\r\n").reusable);
    }
}
