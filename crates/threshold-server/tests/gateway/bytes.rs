//! Limits that count bytes: what is charged, when, and what is given back.

use std::sync::atomic::{AtomicU64, Ordering};

use http::Response;
use http_body_util::BodyExt as _;
use serde_json::{Value as Json, json};

use crate::support::application::{Application, text};
use crate::support::client::{Answered, Client};
use crate::support::server::Server;
use crate::support::wire::{Raw, ask, http1, http2, piece, piped, read, request, soon, status, until};

/// What is charged ahead for a body without a length.
const AHEAD: u64 = 64 * 1024;

/// A quota of bytes for a day, of which nothing comes back while a test runs.
fn quota(rate: &str) -> String {
    format!("[[limit]]\nid = \"bytes\"\nlayer = \"user\"\nrate = \"{rate}\"\nalgorithm = \"fixed-window\"\n")
}

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

/// Looks at what is left, for a byte each time.
struct Gauge(Client, AtomicU64);

impl Gauge {
    fn new(server: &Server) -> Self {
        Self(Client::new(server.gateway), AtomicU64::new(0))
    }

    /// How many bytes would be left if nobody had looked.
    async fn left(&self) -> u64 {
        let answer = self.0.send(self.0.request("POST", "/", &[], "x")).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let looked = self.1.fetch_add(1, Ordering::Relaxed) + 1;
        answer.header("x-ratelimit-remaining").parse::<u64>().unwrap() + looked
    }

    async fn reads(&self, wanted: u64) {
        until(|| async { (self.left().await == wanted).then_some(()) }).await;
    }
}

/// Uses up `bytes`.
async fn spend(server: &Server, bytes: usize) {
    let client = Client::new(server.gateway);
    let answer = client.send(client.request("POST", "/", &[], &"x".repeat(bytes))).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_declared_length_is_charged_up_front() {
    let application = counting().await;
    let server = Server::start(&quota("1000B/day"), application.address);
    let client = Client::new(server.gateway);
    let first = client.send(client.request("POST", "/", &[], &"x".repeat(600))).await;
    assert_eq!(first.text(), "600");
    assert_eq!(first.header("ratelimit-policy"), "\"bytes\";q=1000;w=86400;qu=\"content-bytes\"");
    assert_eq!(first.header("x-ratelimit-remaining"), "400");
    let refused = client.send(client.request("POST", "/", &[], &"x".repeat(500))).await;
    assert_eq!(refused.status, 429);
    assert_eq!(refused.json()["error"], "rate_limited");
    assert_eq!(application.count(), 1, "nothing of it reached the application");
    assert_eq!(client.send(client.request("POST", "/", &[], &"x".repeat(400))).await.status, 200);
    assert_eq!(client.get("/").await.status, 200, "what has no body costs nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn cost_bytes_is_the_same_said_aloud() {
    let application = counting().await;
    let server = Server::start(&(quota("1000B/day") + "cost = \"bytes\"\n"), application.address);
    let client = Client::new(server.gateway);
    let first = client.send(client.request("POST", "/", &[], &"x".repeat(600))).await;
    assert_eq!(first.header("x-ratelimit-remaining"), "400");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_upload_broken_off_did_not_send_is_given_back() {
    let application = counting().await;
    let server = Server::start(&quota("1000000B/day"), application.address);
    let gauge = Gauge::new(&server);
    let mut raw = Raw::connect(server.gateway).await;
    raw.send(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 900000\r\n\r\n").await;
    raw.send(&[b'x'; 100_000]).await;
    gauge.reads(100_000).await;
    drop(raw);
    gauge.reads(900_000).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_undeclared_length_is_charged_ahead_and_the_unused_part_given_back() {
    let application = counting().await;
    let server = Server::start(&quota("1MB/day"), application.address);
    let gauge = Gauge::new(&server);
    let mut sender = http1(server.gateway).await;
    let (pipe, body) = piped();
    pipe.send(piece(vec![b'x'; 10])).unwrap();
    let answering = tokio::spawn(sender.send_request(request("POST", "/", &[], body)));
    gauge.reads(1_000_000 - AHEAD).await;
    pipe.send(piece(vec![b'x'; 70_000])).unwrap();
    gauge.reads(1_000_000 - 2 * AHEAD).await;
    drop(pipe);
    let (answer, _) = read(soon(answering).await.unwrap().unwrap()).await;
    assert_eq!(answer.text(), "70010");
    gauge.reads(1_000_000 - 70_010).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_unused_part_comes_back_when_an_undeclared_body_is_broken_off() {
    let application = counting().await;
    let server = Server::start(&quota("1MB/day"), application.address);
    let gauge = Gauge::new(&server);
    let mut raw = Raw::connect(server.gateway).await;
    raw.send(b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n5\r\nfive!\r\n").await;
    gauge.reads(1_000_000 - AHEAD).await;
    drop(raw);
    gauge.reads(1_000_000 - 5).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_beyond_the_quota_is_cut_off_in_the_middle() {
    let application = counting().await;
    let server = Server::start(&quota("200000B/day"), application.address);
    spend(&server, 95_000).await;
    let mut raw = Raw::connect(server.gateway).await;
    raw.send(b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n").await;
    for _ in 0..11 {
        raw.send(format!("2710\r\n{}\r\n", "x".repeat(10_000)).as_bytes()).await;
    }
    // The body never ends: the answer must come before that.
    let head = raw.head().await;
    assert_eq!(status(&head), 429, "{head}");
    assert!(head.contains("content-type: application/problem+json"), "{head}");
    let body: Json = serde_json::from_str(&raw.rest().await).unwrap();
    assert_eq!((&body["error"], &body["status"]), (&json!("rate_limited"), &json!(429)));
    let gauge = Gauge::new(&server);
    assert_eq!(gauge.left().await, 5_000, "what came is paid for");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_cut_off_is_told_when_to_come_back() {
    let application = counting().await;
    let server = Server::start(&quota("200000B/day"), application.address);
    spend(&server, 120_000).await;
    let mut sender = http1(server.gateway).await;
    let (pipe, body) = piped();
    pipe.send(piece(vec![b'x'; 70_000])).unwrap();
    pipe.send(piece(vec![b'x'; 70_000])).unwrap();
    drop(pipe);
    let (answer, _) = read(ask(&mut sender, request("POST", "/", &[], body)).await).await;
    assert_eq!(answer.status, 429);
    assert_eq!(answer.json()["violated-policies"], json!(["bytes"]));
    let wait = |answer: &Answered| answer.header("retry-after").parse::<u64>().unwrap();
    let client = Client::new(server.gateway);
    let refused = client.send(client.request("POST", "/", &[], &"x".repeat(70_000))).await;
    assert_eq!(refused.status, 429);
    let (told, real) = (wait(&answer), wait(&refused));
    assert!(told + 5 >= real, "who comes back after {told} seconds is refused for {real} more");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_without_a_length_passes_if_what_is_charged_ahead_fits() {
    let application = counting().await;
    let server = Server::start(&quota("128KiB/day"), application.address);
    let mut sender = http1(server.gateway).await;
    let (pipe, body) = piped();
    pipe.send(piece(vec![b'x'; 100_000])).unwrap();
    drop(pipe);
    let (answer, _) = read(ask(&mut sender, request("POST", "/", &[], body)).await).await;
    assert_eq!((answer.status.as_u16(), answer.text()), (200, "100000"));
    let client = Client::new(server.gateway);
    let send = |bytes: u64| client.send(client.request("POST", "/", &[], &"x".repeat(bytes as usize)));
    let left = 2 * AHEAD - 100_000;
    assert_eq!(send(left + 1).await.status, 429);
    // What was charged ahead is given back once the body has ended, soon after its answer.
    until(|| async { (send(left).await.status == 200).then_some(()) }).await;
    assert_eq!(send(1).await.status, 429);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_of_grpc_is_cut_off_by_its_own_status() {
    let application = counting().await;
    let server = Server::start(&quota("200000B/day"), application.address);
    spend(&server, 120_000).await;
    let mut sender = http2(server.gateway).await;
    let (pipe, body) = piped();
    pipe.send(piece(vec![b'x'; 110_000])).unwrap();
    let asking = request("POST", "http://a/a.B/C", &[("content-type", "application/grpc")], body);
    let response = soon(sender.send_request(asking)).await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["grpc-status"], "8");
    drop(pipe);
}
