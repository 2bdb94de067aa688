//! RESP: whoever has a client of Redis asks for decisions, by the commands of redis-cell and throttlecrab and by our own.
//!
//! | module | holds |
//! | --- | --- |
//! | `parse` | commands out of bytes |
//! | `serve`, `round` | one connection: read once, decide about all that came, write once |
//! | `commands` | which command it is |
//! | `throttle` | limits that come with the question |
//! | `policy`, `check` | limits of the policy, and requests by all its layers |
//! | `session`, `catalogue` | what clients say and ask when they connect |
//! | `write` | replies as bytes |

mod catalogue;
mod check;
mod commands;
pub(crate) mod parse;
mod policy;
mod round;
mod serve;
mod session;
mod throttle;
mod write;

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use arc_swap::ArcSwap;
use threshold::policy::Policy;
use threshold_http::respond::Shown;
use tokio::net::TcpListener;

use crate::engine::Engine;
use crate::keys::Keys;
use crate::listening::{Crowd, Listening};
use serve::serve;

/// A reply that has to be waited for.
type Answering<'e> = Pin<Box<dyn Future<Output = Vec<u8>> + Send + 'e>>;

/// A listener for clients of Redis.
pub(crate) struct Resp {
    listening: Listening,
    shared: Arc<Shared>,
}

/// What all connections share.
struct Shared {
    engine: Arc<Engine>,
    settings: ArcSwap<Settings>,
    /// Who is connected.
    crowd: Arc<Crowd>,
    /// The number of the last connection.
    ids: AtomicU64,
}

/// What a policy says of it.
pub(crate) struct Settings {
    keys: Keys,
    shown: Shown,
}

impl Settings {
    /// Reads what `policy` says.
    pub(crate) fn new(policy: &Policy) -> Self {
        let legacy = policy.server.as_ref().is_none_or(|server| server.legacy_headers);
        Self { keys: Keys::new(policy), shown: Shown { legacy } }
    }
}

impl Resp {
    /// Answers by `engine` who asks at `listener`.
    pub(crate) fn start(
        listener: TcpListener,
        engine: &Arc<Engine>,
        settings: Settings,
    ) -> std::io::Result<Self> {
        let crowd = Arc::<Crowd>::default();
        let shared = Arc::new(Shared {
            engine: Arc::clone(engine),
            settings: ArcSwap::from_pointee(settings),
            crowd: Arc::clone(&crowd),
            ids: AtomicU64::new(0),
        });
        let serving = Arc::clone(&shared);
        let listening = Listening::start(
            "resp",
            listener,
            (crowd, b"-ERR max number of clients reached\r\n"),
            move |arrived, stopped| serve(arrived, Arc::clone(&serving), stopped),
        )?;
        Ok(Self { listening, shared })
    }

    /// Where it listens.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.listening.address()
    }

    /// Goes by `settings` from the next commands on.
    pub(crate) fn change(&self, settings: Settings) {
        self.shared.settings.store(Arc::new(settings));
    }

    /// Accepts nobody any more, and lets commands in flight be answered.
    pub(crate) async fn stop(self) {
        self.listening.stop().await;
    }
}
