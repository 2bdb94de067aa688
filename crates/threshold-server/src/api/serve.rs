//! One connection of somebody who asks.

use std::convert::Infallible;
use std::future::Future;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::Shared;
use super::answer::{Asked, answer};
use super::shortcut::converse;
use crate::listening::Arrived;
use crate::workers::told;

/// How long a head may take, and how long a connection is kept alive without one.
const HEADER_TIMEOUT: Duration = Duration::from_secs(75);
const HEADER_BYTES: usize = 64 * 1024;

/// Serves who arrived.
pub(super) async fn serve(arrived: Arrived, shared: Arc<Shared>, mut stopped: watch::Receiver<bool>) {
    let Arrived { stream, peer, place: _place } = arrived;
    let peer = peer.ip().to_canonical();
    let Ok(stream) = TcpStream::from_std(stream) else { return };
    let talked = converse(&*shared.engine, &shared, stream, stopped.clone()).await;
    let Some(stream) = talked else { return };
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(HEADER_BYTES)
        // Who has said all that it wants to may still listen.
        .half_close(true);
    let mut speaking = pin!(builder.serve_connection(TokioIo::new(stream), Front { shared, peer }));
    // How it ends is the client's business.
    tokio::select! {
        _ = speaking.as_mut() => return,
        () = told(&mut stopped) => speaking.as_mut().graceful_shutdown(),
    }
    let _ = speaking.await;
}

/// Where questions arrive.
struct Front {
    shared: Arc<Shared>,
    peer: IpAddr,
}

impl hyper::service::Service<Request<Incoming>> for Front {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let (shared, peer) = (Arc::clone(&self.shared), self.peer);
        Box::pin(async move { Ok(answer(&shared, Asked { request, peer }).await) })
    }
}
