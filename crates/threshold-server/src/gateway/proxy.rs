//! One request on its way to the application and back.

use std::convert::Infallible;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use arc_swap::ArcSwap;
use http::header::{self, HeaderMap, HeaderValue};
use http::uri::{PathAndQuery, Uri};
use http::{Method, Request, Response, StatusCode, Version};
use http_body_util::Either;
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use threshold::UniqueIds;
use threshold_http::body::{Held, RequestBody};
use threshold_http::respond::is_grpc;
use threshold_http::{Answer, Fields, client, facts};
use tower_service::Service;

use super::body::{Progress, ProxyBody, Timed};
use super::connections::Member;
use super::headers::{self, Introduced, Introduction, X_REQUEST_ID};
use super::settings::Settings;
use super::trouble::Trouble;
use super::upgrade::{self, Upgrading};
use super::upstream::{Answered, Outgoing, Pool, SendError, Sent};
use super::websocket::{ServerTerms, Terms};
use crate::trace::{Trace, Tracer};

/// A request of a client.
type Asking = Box<Request<RequestBody<Timed<Incoming>>>>;

/// Hands requests on.
#[derive(Clone)]
pub(super) struct Proxy {
    pub(super) client: Arc<Client>,
    pub(super) settings: Arc<Settings>,
    /// How the body of the request goes on, if it has one.
    pub(super) progress: Option<Arc<Progress>>,
    /// The trace of the request, if it is traced.
    pub(super) trace: Option<Arc<Trace>>,
}

/// What the requests of one connection share.
pub(super) struct Client {
    pub(super) worker: Arc<Worker>,
    /// How the client is made known to applications.
    pub(super) introduction: Introduction,
    pub(super) connection: Arc<Member>,
}

/// What the requests of one worker share.
pub(super) struct Worker {
    pub(super) settings: Arc<ArcSwap<Settings>>,
    pub(super) pool: Arc<Pool>,
    pub(super) ids: Arc<UniqueIds>,
    pub(super) trouble: Arc<Trouble>,
    pub(super) tracer: Option<Arc<Tracer>>,
}

impl Service<Request<RequestBody<Timed<Incoming>>>> for Proxy {
    type Response = Response<ProxyBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<RequestBody<Timed<Incoming>>>) -> Self::Future {
        let proxy = self.clone();
        // On the heap at once: a future is moved with all that it may ever hold.
        let request = Box::new(request);
        Box::pin(async move { Ok(proxy.handle(request).await) })
    }
}

impl Proxy {
    async fn handle(&self, mut request: Asking) -> Response<ProxyBody> {
        // Before the head becomes what the application is to see.
        let terms = self.terms(&mut request);
        let (id, introduced) = match self.prepare(&mut request) {
            Ok(prepared) => prepared,
            Err(answer) => return answer.into_response_to(request.headers()).map(Either::Right),
        };
        let grpc = is_grpc(request.headers());
        let mut response = match self.hand_on(request, introduced, terms).await {
            Ok(response) => response,
            Err(answer) if grpc => answer.into_grpc_response().map(Either::Right),
            Err(answer) => answer.into_response().map(Either::Right),
        };
        response.headers_mut().insert(X_REQUEST_ID, id);
        response
    }

    /// Makes the head what the application is to see; gives the id of the request, and what is to be said behind the head.
    fn prepare<B>(&self, request: &mut Request<B>) -> Result<(HeaderValue, Option<Introduced>), Box<Answer>> {
        if request.method() == Method::CONNECT {
            let detail = "this is no proxy for other hosts; ask for a path";
            return Err(Box::new(Answer::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail)));
        }
        let host = own_host(request)?;
        let of_address = request.uri().authority().is_some();
        let settings = &self.settings;
        let trusted = settings.trusts(self.client.introduction.peer());
        let headers = request.headers_mut();
        if !trusted {
            settings.untrusted.iter().for_each(|name| drop(headers.remove(name)));
        }
        let Client { introduction, worker, .. } = &*self.client;
        let introduced = introduction.introduce(headers, host.as_ref(), || worker.ids.next());
        let id = match &introduced {
            Some(introduced) => introduced.id.clone(),
            None => {
                introduction.forward(headers, host.as_ref(), trusted);
                headers::request_id(headers, trusted, || worker.ids.next())
            }
        };
        if let (true, Some(host)) = (of_address, host) {
            headers.insert(header::HOST, host);
        }
        Ok((id, introduced))
    }

    async fn hand_on(
        &self,
        mut request: Asking,
        introduced: Option<Introduced>,
        terms: Option<Box<ServerTerms>>,
    ) -> Result<Response<ProxyBody>, Box<Answer>> {
        let Settings { upstreams, numbers, .. } = &*self.settings;
        let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
        let targets = upstreams.choose(request.method(), host, request.uri().path());
        let targets = targets.ok_or_else(|| Box::new(no_application()))?;
        let upgrade =
            headers::wanted_upgrade(request.headers()).filter(|_| request.version() < Version::HTTP_2);
        let client = upgrade.as_ref().and_then(|_| self.upgrading(&mut request, terms));
        let no_body = self.progress.is_none();
        rewrite(&mut request, upgrade.as_ref(), no_body);
        if let Some(trace) = &self.trace {
            request.headers_mut().insert(Trace::HEADER, trace.asks());
        }
        let outgoing = Outgoing::new(request, introduced);
        let sending = pin!(self.client.worker.pool.send(targets, outgoing, numbers.connect_timeout.into()));
        let waiting = numbers.response_timeout.into();
        let sent = answer_in_time(sending, waiting, self.progress.as_deref()).await;
        let answered = sent.map(|sent| sent.and_then(Sent::answered));
        if let Some(trace) = &self.trace {
            trace.told(ending(answered.as_ref()));
        }
        let answered = self.client.worker.trouble.tell(answered)?;
        Ok(respond(&self.settings, answered, client))
    }

    /// What an upgraded connection goes on with: its client, and what the request holds.
    fn upgrading<B>(&self, request: &mut Request<B>, terms: Option<Box<ServerTerms>>) -> Option<Upgrading> {
        let extensions = request.extensions_mut();
        let held = extensions.remove::<Held>();
        let connection = Arc::clone(&self.client.connection);
        let terms = terms.map(|terms| *terms);
        extensions.remove::<OnUpgrade>().map(|client| Upgrading { client, connection, held, terms })
    }

    /// What the messages of a WebSocket are limited by, if `request` opens one and they are.
    fn terms<B>(&self, request: &mut Request<B>) -> Option<Box<ServerTerms>> {
        let messages = self.settings.messages.as_ref()?;
        // Whatever it is called here: what it becomes is for the application to say.
        headers::wanted_upgrade(request.headers()).filter(|_| request.version() < Version::HTTP_2)?;
        let terms = {
            let fields = Fields(request.headers());
            let facts = facts(request, &fields, self.client.introduction.peer());
            let client = client(&self.settings.engine.identify(&facts));
            let limited = messages.connect(client, facts.host, facts.path);
            Terms { limited, most: messages.max_bytes(), id_field: messages.id_field().to_owned() }
        };
        // What is compressed cannot be read; whoever does not offer it is not given it.
        request.headers_mut().remove(header::SEC_WEBSOCKET_EXTENSIONS);
        Some(Box::new(terms))
    }
}

/// The answer of an application, as it is handed on.
pub(super) fn respond(
    settings: &Settings,
    answered: Answered,
    client: Option<Upgrading>,
) -> Response<ProxyBody> {
    let numbers = &settings.numbers;
    let (mut parts, body) = match (answered, client) {
        (Answered::Response(response), _) => response.into_parts(),
        (Answered::Switched(response, wire, received), Some(client)) => {
            return upgrade::both(client, response, (wire, received), numbers.upgraded_timeout.into());
        }
        (Answered::Switched(..), None) => return not_asked().into_response().map(Either::Right),
    };
    if headers::has_hop(&parts.headers) {
        headers::strip_hop(&mut parts.headers);
    }
    parts.version = Version::HTTP_11;
    let body = Timed::new(body, numbers.idle_timeout.into(), None);
    Response::from_parts(parts, Either::Left(body))
}

/// Waits for an answer, as long as the request is still on its way and for `waiting` from then on.
pub(super) async fn answer_in_time<T>(
    mut sending: Pin<&mut impl Future<Output = T>>,
    waiting: Duration,
    progress: Option<&Progress>,
) -> Option<T> {
    loop {
        match tokio::time::timeout(waiting, &mut sending).await {
            Ok(answered) => return Some(answered),
            Err(_) if progress.is_some_and(Progress::moved) => {}
            Err(_) => return None,
        }
    }
}

/// What an application answered, or what kept it from that.
fn ending(answered: Option<&Result<Answered, SendError>>) -> Result<StatusCode, &'static str> {
    match answered {
        Some(Ok(Answered::Response(response))) => Ok(response.status()),
        Some(Ok(Answered::Switched(response, ..))) => Ok(response.status()),
        Some(Err(SendError::Body)) => Err("body_broken_off"),
        Some(Err(SendError::Broken(_))) => Err("broken_off"),
        Some(Err(SendError::Connect(_))) => Err("unreachable"),
        None => Err("timeout"),
    }
}

/// The one host that a request is for.
fn own_host<B>(request: &Request<B>) -> Result<Option<HeaderValue>, Box<Answer>> {
    let bad = |detail: &str| Box::new(Answer::new(StatusCode::BAD_REQUEST, "bad_host", detail));
    let mut lines = request.headers().get_all(header::HOST).iter();
    let first = lines.next();
    if lines.next().is_some() {
        return Err(bad("there is more than one host; send one"));
    }
    match request.uri().authority() {
        // A name alone is a target for CONNECT only.
        Some(_) if request.uri().scheme().is_none() && request.version() < Version::HTTP_2 => {
            Err(bad("the target is no path; ask for one"))
        }
        // The address beats the header, as the standard says.
        Some(authority) => {
            let host = authority.as_str().rsplit('@').next().unwrap_or_default();
            HeaderValue::from_str(host).map(Some).map_err(|_| bad("the host cannot be read"))
        }
        None if first.is_none() && request.version() == Version::HTTP_11 => {
            Err(bad("there is no host; send one"))
        }
        None => Ok(first.cloned()),
    }
}

/// From what the client sent to what is sent on.
fn rewrite<B>(request: &mut Request<B>, upgrade: Option<&HeaderValue>, no_body: bool) {
    let http2 = request.version() >= Version::HTTP_2;
    let headers = request.headers_mut();
    // One look over all names costs less than looking for each of those that are hardly ever there.
    let has_hop = headers::has_hop(headers);
    let trailers = has_hop && headers::takes_trailers(headers);
    let chunked = has_hop && headers.contains_key(header::TRANSFER_ENCODING);
    if has_hop {
        headers::strip_hop(headers);
    }
    if chunked || (no_body && http2) {
        // How long the body is shows by how it is sent.
        headers.remove(header::CONTENT_LENGTH);
    }
    // The body is asked for here, and so comes without further questions.
    headers.remove(header::EXPECT);
    if trailers {
        headers.insert(header::TE, HeaderValue::from_static("trailers"));
    }
    if let Some(protocol) = upgrade {
        headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(header::UPGRADE, protocol.clone());
    }
    if http2 {
        join_cookies(headers);
    }
    if request.uri().scheme().is_some() || request.uri().authority().is_some() {
        let path = request.uri().path_and_query().cloned();
        *request.uri_mut() = Uri::from(path.unwrap_or_else(|| PathAndQuery::from_static("/")));
    }
    *request.version_mut() = Version::HTTP_11;
}

/// HTTP/2 may send a cookie a line; HTTP/1 has one line for all.
fn join_cookies(headers: &mut HeaderMap) {
    let lines: Vec<&[u8]> = headers.get_all(header::COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if lines.len() > 1
        && let Ok(all) = HeaderValue::from_bytes(&lines.join(&b"; "[..]))
    {
        headers.insert(header::COOKIE, all);
    }
}

pub(super) fn no_application() -> Answer {
    let detail = "no application is behind this gateway for such requests";
    Answer::new(StatusCode::SERVICE_UNAVAILABLE, "no_upstream", detail)
}

fn not_asked() -> Answer {
    let detail = "the application changed the protocol without being asked";
    Answer::new(StatusCode::BAD_GATEWAY, "upstream_broken", detail)
}
