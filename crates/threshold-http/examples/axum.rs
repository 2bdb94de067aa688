//! Limits around an application of axum.
//!
//! `cargo run -p threshold-http --features axum --example axum [PORT]`
#![expect(clippy::print_stdout, reason = "it says what to try")]

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};
use threshold::engine::{Engine, Rules, Secrets};
use threshold::policy::Policy;
use threshold::{MemoryStore, random_secret};
use threshold_http::{Allowed, Client, ThresholdLayer};
use tokio::net::TcpListener;

const POLICY: &str = r#"
[routes]
reports = "POST /reports"

[[limit]]
id = "requests"
layer = "user"
per = "ip"
rate = "10 per 10s"

[[limit]]
id = "reports"
layer = "endpoint"
route = "reports"
per = "ip"
rate = "2/min"
algorithm = "sliding-log"
"#;

/// The application: handlers may ask who sent a request, and what is left to them.
pub(crate) fn app() -> Result<Router, Box<dyn Error>> {
    Ok(Router::new().route("/", get(hello)).route("/reports", post(report)).layer(limits()?))
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

async fn hello(client: Client, allowed: Allowed) -> String {
    let left = allowed.quota.map_or(0, |quota| quota.remaining);
    format!("Hello, {}. You may ask {left} times more.\n", client.address)
}

async fn report() -> &'static str {
    "Here is your report.\n"
}

/// Serves `app`; `ConnectInfo` is how the layer knows who is at the other end.
pub(crate) async fn serve(listener: TcpListener, app: Router) -> std::io::Result<()> {
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let port = std::env::args().nth(1).unwrap_or_else(|| "3000".to_owned());
    let listener = TcpListener::bind(format!("127.0.0.1:{port}")).await?;
    let address = listener.local_addr()?;
    println!("Listening on http://{address}. Try:\n");
    println!("  curl -i http://{address}/");
    println!("  for i in 1 2 3; do curl -i -X POST http://{address}/reports; done   # the third is refused");
    serve(listener, app()?).await?;
    Ok(())
}
