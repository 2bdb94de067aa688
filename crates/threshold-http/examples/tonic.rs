//! Limits around a service of gRPC: a refusal is `RESOURCE_EXHAUSTED`, with a `RetryInfo` in its details.
//!
//! `cargo run -p threshold-http --example tonic [PORT]`
#![expect(clippy::print_stdout, reason = "it says what to try")]

#[path = "support/echo.rs"]
pub(crate) mod echo;

use std::error::Error;
use std::sync::Arc;

use echo::{Echo, peer};
use threshold::engine::{Engine, Rules, Secrets};
use threshold::policy::Policy;
use threshold::{MemoryStore, random_secret};
use threshold_http::ThresholdLayer;
use tokio::net::TcpListener;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

/// A method of gRPC is a route like any other.
const POLICY: &str = r#"
[routes]
say = "POST /example.Echo/Say"

[[limit]]
id = "say"
layer = "endpoint"
route = "say"
per = "ip"
rate = "3/min"
"#;

/// The layer, from a policy. Who is at the other end is read where tonic notes it down.
fn limits() -> Result<ThresholdLayer, Box<dyn Error>> {
    let none = |_: &str| None;
    let policy = Policy::read("policy.toml", POLICY, &none)?;
    let secrets = Secrets::new(random_secret());
    let rules = Rules::new(&policy, &secrets, &none)?;
    let engine = Engine::new(rules, secrets, MemoryStore::new(), MemoryStore::new());
    Ok(ThresholdLayer::new(Arc::new(engine)).peer_by(peer))
}

/// Serves the echo, and whatever else is added here.
pub(crate) async fn serve(listener: TcpListener) -> Result<(), Box<dyn Error>> {
    let server = Server::builder().layer(limits()?).add_service(Echo);
    Ok(server.serve_with_incoming(TcpIncoming::from(listener)).await?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let port = std::env::args().nth(1).unwrap_or_else(|| "3002".to_owned());
    let listener = TcpListener::bind(format!("127.0.0.1:{port}")).await?;
    let address = listener.local_addr()?;
    // A message of no bytes, in its frame of five.
    println!("Listening on {address}. Try, four times:\n");
    println!("  printf '\\0\\0\\0\\0\\0' | curl -s -D - -o /dev/null --http2-prior-knowledge \\");
    println!("    -H 'content-type: application/grpc' -H 'te: trailers' --data-binary @- \\");
    println!("    http://{address}/example.Echo/Say");
    serve(listener).await
}
