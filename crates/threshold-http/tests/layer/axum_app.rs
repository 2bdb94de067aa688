//! The layer inside an application of axum: the peer by `ConnectInfo`, and what handlers may ask for.

use std::net::SocketAddr;

use axum::Router;
use axum::routing::get;
use threshold_http::{Allowed, Client as Sender, ThresholdLayer};
use tokio::net::TcpListener;

use crate::per_user;
use crate::wire::{Client, engine, request};

async fn tell(sender: Sender, allowed: Allowed) -> String {
    let left = allowed.quota.map(|quota| quota.remaining);
    format!("{} {:?} {left:?}", sender.address, sender.user)
}

/// Serves `app` as axum does.
async fn serve(app: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = app.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, service).await });
    address
}

#[tokio::test]
async fn handlers_ask_for_the_client_and_what_is_left() {
    let (engine, _) = engine(&per_user("rate = \"1/min\""));
    let app = Router::new().route("/", get(tell)).layer(ThresholdLayer::new(engine));
    let mut client = Client::connect(serve(app).await).await;
    let alice = [("x-user", "alice"), ("x-forwarded-for", "192.0.2.4")];
    let answered = client.send(request("GET", "/", &alice, "")).await;
    assert_eq!(answered.text(), "192.0.2.4 Some(\"alice\") Some(0)");
    assert_eq!(client.send(request("GET", "/", &alice, "")).await.status, 429);
    assert_eq!(client.get("/").await.text(), "127.0.0.1 None Some(0)");
}

#[tokio::test]
async fn without_the_layer_they_are_told_what_is_missing() {
    let (engine, _) = engine("");
    let silent = ThresholdLayer::new(engine).without_extensions();
    let bare = Router::new().route("/", get(tell));
    for app in [bare.clone(), bare.layer(silent)] {
        let answered = Client::connect(serve(app).await).await.get("/").await;
        assert_eq!(answered.status, 500);
        assert!(answered.text().contains("`ThresholdLayer` is not around this handler"), "{answered:?}");
    }
}
