//! One request on its way to the application and back.

use std::convert::Infallible;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use arc_swap::ArcSwap;
use http::header::{self, HeaderValue};
use http::request::Parts;
use http::uri::{PathAndQuery, Uri};
use http::{Method, Request, Response, StatusCode, Version};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use threshold::UniqueIds;
use threshold_http::body::RequestBody;
use threshold_http::{Answer, Peer};
use tower_service::Service;

use super::body::{Progress, ProxyBody, Timed};
use super::connections::Member;
use super::headers::{self, Came, X_REQUEST_ID};
use super::settings::Settings;
use super::trouble::Trouble;
use super::upgrade;
use super::upstream::{ConnectError, Pool, Returning, SendError};

/// Hands requests on.
#[derive(Clone)]
pub(super) struct Proxy {
    pub(super) worker: Arc<Worker>,
    /// True if the client speaks TLS.
    pub(super) secure: bool,
    pub(super) connection: Arc<Member>,
}

/// What the requests of one worker share.
pub(super) struct Worker {
    pub(super) settings: Arc<ArcSwap<Settings>>,
    pub(super) pool: Arc<Pool>,
    pub(super) ids: Arc<UniqueIds>,
    pub(super) trouble: Arc<Trouble>,
}

impl Service<Request<RequestBody<Incoming>>> for Proxy {
    type Response = Response<ProxyBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<RequestBody<Incoming>>) -> Self::Future {
        let proxy = self.clone();
        Box::pin(async move { Ok(proxy.handle(request).await) })
    }
}

impl Proxy {
    async fn handle(&self, request: Request<RequestBody<Incoming>>) -> Response<ProxyBody> {
        let settings = self.worker.settings.load_full();
        let (mut parts, body) = request.into_parts();
        let id = match self.prepare(&mut parts, &settings) {
            Ok(id) => id,
            Err(answer) => return answer.into_response_to(&parts.headers).map(Into::into),
        };
        let grpc = threshold_http::respond::is_grpc(&parts.headers).then(|| parts.headers.clone());
        let mut response = match self.hand_on(parts, body, &settings).await {
            Ok(response) => response,
            Err(answer) => match &grpc {
                Some(headers) => answer.into_response_to(headers).map(Into::into),
                None => answer.into_response().map(Into::into),
            },
        };
        response.headers_mut().insert(X_REQUEST_ID, id);
        response
    }

    /// Makes the head what the application is to see; gives the id of the request.
    fn prepare(&self, parts: &mut Parts, settings: &Settings) -> Result<HeaderValue, Box<Answer>> {
        if parts.method == Method::CONNECT {
            let detail = "this is no proxy for other hosts; ask for a path";
            return Err(Box::new(Answer::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail)));
        }
        let host = own_host(parts)?;
        let peer = parts.extensions.get::<Peer>().map_or(([0, 0, 0, 0], 0).into(), |peer| peer.0);
        let trusted = settings.trusts(peer.ip());
        if !trusted {
            settings.untrusted.iter().for_each(|name| drop(parts.headers.remove(name)));
        }
        headers::forward(
            &mut parts.headers,
            &Came { peer, secure: self.secure, host: host.as_ref(), trusted },
        );
        if let Some(host) = host {
            parts.headers.insert(header::HOST, host);
        }
        Ok(headers::request_id(&mut parts.headers, trusted, || self.worker.ids.next()))
    }

    async fn hand_on(
        &self,
        mut parts: Parts,
        body: RequestBody<Incoming>,
        settings: &Settings,
    ) -> Result<Response<ProxyBody>, Box<Answer>> {
        let host = parts.headers.get(header::HOST).and_then(|host| host.to_str().ok());
        let targets = settings.upstreams.choose(&parts, host).ok_or_else(|| Box::new(no_application()))?;
        let upgrade = headers::wanted_upgrade(&parts.headers).filter(|_| parts.version < Version::HTTP_2);
        let client = upgrade.as_ref().and_then(|_| parts.extensions.remove::<OnUpgrade>());
        let no_body = body.is_end_stream();
        let progress = (!no_body).then(|| Arc::new(Progress::new(&self.connection)));
        let timed = Timed::new(body, settings.numbers.idle_timeout.into(), progress.clone());
        rewrite(&mut parts, upgrade.as_ref(), no_body);
        let request = Request::from_parts(parts, timed);
        let sending = self.worker.pool.send(targets, request, settings.numbers.connect_timeout.into());
        let waiting = settings.numbers.response_timeout.into();
        let answered =
            answer_in_time(sending, waiting, progress.as_deref()).await.ok_or_else(|| Box::new(late()))?;
        match answered {
            Ok(answered) => {
                self.worker.trouble.over();
                Ok(self.respond(answered, client, settings))
            }
            Err(_) if progress.is_some_and(|progress| progress.stalled()) => Err(Box::new(stood_still())),
            Err(error) => {
                self.worker.trouble.begins(&error);
                Err(Box::new(unreachable(&error)))
            }
        }
    }

    fn respond(
        &self,
        (response, link): (Response<Incoming>, Option<Returning>),
        client: Option<OnUpgrade>,
        settings: &Settings,
    ) -> Response<ProxyBody> {
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            let silent = settings.numbers.upgraded_timeout.into();
            return match client {
                Some(client) => upgrade::both((client, Arc::clone(&self.connection)), response, silent),
                None => not_asked().into_response().map(Into::into),
            };
        }
        let (mut parts, body) = response.into_parts();
        headers::strip_hop(&mut parts.headers);
        parts.version = Version::HTTP_11;
        let ended = body.is_end_stream();
        let body = Timed::new(body, settings.numbers.idle_timeout.into(), None);
        let link = match link {
            Some(link) if ended => {
                link.give_back();
                None
            }
            link => link,
        };
        Response::from_parts(parts, ProxyBody::Application { body, link })
    }
}

/// Waits for an answer, as long as the request is still on its way and for `waiting` from then on.
async fn answer_in_time<T>(
    sending: impl Future<Output = T>,
    waiting: Duration,
    progress: Option<&Progress>,
) -> Option<T> {
    let mut sending = pin!(sending);
    loop {
        match tokio::time::timeout(waiting, &mut sending).await {
            Ok(answered) => return Some(answered),
            Err(_) if progress.is_some_and(Progress::moved) => {}
            Err(_) => return None,
        }
    }
}

/// The one host that a request is for.
fn own_host(parts: &Parts) -> Result<Option<HeaderValue>, Box<Answer>> {
    let bad = |detail: &str| Box::new(Answer::new(StatusCode::BAD_REQUEST, "bad_host", detail));
    let mut lines = parts.headers.get_all(header::HOST).iter();
    let first = lines.next();
    if lines.next().is_some() {
        return Err(bad("there is more than one host; send one"));
    }
    match parts.uri.authority() {
        // The address beats the header, as the standard says.
        Some(authority) => {
            let host = authority.as_str().rsplit('@').next().unwrap_or_default();
            HeaderValue::from_str(host).map(Some).map_err(|_| bad("the host cannot be read"))
        }
        None if first.is_none() && parts.version == Version::HTTP_11 => {
            Err(bad("there is no host; send one"))
        }
        None => Ok(first.cloned()),
    }
}

/// From what the client sent to what is sent on.
fn rewrite(parts: &mut Parts, upgrade: Option<&HeaderValue>, no_body: bool) {
    let trailers = headers::takes_trailers(&parts.headers);
    let chunked = parts.headers.contains_key(header::TRANSFER_ENCODING);
    headers::strip_hop(&mut parts.headers);
    if chunked || (no_body && parts.version >= Version::HTTP_2) {
        // How long the body is shows by how it is sent.
        parts.headers.remove(header::CONTENT_LENGTH);
    }
    // The body is asked for here, and so comes without further questions.
    parts.headers.remove(header::EXPECT);
    if trailers {
        parts.headers.insert(header::TE, HeaderValue::from_static("trailers"));
    }
    if let Some(protocol) = upgrade {
        parts.headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        parts.headers.insert(header::UPGRADE, protocol.clone());
    }
    join_cookies(parts);
    if parts.uri.scheme().is_some() || parts.uri.authority().is_some() {
        let path = parts.uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
        parts.uri = Uri::from(path);
    }
    parts.version = Version::HTTP_11;
}

/// HTTP/2 may send a cookie a line; HTTP/1 has one line for all.
fn join_cookies(parts: &mut Parts) {
    if parts.version < Version::HTTP_2 || parts.headers.get_all(header::COOKIE).iter().count() < 2 {
        return;
    }
    let lines: Vec<&[u8]> = parts.headers.get_all(header::COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if let Ok(all) = HeaderValue::from_bytes(&lines.join(&b"; "[..])) {
        parts.headers.insert(header::COOKIE, all);
    }
}

fn no_application() -> Answer {
    let detail = "no application is behind this gateway for such requests";
    Answer::new(StatusCode::SERVICE_UNAVAILABLE, "no_upstream", detail)
}

fn late() -> Answer {
    let detail = "the application did not answer in time";
    Answer::new(StatusCode::GATEWAY_TIMEOUT, "upstream_timeout", detail)
}

fn stood_still() -> Answer {
    let detail = "the body of the request stood still for too long";
    Answer::new(StatusCode::REQUEST_TIMEOUT, "body_timeout", detail)
}

fn not_asked() -> Answer {
    let detail = "the application changed the protocol without being asked";
    Answer::new(StatusCode::BAD_GATEWAY, "upstream_broken", detail)
}

/// Nothing of why is told to clients: the addresses of applications are not theirs to know.
fn unreachable(error: &SendError) -> Answer {
    match error {
        SendError::Connect(ConnectError::Timeout) => {
            let detail = "the application cannot be reached in time";
            Answer::new(StatusCode::GATEWAY_TIMEOUT, "upstream_timeout", detail)
        }
        SendError::Connect(ConnectError::Failed(_)) => {
            let detail = "the application cannot be reached";
            Answer::new(StatusCode::BAD_GATEWAY, "upstream_unreachable", detail)
        }
        SendError::Broken(_) => {
            let detail = "the application broke off its answer";
            Answer::new(StatusCode::BAD_GATEWAY, "upstream_broken", detail)
        }
    }
}
