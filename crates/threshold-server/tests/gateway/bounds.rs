//! Where requests end: how large they may be, how long anything may take, and applications that are not there.

use std::time::Duration;

use http::Response;
use http_body_util::BodyExt as _;
use tokio::net::TcpListener;

use crate::support::application::{Application, nothing, text};
use crate::support::client::{Answered, Client};
use crate::support::server::Server;
use crate::support::wire::{Raw, ask, http1, piece, piped, read, request, soon, status, until};

/// An application that reads what it is sent, and says how much that was.
async fn counting() -> Application {
    Application::start(|request| async move {
        match request.into_body().collect().await {
            Ok(body) => Response::new(text(&body.to_bytes().len().to_string())),
            Err(_) => Response::new(text("broken")),
        }
    })
    .await
}

/// Holds for everything that the gateway says of its own.
fn assert_problem(answer: &Answered, code: u16, error: &str) {
    assert_eq!((answer.status.as_u16(), &answer.json()["error"]), (code, &error.into()), "{answer:?}");
    assert_eq!(answer.header("content-type"), "application/problem+json");
    assert_eq!(answer.json()["status"], code);
    assert_eq!(answer.json()["type"], "about:blank");
    assert!(answer.json()["detail"].is_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_says_it_is_too_large_is_not_even_read() {
    let application = counting().await;
    let server = Server::start("[gateway]\nmax_body_bytes = 1000\n", application.address);
    let client = Client::new(server.gateway);
    let fits = client.send(client.request("POST", "/", &[], &"x".repeat(1_000))).await;
    assert_eq!(fits.text(), "1000");
    let refused = client.send(client.request("POST", "/", &[], &"x".repeat(1_001))).await;
    assert_problem(&refused, 413, "body_too_large");
    assert_eq!(application.count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_turns_out_too_large_is_cut_off() {
    let application = counting().await;
    let server = Server::start("[gateway]\nmax_body_bytes = 100000\n", application.address);
    for (pieces, fits) in [(10, true), (11, false)] {
        let mut client = http1(server.gateway).await;
        let (pipe, body) = piped();
        for _ in 0..pieces {
            pipe.send(piece(vec![b'x'; 10_000])).unwrap();
        }
        drop(pipe);
        let response = ask(&mut client, request("POST", "/", &[], body)).await;
        let (answer, _) = read(response).await;
        match fits {
            true => assert_eq!(answer.text(), "100000"),
            false => assert_problem(&answer, 413, "body_too_large"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_is_too_large_is_refused() {
    let application = counting().await;
    let server = Server::start("[gateway]\nmax_header_bytes = 16384\n", application.address);
    let head = |bytes: usize| {
        let filler = "x".repeat(bytes);
        format!("GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\nx-filler: {filler}\r\n\r\n")
    };
    let mut raw = Raw::connect(server.gateway).await;
    raw.send(head(10_000).as_bytes()).await;
    assert_eq!(status(&raw.rest().await), 200);
    let mut raw = Raw::connect(server.gateway).await;
    raw.send(head(20_000).as_bytes()).await;
    assert_eq!(status(&raw.head().await), 431);
    assert_eq!(application.count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_stands_still_is_given_up() {
    let application = counting().await;
    let server = Server::start("[gateway]\nidle_timeout = \"300ms\"\n", application.address);
    let mut client = http1(server.gateway).await;
    let (pipe, body) = piped();
    pipe.send(piece("the first of two")).unwrap();
    let response = ask(&mut client, request("POST", "/", &[], body)).await;
    let (answer, _) = read(response).await;
    assert_problem(&answer, 408, "body_timeout");
    drop(pipe);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_moves_slowly_is_waited_for() {
    let application = counting().await;
    let policy = "[gateway]\nidle_timeout = \"2s\"\nresponse_timeout = \"300ms\"\n";
    let server = Server::start(policy, application.address);
    let mut client = http1(server.gateway).await;
    let (pipe, body) = piped();
    let sending = tokio::spawn(async move {
        // Longer in all than any one wait may be.
        for _ in 0..20 {
            pipe.send(piece("x")).unwrap();
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    let response = ask(&mut client, request("POST", "/", &[], body)).await;
    assert_eq!(read(response).await.0.text(), "20");
    sending.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_never_ends_closes_the_connection() {
    let application = counting().await;
    let server = Server::start("[gateway]\nheader_timeout = \"300ms\"\n", application.address);
    for begun in ["", "GET / HTTP/1.1\r\nhost: a\r\n"] {
        let mut raw = Raw::connect(server.gateway).await;
        raw.send(begun.as_bytes()).await;
        let _ = raw.rest().await;
    }
    assert_eq!(application.count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_that_takes_too_long_is_given_up() {
    let application = Application::start(|_| std::future::pending()).await;
    let server = Server::start("[gateway]\nresponse_timeout = \"300ms\"\n", application.address);
    let answer = soon(Client::new(server.gateway).get("/")).await;
    assert_problem(&answer, 504, "upstream_timeout");
    assert_ne!(answer.header("x-request-id"), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_stands_still_breaks_off() {
    let application = Application::start(|_| async {
        let (pipe, body) = piped();
        pipe.send(piece("the first of two")).unwrap();
        // Never ended: as if the application had forgotten about it.
        std::mem::forget(pipe);
        Response::new(body)
    })
    .await;
    let server = Server::start("[gateway]\nidle_timeout = \"300ms\"\n", application.address);
    let client = Client::new(server.gateway);
    let answered = soon(client.try_send(client.request("GET", "/", &[], ""))).await;
    assert!(answered.is_err(), "what is cut off must not look whole");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_that_is_not_there_is_told_as_such() {
    // A port that was free a moment ago, and at which nobody listens now.
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let server = Server::start("", nobody);
    let answer = Client::new(server.gateway).get("/").await;
    assert_problem(&answer, 502, "upstream_unreachable");
    assert_ne!(answer.header("x-request-id"), "");
    let port = nobody.port().to_string();
    assert!(!answer.text().contains(&port), "where applications are is not the clients' to know");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_that_was_gone_is_back_by_itself() {
    let (begun, mut hears) = tokio::sync::mpsc::unbounded_channel();
    let application = Application::start(move |_| {
        begun.send(()).unwrap();
        std::future::pending()
    })
    .await;
    let address = application.address;
    let mut server = Server::start("", address);
    let client = Client::new(server.gateway);
    let in_flight = tokio::spawn({
        let client = client.clone();
        async move { client.get("/").await }
    });
    soon(hears.recv()).await.unwrap();
    application.end().await;
    assert_problem(&soon(in_flight).await.unwrap(), 502, "upstream_broken");
    assert_problem(&client.get("/").await, 502, "upstream_unreachable");
    let listener = until(|| async { TcpListener::bind(address).await.ok() }).await;
    let _again = Application::on(listener, |_| async { Response::new(text("back")) });
    assert_eq!(client.get("/").await.text(), "back");
    server.tells("applications answer again", 1);
    server.tells("an application did not answer", 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_that_answers_nonsense_is_broken() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = Server::start("", listener.local_addr().unwrap());
    let babbling = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        Raw(stream).send(b"220 smtp.example.com\r\n\r\n").await;
    });
    assert_problem(&Client::new(server.gateway).get("/").await, 502, "upstream_broken");
    babbling.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_an_application_closes_are_nobodys_trouble() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = Server::start("", listener.local_addr().unwrap());
    // Keeps each connection alive for one answer, and then closes it without a word.
    let closing = tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut raw = Raw(stream);
                raw.head().await;
                raw.send(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
            });
        }
    });
    let mut client = http1(server.gateway).await;
    for asked in 0..300 {
        let (answer, _) = read(ask(&mut client, request("GET", "/", &[], nothing())).await).await;
        assert_eq!(answer.status, 200, "at request {asked}: {}", answer.text());
    }
    closing.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_its_client_breaks_off_is_no_trouble_of_the_application() {
    let (broken, mut hears) = tokio::sync::mpsc::unbounded_channel();
    let application = Application::start(move |request| {
        let broken = broken.clone();
        async move {
            if request.into_body().collect().await.is_err() {
                broken.send(()).unwrap();
            }
            Response::new(text("ok"))
        }
    })
    .await;
    let server = Server::start("", application.address);
    let mut raw = Raw::connect(server.gateway).await;
    raw.send(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\nfive!").await;
    until(|| async { (application.count() == 1).then_some(()) }).await;
    drop(raw);
    soon(hears.recv()).await.unwrap();
    // The gateway is done with it by now, or during one of these.
    let client = Client::new(server.gateway);
    for _ in 0..20 {
        assert_eq!(client.get("/").await.status, 200);
    }
    assert_eq!(server.count("an application did not answer"), 0, "{}", server.said());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_that_stands_still_is_given_up_too() {
    let application = counting().await;
    let policy = "[gateway]\nidle_timeout = \"300ms\"\n[routes]\nsign-in = \"POST /login\"\n\
                  [login]\nroute = \"sign-in\"\n";
    let server = Server::start(policy, application.address);
    let mut raw = Raw::connect(server.gateway).await;
    raw.send(b"POST /login HTTP/1.1\r\nhost: a\r\ncontent-length: 30\r\n\r\nusername=al").await;
    assert_eq!(status(&raw.head().await), 408);
}
