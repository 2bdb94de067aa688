//! RFC 9112, with the sections of RFC 9110 that it leans on.

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::endurance::wire::read_to_end;
use crate::support::application::{Application, text};
use crate::support::server::Server;

/// What must come back, in front of the end of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    /// Answers with these status codes in this order; the application saw those with 200 and no others.
    Answers(&'static [u16]),
    /// It is refused: with a status of 400 to 499, 501 or 505, or by closing without a word. The application saw
    /// nothing, and nothing that follows is taken for a request.
    Refused,
}
use Expected::{Answers, Refused};

/// A case: the section, what it is about, what is sent, and what must come back.
type Case = (&'static str, &'static str, String, Expected);

const HEAD: &str = "GET / HTTP/1.1\r\nHost: a.example\r\n";
const POST: &str = "POST / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n";
/// The last request on its connection.
const LAST: &str = "GET /last HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n";

/// A `GET` with further lines, which is the last on its connection.
fn get(lines: &str) -> String {
    format!("{HEAD}Connection: close\r\n{lines}\r\n")
}

/// A `POST` with further lines and a body.
fn post(lines: &str, body: &str) -> String {
    format!("{POST}{lines}\r\n{body}")
}

/// Sections 2 to 4: how a message begins.
fn beginnings() -> Vec<Case> {
    let line = |line: &str| format!("{line}\r\nHost: a.example\r\nConnection: close\r\n\r\n");
    cases! {
        "2.2" "an empty line before the request": format!("\r\n{}", get("")) => Answers(&[200]);
        "2.2" "space in front of the first field":
            "GET / HTTP/1.1\r\n Host: a.example\r\n\r\n".into() => Refused;
        "2.2" "a lone CR in a field": get("X: a\rb\r\n") => Refused;
        "2.3" "a version that is none": line("GET / HTTP/x.y") => Refused;
        "2.3" "a version to come": line("GET / HTTP/3.7") => Refused;
        "2.3" "a version in small letters": line("GET / http/1.1") => Refused;
        "2.3" "HTTP/1.0 without a host": "GET / HTTP/1.0\r\n\r\n".into() => Answers(&[200]);
        "2.3" "HTTP/0.9": "GET /\r\n\r\n".into() => Refused;
        "3" "no method": line("/ HTTP/1.1") => Refused;
        "3" "a method that is no token": line("G\u{7f}T / HTTP/1.1") => Refused;
        "3" "a space in the address": line("GET /a b HTTP/1.1") => Refused;
        "3" "a line that is too long": line(&format!("GET /{} HTTP/1.1", "x".repeat(100_000))) => Refused;
        "3" "a line without an end": format!("GET /{}", "x".repeat(100_000)) => Refused;
        "3.2" "no host": "GET / HTTP/1.1\r\n\r\n".into() => Refused;
        "3.2" "two hosts": get("Host: b.example\r\n") => Refused;
        "3.2.2" "absolute form": line("GET http://a.example/ HTTP/1.1") => Answers(&[200]);
        "3.2.3" "authority form is for CONNECT": line("CONNECT a.example:443 HTTP/1.1") => Refused;
        "3.2.4" "asterisk form": line("OPTIONS * HTTP/1.1") => Answers(&[200]);
        "3.2" "an address that is none": line("GET not-a-path HTTP/1.1") => Refused;
    }
}

/// Section 5: fields.
fn fields() -> Vec<Case> {
    let many: String = (0..2_000).map(|number| format!("X-{number}: y\r\n")).collect();
    cases! {
        "5" "a line without a colon": get("NoColon\r\n") => Refused;
        "5.1" "a space before the colon": get("X-Space : y\r\n") => Refused;
        "5.1" "a space before the colon of a length": post("Content-Length : 4\r\n", "four") => Refused;
        "5.1" "a name that is no token": get("X(y): z\r\n") => Refused;
        "5.1" "an empty name": get(": z\r\n") => Refused;
        "5.1" "space around a value": get("X:  \t y \t \r\n") => Answers(&[200]);
        "5.1" "an empty value": get("X:\r\n") => Answers(&[200]);
        "5.2" "a folded line": get("X: a\r\n b\r\n") => Refused;
        "5.5 of RFC 9110" "a NUL in a value": get("X: a\0b\r\n") => Refused;
        "5.4 of RFC 9110" "too many fields": get(&many) => Refused;
        "5.4 of RFC 9110" "a field that is too long":
            get(&format!("X: {}\r\n", "y".repeat(100_000))) => Refused;
    }
}

/// Sections 6 and 7: how long a body is. Two who understand this differently can be made to take a body for a request.
fn lengths() -> Vec<Case> {
    let chunked = |lines: &str, body: &str| post(&format!("Transfer-Encoding: chunked\r\n{lines}"), body);
    let te = |value: &str| post(&format!("Transfer-Encoding: {value}\r\n"), "0\r\n\r\n");
    cases! {
        "6.1" "chunks": chunked("", "4\r\nfour\r\n0\r\n\r\n") => Answers(&[200]);
        "6.1" "chunks and a length": chunked("Content-Length: 4\r\n", "0\r\n\r\n") => Answers(&[200]);
        "6.1" "chunks in HTTP/1.0":
            "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n".into() => Refused;
        "6.1" "another coding": te("gzip") => Refused;
        "6.1" "chunks that are not the last coding": te("chunked, gzip") => Refused;
        "6.1" "a coding that looks like chunks": te("xchunked") => Refused;
        "6.1" "a coding in quotes": te("\"chunked\"") => Refused;
        "6.3" "two lengths that differ":
            post("Content-Length: 4\r\nContent-Length: 5\r\n", "four") => Refused;
        "6.3" "a length that is none": post("Content-Length: four\r\n", "four") => Refused;
        "6.3" "a negative length": post("Content-Length: -4\r\n", "four") => Refused;
        "6.3" "a length with a sign": post("Content-Length: +4\r\n", "four") => Refused;
        "6.3" "a length beyond numbers":
            post("Content-Length: 99999999999999999999999\r\n", "four") => Refused;
        "7.1" "a chunk that is longer than numbers": chunked("", "fffffffffffffffff\r\nx") => Refused;
        "7.1" "a chunk of no number": chunked("", "four\r\nfour\r\n0\r\n\r\n") => Refused;
        "7.1" "a chunk of a negative number": chunked("", "-4\r\nfour\r\n0\r\n\r\n") => Refused;
        "7.1" "a chunk that ends elsewhere": chunked("", "4\r\nfourXX0\r\n\r\n") => Refused;
        "7.1.1" "an extension of a chunk": chunked("", "4;a=b\r\nfour\r\n0\r\n\r\n") => Answers(&[200]);
        "7.1.2" "trailers": chunked("", "4\r\nfour\r\n0\r\nX-After: y\r\n\r\n") => Answers(&[200]);
        "9.3.2" "two requests at once": format!("{HEAD}\r\n{LAST}") => Answers(&[200, 200]);
        "9.6" "nothing is answered after the last": format!("{LAST}{LAST}") => Answers(&[200]);
        "10.1.1 of RFC 9110" "another expectation": get("Expect: 100-continue\r\n") => Answers(&[200]);
    }
}

/// The status codes of all answers in `bytes`; the application's bodies are told apart by what is in them.
fn statuses(bytes: &[u8]) -> Vec<u16> {
    let said = String::from_utf8_lossy(bytes);
    let starts = said.match_indices("HTTP/1.").map(|(at, _)| &said[at..]);
    starts.map(|answer| answer.split([' ', '\r']).nth(1).unwrap().parse().unwrap()).collect()
}

/// The same request with a mark, where others like it may still be on their way: those in chunks.
fn tag(sent: &str, expected: Expected) -> Option<String> {
    let whole = matches!(expected, Answers(_)) && sent.contains("chunked");
    whole.then(|| sent.replacen("Host:", "X-Case: whole\r\nHost:", 1))
}

/// What is wrong with how `sent` was answered, if anything.
async fn judge(
    (application, server): (&Application, &Server),
    sent: &str,
    expected: Expected,
) -> Result<(), String> {
    let before = application.count();
    let mut stream = TcpStream::connect(server.gateway).await.unwrap();
    // One who is refused may be closed before all was sent.
    let tagged = tag(sent, expected).unwrap_or_else(|| sent.to_owned());
    let _ = stream.write_all(tagged.as_bytes()).await;
    let Some(came) = read_to_end(&mut stream).await else {
        return Err("the connection does not end".into());
    };
    let (statuses, seen) = (statuses(&came), application.count() - before);
    // What the case before left half said may arrive at the application only now.
    let is_whole =
        |parts: &http::request::Parts| parts.headers.get("x-case").is_some_and(|case| case == "whole");
    let seen = match tag(sent, expected) {
        Some(_) => application.asked.lock().unwrap().iter().filter(|parts| is_whole(parts)).count(),
        None => seen,
    };
    let fits = match expected {
        Answers(codes) => statuses == codes && seen == codes.iter().filter(|status| **status == 200).count(),
        Refused => {
            let refusal = |status: &u16| (400..500).contains(status) || [501, 505].contains(status);
            statuses.len() <= 1 && statuses.iter().all(refusal) && finished(application) == 0
        }
    };
    let said = String::from_utf8_lossy(&came);
    if fits {
        Ok(())
    } else {
        Err(format!("expected {expected:?}, the application saw {seen}, came {said:?}"))
    }
}

/// How many requests, body and all, the application took for good since this was asked last.
fn finished(application: &Application) -> usize {
    let mut asked = application.asked.lock().unwrap();
    // Those with a body that broke off were begun, and never whole.
    let whole = asked.iter().filter(|parts| !is_chunked(parts)).count();
    asked.clear();
    whole
}

fn is_chunked(parts: &http::request::Parts) -> bool {
    parts.headers.contains_key(http::header::TRANSFER_ENCODING)
}

async fn all_hold(cases: Vec<Case>) {
    let application = Application::start(|request| async move {
        use http_body_util::BodyExt as _;
        match request.into_body().collect().await {
            Ok(_) => http::Response::new(text("ok")),
            // Never sent: who broke off is gone.
            Err(_) => std::future::pending().await,
        }
    })
    .await;
    // Who sends half a request is closed, so that every case ends.
    let policy = "[gateway]\nheader_timeout = \"1s\"\nmax_header_bytes = 32768\n";
    let server = Server::start(policy, application.address);
    let mut wrong = Vec::new();
    for (section, about, sent, expected) in cases {
        if let Err(what) = judge((&application, &server), &sent, expected).await {
            wrong.push(format!("{section} {about}: {what}"));
        }
        application.asked.lock().unwrap().clear();
    }
    assert!(wrong.is_empty(), "{} cases:\n{}", wrong.len(), wrong.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn how_a_message_begins() {
    all_hold(beginnings()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_field_is() {
    all_hold(fields()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn how_long_a_body_is() {
    all_hold(lengths()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_arrives_although_more_was_sent_than_anybody_reads() {
    let application = Application::start(|request| async move {
        use http_body_util::BodyExt as _;
        let _ = request.into_body().collect().await;
        http::Response::new(text("ok"))
    })
    .await;
    let server = Server::start("[gateway]\nmax_body_bytes = 100000\n", application.address);
    let (body, chunk) = ("x".repeat(4_000_000), format!("10000\r\n{}\r\n", "x".repeat(0x10000)));
    let announced = post("Content-Length: 4000000\r\n", &body);
    let chunked = post("Transfer-Encoding: chunked\r\n", &(chunk.repeat(60) + "0\r\n\r\n"));
    for (how, sent) in [("announced", announced), ("chunked", chunked)] {
        let mut stream = TcpStream::connect(server.gateway).await.unwrap();
        let _ = stream.write_all(sent.as_bytes()).await;
        let came = read_to_end(&mut stream).await.expect("the connection ends");
        assert_eq!(statuses(&came), [413], "{how}: {:?}", String::from_utf8_lossy(&came));
    }
}
