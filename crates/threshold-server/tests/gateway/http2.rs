//! HTTP/2 on both sides: clients that speak it, and applications that do.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;

use http::{HeaderMap, Response, Version};
use http_body::Frame;
use http_body_util::BodyExt as _;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use crate::support::application::{Application, nothing, text};
use crate::support::large::{checksum, expected, large};
use crate::support::server::Server;
use crate::support::wire::{http2, piece, piped, read, request, soon};

const TWO: &str = "[[limit]]\nid = \"two\"\nlayer = \"user\"\nrate = \"2/hour\"\n";

/// A server that speaks HTTP/2 to `application`.
fn before(policy: &str, application: &Application) -> Server {
    Server::with(policy, &["--upstream", &format!("h2c://{}", application.address)], &[])
}

/// What ends an answer of gRPC.
fn grpc_status(code: &str) -> HeaderMap {
    HeaderMap::from_iter([("grpc-status".parse().unwrap(), code.parse().unwrap())])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_of_http_2_reaches_an_application_of_http_1() {
    let application = Application::start(|request| async {
        Response::new(request.into_body().map_err(|error| panic!("{error}")).boxed())
    })
    .await;
    let server = Server::start("", application.address);
    let mut client = http2(server.gateway).await;
    let headers = [("cookie", "a=1"), ("cookie", "b=2"), ("x-kept", "1")];
    let asking = request("POST", "http://example.com/path?q=1", &headers, text("hello"));
    let response = soon(client.send_request(asking)).await.unwrap();
    assert_eq!((response.status().as_u16(), response.version()), (200, Version::HTTP_2));
    assert_eq!(read(response).await.0.text(), "hello");
    let asked = application.last();
    assert_eq!((asked.version, asked.uri.to_string()), (Version::HTTP_11, "/path?q=1".to_owned()));
    assert_eq!(asked.headers["host"], "example.com");
    assert_eq!(asked.headers["x-kept"], "1");
    let cookies: Vec<_> = asked.headers.get_all("cookie").iter().collect();
    assert_eq!(cookies, ["a=1; b=2"], "HTTP/1 has one line for all of them");
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_of_one_connection_are_each_judged() {
    let application = Application::plain().await;
    let server = Server::start(TWO, application.address);
    let client = http2(server.gateway).await;
    let asking = (0..10).map(|_| {
        let mut client = client.clone();
        async move { client.send_request(request("GET", "http://a/", &[], nothing())).await.unwrap() }
    });
    let answers = soon(futures_util::future::join_all(asking)).await;
    let refused: Vec<_> = answers.into_iter().filter(|answer| answer.status() != 200).collect();
    assert_eq!((refused.len(), application.count()), (8, 2));
    for answer in refused {
        let (answer, _) = read(answer).await;
        assert_eq!((answer.status.as_u16(), &answer.json()["error"]), (429, &"rate_limited".into()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_without_a_body_gets_none_on_its_way() {
    let application = Application::plain().await;
    let server = Server::start("", application.address);
    let mut client = http2(server.gateway).await;
    let response = soon(client.send_request(request("GET", "http://a/", &[], nothing()))).await.unwrap();
    assert_eq!(response.status(), 200);
    let asked = application.last();
    assert!(!asked.headers.contains_key("transfer-encoding"), "{:?}", asked.headers);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_of_grpc_passes_message_by_message() {
    let application = Application::start(|request| async {
        let (pipe, body) = piped();
        let mut asked = request.into_body();
        tokio::spawn(async move {
            while let Some(Ok(frame)) = asked.frame().await {
                if let Ok(data) = frame.into_data() {
                    pipe.send(Frame::data(data)).unwrap();
                }
            }
            pipe.send(Frame::trailers(grpc_status("0"))).unwrap();
        });
        Response::builder().header("content-type", "application/grpc").body(body).unwrap()
    })
    .await;
    let server = before("", &application);
    let mut client = http2(server.gateway).await;
    let (pipe, body) = piped();
    let headers = [("content-type", "application/grpc"), ("te", "trailers")];
    let asking = request("POST", "http://example.com/chat.Chat/Talk", &headers, body);
    let mut answer = soon(client.send_request(asking)).await.unwrap().into_body();
    for words in ["first", "second", "third"] {
        pipe.send(piece(words)).unwrap();
        assert_eq!(soon(answer.frame()).await.unwrap().unwrap().into_data().unwrap(), words);
    }
    drop(pipe);
    let trailers = soon(answer.frame()).await.unwrap().unwrap().into_trailers().unwrap();
    assert_eq!(trailers, grpc_status("0"));
    let asked = application.last();
    assert_eq!((asked.version, asked.uri.path()), (Version::HTTP_2, "/chat.Chat/Talk"));
    assert_eq!(asked.headers["te"], "trailers", "some servers insist on it");
    let authority = asked.uri.authority().map(ToString::to_string);
    let host = asked.headers.get("host").map(|host| host.to_str().unwrap().to_owned());
    assert_eq!(authority.or(host).as_deref(), Some("example.com"));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_over_a_limit_is_told_by_the_status_of_grpc() {
    let application = Application::plain().await;
    let server = before(TWO, &application);
    let mut client = http2(server.gateway).await;
    let headers = [("content-type", "application/grpc"), ("te", "trailers")];
    let mut ask = || {
        let asking = request("POST", "http://a/chat.Chat/Talk", &headers, nothing());
        soon(client.send_request(asking))
    };
    for _ in 0..2 {
        assert!(!ask().await.unwrap().headers().contains_key("grpc-status"));
    }
    let refused = ask().await.unwrap();
    assert_eq!(refused.status(), 200);
    assert_eq!(refused.headers()["grpc-status"], "8");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_of_http_2_that_is_gone_is_told_by_the_status_of_grpc() {
    let application = Application::plain().await;
    let server = before("", &application);
    let mut client = http2(server.gateway).await;
    let headers = [("content-type", "application/grpc")];
    let mut ask = || soon(client.send_request(request("POST", "http://a/a.B/C", &headers, nothing())));
    assert_eq!(ask().await.unwrap().status(), 200);
    application.end().await;
    for _ in 0..3 {
        let answer = ask().await.unwrap();
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers()["grpc-status"], "14");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_connection_carries_many_requests_to_an_application_of_http_2() {
    let application = Application::plain().await;
    let server = before("", &application);
    let mut client = http2(server.gateway).await;
    for _ in 0..20 {
        let response = soon(client.send_request(request("GET", "http://a/", &[], nothing()))).await.unwrap();
        assert_eq!(read(response).await.0.text(), "ok");
    }
    assert_eq!((application.count(), application.connections()), (20, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_body_passes_in_both_directions_at_once() {
    let application = Application::start(|request| async {
        Response::new(request.into_body().map_err(|error| panic!("{error}")).boxed())
    })
    .await;
    for server in [Server::start("", application.address), before("", &application)] {
        let mut client = http2(server.gateway).await;
        let response = soon(client.send_request(request("POST", "http://a/", &[], large()))).await.unwrap();
        assert_eq!(soon(checksum(response.into_body())).await, expected());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_and_heads_have_the_same_bounds_as_in_http_1() {
    let application = Application::start(|request| async {
        let _ = request.into_body().collect().await;
        Response::new(text("ok"))
    })
    .await;
    let numbers = "[gateway]\nmax_body_bytes = 100000\nmax_header_bytes = 16384\n";
    let server = Server::start(numbers, application.address);
    let mut client = http2(server.gateway).await;
    let (pipe, body) = piped();
    (0..20).for_each(|_| pipe.send(piece(vec![b'x'; 10_000])).unwrap());
    let response = soon(client.send_request(request("POST", "http://a/", &[], body))).await.unwrap();
    let (answer, _) = read(response).await;
    assert_eq!((answer.status.as_u16(), &answer.json()["error"]), (413, &"body_too_large".into()));
    let filler = [("x-filler", &*"x".repeat(20_000))];
    let response = soon(client.send_request(request("GET", "http://a/", &filler, nothing()))).await.unwrap();
    assert_eq!(response.status(), 431);
    let response = soon(client.send_request(request("GET", "http://a/", &[], nothing()))).await.unwrap();
    assert_eq!(response.status(), 200, "the connection goes on");
}

/// Serves one request on a connection, and says goodbye to it.
async fn serve_one(stream: TcpStream) {
    let asked = Arc::new(Notify::new());
    let service = service_fn(|_| {
        asked.notify_one();
        async { Ok::<_, Infallible>(Response::new(text("ok"))) }
    });
    let serving = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    let mut serving = pin!(serving.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        _ = serving.as_mut() => return,
        () = asked.notified() => serving.as_mut().graceful_shutdown(),
    }
    let _ = serving.await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_an_application_of_http_2_closes_are_nobodys_trouble() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let upstream = format!("h2c://{}", listener.local_addr().unwrap());
    let accepting = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve_one(stream));
        }
    });
    let server = Server::with("", &["--upstream", &upstream], &[]);
    let mut client = http2(server.gateway).await;
    for asked in 0..200 {
        let response = soon(client.send_request(request("GET", "http://a/", &[], nothing()))).await.unwrap();
        let (answer, _) = read(response).await;
        assert_eq!(answer.status, 200, "at request {asked}: {}", answer.text());
    }
    accepting.abort();
}
