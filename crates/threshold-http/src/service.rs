//! The path of a request: decide, hold back, log in, hand on, answer.

use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response, StatusCode};
use http_body::Body;
use threshold::engine::{Decision, Engine, Extras, Quota};
use threshold::figures::Watcher;
use threshold::identify::{Facts, Identity};
use threshold::{Clock, Ledger, MemoryLedger, MemoryStore, PermitId, Store, SystemClock};
use tower_service::Service;

use crate::body::{Bytewise, CutFlag, Held, Meter, RequestBody, ResponseBody};
use crate::facts::{Fields, Onlooker, facts};
use crate::layer::{Shared, ThresholdLayer};
use crate::login::{Login, take_device};
use crate::place::Place;
use crate::respond::{Answer, Notes};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// An answer under way.
pub type Answering<R, E> = Pin<Box<dyn Future<Output = Result<Response<ResponseBody<R>>, E>> + Send>>;

/// A service with limits around it.
pub struct ThresholdService<I, S = MemoryStore, C = SystemClock, L = MemoryLedger> {
    pub(crate) inner: I,
    pub(crate) shared: Arc<Shared<S, C, L>>,
    pub(crate) peer: Option<IpAddr>,
}

/// What the application may know about a request that was allowed; an extension of it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Allowed {
    /// What is left of the tightest limit.
    pub quota: Option<Quota>,
    /// True if it is over a limit and passes on grace.
    pub warned: bool,
}

/// Who sent a request, as far as it could prove; an extension of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Client {
    /// The client's address.
    pub address: IpAddr,
    /// The tenant.
    pub tenant: Option<String>,
    /// Whether a token or a trusted proxy vouches for the tenant.
    pub tenant_verified: bool,
    /// The tier that a token or a trusted proxy names.
    pub tier: Option<String>,
    /// The user.
    pub user: Option<String>,
    /// Whether a token or a trusted proxy vouches for the user.
    pub verified: bool,
}

impl<I, B, R, S, C, L> Service<Request<B>> for ThresholdService<I, S, C, L>
where
    I: Service<Request<RequestBody<B>>, Response = Response<R>> + Clone + Send + 'static,
    I::Future: Send,
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError>,
    R: Body<Data = Bytes> + Send + 'static,
    S: Store + 'static,
    C: Clock + 'static,
    L: Ledger + 'static,
{
    type Response = Response<ResponseBody<R>>;
    type Error = I::Error;
    type Future = Answering<R, I::Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), I::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // The one that is ready goes, and a clone waits for the next.
        let clone = self.clone();
        std::mem::replace(self, clone).once(request)
    }
}

impl<I, S, C, L> ThresholdService<I, S, C, L>
where
    S: Store + 'static,
    C: Clock + 'static,
    L: Ledger + 'static,
{
    /// Answers one request; the service must be ready for it.
    pub fn once<B, R>(self, request: Request<B>) -> Answering<R, I::Error>
    where
        I: Service<Request<RequestBody<B>>, Response = Response<R>> + Send + 'static,
        I::Future: Send,
        B: Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<BoxError>,
        R: Body<Data = Bytes> + Send + 'static,
    {
        let Self { mut inner, shared, peer } = self;
        // On the heap at once: a future is moved with all that it may ever hold.
        let mut request = Box::new(request);
        Box::pin(async move {
            let passed = match shared.judge(&mut request, peer).await {
                Ok(passed) => passed,
                Err(answer) => return Ok(shared.refuse(*answer, Some(Box::new(request.into_parts().0)))),
            };
            let Passed { notes, held, cut, meter, login } = passed;
            let (body, attempted) = match login {
                None => (None, None),
                Some(login) => match Box::pin(shared.log_in(*login, &mut request)).await {
                    Ok((body, attempted)) => (Some(body), Some(attempted)),
                    Err(answer) => return Ok(shared.refuse(*answer, Some(Box::new(request.into_parts().0)))),
                },
            };
            // Only those who may still be refused need their request to be known.
            let asked = (cut.is_some() || attempted.is_some()).then(|| Box::new(head(&request)));
            let request = request.map(|flowing| RequestBody::new(flowing, body).metered(meter));
            let answered = inner.call(request).await;
            if let Some(answer) = cut.and_then(|cut| cut.get()) {
                return Ok(shared.refuse(answer, asked));
            }
            let mut response = answered?;
            if let Some(attempted) = attempted
                && let Some(answer) = Box::pin(attempted.end(&shared, &mut response)).await
            {
                return Ok(shared.refuse(answer, asked));
            }
            notes.add_to(response.headers_mut());
            Ok(response.map(|body| ResponseBody::application(body, held)))
        })
    }
}

impl<S, C, L> ThresholdLayer<S, C, L>
where
    S: Store + 'static,
    C: Clock + 'static,
    L: Ledger + 'static,
{
    /// Decides about a request of which `facts` say all: it has no body and is no login. For who reads and writes
    /// requests as bytes; gives what is to be added to the answer, and what is to be dropped when that was sent.
    ///
    /// # Errors
    ///
    /// The answer to be sent instead.
    #[expect(
        clippy::manual_async_fn,
        reason = "said to be sendable for any store: of a given one compilers cannot tell"
    )]
    pub fn pass(
        &self,
        facts: &Facts<'_>,
    ) -> impl Future<Output = Result<(Notes, Option<Held>), Box<Answer>>> + Send {
        async {
            let mut decision = Place::take();
            self.shared.ask(facts, None, &mut decision).await?;
            let held = self.shared.admit(&decision).await?;
            Ok((Notes::new(&decision, self.shared.settings.shown), held))
        }
    }
}

/// What is to be done about a request that may go on, and about its answer.
struct Passed {
    /// The headers of its answer.
    notes: Notes,
    held: Option<Held>,
    cut: Option<CutFlag>,
    meter: Option<Box<Meter>>,
    login: Option<Box<Login>>,
}

/// A copy of the request's head.
fn head<B>(request: &Request<B>) -> Parts {
    let mut head = Request::new(());
    *head.method_mut() = request.method().clone();
    *head.uri_mut() = request.uri().clone();
    *head.version_mut() = request.version();
    *head.headers_mut() = request.headers().clone();
    head.into_parts().0
}

impl<S: Store + 'static, C: Clock + 'static, L: Ledger + 'static> Shared<S, C, L> {
    /// Decides about the request: what is to be done about it, or the answer to be sent instead.
    async fn judge<B: Body>(
        &self,
        request: &mut Request<B>,
        peer: Option<IpAddr>,
    ) -> Result<Passed, Box<Answer>> {
        let mut decision = Place::take();
        let peer = peer.or_else(|| (self.settings.peer)(request.extensions())).ok_or_else(no_peer)?;
        let declared = self.decide(request, peer, &mut decision).await?;
        let held = self.admit(&decision).await?;
        let device = take_device(request.headers_mut());
        let login = self.login(request, peer, device).map(Box::new);
        let notes = Notes::new(&decision, self.settings.shown);
        if let Some(held) = &held {
            request.extensions_mut().insert(held.clone());
        }
        let (meter, cut) = self.meter(decision, declared).unzip();
        Ok(Passed { notes, held, cut, meter, login })
    }

    /// Takes what an allowed request holds, and holds it back if that was decided.
    async fn admit(&self, decision: &Decision) -> Result<Option<Held>, Box<Answer>> {
        // From here on they are given back whatever happens.
        let held = Held::new(&self.engine, decision.permits());
        if !decision.delay().is_zero() {
            Box::pin(self.hold_back(decision)).await?;
        }
        Ok(held)
    }

    /// The answer that refuses `request`, as the application wants it or as its protocol does.
    fn refuse<R>(&self, answer: Answer, asked: Option<Box<Parts>>) -> Response<ResponseBody<R>> {
        let response = match (&self.settings.respond, asked) {
            (Some(respond), Some(asked)) => respond(answer, &asked),
            (None, Some(asked)) => answer.into_response_to(&asked.headers),
            (_, None) => answer.into_response(),
        };
        response.map(ResponseBody::refusal)
    }

    /// Asks the engine; gives the declared length of the body.
    async fn decide<B: Body>(
        &self,
        request: &mut Request<B>,
        peer: IpAddr,
        decision: &mut Decision,
    ) -> Result<Option<u64>, Box<Answer>> {
        let fields = Fields(request.headers());
        let mut facts = facts(request, &fields, peer);
        if request.body().is_end_stream() {
            facts.bytes = Some(0);
        }
        let declared = facts.bytes;
        if let (Some(most), Some(declared)) = (self.settings.most_bytes, declared)
            && declared > most
        {
            return Err(Box::new(Answer::body_too_large(most)));
        }
        let watcher = request.extensions().get().map(|Onlooker(watcher)| &**watcher);
        let identity = self.ask(&facts, watcher, decision).await?;
        if self.settings.extensions {
            let client = client(&identity);
            let allowed = Allowed { quota: decision.quota(), warned: decision.warned() };
            request.extensions_mut().insert(client);
            request.extensions_mut().insert(allowed);
        }
        Ok(declared)
    }

    /// Asks the engine about what `facts` say; gives who asked, if that is allowed.
    async fn ask<'a>(
        &self,
        facts: &Facts<'a>,
        watcher: Option<&dyn Watcher>,
        decision: &mut Decision,
    ) -> Result<Identity<'a>, Box<Answer>> {
        let extras = Extras { permit: Some(PermitId::new(self.ids.next())), ..Extras::default() };
        let identity = self.engine.identify_and_decide(facts, extras, decision).await;
        let identity = identity.map_err(|_| Box::new(Answer::unavailable()))?;
        if let Some(watcher) = watcher {
            self.engine.show_to(watcher, (facts, &identity, extras), decision);
        }
        match Answer::refused(decision, self.settings.shown) {
            Some(answer) => Err(Box::new(answer)),
            None => Ok(identity),
        }
    }

    /// Holds the request back as long as the decision says, if there is a place.
    async fn hold_back(&self, decision: &Decision) -> Result<(), Box<Answer>> {
        match self.settings.delays.take() {
            Some(_place) => {
                tokio::time::sleep(decision.delay()).await;
                Ok(())
            }
            None => Err(Box::new(Answer::no_place(decision, self.settings.shown))),
        }
    }

    /// What the body is held to, if anything.
    fn meter(&self, decision: Place, declared: Option<u64>) -> Option<(Box<Meter>, CutFlag)> {
        let charged = decision.charged_bytes();
        let bounded = self.settings.most_bytes.is_some() && declared.is_none();
        if charged.is_none() && !bounded {
            return None;
        }
        let cut = CutFlag::default();
        let meter = Meter::new(self.settings.most_bytes.unwrap_or(u64::MAX), cut.clone());
        let Some(charged) = charged else { return Some((Box::new(meter), cut)) };
        let engine = Arc::clone(&self.engine);
        Some((Box::new(meter.charging(Box::new(Bytewise { engine, decision }), charged)), cut))
    }
}

impl Client {
    /// Whoever is at `address`, and nothing else is known of.
    #[must_use]
    pub const fn new(address: IpAddr) -> Self {
        Self { address, tenant: None, tenant_verified: false, tier: None, user: None, verified: false }
    }

    /// The same as a user whom the application has recognised.
    #[must_use]
    pub fn with_user(self, user: impl Into<String>) -> Self {
        Self { user: Some(user.into()), verified: true, ..self }
    }

    /// The same at a tier that the application knows, without a tenant.
    #[must_use]
    pub fn with_tier(self, tier: impl Into<String>) -> Self {
        Self { tier: Some(tier.into()), ..self }
    }

    /// The same of a tenant and its tier, which the application knows.
    #[must_use]
    pub fn with_tenant(self, tenant: impl Into<String>, tier: Option<String>) -> Self {
        Self { tenant: Some(tenant.into()), tenant_verified: true, tier, ..self }
    }
}

/// Who was identified.
#[must_use]
pub fn client(identity: &Identity<'_>) -> Client {
    Client {
        address: identity.client,
        tenant: identity.tenant.as_deref().map(str::to_owned),
        tenant_verified: identity.tenant_verified,
        tier: identity.tier.as_deref().map(str::to_owned),
        user: identity.user.as_deref().map(str::to_owned),
        verified: identity.user_kind.is_some_and(|kind| kind.verified()),
    }
}

fn no_peer() -> Box<Answer> {
    let detail = "the server does not say who is at the other end of the connection: put `Peer` or `ConnectInfo` among \
                  the request's extensions, or set `peer_by`";
    Box::new(Answer::new(StatusCode::INTERNAL_SERVER_ERROR, "peer_unknown", detail))
}

impl<I: Clone, S, C, L> Clone for ThresholdService<I, S, C, L> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), shared: Arc::clone(&self.shared), peer: self.peer }
    }
}

impl<I, S, C, L> ThresholdService<I, S, C, L> {
    /// The same service for the requests of one connection, whose other end is `peer`: nothing has to be read for it from
    /// each request.
    #[must_use]
    pub fn of_peer(self, peer: IpAddr) -> Self {
        Self { peer: Some(peer), ..self }
    }

    /// The engine that decides.
    pub fn engine(&self) -> &Arc<Engine<S, C, L>> {
        &self.shared.engine
    }
}
