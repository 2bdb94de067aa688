//! The admin listener: whether the server lives and is ready.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;
use threshold_http::Answer;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::health::Health;

/// The most connections at the same time.
const CONNECTIONS: usize = 256;
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// Serves `listener` until the process ends.
pub(crate) fn start(listener: TcpListener, health: Arc<Health>) -> std::io::Result<SocketAddr> {
    let address = listener.local_addr()?;
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    tokio::spawn(async move {
        loop {
            let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let health = Arc::clone(&health);
            tokio::spawn(async move {
                let service = service_fn(|request| {
                    let answer = answer(&request, &health);
                    async move { Ok::<_, Infallible>(answer) }
                });
                let mut builder = http1::Builder::new();
                builder.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
                // How it ends is the client's business.
                let _ = builder.serve_connection(TokioIo::new(stream), service).await;
                drop(place);
            });
        }
    });
    Ok(address)
}

fn answer(request: &Request<Incoming>, health: &Health) -> Response<Full<Bytes>> {
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        let detail = "only GET and HEAD are answered here";
        return Answer::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail).into_response();
    }
    match request.uri().path() {
        "/livez" => document(StatusCode::OK, &json!({ "status": "ok" })),
        "/readyz" => {
            let report = health.report();
            let status = if report.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
            document(status, &report.to_json())
        }
        _ => {
            let detail = "there is nothing here; ask for /livez or /readyz";
            Answer::new(StatusCode::NOT_FOUND, "not_found", detail).into_response()
        }
    }
}

fn document(status: StatusCode, document: &serde_json::Value) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(format!("{document}\n")));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, http::HeaderValue::from_static("no-store"));
    response
}
