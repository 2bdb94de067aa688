//! A way to a server that can be made bad.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// What is wrong with the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Nothing.
    Clear = 0,
    /// Everything that is sent, either way, goes nowhere.
    Silent = 1,
    /// Connections are reset.
    Resets = 2,
    /// Everything takes 50 milliseconds longer.
    Slow = 3,
    /// What is asked arrives, and no answer comes back.
    Deaf = 4,
}

const ALL: [Way; 5] = [Way::Clear, Way::Silent, Way::Resets, Way::Slow, Way::Deaf];
/// How often those on their way look whether it has changed.
const LOOK: Duration = Duration::from_millis(5);

/// The way. It ends when it is dropped and the runtime ends.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    way: Arc<AtomicU8>,
}

impl Proxy {
    /// A way to the server on `port` of this machine.
    ///
    /// # Panics
    ///
    /// If there is no free port.
    pub async fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("there is a free port");
        let address = listener.local_addr().expect("it has an address");
        let way = Arc::new(AtomicU8::new(Way::Clear as u8));
        tokio::spawn(accept(listener, port, Arc::clone(&way)));
        Self { address, way }
    }

    /// Where it begins.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.address.port()
    }

    /// Makes it so from now on, also for connections that are open.
    pub fn set(&self, way: Way) {
        self.way.store(way as u8, Ordering::Release);
    }
}

fn now(way: &AtomicU8) -> Way {
    ALL[usize::from(way.load(Ordering::Acquire))]
}

async fn accept(listener: TcpListener, port: u16, way: Arc<AtomicU8>) {
    while let Ok((client, _)) = listener.accept().await {
        let way = Arc::clone(&way);
        tokio::spawn(async move {
            if now(&way) == Way::Resets {
                return;
            }
            let Ok(server) = TcpStream::connect(("127.0.0.1", port)).await else { return };
            let (from_client, to_client) = client.into_split();
            let (from_server, to_server) = server.into_split();
            tokio::select! {
                () = pass(from_client, to_server, &way, false) => {}
                () = pass(from_server, to_client, &way, true) => {}
                () = reset(&way) => {}
            }
        });
    }
}

async fn reset(way: &AtomicU8) {
    while now(way) != Way::Resets {
        tokio::time::sleep(LOOK).await;
    }
}

/// Passes on what comes, as far as the way lets it. What was lost stays lost: the connection is of no use after that.
async fn pass(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    way: &AtomicU8,
    answers: bool,
) {
    let (mut piece, mut lost) = (vec![0; 16 * 1024], false);
    while let Ok(length @ 1..) = from.read(&mut piece).await {
        match now(way) {
            Way::Silent => lost = true,
            Way::Deaf if answers => lost = true,
            Way::Slow => tokio::time::sleep(Duration::from_millis(50)).await,
            Way::Clear | Way::Resets | Way::Deaf => {}
        }
        // Half a conversation would be nonsense to either side.
        if !lost && to.write_all(&piece[..length]).await.is_err() {
            return;
        }
        if lost && now(way) == Way::Clear {
            return;
        }
    }
}
