//! How the server is, as gRPC asks for it: it follows what `/readyz` says.

use std::future::poll_fn;

use bytes::Bytes;
use h2::SendStream;

use super::Shared;
use super::call::{Code, Messages, PREFIX, Status, end, prefix, send};
use super::wire::{self, Fields};

const SERVING: u64 = 1;
const NOT_SERVING: u64 = 2;
const SERVICE_UNKNOWN: u64 = 3;

/// The services that there are, and the server as a whole.
const SERVICES: [&str; 3] = ["", "envoy.service.ratelimit.v3.RateLimitService", "grpc.health.v1.Health"];

/// `Check`.
pub(super) fn check(shared: &Shared, message: &[u8]) -> Result<Bytes, Status> {
    match known(message)? {
        true => Ok(answer(status(shared))),
        false => {
            Err(Status::new(Code::NotFound, "there is no such service; reflection lists those there are"))
        }
    }
}

/// `Watch`: tells it now, and whenever it changes.
pub(super) async fn watch(shared: &Shared, mut messages: Messages, mut stream: SendStream<Bytes>) {
    let known = match poll_fn(|cx| messages.poll_only(cx)).await.and_then(|message| known(&message)) {
        Ok(known) => known,
        Err(status) => return end(stream, Some(&status)),
    };
    let (mut told, mut changes) = (None, shared.health.changes());
    loop {
        let now = if known { status(shared) } else { SERVICE_UNKNOWN };
        if told != Some(now) {
            told = Some(now);
            if send(&mut stream, answer(now)).await.is_none() {
                return stream.send_reset(h2::Reason::CANCEL);
            }
        }
        if shared.health.is_stopping() {
            return end(stream, Some(&Status::new(Code::Unavailable, "the server stops")));
        }
        tokio::select! {
            _ = poll_fn(|cx| stream.poll_reset(cx)) => return,
            _ = changes.changed() => {}
        }
    }
}

/// Whether the service that is asked about is one of ours.
fn known(message: &[u8]) -> Result<bool, Status> {
    let malformed = |_| Status::new(Code::Internal, "this is no HealthCheckRequest; send protobuf");
    let (mut service, mut fields) = ("", Fields::of(message));
    while let Some((field, value)) = fields.next().map_err(malformed)? {
        if field == 1 {
            service = value.text().map_err(malformed)?;
        }
    }
    Ok(SERVICES.contains(&service))
}

fn status(shared: &Shared) -> u64 {
    if shared.health.report().ready { SERVING } else { NOT_SERVING }
}

fn answer(status: u64) -> Bytes {
    let mut out = vec![0; PREFIX];
    wire::number(&mut out, 1, status);
    prefix(&mut out);
    out.into()
}
