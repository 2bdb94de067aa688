//! The heads of answers as HTTP/1.1 writes them.

use std::cell::RefCell;
use std::time::{Duration, UNIX_EPOCH};

use bytes::BufMut;
use http::StatusCode;
use threshold::{Clock as _, SystemClock};

/// Adds the first line of an answer.
pub(crate) fn write_status(status: StatusCode, out: &mut Vec<u8>) {
    let reason = status.canonical_reason().unwrap_or_default();
    for piece in ["HTTP/1.1 ", status.as_str(), " ", reason, "\r\n"] {
        out.extend_from_slice(piece.as_bytes());
    }
}

/// Adds a header.
pub(crate) fn write_line(name: &[u8], value: &[u8], out: &mut impl BufMut) {
    for piece in [name, b": ", value, b"\r\n"] {
        out.put_slice(piece);
    }
}

/// Adds the length of a body.
pub(crate) fn write_length(length: u64, out: &mut Vec<u8>) {
    write_line(b"content-length", itoa::Buffer::new().format(length).as_bytes(), out);
}

struct Written {
    clock: SystemClock,
    second: u64,
    text: String,
}

thread_local! {
    /// The date, written once a second.
    static WRITTEN: RefCell<Written> =
        RefCell::new(Written { clock: SystemClock::new(), second: 0, text: String::new() });
}

/// Adds the date.
pub(crate) fn write_date(out: &mut Vec<u8>) {
    // A thread that ends answers nobody.
    let _ = WRITTEN.try_with(|written| {
        let mut written = written.borrow_mut();
        let second = written.clock.now().as_micros() / 1_000_000;
        if second != written.second || written.text.is_empty() {
            written.text = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(second));
            written.second = second;
        }
        write_line(b"date", written.text.as_bytes(), out);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_written_as_the_standard_has_it() {
        let mut out = Vec::new();
        write_status(StatusCode::TOO_MANY_REQUESTS, &mut out);
        write_line(b"x-a", b"1", &mut out);
        write_length(17, &mut out);
        assert_eq!(out, b"HTTP/1.1 429 Too Many Requests\r\nx-a: 1\r\ncontent-length: 17\r\n");
        let mut date = Vec::new();
        write_date(&mut date);
        assert!(date.starts_with(b"date: ") && date.ends_with(b" GMT\r\n"));
    }
}
