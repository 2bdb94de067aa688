//! What runs when nobody says anything: a small application, and a policy with small numbers in front of it.

use std::convert::Infallible;
use std::net::SocketAddr;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::TcpListener;

/// The policy of the demonstration.
pub(crate) const POLICY: &str = include_str!("demo/policy.toml");
const PAGE: &str = include_str!("demo/page.html");

/// Starts the application on a free port of this machine.
pub(crate) async fn start() -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = service_fn(|request| async { Ok::<_, Infallible>(answer(request).await) });
            tokio::spawn(async move {
                let builder = auto::Builder::new(TokioExecutor::new());
                // How it ends is the gateway's business.
                let _ = builder.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    Ok(address)
}

async fn answer(request: Request<Incoming>) -> Response<Full<Bytes>> {
    match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, "/") => text(StatusCode::OK, "text/html; charset=utf-8", PAGE),
        (&Method::GET | &Method::HEAD, "/api/report") => {
            text(StatusCode::OK, "application/json", "{\"report\":\"all is well\"}\n")
        }
        (&Method::POST, "/login") => login(request).await,
        _ => text(StatusCode::NOT_FOUND, "text/plain", "there is nothing here\n"),
    }
}

/// Lets in whoever knows that the password is `open sesame`.
async fn login(request: Request<Incoming>) -> Response<Full<Bytes>> {
    let body = Limited::new(request.into_body(), 4_096).collect().await;
    let known = body.is_ok_and(|body| {
        let body = body.to_bytes();
        body.windows(b"open+sesame".len()).any(|part| part == b"open+sesame" || part == b"open sesame")
    });
    match known {
        true => text(StatusCode::OK, "text/plain", "welcome\n"),
        false => text(StatusCode::UNAUTHORIZED, "text/plain", "wrong\n"),
    }
}

fn text(status: StatusCode, kind: &'static str, body: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, http::HeaderValue::from_static(kind));
    response
}
