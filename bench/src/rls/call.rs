//! One call, whose answer is looked at: load programs see only that there was one.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use tokio::net::TcpStream;

use crate::Outcome;

pub(super) const PATH: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// One descriptor of the domain `edge`: `remote_address` = `192.0.2.7`; gRPC's prefix before it.
pub(super) fn question() -> Vec<u8> {
    let piece = |field: u8, bytes: &[u8]| [&[field << 3 | 2, bytes.len() as u8], bytes].concat();
    let entry = [piece(1, b"remote_address"), piece(2, b"192.0.2.7")].concat();
    let message = [piece(1, b"edge"), piece(2, &piece(1, &entry))].concat();
    [&[0, 0, 0, 0, message.len() as u8], &message[..]].concat()
}

/// The message that is answered, without its prefix.
pub(super) fn ask(address: SocketAddr) -> Outcome<Vec<u8>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let answer = async { tokio::time::timeout(Duration::from_secs(2), call(address)).await };
    runtime.block_on(answer)?
}

async fn call(address: SocketAddr) -> Outcome<Vec<u8>> {
    let (mut sender, connection) = h2::client::handshake(TcpStream::connect(address).await?).await?;
    let talking = tokio::spawn(connection);
    let request = http::Request::post(format!("http://{address}{PATH}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(())?;
    let (response, mut stream) = sender.send_request(request, false)?;
    stream.send_data(Bytes::from(question()), true)?;
    let mut body = response.await?.into_body();
    let mut answer = Vec::new();
    while let Some(piece) = body.data().await {
        answer.extend_from_slice(&piece?);
    }
    let trailers = body.trailers().await?.ok_or("an answer without trailers")?;
    talking.abort();
    match trailers.get("grpc-status").map(http::HeaderValue::as_bytes) {
        Some(b"0") if answer.len() >= 5 => Ok(answer.split_off(5)),
        status => Err(format!("an answer with the status {status:?}").into()),
    }
}
