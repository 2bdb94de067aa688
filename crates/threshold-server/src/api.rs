//! The decision API: programs in any language, and proxies, ask for decisions over HTTP.
//!
//! | module | holds |
//! | --- | --- |
//! | `answer` | which question is asked, by whom it may be, and what is told when it makes no sense |
//! | `serve`, `shortcut` | one connection: by hyper, and the commonest question on a shorter way |
//! | `check`, `forward_auth` | may this request go on |
//! | `consume` | charges that callers name themselves |
//! | `login` | attempts to log in |
//! | `keys` | who may ask |
//! | `idempotency` | questions that were asked before |
//! | `ask` | what is asked of the engine |
//! | `read`, `write` | JSON in and out |
//! | `openapi` | the same for programs and people |

mod answer;
mod ask;
mod check;
mod consume;
mod forward_auth;
mod idempotency;
mod keys;
mod login;
mod openapi;
pub(crate) mod read;
mod serve;
mod shortcut;
mod write;

use std::net::SocketAddr;
use std::sync::Arc;

use arc_swap::ArcSwap;
use threshold::policy::{GatewayNumbers, Policy};
use threshold_http::delay::DelayPool;
use threshold_http::respond::Shown;
use tokio::net::TcpListener;

use crate::engine::Engine;
use crate::keys::Keys;
use crate::listening::Listening;
pub(crate) use check::explain_only;
use idempotency::Idempotency;
use serve::serve;
pub(crate) use write::explained;

/// A decision API that listens.
pub(crate) struct Api {
    listening: Listening,
    shared: Arc<Shared>,
}

/// What all questions share.
pub(crate) struct Shared {
    engine: Arc<Engine>,
    settings: ArcSwap<Settings>,
    idempotency: Idempotency,
}

/// What a policy says of the API.
pub(crate) struct Settings {
    keys: Keys,
    shown: Shown,
    delays: DelayPool,
}

impl Settings {
    /// Reads what `policy` says.
    pub(crate) fn new(policy: &Policy) -> Self {
        let numbers: GatewayNumbers = policy.gateway.as_ref().map(|own| own.numbers()).unwrap_or_default();
        Self {
            keys: Keys::new(policy),
            shown: Shown { legacy: policy.server.as_ref().is_none_or(|server| server.legacy_headers) },
            delays: DelayPool::new(numbers.max_delayed as usize),
        }
    }
}

impl Api {
    /// Answers by `engine` who asks at `listener`.
    pub(crate) fn start(
        listener: TcpListener,
        engine: &Arc<Engine>,
        settings: Settings,
    ) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            engine: Arc::clone(engine),
            settings: ArcSwap::from_pointee(settings),
            idempotency: Idempotency::default(),
        });
        let serving = Arc::clone(&shared);
        let listening = Listening::start("api", listener, (Arc::default(), b""), move |arrived, stopped| {
            serve(arrived, Arc::clone(&serving), stopped)
        })?;
        Ok(Self { listening, shared })
    }

    /// Where it listens.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.listening.address()
    }

    /// Goes by `settings` from the next question on.
    pub(crate) fn change(&self, settings: Settings) {
        self.shared.settings.store(Arc::new(settings));
    }

    /// Accepts nobody any more, and lets questions in flight be answered.
    pub(crate) async fn stop(self) {
        self.listening.stop().await;
    }
}
