//! The service on a port of this machine: `cargo run -p communique [PORT]`, set up by the environment.
#![expect(clippy::disallowed_methods, reason = "it is set up by the environment")]
#![expect(clippy::print_stdout, reason = "it says what to try, and what happens")]

use std::error::Error;
use std::future::IntoFuture as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use communique::limits::Limits;
use communique::settings::Settings;
use communique::{app, sweep_every};
use threshold::node::Transition;
use tokio::net::TcpListener;

const DAY: Duration = Duration::from_secs(24 * 3_600);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let port = std::env::args().nth(1).unwrap_or_else(|| "3002".to_owned());
    let settings = Settings::read(&|name| std::env::var(name).ok())?;
    let told = Arc::new(|transition: &Transition| {
        println!("{} is {}: {}", transition.component.name(), transition.state.name(), transition.reason);
    });
    let limits = Arc::new(Limits::open(&settings, told).await?);
    let listener = TcpListener::bind(format!("127.0.0.1:{port}")).await?;
    let address = listener.local_addr()?;
    println!("Counting in {}. Try:\n", settings.implementation);
    println!(
        "  curl -d '{{\"metric\": \"template_view\"}}' -H 'content-type: application/json' http://{address}/contribute"
    );
    println!("  curl http://{address}/stats\n");
    let service = app(Arc::clone(&limits)).into_make_service_with_connect_info::<SocketAddr>();
    tokio::select! {
        served = axum::serve(listener, service).into_future() => Ok(served?),
        () = sweep_every(&limits, DAY, |line| println!("{line}")) => Ok(()),
    }
}
