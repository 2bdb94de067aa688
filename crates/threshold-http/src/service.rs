//! The path of a request: decide, hold back, log in, hand on, answer.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{HeaderName, HeaderValue};
use http::request::Parts;
use http::{Request, Response, StatusCode};
use http_body::Body;
use threshold::engine::{Decision, Engine, Extras, Quota};
use threshold::identify::Identity;
use threshold::{Clock, Ledger, MemoryLedger, MemoryStore, PermitId, Store, SystemClock};
use tower_service::Service;

use crate::body::{Bytewise, Cut, CutFlag, Held, Meter, RequestBody, ResponseBody};
use crate::facts::{Fields, facts};
use crate::layer::Shared;
use crate::login::Attempted;
use crate::respond::{self, Answer};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A service with limits around it.
pub struct ThresholdService<I, S = MemoryStore, C = SystemClock, L = MemoryLedger> {
    pub(crate) inner: I,
    pub(crate) shared: Arc<Shared<S, C, L>>,
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
    pub address: std::net::IpAddr,
    /// The tenant.
    pub tenant: Option<String>,
    /// The user.
    pub user: Option<String>,
    /// Whether a token or a trusted proxy vouches for the user.
    pub verified: bool,
}

/// A request that may go on, and what is to be done about its answer.
struct Passing<B> {
    request: Request<RequestBody<B>>,
    /// The headers of its answer.
    notes: Vec<(HeaderName, HeaderValue)>,
    held: Option<Held>,
    cut: CutFlag,
    attempted: Option<Attempted>,
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
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, I::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), I::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let shared = Arc::clone(&self.shared);
        // The one that is ready goes, and a clone waits for the next.
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        Box::pin(async move {
            match shared.admit(request).await {
                Ok(passing) => {
                    let Passing { request, notes, held, cut, attempted } = passing;
                    let answered = inner.call(request).await;
                    if let Some(cut) = cut.get() {
                        return Ok(cut_off(&shared, cut));
                    }
                    let mut response = answered?;
                    if let Some(attempted) = attempted
                        && let Some(refused) = attempted.end(&shared, &mut response).await
                    {
                        return Ok(refused.into_response().map(ResponseBody::refusal));
                    }
                    response.headers_mut().extend(notes.into_iter().map(|(name, value)| (Some(name), value)));
                    Ok(response.map(|body| ResponseBody::application(body, held)))
                }
                Err(response) => Ok(*response),
            }
        })
    }
}

/// A body was cut off before the application could answer to all of it.
fn cut_off<S, C, L, R>(shared: &Shared<S, C, L>, cut: Cut) -> Response<ResponseBody<R>> {
    let answer = match cut {
        Cut::OutOfBytes => Answer::out_of_bytes(),
        Cut::TooLarge => too_large(shared.settings.most_bytes.unwrap_or_default()),
        Cut::Unavailable => Answer::unavailable(),
    };
    answer.into_response().map(ResponseBody::refusal)
}

fn too_large(most: u64) -> Answer {
    let detail = format!("the body is larger than {most} bytes; send less");
    Answer::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", &detail)
}

impl<S: Store + 'static, C: Clock + 'static, L: Ledger + 'static> Shared<S, C, L> {
    /// Decides about the request: it may go on, or is answered here.
    async fn admit<B, R>(
        self: &Arc<Self>,
        request: Request<B>,
    ) -> Result<Passing<B>, Box<Response<ResponseBody<R>>>>
    where
        B: Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<BoxError>,
    {
        let (mut parts, body) = request.into_parts();
        match self.judge(&mut parts, body).await {
            Ok((body, passed)) => {
                let Passed { notes, held, cut, attempted } = passed;
                Ok(Passing { request: Request::from_parts(parts, body), notes, held, cut, attempted })
            }
            Err(answer) => {
                let response = match &self.settings.respond {
                    Some(respond) => respond(*answer, &parts),
                    None => answer.into_response_to(&parts.headers),
                };
                Err(Box::new(response.map(ResponseBody::refusal)))
            }
        }
    }

    async fn judge<B>(
        self: &Arc<Self>,
        parts: &mut Parts,
        body: B,
    ) -> Result<(RequestBody<B>, Passed), Box<Answer>>
    where
        B: Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<BoxError>,
    {
        let mut decision = Box::new(Decision::default());
        let declared = self.decide(parts, body.is_end_stream(), &mut decision).await?;
        self.hold_back(&decision).await?;
        let cut = CutFlag::default();
        let (body, attempted) = self.log_in(parts, body).await?;
        let notes = respond::annotate(&decision, self.settings.shown);
        let held = Held::new(&self.engine, decision.permits());
        let meter = self.meter(decision, declared, &cut);
        Ok((body.metered(meter), Passed { notes, held, cut, attempted }))
    }

    /// Asks the engine; gives the declared length of the body.
    async fn decide(
        &self,
        parts: &mut Parts,
        no_body: bool,
        decision: &mut Decision,
    ) -> Result<Option<u64>, Box<Answer>> {
        let peer = (self.settings.peer)(parts).ok_or_else(no_peer)?;
        let fields = Fields(&parts.headers);
        let mut facts = facts(parts, &fields, peer);
        if no_body {
            facts.bytes = Some(0);
        }
        let declared = facts.bytes;
        if let (Some(most), Some(declared)) = (self.settings.most_bytes, declared)
            && declared > most
        {
            return Err(Box::new(too_large(most)));
        }
        let extras = Extras { account: None, permit: Some(PermitId::new(self.ids.next())) };
        let identity = self.engine.identify_and_decide(&facts, extras, decision).await;
        let identity = identity.map_err(|_| Box::new(Answer::unavailable()))?;
        if let Some(answer) = Answer::refused(decision, self.settings.shown) {
            return Err(Box::new(answer));
        }
        if self.settings.extensions {
            let client = client(&identity);
            let allowed = Allowed { quota: decision.quota(), warned: decision.warned() };
            parts.extensions.insert(client);
            parts.extensions.insert(allowed);
        }
        Ok(declared)
    }

    /// Holds the request back as long as the decision says, if there is a place.
    async fn hold_back(&self, decision: &Decision) -> Result<(), Box<Answer>> {
        let delay = decision.delay();
        if delay.is_zero() {
            return Ok(());
        }
        match self.settings.delays.take() {
            Some(_place) => {
                tokio::time::sleep(delay).await;
                Ok(())
            }
            None => {
                // Its permits are not needed any more, and its charges are kept.
                drop(Held::new(&self.engine, decision.permits()));
                Err(Box::new(Answer::no_place(decision, self.settings.shown)))
            }
        }
    }

    /// What the body is held to, if anything.
    fn meter(&self, decision: Box<Decision>, declared: Option<u64>, cut: &CutFlag) -> Option<Meter> {
        let bytewise = decision.counts_bytes();
        let bounded = self.settings.most_bytes.is_some() && declared.is_none();
        if !bytewise && !bounded {
            return None;
        }
        let meter = Meter::new(self.settings.most_bytes.unwrap_or(u64::MAX), cut.clone());
        if !bytewise {
            return Some(meter);
        }
        let engine = Arc::clone(&self.engine);
        Some(meter.charging(Box::new(Bytewise { engine, decision }), declared))
    }
}

/// What is to be done about the answer to a request that may go on.
struct Passed {
    notes: Vec<(HeaderName, HeaderValue)>,
    held: Option<Held>,
    cut: CutFlag,
    attempted: Option<Attempted>,
}

fn client(identity: &Identity<'_>) -> Client {
    Client {
        address: identity.client,
        tenant: identity.tenant.as_deref().map(str::to_owned),
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
        Self { inner: self.inner.clone(), shared: Arc::clone(&self.shared) }
    }
}

impl<I, S, C, L> ThresholdService<I, S, C, L> {
    /// The engine that decides.
    pub fn engine(&self) -> &Arc<Engine<S, C, L>> {
        &self.shared.engine
    }
}
