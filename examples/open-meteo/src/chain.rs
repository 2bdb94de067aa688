//! What a request passes beside the limits, in this order: CORS, the log, errors, and authentication.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use http::header::{self, HeaderName, HeaderValue};
use http::request::Parts;
use http::{HeaderMap, Method, StatusCode};
use http_body_util::Full;
use serde_json::{Value, json};
use threshold_http::Answer;

use crate::Log;

const USER: HeaderName = HeaderName::from_static("x-user");
const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// Tokens and whose they are. For trying things out: real ones are kept as hashes, and not in the source.
const TOKENS: [(&str, &str); 2] = [("demo-alice", "alice"), ("demo-bob", "bob")];

/// Lets pages of other origins ask, and read what they are answered: refusals too, so this comes first of all. Questions
/// ahead of a request are answered here and cost nothing.
pub async fn cors(request: Request, next: Next) -> Response {
    let asks_ahead = request.method() == Method::OPTIONS
        && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    let mut response =
        if asks_ahead { StatusCode::NO_CONTENT.into_response() } else { next.run(request).await };
    let headers = response.headers_mut();
    let mut allow = |name, value| headers.insert(name, HeaderValue::from_static(value));
    allow(header::ACCESS_CONTROL_ALLOW_ORIGIN, "*");
    allow(header::ACCESS_CONTROL_EXPOSE_HEADERS, "RateLimit, RateLimit-Policy, Retry-After");
    if asks_ahead {
        allow(header::ACCESS_CONTROL_ALLOW_METHODS, "GET");
        allow(header::ACCESS_CONTROL_ALLOW_HEADERS, "Authorization");
    }
    response
}

/// Writes one line about every request. No address: a log is kept longer than anybody should be remembered.
pub async fn log(State(log): State<Log>, request: Request, next: Next) -> Response {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let response = next.run(request).await;
    let status = response.status().as_u16();
    log(&json!({ "event": "request", "method": method.as_str(), "path": path, "status": status }).to_string());
    response
}

/// Gives every error the same form, whoever made it.
pub async fn uniform_errors(request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    let is_json = |kind: &HeaderValue| kind.as_bytes().starts_with(b"application/json");
    let status = response.status();
    let is_error = status.is_client_error() || status.is_server_error();
    if !is_error || response.headers().get(header::CONTENT_TYPE).is_some_and(is_json) {
        return response;
    }
    let message = status.canonical_reason().unwrap_or("Error");
    let code = message.to_ascii_lowercase().replace(' ', "_");
    let (mut parts, _) = response.into_parts();
    parts.headers.remove(header::CONTENT_LENGTH);
    answer(status, parts.headers, json!({ "code": code, "message": message })).map(Body::new)
}

/// Writes what a limit refuses in the form of all errors; its headers stay as they are.
pub fn refusal(refused: Answer, _: &Parts) -> Response<Full<Bytes>> {
    let said = refused.problem();
    let mut error = json!({ "code": said.get("error"), "message": said.get("detail") });
    for (name, member) in [("retryAfter", "retryAfter"), ("limits", "violated-policies")] {
        if let Some(value) = said.get(member) {
            error[name] = value.clone();
        }
    }
    answer(refused.status(), refused.headers().clone(), error)
}

fn answer(status: StatusCode, headers: HeaderMap, mut error: Value) -> Response<Full<Bytes>> {
    error["status"] = json!(status.as_u16());
    let mut response = Response::new(Full::from(json!({ "error": error }).to_string()));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Finds out whose token it is and writes that down for the limits behind this. Nobody else may write it.
pub async fn authenticate(mut request: Request, next: Next) -> Response {
    let headers = request.headers_mut();
    headers.remove(USER);
    let token =
        headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    let Some((_, user)) = TOKENS.iter().find(|(known, _)| token == Some(known)) else {
        let challenge = [(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))];
        let error = json!({ "code": "unauthorized", "message": "send the token of a user" });
        return answer(StatusCode::UNAUTHORIZED, challenge.into_iter().collect(), error).map(Body::new);
    };
    headers.insert(USER, HeaderValue::from_static(user));
    next.run(request).await
}

/// What the limits of users say of themselves.
#[derive(Clone)]
struct OfUsers(Vec<(HeaderName, HeaderValue)>);

/// Sets aside what the limits of users say, where the limits of addresses would write over it.
pub async fn set_aside(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    let names = [RATE_LIMIT, RATE_LIMIT_POLICY].into_iter();
    let said = names.filter_map(|name| Some((name.clone(), headers.remove(&name)?))).collect();
    response.extensions_mut().insert(OfUsers(said));
    response
}

/// Adds it to what the limits of addresses say: both headers are lists.
pub async fn show_both(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    if let Some(OfUsers(said)) = response.extensions_mut().remove::<OfUsers>() {
        for (name, value) in said {
            response.headers_mut().append(name, value);
        }
    }
    response
}
