//! A client over real sockets.

use std::net::SocketAddr;

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client as Pooled;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value as Json;

/// A client of one gateway.
#[derive(Clone)]
pub(crate) struct Client {
    pooled: Pooled<HttpConnector, Full<Bytes>>,
    address: SocketAddr,
}

/// An answer, read whole.
#[derive(Clone, Debug)]
pub(crate) struct Answered {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Client {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self { pooled: Pooled::builder(TokioExecutor::new()).build_http(), address }
    }

    pub(crate) async fn get(&self, path: &str) -> Answered {
        self.send(self.request("GET", path, &[], "")).await
    }

    /// Asks from the address `local`, such as 127.0.0.2.
    pub(crate) fn from(address: SocketAddr, local: [u8; 4]) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_local_address(Some(local.into()));
        Self { pooled: Pooled::builder(TokioExecutor::new()).build(connector), address }
    }

    pub(crate) fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Request<Full<Bytes>> {
        let mut request = Request::builder().method(method).uri(format!("http://{}{path}", self.address));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(Full::new(Bytes::copy_from_slice(body.as_bytes()))).unwrap()
    }

    pub(crate) async fn send(&self, request: Request<Full<Bytes>>) -> Answered {
        self.try_send(request).await.unwrap()
    }

    pub(crate) async fn try_send(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<Answered, Box<dyn std::error::Error + Send + Sync>> {
        let response = self.pooled.request(request).await?;
        let (parts, body) = response.into_parts();
        let body = body.collect().await?.to_bytes();
        Ok(Answered { status: parts.status, headers: parts.headers, body })
    }
}

impl Answered {
    /// The header called `name`, or nothing.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    pub(crate) fn json(&self) -> Json {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}
