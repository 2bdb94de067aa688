//! The layer around an application: what each side sees, and what is given back however a request ends.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "layer/answers.rs"]
mod answers;
#[cfg(feature = "axum")]
#[path = "layer/axum_app.rs"]
mod axum_app;
#[path = "layer/bodies.rs"]
mod bodies;
#[path = "layer/delays.rs"]
mod delays;
#[path = "layer/login.rs"]
mod login;
#[path = "layer/permits.rs"]
mod permits;
#[path = "layer/unavailable.rs"]
mod unavailable;
#[path = "common/wire.rs"]
mod wire;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use http_body_util::{BodyExt as _, Full};
use threshold_http::Peer;
use tower_service::Service;
use wire::Answered;

/// The proxy at 127.0.0.1 names clients and users.
const IDENTITY: &str = r#"
[identity]
trusted_proxies = ["127.0.0.1"]
client_ip = "x-forwarded-for"
user = { header = "x-user" }
"#;

/// A policy with one limit on every user.
fn per_user(limit: &str) -> String {
    format!("{IDENTITY}\n[[limit]]\nid = \"api\"\nlayer = \"user\"\n{limit}\n")
}

/// A request of `user` through the proxy, as it comes to the layer.
fn ask(user: &str, method: &str, path: &str) -> Request<Full<Bytes>> {
    let peer = Peer(([127, 0, 0, 1], 4_711).into());
    let request = Request::builder().method(method).uri(path).header("x-user", user);
    request.extension(peer).body(Full::default()).unwrap()
}

/// Calls `service` without a socket between, where a test has to see when something is dropped.
async fn call<S, R>(service: &S, request: Request<Full<Bytes>>) -> Result<Response<R>, S::Error>
where
    S: Service<Request<Full<Bytes>>, Response = Response<R>> + Clone,
{
    service.clone().call(request).await
}

/// The answer of `service`, read whole.
async fn read<S, R>(service: &S, request: Request<Full<Bytes>>) -> Answered
where
    S: Service<Request<Full<Bytes>>, Response = Response<R>> + Clone,
    S::Error: std::fmt::Debug,
    R: Body<Data = Bytes>,
    R::Error: std::fmt::Debug,
{
    let (parts, body) = call(service, request).await.unwrap().into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    Answered { status: parts.status, headers: parts.headers, body }
}
