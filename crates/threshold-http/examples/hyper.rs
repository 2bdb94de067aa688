//! Limits around a service of hyper, without a framework.
//!
//! `cargo run -p threshold-http --example hyper [PORT]`
#![expect(clippy::print_stdout, reason = "it says what to try")]

use std::convert::Infallible;
use std::error::Error;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use threshold::engine::{Engine, Rules, Secrets};
use threshold::policy::Policy;
use threshold::{MemoryStore, random_secret};
use threshold_http::{Peer, ThresholdLayer};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tower_layer::Layer as _;
use tower_service::Service;

const POLICY: &str = r#"
[[limit]]
id = "requests"
layer = "user"
per = "ip"
rate = "3/min"
"#;

/// The application: any service of tower will do.
#[derive(Clone)]
struct Hello;

impl<B> Service<Request<B>> for Hello {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        ready(Ok(Response::new(Full::from(format!("Hello from {}.\n", request.uri().path())))))
    }
}

/// The layer, from a policy; a larger program reads it from a file.
fn limits() -> Result<ThresholdLayer, Box<dyn Error>> {
    let none = |_: &str| None;
    let policy = Policy::read("policy.toml", POLICY, &none)?;
    let secrets = Secrets::new(random_secret());
    let rules = Rules::new(&policy, &secrets, &none)?;
    let engine = Engine::new(rules, secrets, MemoryStore::new(), MemoryStore::new());
    Ok(ThresholdLayer::new(Arc::new(engine)))
}

/// Serves every connection; whoever accepts it has to tell the layer who is at the other end.
pub(crate) async fn serve(listener: TcpListener) -> Result<(), Box<dyn Error>> {
    let limited = limits()?.layer(Hello);
    let mut connections = JoinSet::new();
    loop {
        let (stream, peer) = listener.accept().await?;
        let limited = limited.clone();
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(Peer(peer));
            limited.clone().call(request)
        });
        let connection =
            http1::Builder::new().timer(TokioTimer::new()).serve_connection(TokioIo::new(stream), service);
        // A connection that breaks off concerns nobody else.
        connections.spawn(async move { connection.await.is_ok() });
        while connections.try_join_next().is_some() {}
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let port = std::env::args().nth(1).unwrap_or_else(|| "3001".to_owned());
    let listener = TcpListener::bind(format!("127.0.0.1:{port}")).await?;
    println!(
        "Listening on http://{0}. Try:\n\n  for i in 1 2 3 4; do curl -i http://{0}/tea; done",
        listener.local_addr()?
    );
    serve(listener).await
}
