//! Traces: what became of a request, for whoever collects such by OTLP.
//!
//! | module | holds |
//! | --- | --- |
//! | `context` | `traceparent`: which trace a request belongs to |
//! | `encode` | spans as OTLP has them |
//! | `export` | the thread that sends them |
//!
//! A request of the gateway has three spans: itself, the decision about it and the application's answer. What is known of it
//! is gathered while it is under way; when the last who knows of it lets go, it is put into a queue of a fixed size. Where
//! that is full it is dropped and counted: nothing waits for a collector.

mod context;
mod encode;
mod export;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::uri::Authority;
use http::{Method, Request, StatusCode, Version};
use threshold::figures::{Ending, Seen, Watcher};
use threshold::{Clock as _, SystemClock, Timestamp, UniqueIds};
use threshold_http::Onlooker;
use tokio::sync::mpsc;

use crate::outbound::Url;
use context::Context;
pub(crate) use export::Exporter;

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");
/// The longest host that is told of.
const MAX_HOST: usize = 255;
/// The longest `tracestate` that is handed on, as the standard wants it at least.
const MAX_STATE: usize = 512;

/// Where traces go, and which.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) url: Url,
    /// Header fields of whoever collects, such as a key.
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    /// What is said of this server.
    pub(crate) resource: Vec<(String, String)>,
    /// The part of requests that are traced where nobody before has decided so, from 0 to 1.
    pub(crate) ratio: f64,
}

/// Begins traces, and counts what became of them.
pub(crate) struct Tracer {
    queue: mpsc::Sender<Box<Finished>>,
    /// Ids below this are traced; of 2⁶³.
    below: u64,
    ids: UniqueIds,
    clock: SystemClock,
    counts: Counts,
}

/// What became of traces, since the start.
#[derive(Default)]
struct Counts {
    exported: AtomicU64,
    /// The queue was full.
    crowded: AtomicU64,
    /// The collector did not take them.
    refused: AtomicU64,
}

/// A request that is traced.
pub(crate) struct Trace {
    tracer: Arc<Tracer>,
    about: About,
    found: Mutex<Found>,
}

/// What is known of it from the start.
#[derive(Clone, Default)]
struct About {
    context: Context,
    /// What whoever was before has to say to whoever comes after.
    state: Option<HeaderValue>,
    begun: Timestamp,
    method: Method,
    host: Option<String>,
    secure: bool,
    version: Version,
}

/// What is found out about it.
#[derive(Default)]
struct Found {
    decided: Option<Decided>,
    upstream: Option<Upstream>,
    answered: Option<(Timestamp, StatusCode)>,
}

/// What was decided.
struct Decided {
    at: Timestamp,
    ending: Ending,
    source: &'static str,
    limit: Option<(&'static str, &'static str)>,
    tenant: Option<String>,
    user: Option<String>,
    endpoint: String,
    address: String,
}

/// What the application did.
struct Upstream {
    span: u64,
    begun: Timestamp,
    /// Its status, or what went wrong.
    ended: Option<(Timestamp, Result<StatusCode, &'static str>)>,
}

/// A request that is over.
struct Finished {
    about: About,
    found: Found,
    ended: Timestamp,
}

impl Tracer {
    fn new(queue: mpsc::Sender<Box<Finished>>, ratio: f64) -> Self {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of 2⁶³")]
        let below = (ratio.clamp(0.0, 1.0) * (1_u64 << 63) as f64) as u64;
        let (ids, clock) = (UniqueIds::new(), SystemClock::new());
        Self { queue, below, ids, clock, counts: Counts::default() }
    }

    /// Begins the trace of `request`, if it is to be traced. A proxy that is `trusted` says which trace it belongs to and
    /// whether it is traced; anybody else's word is replaced.
    pub(crate) fn begin<B>(
        self: &Arc<Self>,
        request: &mut Request<B>,
        (trusted, secure): (bool, bool),
    ) -> Option<Arc<Trace>> {
        let parent = request.headers().get(TRACEPARENT).filter(|_| trusted).and_then(Context::read);
        let state = match parent {
            Some(_) => request.headers().get(TRACESTATE).filter(|state| state.len() <= MAX_STATE).cloned(),
            None => drop_foreign(request),
        };
        let context = parent.map_or_else(|| self.first(), |parent| parent.child(self.span()));
        if !context.sampled {
            // Whoever comes after is told that nobody traces it; a proxy's word is handed on as it is.
            if parent.is_none() {
                request.headers_mut().insert(TRACEPARENT, context.header());
            }
            return None;
        }
        let host = request.uri().host().map(str::to_owned).or_else(|| named_host(request.headers()));
        let about = About {
            context,
            state,
            begun: self.clock.now(),
            method: request.method().clone(),
            host: host.filter(|host| host.len() <= MAX_HOST),
            secure,
            version: request.version(),
        };
        let trace = Arc::new(Trace { tracer: Arc::clone(self), about, found: Mutex::default() });
        request.extensions_mut().insert(Onlooker(Arc::clone(&trace) as Arc<dyn Watcher>));
        Some(trace)
    }

    /// Where nobody has begun a trace before.
    fn first(&self) -> Context {
        let trace = self.ids.next();
        #[expect(clippy::cast_possible_truncation, reason = "the half that is stirred")]
        let sampled = (trace as u64 & (u64::MAX >> 1)) < self.below;
        Context { trace, parent: None, span: self.span(), sampled }
    }

    /// The id of a span, which is never none.
    #[expect(clippy::cast_possible_truncation, reason = "the half that is counted")]
    fn span(&self) -> u64 {
        (self.ids.next() as u64).max(1)
    }

    fn finish(&self, finished: Box<Finished>) {
        if self.queue.try_send(finished).is_err() {
            self.counts.crowded.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How many traces were taken by the collector.
    pub(crate) fn exported(&self) -> u64 {
        self.counts.exported.load(Ordering::Relaxed)
    }

    /// How many were dropped, and why.
    pub(crate) fn dropped(&self) -> [(&'static str, u64); 2] {
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        [("queue", count(&self.counts.crowded)), ("collector", count(&self.counts.refused))]
    }
}

/// The host that a request names, without its port.
fn named_host(headers: &HeaderMap) -> Option<String> {
    let named: Authority = headers.get(http::header::HOST)?.to_str().ok()?.parse().ok()?;
    Some(named.host().to_owned())
}

/// What strangers say of traces is not handed on.
fn drop_foreign<B, T>(request: &mut Request<B>) -> Option<T> {
    let headers = request.headers_mut();
    headers.remove(TRACEPARENT);
    headers.remove(TRACESTATE);
    None
}

impl Trace {
    fn found(&self, find: impl FnOnce(&mut Found, Timestamp)) {
        let now = self.tracer.clock.now();
        find(&mut self.found.lock().unwrap_or_else(PoisonError::into_inner), now);
    }

    /// The application is asked; gives what it is told of the trace.
    pub(crate) fn asks(&self) -> HeaderValue {
        let span = self.tracer.span();
        self.found(|found, begun| found.upstream = Some(Upstream { span, begun, ended: None }));
        self.about.context.child(span).header()
    }

    /// The name of the header that says so.
    pub(crate) const HEADER: HeaderName = TRACEPARENT;

    /// The application answered, or did not.
    pub(crate) fn told(&self, answer: Result<StatusCode, &'static str>) {
        self.found(|found, now| {
            if let Some(upstream) = &mut found.upstream {
                upstream.ended = Some((now, answer));
            }
        });
    }

    /// The client is answered.
    pub(crate) fn answered(&self, status: StatusCode) {
        self.found(|found, now| found.answered = Some((now, status)));
    }
}

impl Watcher for Trace {
    fn wants(&self, _: Ending) -> bool {
        true
    }

    fn see(&self, seen: &Seen<'_>) {
        let decided = |at| Decided {
            at,
            ending: seen.ending,
            source: seen.source.name(),
            limit: seen.limit.map(|(limit, layer)| (limit, layer.word())),
            tenant: seen.tenant.map(str::to_owned),
            user: seen.user.map(|user| user.to_string()),
            endpoint: seen.endpoint.to_owned(),
            address: seen.address.clone(),
        };
        self.found(|found, now| found.decided = Some(decided(now)));
    }
}

/// Nobody knows more about it: it is over, whether it was answered or the client went away.
impl Drop for Trace {
    fn drop(&mut self) {
        let found = std::mem::take(self.found.get_mut().unwrap_or_else(PoisonError::into_inner));
        let ended = found.answered.map_or_else(|| self.tracer.clock.now(), |(at, _)| at);
        self.tracer.finish(Box::new(Finished { about: std::mem::take(&mut self.about), found, ended }));
    }
}

#[cfg(test)]
mod tests;
