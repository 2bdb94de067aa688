//! The head of an answer, and where its body ends.

use std::mem::MaybeUninit;

use bytes::{Bytes, BytesMut};
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode, Version};
use smallvec::SmallVec;

use super::{MAX_HEAD, MAX_HEADERS, Malformed};

/// The head of an answer.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
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

/// Where a name and its value are in a head.
#[derive(Clone, Copy)]
struct Place {
    name: (usize, usize),
    value: (usize, usize),
}

/// Takes the head of the answer to a request of `method` out of what was `received`; none if it is not all there.
pub(super) fn read_head(received: &mut BytesMut, method: &Method) -> Result<Option<Head>, Malformed> {
    if received.is_empty() {
        return Ok(None);
    }
    let Some(found) = find(received)? else {
        let long = received.len() > MAX_HEAD;
        return if long { Err(Malformed("the head of its answer is too long")) } else { Ok(None) };
    };
    let head = received.split_to(found.length).freeze();
    let mut hop = Hop::default();
    let headers = collect(&head, &found.places, &mut hop)?;
    let framing = framing(method, found.status, found.version, &headers)?;
    let keeps = !hop.closes && (hop.stays || found.version == Version::HTTP_11);
    let reusable = keeps && framing != Framing::UntilClose;
    Ok(Some(Head { status: found.status, headers, framing, reusable }))
}

struct Found {
    length: usize,
    status: StatusCode,
    version: Version,
    /// More than most have fit without a piece of memory of their own.
    places: SmallVec<[Place; 24]>,
}

fn find(received: &[u8]) -> Result<Option<Found>, Malformed> {
    let mut lines = [const { MaybeUninit::uninit() }; MAX_HEADERS];
    let mut response = httparse::Response::new(&mut []);
    let parsed = httparse::ParserConfig::default().parse_response_with_uninit_headers(
        &mut response,
        received,
        &mut lines,
    );
    let length = match parsed {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => {
            return Err(Malformed("its answer has too many headers"));
        }
        Err(_) => return Err(Malformed("its answer is not HTTP/1.1")),
    };
    let start = received.as_ptr() as usize;
    let place = |bytes: &[u8]| {
        let from = bytes.as_ptr() as usize - start;
        (from, from + bytes.len())
    };
    let places = response.headers.iter();
    let places =
        places.map(|line| Place { name: place(line.name.as_bytes()), value: place(line.value) }).collect();
    let status = StatusCode::from_u16(response.code.unwrap_or_default())
        .map_err(|_| Malformed("its answer has no status"))?;
    let version = if response.version == Some(1) { Version::HTTP_11 } else { Version::HTTP_10 };
    Ok(Some(Found { length, status, version, places }))
}

/// What an answer says of its connection.
#[derive(Default)]
struct Hop {
    closes: bool,
    stays: bool,
}

impl Hop {
    /// Reads a line; false if it says more than that.
    fn read(&mut self, line: &[u8]) -> bool {
        let mut known = true;
        for word in line.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
            let (closes, stays) =
                (word.eq_ignore_ascii_case(b"close"), word.eq_ignore_ascii_case(b"keep-alive"));
            self.closes |= closes;
            self.stays |= stays;
            known &= closes || stays;
        }
        known
    }
}

/// The headers, without what only says whether the connection is kept: that is for this hop.
fn collect(head: &Bytes, places: &[Place], hop: &mut Hop) -> Result<HeaderMap, Malformed> {
    // Room for what is added on the way back, too.
    let mut headers = HeaderMap::with_capacity(places.len() + 8);
    for Place { name, value } in places {
        let bad = || Malformed("a header of its answer cannot be read");
        let name = HeaderName::from_bytes(&head[name.0..name.1]).map_err(|_| bad())?;
        if name == header::CONNECTION && hop.read(&head[value.0..value.1]) {
            continue;
        }
        let value = HeaderValue::from_maybe_shared(head.slice(value.0..value.1)).map_err(|_| bad())?;
        headers.append(name, value);
    }
    Ok(headers)
}

/// As RFC 9112 section 6.3 has it, but that what is doubtful is refused.
fn framing(
    method: &Method,
    status: StatusCode,
    version: Version,
    headers: &HeaderMap,
) -> Result<Framing, Malformed> {
    let none =
        status.is_informational() || [StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED].contains(&status);
    if none || *method == Method::HEAD {
        return Ok(Framing::Length(0));
    }
    let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    if let Some(coding) = codings.next() {
        // Any other coding would have to be undone here, since the header ends here.
        let plain = coding.as_bytes().eq_ignore_ascii_case(b"chunked") && codings.next().is_none();
        if !plain || version == Version::HTTP_10 || headers.contains_key(header::CONTENT_LENGTH) {
            return Err(Malformed("its answer leaves open where its body ends"));
        }
        return Ok(Framing::Chunked);
    }
    let mut lengths = headers.get_all(header::CONTENT_LENGTH).iter();
    let Some(first) = lengths.next() else { return Ok(Framing::UntilClose) };
    if lengths.any(|other| other != first) {
        return Err(Malformed("its answer has several lengths"));
    }
    let digits = first.as_bytes();
    let length = std::str::from_utf8(digits).ok().filter(|_| digits.iter().all(u8::is_ascii_digit));
    let length = length.and_then(|digits| digits.parse().ok());
    length.map(Framing::Length).ok_or(Malformed("the length of its answer is no number"))
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
        assert_eq!(head.headers.get_all("x-a").iter().collect::<Vec<_>>(), ["1", "2"]);
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
        assert!(read(&format!("HTTP/1.1 200 OK\r\nx: {}", "a".repeat(MAX_HEAD))).is_err());
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
