//! Every Rust block of the guide about the middleware, run. `cargo xtask tidy` checks that none is missing here.

use std::error::Error;

#[test]
fn the_middleware() -> Result<(), Box<dyn Error>> {
    use std::sync::Arc;
    use threshold::engine::{Engine, Rules, Secrets};
    use threshold::policy::Policy;
    use threshold::{MemoryStore, random_secret};
    use threshold_http::ThresholdLayer;

    let environment = |_: &str| None;
    let text = "[[limit]]\nid = \"api\"\nlayer = \"user\"\nper = \"ip\"\nrate = \"100/min\"\n";
    let policy = Policy::read("policy.toml", text, &environment)?;
    let secrets = Secrets::new(random_secret());
    let rules = Rules::new(&policy, &secrets, &environment)?;
    let engine = Engine::new(rules, secrets, MemoryStore::new(), MemoryStore::new());
    let layer = ThresholdLayer::new(Arc::new(engine));
    drop(layer);
    Ok(())
}

#[tokio::test]
#[expect(clippy::print_stdout, reason = "as the guide has it")]
async fn websockets() -> Result<(), Box<dyn Error>> {
    use futures_util::{SinkExt as _, StreamExt as _};
    use std::sync::Arc;
    use threshold::engine::{Engine, Rules, Secrets};
    use threshold::policy::Policy;
    use threshold::{MemoryStore, random_secret};
    use tokio_tungstenite::WebSocketStream;
    use tokio_tungstenite::tungstenite::{Message, protocol::Role};

    let environment = |_: &str| None;
    let text = "[[limit]]\nid = \"chat\"\nlayer = \"user\"\nmessages = \"*\"\nrate = \"7/day\"\n";
    let policy = Policy::read("policy.toml", text, &environment)?;
    let secrets = Secrets::new(random_secret());
    let rules = Rules::new(&policy, &secrets, &environment)?;
    let engine = Arc::new(Engine::new(rules, secrets, MemoryStore::new(), MemoryStore::new()));
    let address = std::net::IpAddr::from([192, 0, 2, 1]);
    let (one, other) = tokio::io::duplex(4_096);
    let mut friend = WebSocketStream::from_raw_socket(one, Role::Client, None).await;
    let socket = WebSocketStream::from_raw_socket(other, Role::Server, None).await;
    for kind in ["Compute", "Say", "Compute"] {
        friend.send(Message::text(format!("{{\"type\":\"{kind}\"}}"))).await?;
    }
    friend.close(None).await?;

    use threshold_http::Client;
    use threshold_http::websocket::{LimitedSocket, MessageLimiter};

    let limiter = MessageLimiter::new(engine)
        .cost_by(|message| if message.kind == Some("Compute") { 5 } else { 1 })
        .on_limit_exceeded(|exceeded| async move { println!("{exceeded:?}") });

    let client = Client::new(address).with_user("alice");
    let mut socket = LimitedSocket::new(socket, limiter.connect(client, None, "/chat"));
    while let Some(Ok(received)) = socket.recv().await {
        if received.message.is_text() {
            socket.send(received.message).await?;
        }
    }

    drop(socket);
    let mut heard = Vec::new();
    while let Some(Ok(message)) = friend.next().await {
        heard.push(message.to_string());
    }
    assert_eq!(heard[..2], ["{\"type\":\"Compute\"}", "{\"type\":\"Say\"}"]);
    assert!(heard[2].contains("RESOURCE_EXHAUSTED"), "{heard:?}");
    Ok(())
}
