//! The weather service on a port of this machine: `cargo run -p open-meteo [PORT] [NAME=VALUE]...`.
#![expect(clippy::print_stdout, reason = "it says what to try, and what happens")]

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;

use open_meteo::{Counters, app, node};
use threshold::{MemoryStore, SystemClock};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (settings, ports): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|argument| argument.contains('='));
    let port = ports.first().map_or("3003", String::as_str);
    let variables = |name: &str| {
        let mut pairs = settings.iter().filter_map(|setting| setting.split_once('='));
        pairs.find(|(other, _)| *other == name).map(|(_, value)| value.to_owned())
    };
    let log = Arc::new(|line: &str| println!("{line}"));
    let memories = [MemoryStore::new(), MemoryStore::new()];
    let store = node((MemoryStore::new(), SystemClock::new()), memories, log.clone());
    let app = app(&Counters { store, edge: MemoryStore::new() }, &variables, log)?;
    let listener = TcpListener::bind(format!("127.0.0.1:{port}")).await?;
    let address = listener.local_addr()?;
    println!("Open http://{address}/ or try:\n");
    println!("  curl -i http://{address}/v1/forecast -H 'authorization: Bearer demo-alice'\n");
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}
