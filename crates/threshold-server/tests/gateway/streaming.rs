//! Bodies: they flow through in both directions and arrive as they were sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Response};
use http_body::Frame;
use http_body_util::BodyExt as _;
use tokio::sync::mpsc;

use crate::support::application::{Application, nothing, text};
use crate::support::large::{checksum, endless, expected, large};
use crate::support::server::Server;
use crate::support::wire::{Raw, ask, http1, piece, piped, read, request, soon};

#[tokio::test(flavor = "multi_thread")]
async fn a_large_body_reaches_the_application_as_it_was_sent() {
    let application = Application::start(|request| async {
        let (count, sum) = checksum(request.into_body()).await;
        Response::new(text(&format!("{count} {sum}")))
    })
    .await;
    let server = Server::start("", application.address);
    let mut client = http1(server.gateway).await;
    let (answer, _) = read(ask(&mut client, request("POST", "/", &[], large())).await).await;
    let (count, sum) = expected();
    assert_eq!(answer.text(), format!("{count} {sum}"));
    assert_eq!(application.last().headers["transfer-encoding"], "chunked");
    let length = [("content-length", &*count.to_string())];
    let (answer, _) = read(ask(&mut client, request("POST", "/", &length, large())).await).await;
    assert_eq!(answer.text(), format!("{count} {sum}"));
    assert_eq!(application.last().headers["content-length"], count.to_string().as_str());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_body_reaches_the_client_as_it_was_sent() {
    let application = Application::start(|_| async { Response::new(large()) }).await;
    let server = Server::start("", application.address);
    let mut client = http1(server.gateway).await;
    let response = ask(&mut client, request("GET", "/", &[], nothing())).await;
    assert_eq!(soon(checksum(response.into_body())).await, expected());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_client_sends_arrives_before_the_rest_is_sent() {
    let (heard, mut hears) = mpsc::unbounded_channel();
    let application = Application::start(move |request| {
        let (heard, mut body) = (heard.clone(), request.into_body());
        async move {
            while let Some(Ok(frame)) = body.frame().await {
                heard.send(frame.into_data().unwrap()).unwrap();
            }
            Response::new(text("all"))
        }
    })
    .await;
    let server = Server::start("", application.address);
    let mut client = http1(server.gateway).await;
    let (pipe, body) = piped();
    let answering = tokio::spawn(async move { ask(&mut client, request("POST", "/", &[], body)).await });
    for words in ["first", "second", "third"] {
        pipe.send(piece(words)).unwrap();
        assert_eq!(soon(hears.recv()).await.unwrap(), words);
    }
    drop(pipe);
    assert_eq!(read(soon(answering).await.unwrap()).await.0.text(), "all");
}

/// An application whose answer is what the test puts in.
async fn dictated() -> (Application, mpsc::UnboundedReceiver<mpsc::UnboundedSender<Frame<Bytes>>>) {
    let (pens, taking) = mpsc::unbounded_channel();
    let application = Application::start(move |_| {
        let (pen, body) = piped();
        pens.send(pen).unwrap();
        async { Response::new(body) }
    })
    .await;
    (application, taking)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_application_sends_arrives_before_the_rest_is_sent() {
    let (application, mut pens) = dictated().await;
    let server = Server::start("", application.address);
    let mut client = http1(server.gateway).await;
    let mut body = ask(&mut client, request("GET", "/", &[], nothing())).await.into_body();
    let pen = soon(pens.recv()).await.unwrap();
    for words in ["first", "second", "third"] {
        pen.send(piece(words)).unwrap();
        assert_eq!(soon(body.frame()).await.unwrap().unwrap().into_data().unwrap(), words);
    }
    drop(pen);
    assert!(soon(body.frame()).await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_flows_though_the_next_request_is_there_already() {
    let (application, mut pens) = dictated().await;
    let server = Server::start("", application.address);
    let mut raw = Raw::connect(server.gateway).await;
    let one = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";
    raw.send(format!("{one}{one}").as_bytes()).await;
    let pen = soon(pens.recv()).await.unwrap();
    pen.send(piece("first")).unwrap();
    // The answer is not over; what there is of it comes all the same.
    assert!(raw.head().await.starts_with("HTTP/1.1 200 "));
    drop(pen);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_may_answer_before_it_has_read_everything() {
    let application = Application::start(|_| async { Response::new(text("enough")) }).await;
    let server = Server::start("", application.address);
    let mut client = http1(server.gateway).await;
    let (pipe, body) = piped();
    pipe.send(piece("first")).unwrap();
    let (answer, _) = read(ask(&mut client, request("POST", "/", &[], body)).await).await;
    assert_eq!((answer.status.as_u16(), answer.text()), (200, "enough"));
    drop(pipe);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_is_refused_hears_why() {
    let application = Application::plain().await;
    let policy = "[[limit]]\nid = \"few\"\nlayer = \"edge\"\nper = \"ip\"\nrate = \"1/hour\"\n";
    let server = Server::start(policy, application.address);
    for expected in [200, 429, 429, 429, 429, 429, 429, 429] {
        let (pipe, body) = piped();
        // More than any buffer holds, all of it sent before anything is read.
        (0..500).for_each(|_| pipe.send(piece(vec![b'x'; 16 * 1024])).unwrap());
        drop(pipe);
        let mut client = http1(server.gateway).await;
        let (answer, _) = read(ask(&mut client, request("POST", "/", &[], body)).await).await;
        assert_eq!(answer.status, expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_behind_a_body_passes_in_both_directions() {
    let application = Application::start(|request| async {
        let trailers = request.into_body().collect().await.unwrap().trailers().cloned();
        let (pipe, body) = piped();
        pipe.send(piece("body")).unwrap();
        pipe.send(Frame::trailers(trailers.unwrap_or_default())).unwrap();
        Response::builder().header("trailer", "x-checksum").body(body).unwrap()
    })
    .await;
    let server = Server::start("", application.address);
    let mut client = http1(server.gateway).await;
    let (pipe, body) = piped();
    pipe.send(piece("body")).unwrap();
    let sent = HeaderMap::from_iter([("x-checksum".parse().unwrap(), "7".parse().unwrap())]);
    pipe.send(Frame::trailers(sent.clone())).unwrap();
    drop(pipe);
    let headers = [("trailer", "x-checksum"), ("te", "trailers")];
    let (answer, trailers) = read(ask(&mut client, request("POST", "/", &headers, body)).await).await;
    assert_eq!((answer.text(), trailers), ("body", sent));
}

/// Waits until nothing more is taken of a body that never ends; gives how many pieces were.
async fn stands_still(taken: &AtomicUsize) -> usize {
    let waiting = async {
        loop {
            let before = taken.load(Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(500)).await;
            // Before the first piece nothing has begun.
            if before > 0 && taken.load(Ordering::Relaxed) == before {
                return before;
            }
        }
    };
    soon(waiting).await
}

/// More than what machines keep on the way, and less than the gateway may never have.
const ALL: usize = 3_200;

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_read_makes_the_application_wait() {
    let taken = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&taken);
    let application = Application::start(move |_| {
        let body = endless(ALL, Arc::clone(&counted));
        async { Response::new(body) }
    })
    .await;
    let server = Server::start("", application.address);
    let memory = server.memory();
    let mut raw = Raw::connect(server.gateway).await;
    raw.send(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await;
    let pieces = stands_still(&taken).await;
    let grown = server.memory().saturating_sub(memory);
    assert!(pieces < ALL && grown < 16 << 20, "{pieces} pieces were taken, and {grown} bytes are kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_that_does_not_read_makes_the_client_wait() {
    let application = Application::start(|request| async move {
        // Kept and never read.
        let _request = request;
        std::future::pending().await
    })
    .await;
    let server = Server::start("[gateway]\nmax_body_bytes = 1000000000\n", application.address);
    let memory = server.memory();
    let taken = Arc::new(AtomicUsize::new(0));
    let mut client = http1(server.gateway).await;
    let sending = client.send_request(request("POST", "/", &[], endless(ALL, Arc::clone(&taken))));
    let sending = tokio::spawn(sending);
    let pieces = stands_still(&taken).await;
    let grown = server.memory().saturating_sub(memory);
    assert!(pieces < ALL && grown < 16 << 20, "{pieces} pieces were taken, and {grown} bytes are kept");
    sending.abort();
}
