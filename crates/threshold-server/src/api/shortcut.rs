//! The commonest question on the shortest way: `POST /v1/check` as programs send it, read and answered as bytes.
//!
//! Whatever is not plain goes the long way, by hyper, and so does all that follows it on the same connection: another
//! question, a head or a body that comes in pieces, other codings, anything that is asked of the connection itself.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf as _, BytesMut};
use http_body_util::BodyExt as _;
use threshold::engine::Engine;
use threshold::{Clock, Ledger, Store};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::answer::{Answered, unauthorized};
use super::check::{self, Verdict};
use super::keys::admit_shown;
use super::read::is_json;
use super::{Settings, Shared};
use crate::heads::{write_date, write_length, write_line, write_status};
use crate::rewound::Rewound;
use crate::workers::told;

/// The most header fields of a plain question.
const FIELDS: usize = 32;
/// The largest plain question.
const QUESTION: usize = 16 * 1024;
/// How much is answered before it is sent.
const ANSWERS: usize = 64 * 1024;
/// How long a connection is kept without a question; it may be twice that.
const KEPT: Duration = Duration::from_secs(75);

/// What `received` begins with.
enum Seen {
    /// Not enough to tell.
    Nothing,
    /// Something that is not plain.
    Other,
    /// A plain question: how long its head and body are, and what its caller shows.
    Plain { head: usize, body: usize, shown: Shown },
}

/// Where the keys stand that a caller shows.
#[derive(Clone, Default)]
struct Shown {
    key: Option<Vec<u8>>,
    authorization: Option<Vec<u8>>,
}

/// Answers plain questions on `stream`, until there is something else, which is left to the long way.
pub(super) fn converse<'a, S: Store, C: Clock, L: Ledger>(
    engine: &'a Engine<S, C, L>,
    shared: &'a Arc<Shared>,
    stream: TcpStream,
    stopped: watch::Receiver<bool>,
) -> Pin<Box<dyn Future<Output = Option<Rewound<TcpStream>>> + Send + 'a>> {
    // Made into what may be sent here, where the compiler sees that it may: for any store, not for a given one.
    Box::pin(talk(engine, shared, stream, stopped))
}

async fn talk<S: Store, C: Clock, L: Ledger>(
    engine: &Engine<S, C, L>,
    shared: &Shared,
    mut stream: TcpStream,
    mut stopped: watch::Receiver<bool>,
) -> Option<Rewound<TcpStream>> {
    let (mut received, mut out) = (BytesMut::with_capacity(QUESTION), Vec::with_capacity(1_024));
    let mut told = pin!(told(&mut stopped));
    let mut idle = pin!(tokio::time::sleep(KEPT));
    let mut busy = false;
    loop {
        let settings = shared.settings.load();
        while out.len() < ANSWERS {
            match see(&received, !settings.keys.is_empty()) {
                Seen::Nothing => break,
                Seen::Other => {
                    stream.write_all(&out).await.ok()?;
                    return Some(Rewound { stream, received });
                }
                Seen::Plain { head, body, shown } => {
                    answer(engine, &settings, (&received[head..head + body], &shown), &mut out).await;
                    received.advance(head + body);
                }
            }
        }
        drop(settings);
        if !out.is_empty() {
            stream.write_all(&out).await.ok()?;
            out.clear();
            if !received.is_empty() {
                continue;
            }
        }
        if !received.is_empty() {
            // It comes in pieces.
            return Some(Rewound { stream, received });
        }
        received.reserve(QUESTION);
        tokio::select! {
            biased;
            read = stream.read_buf(&mut received) => match read {
                Ok(0) | Err(_) => return None,
                Ok(_) => busy = true,
            },
            () = told.as_mut() => return None,
            () = idle.as_mut() => {
                if !std::mem::take(&mut busy) {
                    return None;
                }
                idle.set(tokio::time::sleep(KEPT));
            }
        }
    }
}

/// What is there to be answered.
fn see(received: &[u8], keys: bool) -> Seen {
    if received.is_empty() {
        return Seen::Nothing;
    }
    let mut fields = [httparse::EMPTY_HEADER; FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    let head = match request.parse(received) {
        Ok(httparse::Status::Complete(head)) => head,
        Ok(httparse::Status::Partial) if received.len() < QUESTION => return Seen::Nothing,
        _ => return Seen::Other,
    };
    let target = (request.method, request.path, request.version);
    if target != (Some("POST"), Some("/v1/check"), Some(1)) {
        return Seen::Other;
    }
    match plain(request.headers, keys) {
        Some((body, shown)) if received.len() - head >= body => Seen::Plain { head, body, shown },
        _ => Seen::Other,
    }
}

/// The length of the body and the keys that are shown, if nothing else is asked for.
fn plain(fields: &[httparse::Header<'_>], keys: bool) -> Option<(usize, Shown)> {
    let (mut length, mut json, mut host, mut shown) = (None, false, false, Shown::default());
    for field in fields {
        let (name, value) = (field.name, field.value);
        let is = |wanted: &str| name.eq_ignore_ascii_case(wanted);
        // By their lengths first: most fields are none of these.
        let plain = match name.len() {
            4 if is("host") => !std::mem::replace(&mut host, true),
            6 => !is("expect"),
            7 => !is("upgrade"),
            10 if is("connection") => value.trim_ascii().eq_ignore_ascii_case(b"keep-alive"),
            12 if is("content-type") => !std::mem::replace(&mut json, true) && is_json(value),
            13 if keys && is("authorization") => shown.authorization.replace(value.to_vec()).is_none(),
            14 if is("content-length") => length.is_none() && number(value, &mut length),
            15 if keys && is("x-threshold-key") => shown.key.replace(value.to_vec()).is_none(),
            17 => !is("transfer-encoding"),
            _ => true,
        };
        if !plain {
            return None;
        }
    }
    (json && host).then_some((length?, shown))
}

/// Reads a length of a few digits; false if it is none.
fn number(value: &[u8], length: &mut Option<usize>) -> bool {
    let digits = !value.is_empty() && value.len() < 6 && value.iter().all(u8::is_ascii_digit);
    *length = digits.then(|| value.iter().fold(0, |sum, digit| sum * 10 + usize::from(digit - b'0')));
    digits
}

/// Adds the answer to a question to `out`.
async fn answer<S: Store, C: Clock, L: Ledger>(
    engine: &Engine<S, C, L>,
    settings: &Settings,
    (body, shown): (&[u8], &Shown),
    out: &mut Vec<u8>,
) {
    let admitted = admit_shown(&settings.keys, shown.key.as_deref(), shown.authorization.as_deref());
    let verdict = match admitted {
        Ok(_) => check::decide(engine, settings, body, false).await,
        Err(answer) => Ok(Verdict::Refused(unauthorized(*answer))),
    };
    match verdict {
        Ok(Verdict::Allowed { text, notes }) => {
            out.extend_from_slice(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n");
            notes.each(|name, value| write_line(name.as_bytes(), value, out));
            end(&text, out);
        }
        Ok(Verdict::Refused(response)) => write(response, out).await,
        Err(answer) => write(answer.into_response(), out).await,
    }
}

/// Adds any answer.
#[cold]
async fn write(response: Answered, out: &mut Vec<u8>) {
    let (parts, body) = response.into_parts();
    // It is all there.
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    write_status(parts.status, out);
    for (name, value) in &parts.headers {
        write_line(name.as_str().as_bytes(), value.as_bytes(), out);
    }
    end(std::str::from_utf8(&body).unwrap_or_default(), out);
}

/// The last of the head, and the body.
fn end(body: &str, out: &mut Vec<u8>) {
    write_length(body.len() as u64, out);
    write_date(out);
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(body.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: &str =
        "POST /v1/check HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 2\r\n";

    fn seen(request: &str) -> &'static str {
        match see(request.as_bytes(), true) {
            Seen::Nothing => "nothing",
            Seen::Other => "other",
            Seen::Plain { .. } => "plain",
        }
    }

    #[test]
    fn plain_questions_are_seen_whole() {
        assert_eq!(seen(&format!("{PLAIN}\r\n{{}}")), "plain");
        assert_eq!(
            seen(&format!("{PLAIN}connection: Keep-Alive\r\nx-threshold-key: k\r\n\r\n{{}}{{}}")),
            "plain"
        );
        assert_eq!(seen(""), "nothing");
        assert_eq!(seen(PLAIN), "nothing");
        assert_eq!(seen(&format!("{PLAIN}\r\n{{")), "other");
    }

    #[test]
    fn all_else_goes_the_long_way() {
        for more in [
            "Transfer-Encoding: chunked",
            "Expect: 100-continue",
            "Connection: close",
            "Upgrade: h2c",
            "Content-Length: 2",
            "Content-Type: text/plain",
            "Host: b",
        ] {
            assert_eq!(seen(&format!("{PLAIN}{more}\r\n\r\n{{}}")), "other", "{more}");
        }
        let swap = |from: &str, to: &str| format!("{PLAIN}\r\n{{}}").replace(from, to);
        for other in [
            swap("POST", "GET"),
            swap("/v1/check", "/v1/check?explain=true"),
            swap("/v1/check", "http://a/v1/check"),
            swap("HTTP/1.1", "HTTP/1.0"),
            swap("Length: 2", "Length: +2"),
            swap("Length: 2", "Length: 2, 2"),
            swap("Length: 2", "Length: 999999"),
            swap("application/json", "text/plain"),
            swap("Host: a\r\n", ""),
            "nonsense\r\n\r\n".to_owned(),
        ] {
            assert_eq!(seen(&other), "other", "{other}");
        }
    }
}
