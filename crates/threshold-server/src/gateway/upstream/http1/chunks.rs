//! Bodies that come in chunks.

use bytes::{Buf as _, Bytes, BytesMut};
use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};

use super::{MAX_HEAD, MAX_HEADERS, Malformed, may_trail};

/// The longest line before a chunk, with whatever extensions nobody reads.
const MAX_LINE: usize = 4096;

/// How far a body has been read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Chunks {
    /// The line before a chunk comes next.
    #[default]
    Line,
    /// So many bytes of a chunk do.
    Data(u64),
    /// The end of a chunk's line does.
    LineEnd,
    Trailers,
    Ended,
}

/// What comes next of a body.
#[derive(Debug, PartialEq)]
pub(super) enum Piece {
    Data(Bytes),
    Trailers(HeaderMap),
    End,
    /// More has to be received first.
    More,
}

impl Chunks {
    /// Takes the next piece out of what was `received`.
    pub(super) fn next(&mut self, received: &mut BytesMut) -> Result<Piece, Malformed> {
        loop {
            match self {
                // Nothing before the end of the line would be read as a length of 0.
                Self::Line if received.first().is_some_and(|first| !first.is_ascii_hexdigit()) => {
                    return Err(Malformed("a chunk of its answer has no length"));
                }
                Self::Line => match httparse::parse_chunk_size(received) {
                    Ok(httparse::Status::Complete((length, size))) => {
                        received.advance(length);
                        *self = if size == 0 { Self::Trailers } else { Self::Data(size) };
                    }
                    Ok(httparse::Status::Partial) if received.len() <= MAX_LINE => return Ok(Piece::More),
                    _ => return Err(Malformed("a chunk of its answer has no length")),
                },
                Self::Data(_) if received.is_empty() => return Ok(Piece::More),
                Self::Data(left) => {
                    let here = usize::try_from(*left).unwrap_or(usize::MAX).min(received.len());
                    *left -= here as u64;
                    if *left == 0 {
                        *self = Self::LineEnd;
                    }
                    return Ok(Piece::Data(received.split_to(here).freeze()));
                }
                Self::LineEnd => match &received[..] {
                    [b'\r', b'\n', ..] => {
                        received.advance(2);
                        *self = Self::Line;
                    }
                    [] | [b'\r'] => return Ok(Piece::More),
                    _ => return Err(Malformed("a chunk of its answer is longer than it says")),
                },
                Self::Trailers => {
                    let Some(trailers) = trailers(received)? else { return Ok(Piece::More) };
                    *self = Self::Ended;
                    if !trailers.is_empty() {
                        return Ok(Piece::Trailers(trailers));
                    }
                }
                Self::Ended => return Ok(Piece::End),
            }
        }
    }
}

fn trailers(received: &mut BytesMut) -> Result<Option<HeaderMap>, Malformed> {
    let mut lines = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let bad = || Malformed("the trailers of its answer cannot be read");
    let (length, trailers) = match httparse::parse_headers(received, &mut lines) {
        Ok(httparse::Status::Complete((length, lines))) => {
            let mut trailers = HeaderMap::new();
            for line in lines {
                let name = HeaderName::from_bytes(line.name.as_bytes()).map_err(|_| bad())?;
                let value = HeaderValue::from_bytes(line.value).map_err(|_| bad())?;
                if may_trail(&name) {
                    trailers.append(name, value);
                }
            }
            (length, trailers)
        }
        Ok(httparse::Status::Partial) if received.len() <= MAX_HEAD => return Ok(None),
        _ => return Err(bad()),
    };
    received.advance(length);
    Ok(Some(trailers))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENDS_EARLY: Malformed = Malformed("it ends early");

    /// All that is read when `text` comes in pieces of `step` bytes, and what is left.
    fn read(text: &[u8], step: usize) -> Result<(Vec<u8>, HeaderMap, usize), Malformed> {
        let (mut chunks, mut received) = (Chunks::default(), BytesMut::new());
        let (mut data, mut trailers) = (Vec::new(), HeaderMap::new());
        let mut rest = text.chunks(step);
        loop {
            match chunks.next(&mut received)? {
                Piece::Data(bytes) => data.extend_from_slice(&bytes),
                Piece::Trailers(all) => trailers = all,
                Piece::End => return Ok((data, trailers, received.len())),
                Piece::More => received.extend_from_slice(rest.next().ok_or(ENDS_EARLY)?),
            }
        }
    }

    #[test]
    fn a_body_is_the_same_however_it_is_cut() {
        let text = b"4;name=value\r\nWiki\r\nA\r\npedia in\r\n\r\n0\r\nx-sum: 7\r\n\r\n";
        for step in 1..=text.len() {
            let (data, trailers, left) = read(text, step).unwrap();
            assert_eq!((data.as_slice(), left), (&b"Wikipedia in\r\n"[..], 0), "{step}");
            assert_eq!(trailers["x-sum"], "7");
        }
        assert_eq!(read(b"0\r\n\r\nrest", 64).unwrap().2, 4);
    }

    #[test]
    fn what_is_no_chunk_is_refused() {
        let bad = [
            "4\r\nWikipedia\r\n0\r\n\r\n",
            "g\r\n\r\n",
            "\r\n\r\n",
            ";\r\n\r\n",
            " \r\n\r\n",
            " 4\r\nWiki\r\n0\r\n\r\n",
            "-4\r\nWiki\r\n0\r\n\r\n",
            "11111111111111111\r\n",
            "0\r\nno trailer\r\n\r\n",
            "4\r\nWiki\n0\r\n\r\n",
        ];
        for text in bad {
            for step in 1..=text.len() {
                let read = read(text.as_bytes(), step);
                assert!(read.is_err_and(|error| error != ENDS_EARLY), "{text:?} in steps of {step}");
            }
        }
        let long = format!("4;{}", "x".repeat(MAX_LINE));
        assert!(read(long.as_bytes(), 1000).is_err());
    }
}
