//! Load at a rate, by our own client.

use std::time::Duration;

use super::client::{Gaps, Latency};
use crate::Outcome;
use crate::servers::load::own_client;
use crate::servers::places::Cores;
use crate::servers::service::Service;

/// How requests come while latencies are measured.
#[derive(Clone, Copy)]
pub(super) struct Asked {
    /// Requests in a second.
    pub(super) rate: f64,
    pub(super) gaps: Gaps,
    pub(super) time: Duration,
}

/// Latencies at a fixed rate.
pub(super) fn latency(service: &Service, cores: Cores, asked: Asked) -> Outcome<Latency> {
    let (rate, millis) = (asked.rate.to_string(), asked.time.as_millis().to_string());
    let said = own_client(service, cores, "gateway-client", &[&rate, &millis, asked.gaps.name()])?;
    Ok(serde_json::from_str(&said)?)
}
