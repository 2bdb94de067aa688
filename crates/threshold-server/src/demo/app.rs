//! A small application: blogs with posts, comments, uploads, something that writes by itself, and logins.
//!
//! It keeps nothing. What it answers is enough to see who came through.

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

const PAGE: &str = include_str!("page.html");
const HTML: &str = "text/html; charset=utf-8";
const JSON: &str = "application/json";
const TEXT: &str = "text/plain";
/// The most bytes of a login, and of an upload.
const LONGEST_LOGIN: usize = 4_096;
const LONGEST_UPLOAD: usize = 64 << 20;

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
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    match (&method, &*segments) {
        (&Method::GET | &Method::HEAD, segments) => read(segments),
        (&Method::POST, ["login"] | ["auth", "login"]) => login(request).await,
        (&Method::POST, ["api", "upload", _]) => upload(request).await,
        (method, segments) => write(method, segments),
    }
}

/// What can be looked at.
fn read(segments: &[&str]) -> Response<Full<Bytes>> {
    match segments {
        [""] => said(StatusCode::OK, HTML, PAGE),
        ["api", "report"] => said(StatusCode::OK, JSON, "{\"report\":\"all is well\"}\n"),
        ["posts"] | ["api", "posts"] => said(StatusCode::OK, JSON, "{\"posts\":[1,2,3]}\n"),
        ["posts", _] | ["api", "posts", _] => said(StatusCode::OK, JSON, "{\"title\":\"On moss\"}\n"),
        ["search"] => said(StatusCode::OK, JSON, "{\"found\":[2]}\n"),
        _ => nothing(),
    }
}

/// What can be changed; nothing is.
fn write(method: &Method, segments: &[&str]) -> Response<Full<Bytes>> {
    match (method, segments) {
        (&Method::POST, ["api", "posts" | "comments"]) => said(StatusCode::CREATED, JSON, "{\"id\":4}\n"),
        (&Method::PUT | &Method::PATCH, ["api", "posts", _]) => {
            said(StatusCode::OK, JSON, "{\"changed\":true}\n")
        }
        (&Method::POST, ["api", "ai", ..]) => {
            said(StatusCode::OK, JSON, "{\"text\":\"Under the old oak, it began to rain.\"}\n")
        }
        (&Method::POST, ["auth", "token"]) => said(StatusCode::OK, JSON, "{\"token\":\"none\"}\n"),
        (&Method::POST, ["auth" | "api", "password-reset"] | ["api", "signup"]) => {
            said(StatusCode::ACCEPTED, JSON, "{\"sent\":true}\n")
        }
        (&Method::DELETE, ["api", "account"]) => said(StatusCode::OK, JSON, "{\"deleted\":true}\n"),
        _ => nothing(),
    }
}

/// Lets in whoever knows that the password is `open sesame`.
async fn login(request: Request<Incoming>) -> Response<Full<Bytes>> {
    let body = Limited::new(request.into_body(), LONGEST_LOGIN).collect().await;
    let known = body.is_ok_and(|body| {
        let body = body.to_bytes();
        body.windows(b"open+sesame".len()).any(|part| part == b"open+sesame" || part == b"open sesame")
    });
    match known {
        true => said(StatusCode::OK, TEXT, "welcome\n"),
        false => said(StatusCode::UNAUTHORIZED, TEXT, "wrong\n"),
    }
}

/// Reads what is sent, piece by piece, and forgets it.
async fn upload(request: Request<Incoming>) -> Response<Full<Bytes>> {
    let (mut body, mut bytes) = (request.into_body(), 0);
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { break };
        bytes += frame.data_ref().map_or(0, Bytes::len);
        if bytes > LONGEST_UPLOAD {
            return said(StatusCode::PAYLOAD_TOO_LARGE, TEXT, "this is too much\n");
        }
    }
    said(StatusCode::CREATED, JSON, format!("{{\"bytes\":{bytes}}}\n"))
}

fn nothing() -> Response<Full<Bytes>> {
    said(StatusCode::NOT_FOUND, TEXT, "there is nothing here\n")
}

fn said(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, http::HeaderValue::from_static(kind));
    response
}
