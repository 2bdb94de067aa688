//! The least that answers a question with JSON over HTTP/1.1 by hyper: it reads every request to its end and always
//! answers the same.
//!
//! Usage: `bare-hyper-bench LISTEN BODY`

use std::net::SocketAddr;
use std::process::ExitCode;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::LocalSet;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [listen, body] = words.as_slice() else {
        eprintln!("usage: bare-hyper-bench LISTEN BODY");
        return ExitCode::FAILURE;
    };
    match run(listen, body) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bare-hyper-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(listen: &str, body: &str) -> Outcome<()> {
    let address: SocketAddr = listen.parse()?;
    let body = Bytes::from(body.to_owned());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    LocalSet::new().block_on(&runtime, serve(address, body))
}

async fn serve(address: SocketAddr, body: Bytes) -> Outcome<()> {
    let listener = TcpListener::bind(address).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::task::spawn_local(talk(stream, body.clone()));
    }
}

async fn talk(stream: TcpStream, body: Bytes) {
    let service = service_fn(move |request| answer(request, body.clone()));
    // A client that leaves in the middle is no concern of anyone's.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn answer(request: Request<Incoming>, body: Bytes) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let mut question = request.into_body();
    while let Some(frame) = question.frame().await {
        frame?;
    }
    let mut response = Response::new(Full::new(body));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}
