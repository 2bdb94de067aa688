//! The same answers for gRPC: its clients look at `grpc-status`, and take a bare 429 for an outage.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use http_body_util::Full;

use super::Answer;

const RETRY_INFO: &str = "type.googleapis.com/google.rpc.RetryInfo";

/// True if the request is one of gRPC.
#[must_use]
pub fn is_grpc(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    kind.is_some_and(|kind| kind.starts_with(b"application/grpc"))
}

/// A response of headers alone, which carry the status.
pub(super) fn response(answer: Answer) -> Response<Full<Bytes>> {
    let code = code(answer.status);
    let message = answer.problem.get("detail").and_then(|detail| detail.as_str()).unwrap_or_default();
    let details = STANDARD_NO_PAD.encode(status(code, message, answer.retry_after));
    let mut response = Response::new(Full::default());
    *response.headers_mut() = answer.headers;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert("grpc-status", HeaderValue::from(code));
    let text = |text: &str| HeaderValue::from_str(text).unwrap_or_else(|_| HeaderValue::from_static(""));
    headers.insert("grpc-message", text(&escaped(message)));
    headers.insert("grpc-status-details-bin", text(&details));
    response
}

fn code(status: StatusCode) -> u16 {
    match status.as_u16() {
        400 => 3,
        403 => 7,
        413 | 422 => 9,
        429 => 8,
        502 | 503 => 14,
        504 => 4,
        _ => 13,
    }
}

/// Percent-encoded but for what gRPC lets stand.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b' '..=b'~' if byte != b'%' => escaped.push(char::from(byte)),
            _ => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

/// A `google.rpc.Status` with a `RetryInfo` in it, as protobuf writes them.
fn status(code: u16, message: &str, retry: Option<Duration>) -> Vec<u8> {
    let mut status = Vec::new();
    number(&mut status, 1, u64::from(code));
    piece(&mut status, 2, message.as_bytes());
    if let Some(retry) = retry {
        let (mut duration, mut info, mut any) = (Vec::new(), Vec::new(), Vec::new());
        number(&mut duration, 1, retry.as_secs());
        number(&mut duration, 2, u64::from(retry.subsec_nanos()));
        piece(&mut info, 1, &duration);
        piece(&mut any, 1, RETRY_INFO.as_bytes());
        piece(&mut any, 2, &info);
        piece(&mut status, 3, &any);
    }
    status
}

/// A field that is a number.
fn number(message: &mut Vec<u8>, field: u8, value: u64) {
    message.push(field << 3);
    varint(message, value);
}

/// A field that is a text or another message.
fn piece(message: &mut Vec<u8>, field: u8, bytes: &[u8]) {
    message.push(field << 3 | 2);
    varint(message, bytes.len() as u64);
    message.extend_from_slice(bytes);
}

fn varint(message: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        // The low seven bits, and a sign that more follow.
        message.push(value as u8 | 0x80);
        value >>= 7;
    }
    message.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_written_as_protobuf_has_it() {
        let bytes = status(8, "no", Some(Duration::new(300, 5)));
        let mut expected = vec![0x08, 8, 0x12, 2, b'n', b'o', 0x1a, 51, 0x0a, 40];
        expected.extend_from_slice(RETRY_INFO.as_bytes());
        expected.extend_from_slice(&[0x12, 7, 0x0a, 5, 0x08, 0xac, 0x02, 0x10, 5]);
        assert_eq!(bytes, expected);
    }

    #[test]
    fn messages_are_escaped() {
        assert_eq!(escaped("50 % ü"), "50 %25 %C3%BC");
    }
}
