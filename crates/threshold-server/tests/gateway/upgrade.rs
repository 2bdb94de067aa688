//! WebSockets through the gateway.

use futures_util::{SinkExt as _, StreamExt as _};
use http::{HeaderMap, StatusCode};
use tokio::net::TcpStream;
use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::support::application::Application;
use crate::support::echo::{Echo, Socket, exchange};
use crate::support::server::Server;
use crate::support::wire::{soon, until};

/// Connects through the gateway; gives the headers of the answer as well.
async fn connect(server: &Server) -> Result<(Socket, HeaderMap), Error> {
    let stream = TcpStream::connect(server.gateway).await.unwrap();
    let (socket, answer) = soon(client_async("ws://gateway.test/chat", stream)).await?;
    Ok((socket, answer.headers().clone()))
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_pass_both_ways() {
    let echo = Echo::start().await;
    let server = Server::start("", echo.address);
    let (mut socket, headers) = connect(&server).await.unwrap();
    assert_eq!(headers["x-application"], "echo");
    for text in ["one", "two", "three"] {
        exchange(&mut socket, Message::text(text)).await;
    }
    exchange(&mut socket, Message::binary(vec![7; 2_000_000])).await;
    let asked = echo.asked.lock().unwrap()[0].clone();
    assert_eq!(asked["host"], "gateway.test");
    assert_eq!(asked["x-forwarded-for"], "127.0.0.1");
    assert_eq!(asked["upgrade"], "websocket");
    assert!(asked.contains_key("x-request-id"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_sent_with_the_handshake_is_not_lost() {
    let echo = Echo::start().await;
    let server = Server::start("", echo.address);
    for _ in 0..20 {
        let (mut socket, _) = connect(&server).await.unwrap();
        exchange(&mut socket, Message::text("at once")).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_close_from_the_client_reaches_the_application_and_back() {
    let echo = Echo::start().await;
    let server = Server::start("", echo.address);
    let (mut socket, _) = connect(&server).await.unwrap();
    let frame = CloseFrame { code: CloseCode::Normal, reason: "done".into() };
    socket.close(Some(frame.clone())).await.unwrap();
    // The other end answers with the same frame, and then the connection is over.
    assert_eq!(soon(socket.next()).await.unwrap().unwrap(), Message::Close(Some(frame)));
    assert!(soon(socket.next()).await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_close_from_the_application_reaches_the_client() {
    let echo = Echo::start().await;
    let server = Server::start("", echo.address);
    let (mut socket, _) = connect(&server).await.unwrap();
    socket.send(Message::text("bye")).await.unwrap();
    let frame = CloseFrame { code: CloseCode::Library(4000), reason: "as you wish".into() };
    assert_eq!(soon(socket.next()).await.unwrap().unwrap(), Message::Close(Some(frame)));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_that_breaks_off_ends_the_clients_connection() {
    let echo = Echo::start().await;
    let server = Server::start("", echo.address);
    let (mut socket, _) = connect(&server).await.unwrap();
    socket.send(Message::text("break")).await.unwrap();
    let ended = soon(socket.next()).await;
    assert!(matches!(ended, None | Some(Err(_))), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_are_for_handshakes_and_not_for_messages() {
    let echo = Echo::start().await;
    let policy = "[[limit]]\nid = \"few\"\nlayer = \"user\"\nrate = \"1/hour\"\n";
    let server = Server::start(policy, echo.address);
    let (mut socket, headers) = connect(&server).await.unwrap();
    assert_eq!(headers["x-ratelimit-remaining"], "0");
    let Err(Error::Http(refused)) = connect(&server).await else { panic!("the second is refused") };
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refused.headers()["content-type"], "application/problem+json");
    assert!(refused.headers().contains_key("retry-after"));
    assert_eq!(echo.asked.lock().unwrap().len(), 1);
    for _ in 0..5 {
        exchange(&mut socket, Message::text("still here")).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_socket_holds_its_place_among_those_at_the_same_time() {
    let echo = Echo::start().await;
    let policy =
        "[[limit]]\nid = \"one\"\nlayer = \"user\"\nrate = \"1/hour\"\nalgorithm = \"concurrency\"\n";
    let server = Server::start(policy, echo.address);
    let (mut socket, _) = connect(&server).await.unwrap();
    exchange(&mut socket, Message::text("open")).await;
    let second = connect(&server).await;
    assert!(matches!(second, Err(Error::Http(_))), "there is one already");
    drop(socket);
    until(|| async { connect(&server).await.ok() }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_that_wants_no_sockets_says_so() {
    let application = Application::plain().await;
    let server = Server::start("", application.address);
    let Err(Error::Http(answer)) = connect(&server).await else { panic!("it is no socket") };
    assert_eq!(answer.status(), StatusCode::OK);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_outlives_the_waits_of_requests_and_not_its_own() {
    let echo = Echo::start().await;
    let numbers = "[gateway]\nheader_timeout = \"200ms\"\nidle_timeout = \"200ms\"\n\
                   response_timeout = \"200ms\"\nupgraded_timeout = \"3s\"\n";
    let server = Server::start(numbers, echo.address);
    let (mut socket, _) = connect(&server).await.unwrap();
    // Longer than a request may stand still, and connections are looked at every quarter of a second.
    tokio::time::sleep(std::time::Duration::from_millis(1_500)).await;
    exchange(&mut socket, Message::text("still here")).await;
    let ended = soon(socket.next()).await;
    assert!(matches!(ended, None | Some(Err(_))), "{ended:?}");
}
