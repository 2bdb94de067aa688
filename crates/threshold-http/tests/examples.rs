//! The examples, started as they are and asked from outside.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[cfg(feature = "axum")]
#[path = "../examples/axum.rs"]
#[allow(dead_code, reason = "its `main` is for people")]
mod axum_example;
#[path = "common/echo_client.rs"]
mod echo_client;
#[path = "../examples/hyper.rs"]
#[allow(dead_code, reason = "its `main` is for people")]
mod hyper_example;
#[path = "../examples/tonic.rs"]
#[allow(dead_code, reason = "its `main` is for people")]
mod tonic_example;
#[path = "common/wire.rs"]
mod wire;

pub(crate) use tonic_example::echo;

use std::net::SocketAddr;

use tokio::net::TcpListener;
use wire::Client;

/// A listener on a free port.
async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

#[cfg(feature = "axum")]
#[tokio::test]
async fn the_example_of_axum_greets_and_refuses() {
    let (listener, address) = listen().await;
    tokio::spawn(axum_example::serve(listener, axum_example::app().unwrap()));
    let mut client = Client::connect(address).await;
    let hello = client.get("/").await;
    assert_eq!(hello.text(), "Hello, 127.0.0.1. You may ask 9 times more.\n");
    let mut statuses = Vec::new();
    for _ in 0..3 {
        statuses.push(client.send(wire::request("POST", "/reports", &[], "")).await.status.as_u16());
    }
    assert_eq!(statuses, [200, 200, 429]);
}

#[tokio::test]
async fn the_example_of_hyper_greets_and_refuses() {
    let (listener, address) = listen().await;
    tokio::task::LocalSet::new()
        .run_until(async {
            tokio::task::spawn_local(async { hyper_example::serve(listener).await.unwrap() });
            let mut client = Client::connect(address).await;
            assert_eq!(client.get("/tea").await.text(), "Hello from /tea.\n");
            assert_eq!(client.get("/tea").await.left(), Some(1));
            assert_eq!([client.get("/").await.status, client.get("/").await.status], [200, 429]);
        })
        .await;
}

#[tokio::test]
async fn the_example_of_tonic_answers_and_refuses() {
    let (listener, address) = listen().await;
    tokio::task::LocalSet::new()
        .run_until(async {
            tokio::task::spawn_local(async { tonic_example::serve(listener).await.unwrap() });
            let mut client = echo_client::EchoClient::connect(address).await;
            for _ in 0..3 {
                assert_eq!(client.say("hello").await.unwrap().into_inner(), "hello");
            }
            assert_eq!(client.say("hello").await.unwrap_err().code(), tonic::Code::ResourceExhausted);
        })
        .await;
}
