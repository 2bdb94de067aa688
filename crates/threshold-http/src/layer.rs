//! The layer: an engine, and what can be set around it.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::{Extensions, Response};
use http_body_util::Full;
use threshold::engine::Engine;
use threshold::{MemoryLedger, MemoryStore, SystemClock, UniqueIds};
use tower_layer::Layer;

use crate::delay::DelayPool;
use crate::facts;
use crate::respond::{Answer, Shown};
use crate::service::ThresholdService;

/// The largest body of a login: an account and a password.
const LOGIN_BYTES: usize = 64 * 1024;

/// Limits whatever service it is put around.
///
/// Requests need to say who is at the other end of their connection: [`Peer`](crate::Peer) among their extensions, axum's
/// `ConnectInfo<SocketAddr>` (feature `axum`), or whatever [`peer_by`](Self::peer_by) reads.
pub struct ThresholdLayer<S = MemoryStore, C = SystemClock, L = MemoryLedger> {
    pub(crate) shared: Arc<Shared<S, C, L>>,
}

/// What all requests share.
pub(crate) struct Shared<S, C, L> {
    pub(crate) engine: Arc<Engine<S, C, L>>,
    pub(crate) settings: Settings,
    /// Names what requests hold.
    pub(crate) ids: Arc<UniqueIds>,
}

/// What can be set.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) shown: Shown,
    pub(crate) delays: DelayPool,
    pub(crate) peer: fn(&Extensions) -> Option<IpAddr>,
    pub(crate) respond: Option<Arc<Responder>>,
    pub(crate) most_bytes: Option<u64>,
    pub(crate) most_login_bytes: usize,
    pub(crate) extensions: bool,
    pub(crate) secure_cookies: bool,
}

/// Writes a refusal in an application's own format.
type Responder = dyn Fn(Answer, &Parts) -> Response<Full<Bytes>> + Send + Sync;

impl<S, C, L> ThresholdLayer<S, C, L> {
    /// Limits by `engine`.
    pub fn new(engine: Arc<Engine<S, C, L>>) -> Self {
        let settings = Settings {
            shown: Shown::default(),
            delays: DelayPool::default(),
            peer: facts::peer,
            respond: None,
            most_bytes: None,
            most_login_bytes: LOGIN_BYTES,
            extensions: true,
            secure_cookies: true,
        };
        Self { shared: Arc::new(Shared { engine, settings, ids: Arc::default() }) }
    }

    fn with(self, change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = self.shared.settings.clone();
        change(&mut settings);
        let (engine, ids) = (Arc::clone(&self.shared.engine), Arc::clone(&self.shared.ids));
        Self { shared: Arc::new(Shared { engine, settings, ids }) }
    }

    /// Writes refusals by `respond`, so that an application keeps its own format. It is given what would be answered and
    /// the request.
    #[must_use]
    pub fn respond_by(
        self,
        respond: impl Fn(Answer, &Parts) -> Response<Full<Bytes>> + Send + Sync + 'static,
    ) -> Self {
        self.with(|settings| settings.respond = Some(Arc::new(respond)))
    }

    /// Reads the peer's address from a request's extensions by `peer`.
    #[must_use]
    pub fn peer_by(self, peer: fn(&Extensions) -> Option<IpAddr>) -> Self {
        self.with(|settings| settings.peer = peer)
    }

    /// Shows what `shown` says.
    #[must_use]
    pub fn showing(self, shown: Shown) -> Self {
        self.with(|settings| settings.shown = shown)
    }

    /// Holds requests back out of `pool`.
    #[must_use]
    pub fn delaying(self, pool: DelayPool) -> Self {
        self.with(|settings| settings.delays = pool)
    }

    /// Refuses bodies of more than `most` bytes.
    #[must_use]
    pub fn max_body_bytes(self, most: u64) -> Self {
        self.with(|settings| settings.most_bytes = Some(most))
    }

    /// Tells the application nothing about the decision and the client, which saves a little.
    #[must_use]
    pub fn without_extensions(self) -> Self {
        self.with(|settings| settings.extensions = false)
    }

    /// Lets browsers send the cookie of a known device without TLS too. For trying things out.
    #[must_use]
    pub fn insecure_cookies(self) -> Self {
        self.with(|settings| settings.secure_cookies = false)
    }
}

impl<S, C, L> Clone for ThresholdLayer<S, C, L> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<I, S, C, L> Layer<I> for ThresholdLayer<S, C, L> {
    type Service = ThresholdService<I, S, C, L>;

    fn layer(&self, inner: I) -> Self::Service {
        ThresholdService { inner, shared: Arc::clone(&self.shared), peer: None }
    }
}
