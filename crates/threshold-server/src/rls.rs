//! Envoy's rate limit service: proxies ask over gRPC whether a request's descriptors may pass.
//!
//! | module | holds |
//! | --- | --- |
//! | `serve` | one connection: HTTP/2, its calls and their bounds |
//! | `call` | one call: which it is, who may make it, its message and its answer |
//! | `limit` | `ShouldRateLimit`: from the bytes of a question to those of its answer |
//! | `health`, `reflection` | what gRPC has every service tell of itself |
//! | `wire` | protobuf, read where it lies and written as it is made |

mod call;
mod health;
mod limit;
mod reflection;
mod serve;
mod whole;
pub(crate) mod wire;

use std::net::SocketAddr;
use std::sync::Arc;

use arc_swap::ArcSwap;
use threshold::policy::Policy;
use threshold_http::respond::Shown;
use tokio::net::TcpListener;

use crate::engine::Engine;
use crate::health::Health;
use crate::keys::Keys;
use crate::listening::Listening;
use serve::serve;

/// A rate limit service that listens.
pub(crate) struct Rls {
    listening: Listening,
    shared: Arc<Shared>,
}

/// What all calls share.
struct Shared {
    engine: Arc<Engine>,
    health: Arc<Health>,
    settings: ArcSwap<Settings>,
    /// True if callers are on this machine, and so need no key.
    near: bool,
}

/// What a policy says of the service.
pub(crate) struct Settings {
    keys: Keys,
    /// Which headers proxies are told to add; none if none.
    shown: Option<Shown>,
}

impl Settings {
    /// Reads what `policy` says.
    pub(crate) fn new(policy: &Policy) -> Self {
        let server = policy.server.as_ref();
        let headers = server.is_none_or(|server| server.rls_headers);
        let legacy = server.is_none_or(|server| server.legacy_headers);
        Self { keys: Keys::new(policy), shown: headers.then_some(Shown { legacy }) }
    }
}

impl Rls {
    /// Answers by `engine` who calls at `listener`.
    pub(crate) fn start(
        listener: TcpListener,
        (engine, health): (&Arc<Engine>, &Arc<Health>),
        settings: Settings,
    ) -> std::io::Result<Self> {
        let near = listener.local_addr()?.ip().is_loopback();
        let shared = Arc::new(Shared {
            engine: Arc::clone(engine),
            health: Arc::clone(health),
            settings: ArcSwap::from_pointee(settings),
            near,
        });
        let serving = Arc::clone(&shared);
        let listening = Listening::start("rls", listener, (Arc::default(), b""), move |arrived, stopped| {
            serve(arrived, Arc::clone(&serving), stopped)
        })?;
        Ok(Self { listening, shared })
    }

    /// Where it listens.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.listening.address()
    }

    /// Goes by `settings` from the next call on.
    pub(crate) fn change(&self, settings: Settings) {
        self.shared.settings.store(Arc::new(settings));
    }

    /// Accepts nobody any more, and lets calls in flight be answered.
    pub(crate) async fn stop(self) {
        self.listening.stop().await;
    }
}
