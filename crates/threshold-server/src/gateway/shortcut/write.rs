//! Answers as bytes.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::task::Poll;

use bytes::{Bytes, BytesMut};
use http::header::{self, HeaderName};
use http::{Response, StatusCode};
use http_body::{Body, Frame};
use threshold_http::respond::Notes;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};

use super::poll_gone;
use crate::gateway::headers::{HOP, X_REQUEST_ID};
use crate::gateway::upstream::{Head, only_of_hop};
use crate::heads::{write_date, write_length, write_line, write_status};

/// What the names of limits in headers begin with, whoever wrote them.
const LIMITS: &[u8] = b"x-ratelimit";

/// Answers that never have a body, and say nothing of its length.
const BODILESS: [StatusCode; 2] = [StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED];

/// Adds the answer of an application to `out`, with what is said of it here, if it is plain and all here. What was added is
/// taken back if not.
pub(super) fn whole(head: &mut Head, notes: &Notes, id: &[u8], last: bool, out: &mut Vec<u8>) -> bool {
    let begin = out.len();
    write_status(head.status, out);
    let added = add_lines(head, out) && {
        notes.each(|name, value| write_line(name.as_bytes(), value, out));
        write_line(X_REQUEST_ID.as_str().as_bytes(), id, out);
        end_head(last, out);
        head.rest.pour(out)
    };
    if !added {
        out.truncate(begin);
    }
    added
}

/// Adds the lines of an application's answer; false if one of them needs more than being handed on.
fn add_lines(head: &Head, out: &mut Vec<u8>) -> bool {
    // Statuses without a body, or with a protocol of their own, have rules of their own.
    if head.status == StatusCode::SWITCHING_PROTOCOLS || BODILESS.contains(&head.status) {
        return false;
    }
    let (mut dated, mut lengths) = (false, 0_u8);
    for (name, value) in head.lines.iter() {
        let is = |other: &HeaderName| name.eq_ignore_ascii_case(other.as_str().as_bytes());
        if only_of_hop(name, value) {
            continue;
        }
        if HOP.iter().any(is) || is(&X_REQUEST_ID) || starts_with(name, LIMITS) {
            return false;
        }
        dated |= is(&header::DATE);
        lengths += u8::from(is(&header::CONTENT_LENGTH));
        write_line(name, value, out);
    }
    if !dated {
        write_date(out);
    }
    lengths == 1
}

fn starts_with(name: &[u8], begin: &[u8]) -> bool {
    name.get(..begin.len()).is_some_and(|name| name.eq_ignore_ascii_case(begin))
}

/// The last of a head; `last` ends the connection.
fn end_head(last: bool, out: &mut Vec<u8>) {
    if last {
        out.extend_from_slice(b"connection: close\r\n");
    }
    out.extend_from_slice(b"\r\n");
}

/// How a body is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Framing {
    None,
    Length,
    Chunked,
}

/// Adds the head of any answer to `out`; says how its body is to be written.
fn any_head<B: Body>(response: &Response<B>, to_head: bool, last: bool, out: &mut Vec<u8>) -> Framing {
    let status = response.status();
    write_status(status, out);
    let exact = response.body().size_hint().exact();
    let (mut dated, mut declared) = (false, false);
    for (name, value) in response.headers() {
        // Once, and never where there can be none.
        if *name == header::CONTENT_LENGTH
            && (std::mem::replace(&mut declared, true) || BODILESS.contains(&status))
        {
            continue;
        }
        dated |= *name == header::DATE;
        write_line(name.as_str().as_bytes(), value.as_bytes(), out);
    }
    if !dated {
        write_date(out);
    }
    let bodiless = to_head || BODILESS.contains(&status);
    let framing = match exact {
        // What there would be is told even if it is not sent.
        Some(length)
            if !declared && (!bodiless || (to_head && length > 0 && !BODILESS.contains(&status))) =>
        {
            write_length(length, out);
            Framing::Length
        }
        Some(_) => Framing::Length,
        None => Framing::Chunked,
    };
    if framing == Framing::Chunked && !bodiless {
        out.extend_from_slice(b"transfer-encoding: chunked\r\n");
    }
    end_head(last, out);
    if bodiless { Framing::None } else { framing }
}

/// Adds a piece of a body to `out`.
fn add_piece(framing: Framing, data: &[u8], out: &mut Vec<u8>) {
    match framing {
        Framing::None => {}
        Framing::Length => out.extend_from_slice(data),
        // An empty chunk would be the end.
        Framing::Chunked if data.is_empty() => {}
        Framing::Chunked => {
            out.extend_from_slice(format!("{:x}\r\n", data.len()).as_bytes());
            out.extend_from_slice(data);
            out.extend_from_slice(b"\r\n");
        }
    }
}

/// Sends any answer to who asks by `stream`, as fast as it is taken.
pub(super) async fn any<I, B>(
    (stream, received): (&mut I, &mut BytesMut),
    response: Response<B>,
    (to_head, last): (bool, bool),
    out: &mut Vec<u8>,
) -> io::Result<()>
where
    I: AsyncRead + AsyncWrite + Unpin,
    B: Body<Data = Bytes>,
{
    let framing = any_head(&response, to_head, last, out);
    let mut body = pin!(response.into_body());
    while framing != Framing::None && !body.is_end_stream() {
        // What is there already goes with what was written before.
        let next = poll_fn(|cx| Poll::Ready(body.as_mut().poll_frame(cx))).await;
        let next = match next {
            Poll::Ready(frame) => frame,
            Poll::Pending => {
                send(stream, out).await?;
                wait((stream, received), body.as_mut()).await?
            }
        };
        let Some(frame) = next else { break };
        let frame = frame.map_err(|_| io::ErrorKind::UnexpectedEof)?;
        // Nobody who asks plainly takes trailers.
        if let Some(data) = frame.data_ref() {
            add_piece(framing, data, out);
        }
        if out.len() >= super::OUT {
            send(stream, out).await?;
        }
    }
    if framing == Framing::Chunked {
        out.extend_from_slice(b"0\r\n\r\n");
    }
    send(stream, out).await
}

/// Waits for more of a body, as long as somebody waits for it.
async fn wait<I, B>(
    (stream, received): (&mut I, &mut BytesMut),
    mut body: Pin<&mut B>,
) -> io::Result<Option<Result<Frame<Bytes>, B::Error>>>
where
    I: AsyncRead + Unpin,
    B: Body<Data = Bytes>,
{
    poll_fn(|cx| match body.as_mut().poll_frame(cx) {
        Poll::Ready(frame) => Poll::Ready(Ok(frame)),
        Poll::Pending => poll_gone(stream, received, cx).map(|()| Err(io::ErrorKind::BrokenPipe.into())),
    })
    .await
}

/// Sends what was written.
pub(super) async fn send<I: AsyncWrite + Unpin>(stream: &mut I, out: &mut Vec<u8>) -> io::Result<()> {
    stream.write_all(out).await?;
    stream.flush().await?;
    out.clear();
    out.shrink_to(super::OUT);
    Ok(())
}

#[cfg(test)]
mod tests {
    use http_body_util::{Empty, Full, StreamBody};

    use super::*;

    /// What is sent for `response`, without its date.
    async fn sent<B: Body<Data = Bytes>>(response: Response<B>, to_head: bool) -> String {
        let (mut ours, mut theirs) = tokio::io::duplex(1 << 20);
        let (mut received, mut out) = (BytesMut::new(), Vec::new());
        any((&mut ours, &mut received), response, (to_head, false), &mut out).await.unwrap();
        drop(ours);
        let mut text = String::new();
        tokio::io::AsyncReadExt::read_to_string(&mut theirs, &mut text).await.unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let lines: Vec<&str> = head.split("\r\n").filter(|line| !line.starts_with("date: ")).collect();
        format!("{}|{body}", lines.join("|"))
    }

    fn response<B>(status: u16, length: Option<&str>, body: B) -> Response<B> {
        let mut response = Response::builder().status(status);
        if let Some(length) = length {
            response = response.header("content-length", length);
        }
        response.body(body).unwrap()
    }

    #[tokio::test]
    async fn a_body_is_framed_as_its_answer_has_it() {
        let full = || Full::new(Bytes::from_static(b"12345"));
        assert_eq!(sent(response(200, None, full()), false).await, "HTTP/1.1 200 OK|content-length: 5|12345");
        assert_eq!(
            sent(response(200, Some("5"), full()), false).await,
            "HTTP/1.1 200 OK|content-length: 5|12345"
        );
        assert_eq!(
            sent(response(429, None, full()), true).await,
            "HTTP/1.1 429 Too Many Requests|content-length: 5|"
        );
        let empty = Empty::<Bytes>::new;
        assert_eq!(sent(response(200, Some("7"), empty()), true).await, "HTTP/1.1 200 OK|content-length: 7|");
        assert_eq!(sent(response(200, None, empty()), true).await, "HTTP/1.1 200 OK|");
        assert_eq!(sent(response(200, None, empty()), false).await, "HTTP/1.1 200 OK|content-length: 0|");
        assert_eq!(sent(response(204, Some("0"), empty()), false).await, "HTTP/1.1 204 No Content|");
        assert_eq!(sent(response(304, Some("7"), empty()), false).await, "HTTP/1.1 304 Not Modified|");
    }

    #[tokio::test]
    async fn a_body_without_a_length_goes_in_chunks() {
        let pieces = ["a".repeat(17), String::new(), "b".to_owned()];
        let frames = pieces.map(|piece| Ok::<_, io::Error>(Frame::data(Bytes::from(piece))));
        let body = StreamBody::new(futures_util::stream::iter(frames));
        let expected = format!(
            "HTTP/1.1 200 OK|transfer-encoding: chunked|11\r\n{}\r\n1\r\nb\r\n0\r\n\r\n",
            "a".repeat(17)
        );
        assert_eq!(sent(response(200, None, body), false).await, expected);
    }

    #[tokio::test]
    async fn a_body_that_breaks_off_is_not_ended() {
        let frames = [Ok(Frame::data(Bytes::from_static(b"a"))), Err(io::Error::other("gone"))];
        let body = StreamBody::new(futures_util::stream::iter(frames));
        let (mut ours, _theirs) = tokio::io::duplex(1 << 20);
        let (mut received, mut out) = (BytesMut::new(), Vec::new());
        let sent = any((&mut ours, &mut received), response(200, None, body), (false, false), &mut out).await;
        assert!(sent.is_err());
    }
}
