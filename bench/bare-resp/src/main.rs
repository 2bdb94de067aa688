//! The least that answers clients of Redis by tokio: it counts the commands that came, reads nothing of them, and answers
//! each with the same.
//!
//! Usage: `bare-resp-bench LISTEN`

use std::net::SocketAddr;
use std::process::ExitCode;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::LocalSet;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// As many bytes as an answer to `CL.THROTTLE` has here.
const REPLY: &[u8] = b"*5\r\n:0\r\n:1000001\r\n:1000000\r\n:-1\r\n:1\r\n";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [listen] = words.as_slice() else {
        eprintln!("usage: bare-resp-bench LISTEN");
        return ExitCode::FAILURE;
    };
    match run(listen) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bare-resp-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(listen: &str) -> Outcome<()> {
    let address: SocketAddr = listen.parse()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    LocalSet::new().block_on(&runtime, serve(address))
}

async fn serve(address: SocketAddr) -> Outcome<()> {
    let listener = TcpListener::bind(address).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::task::spawn_local(talk(stream));
    }
}

/// A command begins with a star, and the words that are sent here have none.
async fn talk(mut stream: TcpStream) {
    let (mut received, mut out) = ([0; 16 * 1024], Vec::new());
    while let Ok(length @ 1..) = stream.read(&mut received).await {
        let commands = received[..length].iter().filter(|byte| **byte == b'*').count();
        out.clear();
        (0..commands).for_each(|_| out.extend_from_slice(REPLY));
        if stream.write_all(&out).await.is_err() {
            return;
        }
    }
}
