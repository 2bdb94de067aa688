//! Connections that change their protocol, such as WebSockets: from then on bytes pass in both directions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http::header::{self, HeaderValue};
use http_body_util::{Either, Full};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use threshold_http::body::Held;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadHalf, WriteHalf, split};

use super::body::ProxyBody;
use super::connections::Member;
use super::headers;
use super::upstream::Wire;
use super::websocket::{ServerTerms, relay};

const BUFFER: usize = 16 * 1024;

/// A client that waits for its connection to become something else.
pub(super) struct Upgrading {
    pub(super) client: OnUpgrade,
    pub(super) connection: Arc<Member>,
    /// What its request holds, until the connection ends.
    pub(super) held: Option<Held>,
    /// What its messages are limited by, if they are.
    pub(super) terms: Option<ServerTerms>,
}

/// Answers the client as the application did, and joins the two.
pub(super) fn both(
    upgrading: Upgrading,
    response: Response<()>,
    (application, received): (Wire, Bytes),
    silent: Duration,
) -> Response<ProxyBody> {
    let Upgrading { client, connection, held, terms } = upgrading;
    let protocol = response.headers().get(header::UPGRADE).cloned();
    let (mut parts, _) = response.into_parts();
    headers::strip_hop(&mut parts.headers);
    parts.headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    if let Some(protocol) = protocol {
        parts.headers.insert(header::UPGRADE, protocol);
    }
    connection.upgraded();
    // Who says nothing, or more than one thing, may well mean it.
    let other = parts.headers.get_all(header::UPGRADE).iter().all(|line| !names_websocket(line));
    let terms = terms.filter(|_| !other || !parts.headers.contains_key(header::UPGRADE));
    tokio::spawn(async move {
        if let Ok(client) = client.await {
            let moved = AtomicBool::new(false);
            let ear = &connection.ear;
            let passing = async {
                match terms {
                    Some(terms) => relay(client, (application, received), terms, (ear, &moved)).await,
                    None => tokio::select! {
                        () = join(client, (application, &received), &moved) => {}
                        () = ear.leave() => {}
                    },
                }
            };
            tokio::select! {
                () = passing => {}
                () = silence(&moved, silent) => {}
            }
        }
        drop(held);
    });
    Response::from_parts(parts, Either::Right(Full::default()))
}

fn names_websocket(line: &HeaderValue) -> bool {
    let mut words = line.as_bytes().split(|byte| !byte.is_ascii_alphanumeric());
    words.any(|word| word.eq_ignore_ascii_case(b"websocket"))
}

/// Passes bytes until both sides have ended, or one is broken.
async fn join(client: Upgraded, (application, received): (Wire, &[u8]), moved: &AtomicBool) {
    let (client_reads, mut client_writes) = split(TokioIo::new(client));
    let (application_reads, application_writes) = split(application);
    if client_writes.write_all(received).await.is_ok() {
        tokio::join!(
            pass(client_reads, application_writes, moved),
            pass(application_reads, client_writes, moved)
        );
    }
}

/// Waits until nothing has moved in either direction for `silent`.
async fn silence(moved: &AtomicBool, silent: Duration) {
    loop {
        tokio::time::sleep(silent).await;
        if !moved.swap(false, Ordering::Relaxed) {
            return;
        }
    }
}

async fn pass<F, T>(mut from: ReadHalf<F>, mut to: WriteHalf<T>, moved: &AtomicBool)
where
    F: AsyncRead,
    T: AsyncWrite,
{
    let mut buffer = vec![0; BUFFER];
    while let Ok(count) = from.read(&mut buffer).await {
        moved.store(true, Ordering::Relaxed);
        // Within TLS what was written may stay here until it is asked for.
        if count == 0 || to.write_all(&buffer[..count]).await.is_err() || to.flush().await.is_err() {
            break;
        }
    }
    let _ = to.shutdown().await;
}
