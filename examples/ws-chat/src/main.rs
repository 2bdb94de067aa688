//! The chat on a port of this machine: `cargo run -p ws-chat [PORT] [NAME=VALUE]...`.
#![expect(clippy::print_stdout, reason = "it says what to try, and what happens")]

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use threshold::MemoryStore;
use tokio::net::TcpListener;
use ws_chat::chat::Work;
use ws_chat::{Counters, app, serve};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (settings, ports): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|argument| argument.contains('='));
    let port = ports.first().map_or("3004", String::as_str);
    let variables = |name: &str| {
        let mut pairs = settings.iter().filter_map(|setting| setting.split_once('='));
        pairs.find(|(other, _)| *other == name).map(|(_, value)| value.to_owned())
    };
    let log = Arc::new(|line: &str| println!("{line}"));
    let counters = Counters { store: MemoryStore::new(), edge: MemoryStore::new() };
    let app = app(counters, &variables, log, square())?;
    let listener = TcpListener::bind(format!("127.0.0.1:{port}")).await?;
    let address = listener.local_addr()?;
    println!("Open http://{address}/ in two windows and press \"Flood\", or try:\n");
    println!("  python3 examples/ws-chat/clients/chat.py 'ws://{address}/chat?token=demo-alice' 120\n");
    println!("What is refused is told here.\n");
    serve(listener, app).await?;
    Ok(())
}

/// A square is not hard, but takes a second here, so that one can see what is in flight.
fn square() -> Work {
    Arc::new(|number: u64| {
        Box::pin(async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            number.saturating_mul(number)
        })
    })
}
