//! What the gateway goes by: made of a policy, and swapped as a whole when the policy changes.

use std::net::IpAddr;
use std::sync::Arc;

use http::HeaderName;
use rustls::ServerConfig;
use threshold::engine::Rules;
use threshold::policy::{GatewayNumbers, Policy, WebSocket};
use threshold_http::delay::DelayPool;
use threshold_http::respond::Shown;

use super::tls;
use super::upstream::Upstreams;
use super::websocket::Limiter;
use crate::engine::{Engine, Layer};
use crate::log::Log;

/// What the gateway goes by.
pub(crate) struct Settings {
    pub(super) numbers: GatewayNumbers,
    pub(super) upstreams: Upstreams,
    rules: Arc<Rules>,
    /// Headers that only a trusted proxy may send on.
    pub(super) untrusted: Vec<HeaderName>,
    pub(super) tls: Option<Arc<ServerConfig>>,
    pub(super) layer: Layer,
    pub(super) engine: Arc<Engine>,
    /// What WebSocket messages are limited by, if they are.
    pub(super) messages: Option<Limiter>,
    /// Where requests are held back.
    pub(super) delays: DelayPool,
}

/// What may fail of making settings, done before anything is changed.
pub(crate) struct Prepared {
    numbers: GatewayNumbers,
    upstreams: Upstreams,
    tls: Option<Arc<ServerConfig>>,
    legacy: bool,
    websocket: Option<WebSocket>,
}

impl Prepared {
    /// Reads what `policy` says of the gateway; `upstream` takes what no other application does.
    pub(crate) fn new(policy: &Policy, upstream: Option<&str>) -> Result<Self, String> {
        let gateway = policy.gateway.as_ref();
        Ok(Self {
            numbers: gateway.map(|gateway| gateway.numbers()).unwrap_or_default(),
            upstreams: Upstreams::new(policy, upstream)?,
            tls: gateway.and_then(|gateway| gateway.tls.as_ref()).map(tls::config).transpose()?,
            websocket: policy.websocket.clone(),
            legacy: policy.server.as_ref().is_none_or(|server| server.legacy_headers),
        })
    }

    /// True if clients are spoken to by TLS.
    pub(crate) const fn is_secure(&self) -> bool {
        self.tls.is_some()
    }
}

impl Settings {
    /// The settings for the limits that `engine` has in force, in the place of those `before`.
    pub(crate) fn new(
        prepared: Prepared,
        (engine, log): (&Arc<Engine>, &Arc<Log>),
        before: Option<&Self>,
    ) -> Self {
        let Prepared { numbers, upstreams, tls, legacy, websocket } = prepared;
        let rules = engine.rules();
        let untrusted = rules.identity_headers().filter_map(|name| name.parse().ok()).collect();
        // Those who are held back stay counted, unless there may be another number of them.
        let same = before.filter(|before| before.numbers.max_delayed == numbers.max_delayed);
        let delays =
            same.map_or_else(|| DelayPool::new(numbers.max_delayed as usize), |same| same.delays.clone());
        let mut layer = Layer::new(Arc::clone(engine))
            .showing(Shown { legacy })
            .delaying(delays.clone())
            .max_body_bytes(numbers.max_body_bytes)
            .without_extensions();
        if tls.is_none() {
            layer = layer.insecure_cookies();
        }
        let limited = websocket.is_some() || rules.has_messages();
        let messages = limited.then(|| {
            let limiter = Limiter::new(Arc::clone(engine)).delaying(delays.clone());
            let log = Arc::clone(log);
            let limiter = limiter.reading(&websocket.unwrap_or_default());
            limiter.on_limit_exceeded(move |exceeded| {
                log.refused_message(&exceeded);
                std::future::ready(())
            })
        });
        let engine = Arc::clone(engine);
        Self { numbers, upstreams, rules, untrusted, tls, layer, engine, messages, delays }
    }

    pub(super) fn trusts(&self, peer: IpAddr) -> bool {
        self.rules.trusts(peer)
    }
}
