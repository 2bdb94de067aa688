//! How many messages may wait for an answer at the same time.

use futures_util::SinkExt as _;
use tokio_tungstenite::tungstenite::Message;

use super::common::{ask, code, connect, hear, policy};
use crate::support::echo::Echo;
use crate::support::server::Server;
use crate::support::wire::until;

/// Two of each user at the same time; whoever says `go` waits for nothing.
fn two() -> String {
    let limit = "algorithm = \"concurrency\"\nrate = \"2/hour\"\nper = \"user\"";
    policy("", limit).replace("messages = \"*\"", "messages = [\"hold\", \"say\"]")
}

#[tokio::test(flavor = "multi_thread")]
async fn as_many_as_the_limit_says_wait_for_their_answers() {
    let echo = Echo::start().await;
    let server = Server::start(&two(), echo.address);
    let mut socket = connect(&server, "alice").await;
    for id in ["a", "b"] {
        socket.send(Message::text(format!(r#"{{"type":"hold","id":"{id}"}}"#))).await.unwrap();
    }
    let refused = ask(&mut socket, r#"{"type":"hold","id":"c"}"#).await;
    assert_eq!(code(&refused), "RESOURCE_EXHAUSTED");
    assert_eq!(refused["meta"]["correlationId"], "c");
    // The same id again is another message, and another connection is the same user.
    assert_eq!(code(&ask(&mut socket, r#"{"type":"hold","id":"a"}"#).await), "RESOURCE_EXHAUSTED");
    let mut other = connect(&server, "alice").await;
    assert_eq!(code(&ask(&mut other, r#"{"type":"hold","id":"d"}"#).await), "RESOURCE_EXHAUSTED");
    // Who leaves out the id does not get past those who wait.
    assert_eq!(code(&ask(&mut other, r#"{"type":"say"}"#).await), "RESOURCE_EXHAUSTED");
    // Answers make room.
    socket.send(Message::text("go")).await.unwrap();
    assert_eq!([hear(&mut socket).await["id"].clone(), hear(&mut socket).await["id"].clone()], ["a", "b"]);
    assert_eq!(ask(&mut other, r#"{"type":"say","id":"e"}"#).await["id"], "e");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_ends_gives_its_places_back() {
    let echo = Echo::start().await;
    let server = Server::start(&two(), echo.address);
    let mut socket = connect(&server, "alice").await;
    for id in ["a", "b"] {
        socket.send(Message::text(format!(r#"{{"type":"hold","id":"{id}"}}"#))).await.unwrap();
    }
    until(|| async { (echo.count("hold") == 2).then_some(()) }).await;
    drop(socket);
    let mut other = connect(&server, "alice").await;
    until(|| async {
        code(&ask(&mut connect(&server, "alice").await, r#"{"type":"say","id":"x"}"#).await)
            .is_empty()
            .then_some(())
    })
    .await;
    assert_eq!(ask(&mut other, r#"{"type":"say","id":"y"}"#).await["id"], "y");
}
