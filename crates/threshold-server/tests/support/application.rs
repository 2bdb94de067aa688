//! An application behind the gateway, which writes down what it is asked.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Empty, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

pub(crate) type Body = BoxBody<Bytes, Infallible>;

/// An application on a free port; gone when it is dropped.
pub(crate) struct Application {
    pub(crate) address: SocketAddr,
    /// The heads of all requests, in the order they came.
    pub(crate) asked: Arc<Mutex<Vec<http::request::Parts>>>,
    connections: Arc<AtomicUsize>,
    accepting: JoinHandle<()>,
}

impl Application {
    /// One that answers `ok` to everything.
    pub(crate) async fn plain() -> Self {
        Self::start(|_| async { Response::new(text("ok")) }).await
    }

    /// One that answers by `answer`.
    pub(crate) async fn start<A, F>(answer: A) -> Self
    where
        A: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Response<Body>> + Send + 'static,
    {
        Self::on(TcpListener::bind("127.0.0.1:0").await.unwrap(), answer)
    }

    /// The same on a listener of the caller's.
    pub(crate) fn on<A, F>(listener: TcpListener, answer: A) -> Self
    where
        A: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Response<Body>> + Send + 'static,
    {
        let address = listener.local_addr().unwrap();
        let asked: Arc<Mutex<Vec<_>>> = Arc::default();
        let connections: Arc<AtomicUsize> = Arc::default();
        let (heard, accepted) = (Arc::clone(&asked), Arc::clone(&connections));
        let accepting = tokio::spawn(async move {
            // Ended together with the application.
            let mut serving = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                accepted.fetch_add(1, Ordering::Relaxed);
                let (answer, heard) = (answer.clone(), Arc::clone(&heard));
                let service = service_fn(move |request: Request<Incoming>| {
                    let (parts, body) = request.into_parts();
                    heard.lock().unwrap().push(parts.clone());
                    let answer = answer.clone();
                    async move { Ok::<_, Infallible>(answer(Request::from_parts(parts, body)).await) }
                });
                serving.spawn(async move {
                    let builder = auto::Builder::new(TokioExecutor::new());
                    let _ = builder.serve_connection_with_upgrades(TokioIo::new(stream), service).await;
                });
            }
        });
        Self { address, asked, connections, accepting }
    }

    /// The head of the last request.
    pub(crate) fn last(&self) -> http::request::Parts {
        self.asked.lock().unwrap().last().unwrap().clone()
    }

    /// How many requests came.
    pub(crate) fn count(&self) -> usize {
        self.asked.lock().unwrap().len()
    }

    /// How many connections came.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// Ends it: its port is closed when this returns, and so are its connections.
    pub(crate) async fn end(mut self) {
        self.accepting.abort();
        // It ends by being aborted, which is no mistake.
        let _ = (&mut self.accepting).await;
    }
}

impl Drop for Application {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// A body of `text`.
pub(crate) fn text(text: &str) -> Body {
    Full::new(Bytes::copy_from_slice(text.as_bytes())).boxed()
}

/// No body.
pub(crate) fn nothing() -> Body {
    Empty::new().boxed()
}

/// An answer of `status` without a body.
pub(crate) fn bare(status: u16) -> Response<Body> {
    Response::builder().status(status).body(nothing()).unwrap()
}
