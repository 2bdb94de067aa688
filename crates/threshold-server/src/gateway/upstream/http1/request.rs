//! A request as bytes: its head, and its body in pieces.

use bytes::{BufMut as _, BytesMut};
use http::header::{self, HeaderMap};
use http::{Method, Request};
use http_body::{Body, Frame};

use super::{MAX_HEADERS, may_trail};
use crate::gateway::headers::{Introduced, X_REQUEST_ID, write_line};

/// How the body of a request is framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    None,
    /// How many bytes are still to come.
    Length(u64),
    Chunked,
}

/// The body is not what its head said, or broke off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BadBody;

/// A request on its way out.
pub(in crate::gateway) struct Outgoing<B> {
    method: Method,
    /// None if the bytes are all there is of it.
    request: Option<Box<Request<B>>>,
    introduced: Option<Introduced>,
    /// What is to be written next. The head of a request without a body stays, so that it can be sent again.
    pub(super) bytes: BytesMut,
    framing: Framing,
    /// True once all of the body is among the bytes.
    ended: bool,
    /// True once something was taken from the body, which cannot be had again.
    touched: bool,
}

impl<B: Body<Data = bytes::Bytes> + Unpin> Outgoing<B> {
    /// What `introduced` says is sent behind the headers.
    pub(in crate::gateway) fn new(request: Box<Request<B>>, introduced: Option<Introduced>) -> Self {
        let framing = framing(&request);
        let mut bytes = BytesMut::with_capacity(1024);
        write_head(&request, framing, introduced.as_ref(), &mut bytes);
        let (method, ended) = (request.method().clone(), framing == Framing::None);
        Self { method, request: Some(request), introduced, bytes, framing, ended, touched: false }
    }

    /// A request without a body, of which `bytes` are all.
    pub(in crate::gateway) fn written(method: Method, bytes: BytesMut) -> Self {
        let framing = Framing::None;
        Self { method, request: None, introduced: None, bytes, framing, ended: true, touched: false }
    }

    pub(super) fn method(&self) -> &Method {
        &self.method
    }

    /// The body, as long as there is more of it.
    pub(super) fn body(&mut self) -> Option<&mut B> {
        self.request.as_mut().map(|request| request.body_mut())
    }

    pub(super) const fn ended(&self) -> bool {
        self.ended
    }

    /// True if all that was or will be sent is among the bytes, from the first one on.
    pub(super) fn is_whole(&self) -> bool {
        !self.touched
    }

    /// True if sending it twice does no harm and is possible.
    pub(super) fn is_repeatable(&self) -> bool {
        let harmless = [Method::GET, Method::HEAD, Method::OPTIONS, Method::PUT, Method::DELETE];
        self.framing == Framing::None && harmless.contains(self.method())
    }

    /// The request, to be sent in another protocol; it has `no_body` if it was written already.
    pub(in crate::gateway::upstream) fn into_request(
        self,
        no_body: impl FnOnce() -> B,
    ) -> Option<Box<Request<B>>> {
        let Some(mut request) = self.request else {
            return read(&self.bytes).map(|head| Box::new(head.map(|()| no_body())));
        };
        if let Some(introduced) = self.introduced {
            introduced.join(request.headers_mut());
        }
        Some(request)
    }

    /// The body goes on, or ends with none.
    pub(super) fn push(&mut self, frame: Option<Frame<bytes::Bytes>>) -> Result<(), BadBody> {
        self.touched = true;
        match frame.map(Frame::into_data) {
            Some(Ok(data)) => self.data(&data),
            Some(Err(frame)) => self.end(frame.into_trailers().ok().as_ref()),
            None => self.end(None),
        }
    }

    fn data(&mut self, data: &[u8]) -> Result<(), BadBody> {
        match &mut self.framing {
            Framing::None => Err(BadBody),
            Framing::Length(left) => {
                *left = left.checked_sub(data.len() as u64).ok_or(BadBody)?;
                self.bytes.put_slice(data);
                self.ended = *left == 0;
                Ok(())
            }
            // An empty chunk would be the end.
            Framing::Chunked if data.is_empty() => Ok(()),
            Framing::Chunked => {
                self.bytes.put_slice(format!("{:x}\r\n", data.len()).as_bytes());
                self.bytes.put_slice(data);
                self.bytes.put_slice(b"\r\n");
                Ok(())
            }
        }
    }

    fn end(&mut self, trailers: Option<&HeaderMap>) -> Result<(), BadBody> {
        if let Framing::Length(1..) = self.framing {
            return Err(BadBody);
        }
        if self.framing == Framing::Chunked && !self.ended {
            self.bytes.put_slice(b"0\r\n");
            let sendable = trailers.into_iter().flatten().filter(|(name, _)| may_trail(name));
            sendable.for_each(|(name, value)| write_line(name, value, &mut self.bytes));
            self.bytes.put_slice(b"\r\n");
        }
        self.ended = true;
        Ok(())
    }
}

/// The request whose head `bytes` are.
fn read(bytes: &[u8]) -> Option<Request<()>> {
    let mut lines = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut parsed = httparse::Request::new(&mut lines);
    parsed.parse(bytes).ok().filter(httparse::Status::is_complete)?;
    let mut request = Request::builder().method(parsed.method?).uri(parsed.path?);
    for line in parsed.headers {
        request = request.header(line.name, line.value);
    }
    request.body(()).ok()
}

fn framing<B: Body>(request: &Request<B>) -> Framing {
    if request.body().is_end_stream() {
        return Framing::None;
    }
    let declared = request.headers().get(header::CONTENT_LENGTH);
    match declared.and_then(|length| length.to_str().ok()?.parse().ok()) {
        Some(length) => Framing::Length(length),
        None => Framing::Chunked,
    }
}

fn write_head<B>(
    request: &Request<B>,
    framing: Framing,
    introduced: Option<&Introduced>,
    bytes: &mut BytesMut,
) {
    bytes.put_slice(request.method().as_str().as_bytes());
    bytes.put_slice(b" ");
    bytes.put_slice(request.uri().path_and_query().map_or("/", |path| path.as_str()).as_bytes());
    bytes.put_slice(b" HTTP/1.1\r\n");
    let mut declared = false;
    for (name, value) in request.headers() {
        if *name == header::CONTENT_LENGTH {
            // Once: what says the same twice is read differently by some.
            if declared || framing == Framing::Chunked {
                continue;
            }
            declared = true;
        }
        write_line(name, value, bytes);
    }
    if let Some(Introduced { lines, id }) = introduced {
        bytes.put_slice(lines);
        write_line(&X_REQUEST_ID, id, bytes);
    }
    let bodiless = [Method::GET, Method::HEAD, Method::OPTIONS, Method::DELETE, Method::TRACE];
    match framing {
        Framing::Chunked => bytes.put_slice(b"transfer-encoding: chunked\r\n"),
        // Some applications wait for a body that nobody declared to be empty.
        Framing::None if !declared && !bodiless.contains(request.method()) => {
            bytes.put_slice(b"content-length: 0\r\n");
        }
        Framing::None | Framing::Length(_) => {}
    }
    bytes.put_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http_body_util::{Empty, Full};

    use super::*;

    fn request<B>(method: &str, headers: &[(&str, &str)], body: B) -> Box<Request<B>> {
        let mut request = Request::builder().method(method).uri("/a?b=c");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        Box::new(request.body(body).unwrap())
    }

    fn text(bytes: &[u8]) -> &str {
        std::str::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_request_without_a_body_is_its_head() {
        let sent = Outgoing::new(request("GET", &[("host", "a"), ("x-b", "1")], Empty::<Bytes>::new()), None);
        assert_eq!(text(&sent.bytes), "GET /a?b=c HTTP/1.1\r\nhost: a\r\nx-b: 1\r\n\r\n");
        assert!(sent.ended() && sent.is_whole() && sent.is_repeatable());
    }

    #[test]
    fn what_was_written_can_be_sent_in_another_protocol() {
        let bytes = BytesMut::from("HEAD /a?b=c HTTP/1.1\r\nhost: a\r\nX-B: 1\r\nx-b: 2\r\n\r\n");
        let sent = Outgoing::written(Method::HEAD, bytes);
        assert!(sent.ended() && sent.is_whole() && sent.is_repeatable());
        let request = sent.into_request(Empty::<Bytes>::new).unwrap();
        assert_eq!((request.method(), request.uri().to_string().as_str()), (&Method::HEAD, "/a?b=c"));
        assert_eq!(request.headers().get_all("x-b").iter().collect::<Vec<_>>(), ["1", "2"]);
    }

    #[test]
    fn a_request_that_usually_has_a_body_says_that_it_has_none() {
        let sent = Outgoing::new(request("POST", &[], Empty::<Bytes>::new()), None);
        assert_eq!(text(&sent.bytes), "POST /a?b=c HTTP/1.1\r\ncontent-length: 0\r\n\r\n");
        assert!(!sent.is_repeatable());
        let declared =
            Outgoing::new(request("POST", &[("content-length", "0")], Empty::<Bytes>::new()), None);
        assert_eq!(declared.bytes, sent.bytes);
    }

    #[test]
    fn a_declared_body_is_held_to_its_length() {
        let body = || Full::new(Bytes::from_static(b"12345"));
        let new = || Outgoing::new(request("PUT", &[("content-length", "5")], body()), None);
        let mut sent = new();
        sent.push(Some(Frame::data(Bytes::from_static(b"123")))).unwrap();
        assert!(!sent.ended() && !sent.is_whole());
        assert_eq!(sent.push(Some(Frame::data(Bytes::from_static(b"456")))), Err(BadBody));
        let mut short = new();
        assert_eq!(short.push(None), Err(BadBody));
        let mut whole = new();
        whole.push(Some(Frame::data(Bytes::from_static(b"12345")))).unwrap();
        assert!(whole.ended());
        assert_eq!(text(&whole.bytes), "PUT /a?b=c HTTP/1.1\r\ncontent-length: 5\r\n\r\n12345");
    }

    #[test]
    fn an_undeclared_body_goes_in_chunks_with_its_trailers() {
        let mut sent = Outgoing::new(request("POST", &[], Full::new(Bytes::from_static(b"x"))), None);
        sent.bytes.clear();
        sent.push(Some(Frame::data(Bytes::from(vec![b'a'; 17])))).unwrap();
        sent.push(Some(Frame::data(Bytes::new()))).unwrap();
        assert_eq!(text(&sent.bytes), format!("11\r\n{}\r\n", "a".repeat(17)));
        sent.bytes.clear();
        let mut trailers = HeaderMap::new();
        trailers.insert("x-sum", "7".parse().unwrap());
        trailers.insert("content-length", "9".parse().unwrap());
        sent.push(Some(Frame::trailers(trailers))).unwrap();
        sent.push(None).unwrap();
        assert!(sent.ended());
        assert_eq!(text(&sent.bytes), "0\r\nx-sum: 7\r\n\r\n");
    }
}
