//! What is asked, whether it is answered, and what is told when it makes no sense.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use serde_json::{Value as Json, json};
use threshold_http::Answer;

use super::call::{Call, Params, decoded};
use super::events;
use super::guard::is_from_here;
use super::routes::{self, Found, Verb};
use super::seats::Seat;
use super::serve::Shared;
use crate::api::read;
use crate::dashboard;
use crate::metrics::Format;

/// What is answered at once.
pub(super) type Answered = Response<Full<Bytes>>;
/// The body of an answer: all of it, or what comes with time.
pub(super) type Body = Either<Full<Bytes>, UnsyncBoxBody<Bytes, Infallible>>;

/// Who asks: from where, and on which connection.
pub(super) struct Visitor {
    pub(super) peer: IpAddr,
    pub(super) seat: Arc<Seat>,
}

/// Answers one question.
pub(super) async fn answer(
    shared: &Arc<Shared>,
    visitor: &Visitor,
    request: Request<Incoming>,
) -> Response<Body> {
    visitor.seat.touch();
    let peer = visitor.peer;
    let answered = match request.uri().path() {
        // Whoever looks after the server asks these without a token.
        "/livez" => looked(request.method(), || (StatusCode::OK, json!({ "status": "ok" }))),
        "/readyz" => looked(request.method(), || {
            let report = shared.health.report();
            let status = if report.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
            (status, report.to_json())
        }),
        "/metrics" => metrics(shared, peer, &request),
        path => match dashboard::page(request.method(), path) {
            Some(page) => page,
            None => return asked(shared, visitor, request).await,
        },
    };
    answered.map(Either::Left)
}

/// What Prometheus asks for.
fn metrics(shared: &Shared, peer: IpAddr, request: &Request<Incoming>) -> Answered {
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        return wrong_method(&[Method::GET, Method::HEAD], request.method());
    }
    if let Err(refused) = shared.guard.admit_near(peer, request.headers()) {
        return *refused;
    }
    let Some(admin) = shared.admin.get() else { return starting() };
    let accept = request.headers().get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    let format = Format::of(accept.unwrap_or_default());
    let mut response = Response::new(Full::from(admin.metrics.page(format)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(format.content_type()));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn looked(method: &Method, look: impl FnOnce() -> (StatusCode, Json)) -> Answered {
    const LOOK: [Method; 2] = [Method::GET, Method::HEAD];
    match LOOK.contains(method) {
        true => {
            let (status, told) = look();
            document(status, &told)
        }
        false => wrong_method(&LOOK, method),
    }
}

async fn asked(shared: &Arc<Shared>, visitor: &Visitor, request: Request<Incoming>) -> Response<Body> {
    let (verb, call) = match understood(shared, visitor.peer, request).await {
        Ok(understood) => understood,
        Err(answered) => return answered.map(Either::Left),
    };
    let busy = visitor.seat.work();
    match verb {
        Verb::Events => match events::events(&call, shared, busy) {
            Ok(answered) => answered.map(Either::Right),
            Err(answer) => answer.into_response().map(Either::Left),
        },
        verb => match routes::serve(verb, &call).await {
            Ok(told) => document(StatusCode::OK, &told).map(Either::Left),
            Err(answer) => answer.into_response().map(Either::Left),
        },
    }
}

/// What is asked, by somebody who may.
async fn understood(
    shared: &Shared,
    peer: IpAddr,
    request: Request<Incoming>,
) -> Result<(Verb, Call), Box<Answered>> {
    let admin = shared.admin.get();
    let known = admin.map(|admin| admin.policy.current()).map(|current| current.hosts.clone());
    is_from_here(request.headers(), &known.unwrap_or_default())?;
    let Found { routes, names } = routes::find(request.uri().path());
    let methods: Vec<Method> = routes.iter().map(|route| route.method.clone()).collect();
    if methods.is_empty() {
        return Err(Box::new(nothing_here()));
    }
    let method = if request.method() == Method::HEAD { &Method::GET } else { request.method() };
    let Some(route) = routes.into_iter().find(|route| route.method == method) else {
        return Err(Box::new(wrong_method(&methods, request.method())));
    };
    let caller = shared.guard.admit(peer, request.headers(), route.scope)?;
    let Some(admin) = admin else { return Err(Box::new(starting())) };
    let call = call(Arc::clone(admin), caller, names, request).await;
    Ok((route.verb, call.map_err(|answer| Box::new(answer.into_response()))?))
}

/// Reads what is asked.
async fn call(
    admin: Arc<super::Admin>,
    caller: super::tokens::Caller,
    names: Vec<String>,
    request: Request<Incoming>,
) -> Result<Call, Box<Answer>> {
    let names = names.iter().map(|name| decoded(name, false)).collect::<Result<_, _>>()?;
    let params = Params::read(request.uri().query())?;
    let body = match *request.method() {
        // A page cannot send these two without asking first, which is not answered.
        Method::GET | Method::HEAD | Method::DELETE => Bytes::new(),
        _ => read::body(request).await?,
    };
    Ok(Call { admin, caller, names, params, body })
}

pub(super) fn document(status: StatusCode, document: &Json) -> Answered {
    let mut response = Response::new(Full::from(format!("{document}\n")));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn nothing_here() -> Answered {
    let detail = "there is nothing here; the dashboard is at /, and /api/admin/openapi.json lists what can be asked, beside /livez, /readyz and /metrics";
    Answer::new(StatusCode::NOT_FOUND, "not_found", detail).into_response()
}

fn starting() -> Answered {
    let detail = "the server is still starting; ask again in a moment";
    let mut response = Answer::new(StatusCode::SERVICE_UNAVAILABLE, "starting", detail).into_response();
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

/// What is told where `methods` are answered: to who asks which those are, and to who used another.
fn wrong_method(methods: &[Method], used: &Method) -> Answered {
    let mut names: Vec<&str> = methods.iter().map(Method::as_str).collect();
    if names.contains(&"GET") && !names.contains(&"HEAD") {
        names.push("HEAD");
    }
    names.push("OPTIONS");
    let allowed = names.join(", ");
    let mut response = match *used {
        Method::OPTIONS => {
            let mut response = Response::new(Full::default());
            *response.status_mut() = StatusCode::NO_CONTENT;
            response
        }
        _ => {
            let detail = format!("only {allowed} are answered here");
            Answer::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", &detail).into_response()
        }
    };
    if let Ok(allowed) = HeaderValue::from_str(&allowed) {
        response.headers_mut().insert(header::ALLOW, allowed);
    }
    response
}
