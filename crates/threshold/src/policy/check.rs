//! Mistakes that show only when fields are seen together. Each is noted; none ends the check.

mod alerts;
mod descriptors;
mod gateway;
mod identity;
mod limits;
mod rest;

pub(crate) use limits::{EVERY_MESSAGE, UNMATCHED, blamed, cost, kind, subjects};

use super::Policy;
use super::decode::Reader;

/// Notes what contradicts itself, points nowhere or cannot be kept.
pub(super) fn check(policy: &Policy, reader: &mut Reader<'_>) {
    super::routes::check(policy, reader);
    limits::check(policy, reader);
    identity::check(policy, reader);
    gateway::check(policy, reader);
    rest::check(policy, reader);
    alerts::check(policy, reader);
}
