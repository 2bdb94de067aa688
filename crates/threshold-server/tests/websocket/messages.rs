//! What becomes of messages: those that pass, and what is said of those that do not.

use futures_util::{SinkExt as _, StreamExt as _};
use tokio_tungstenite::tungstenite::Message;

use super::common::{ask, code, connect, hear, policy};
use crate::support::echo::{Echo, exchange};
use crate::support::server::Server;
use crate::support::wire::soon;

const CHAT: &str = r#"{"type":"Chat","text":"hello"}"#;

#[tokio::test(flavor = "multi_thread")]
async fn messages_pass_as_they_came_until_the_limit() {
    let echo = Echo::start().await;
    let server = Server::start(
        &policy("types = [\"Chat\"]", "per = [\"user\", \"type\"]\nrate = \"3/day\""),
        echo.address,
    );
    let mut socket = connect(&server, "alice").await;
    for _ in 0..3 {
        exchange(&mut socket, Message::text(CHAT)).await;
    }
    let refused = ask(&mut socket, r#"{"type":"Chat","id":"m4"}"#).await;
    assert_eq!(code(&refused), "RESOURCE_EXHAUSTED");
    assert_eq!(refused["meta"]["correlationId"], "m4");
    assert_eq!(refused["payload"]["retryable"], true);
    let wait = refused["payload"]["retryAfterMs"].as_u64().unwrap();
    assert!((1..=28_800_000).contains(&wait), "{wait}");
    assert_eq!(refused["payload"]["details"]["limitId"], "chat");
    assert_eq!(refused["payload"]["details"]["limit"], 3);
    assert_eq!(refused["payload"]["details"]["observed"], 1);
    assert_eq!(echo.count("Chat"), 3, "what is refused does not arrive");
    assert!(!echo.asked.lock().unwrap()[0].contains_key("sec-websocket-extensions"));
    // Other users, other types, and whoever connects again.
    assert_eq!(code(&ask(&mut connect(&server, "bob").await, CHAT).await), "");
    assert_eq!(code(&ask(&mut socket, r#"{"type":"Other"}"#).await), "");
    assert_eq!(code(&ask(&mut connect(&server, "alice").await, CHAT).await), "RESOURCE_EXHAUSTED");
}

#[tokio::test(flavor = "multi_thread")]
async fn types_have_their_costs_and_limits_are_stacked() {
    let echo = Echo::start().await;
    let dear = "[[limit]]\nid = \"dear\"\nlayer = \"endpoint\"\nmessages = [\"Compute\"]\nper = \"user\"\n\
                costs = { Compute = 5 }\nrate = \"10/day\"";
    let server =
        Server::start(&policy("", &format!("per = \"user\"\nrate = \"6/day\"\n{dear}")), echo.address);
    let mut socket = connect(&server, "alice").await;
    let compute = r#"{"type":"Compute"}"#;
    let codes = [
        code(&ask(&mut socket, compute).await).to_owned(),
        code(&ask(&mut socket, compute).await).to_owned(),
        code(&ask(&mut socket, compute).await).to_owned(),
    ];
    assert_eq!(codes, ["", "", "RESOURCE_EXHAUSTED"]);
    // What one limit refused, the other was not charged for.
    for _ in 0..4 {
        assert_eq!(code(&ask(&mut socket, CHAT).await), "");
    }
    assert_eq!(code(&ask(&mut socket, CHAT).await), "RESOURCE_EXHAUSTED");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cost_that_can_never_fit_is_said_to_be_hopeless() {
    let echo = Echo::start().await;
    let server = Server::start(&policy("", "costs = { Huge = 50 }\nrate = \"10/day\""), echo.address);
    let mut socket = connect(&server, "alice").await;
    let refused = ask(&mut socket, r#"{"type":"Huge"}"#).await;
    assert_eq!(code(&refused), "FAILED_PRECONDITION");
    assert_eq!(refused["payload"]["retryable"], false);
    assert!(refused["payload"]["retryAfterMs"].is_null());
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_that_are_too_large_are_passed_over() {
    let echo = Echo::start().await;
    let server = Server::start(&policy("max_payload = 100", "rate = \"100/day\""), echo.address);
    let mut socket = connect(&server, "alice").await;
    for size in [101, 200_000, 3_000_000] {
        let refused = ask(&mut socket, &"x".repeat(size)).await;
        assert_eq!(code(&refused), "FAILED_PRECONDITION");
        assert_eq!(refused["payload"]["details"]["type"], "payload");
        assert_eq!(refused["payload"]["details"]["observed"], size);
        assert_eq!(refused["payload"]["details"]["limit"], 100);
    }
    exchange(&mut socket, Message::text("x".repeat(100))).await;
    assert_eq!(echo.heard.lock().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_type_that_comes_twice_is_nobodys() {
    let echo = Echo::start().await;
    let server = Server::start(&policy("", "rate = \"100/day\""), echo.address);
    let mut socket = connect(&server, "alice").await;
    let refused = ask(&mut socket, r#"{"type":"Cheap","type":"Dear"}"#).await;
    assert_eq!(code(&refused), "INVALID_ARGUMENT");
    assert_eq!(echo.count("Dear"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_others_might_read_a_type_in_is_refused() {
    let echo = Echo::start().await;
    let server = Server::start(&policy("", "rate = \"100/day\""), echo.address);
    let mut socket = connect(&server, "alice").await;
    for odd in [r#"{"\ud800":1,"type":"Dear"}"#, r#"{"room":1e999,"type":"Dear"}"#, "{type:'Dear'}"] {
        assert_eq!(code(&ask(&mut socket, odd).await), "INVALID_ARGUMENT", "{odd}");
    }
    assert_eq!(echo.count("Dear"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_no_type_shares_one_count() {
    let echo = Echo::start().await;
    let server = Server::start(
        &policy("types = [\"Chat\"]", "per = [\"user\", \"type\"]\nrate = \"3/day\""),
        echo.address,
    );
    let mut socket = connect(&server, "alice").await;
    exchange(&mut socket, Message::text("no json")).await;
    exchange(&mut socket, Message::binary(vec![1, 2, 3])).await;
    exchange(&mut socket, Message::text(r#"{"type":"Unheard"}"#)).await;
    socket.send(Message::binary(vec![4])).await.unwrap();
    assert_eq!(code(&hear(&mut socket).await), "RESOURCE_EXHAUSTED");
    exchange(&mut socket, Message::text(CHAT)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_has_a_pace_and_a_lifetime_of_its_own() {
    let echo = Echo::start().await;
    let server = Server::start(&policy("connection_rate = \"3/day\"", "rate = \"100/day\""), echo.address);
    let mut socket = connect(&server, "alice").await;
    socket.send(Message::Ping("a ping counts".into())).await.unwrap();
    assert_eq!(soon(socket.next()).await.unwrap().unwrap(), Message::Pong("a ping counts".into()));
    exchange(&mut socket, Message::text("one")).await;
    exchange(&mut socket, Message::text("two")).await;
    let refused = ask(&mut socket, "three").await;
    assert_eq!(code(&refused), "RESOURCE_EXHAUSTED");
    assert!(refused["payload"]["details"]["limitId"].is_null());
    exchange(&mut connect(&server, "alice").await, Message::text("another connection")).await;

    server.write_policy(&policy("lifetime = 2", "rate = \"100/day\""));
    let mut server = server;
    server.hears("policy reloaded", 1);
    let mut socket = connect(&server, "alice").await;
    exchange(&mut socket, Message::text("one")).await;
    exchange(&mut socket, Message::text("two")).await;
    assert_eq!(code(&ask(&mut socket, "three").await), "FAILED_PRECONDITION");
}

#[tokio::test(flavor = "multi_thread")]
async fn rooms_connections_and_everyone_are_counted_by() {
    let echo = Echo::start().await;
    let mut server = Server::start(&policy("", "per = \"room\"\nrate = \"2/day\""), echo.address);
    let say = r#"{"type":"Say","room":"lobby"}"#;
    let (mut alice, mut bob) = (connect(&server, "alice").await, connect(&server, "bob").await);
    assert_eq!([code(&ask(&mut alice, say).await), code(&ask(&mut bob, say).await)], ["", ""]);
    assert_eq!(code(&ask(&mut bob, say).await), "RESOURCE_EXHAUSTED");
    assert_eq!(code(&ask(&mut bob, r#"{"type":"Say","room":"bar"}"#).await), "");
    for (reloads, per) in [(1, "connection"), (2, "everyone")] {
        server.write_policy(&policy("", &format!("per = \"{per}\"\nrate = \"2/day\"")).replace("chat", per));
        server.hears("policy reloaded", reloads);
        for _ in 0..2 {
            assert_eq!(code(&ask(&mut alice, say).await), "");
        }
        assert_eq!(code(&ask(&mut alice, say).await), "RESOURCE_EXHAUSTED");
        let bobs = ask(&mut bob, say).await;
        assert_eq!(code(&bobs), if per == "everyone" { "RESOURCE_EXHAUSTED" } else { "" });
    }
}
