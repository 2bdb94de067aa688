//! limitador: its in-memory storage, through the public synchronous limiter.

use std::collections::HashMap;

use limitador::RateLimiter;
use limitador::limit::{Context, Expression, Limit, Namespace};

use super::{Peer, Quota, count_refused};
use crate::Outcome;

/// Fixed windows have no refill; an hour outlasts every cell.
const WINDOW_SECONDS: u64 = 3600;

pub(super) struct Limitador {
    limiter: RateLimiter,
    namespace: Namespace,
}

impl Limitador {
    pub(super) fn new(quota: Quota, keys: usize) -> Outcome<Self> {
        // Its counters live in a cache that evicts: twice the room, so that none is lost.
        let limiter = RateLimiter::new(2 * keys as u64 + 1_000);
        let variable = Expression::parse("user").map_err(|error| format!("limitador: {error}"))?;
        limiter.add_limit(Limit::new("bench", quota.burst.into(), WINDOW_SECONDS, [], [variable]));
        Ok(Self { limiter, namespace: "bench".into() })
    }

    /// A context per decision is what its interface asks for.
    fn decide(&self, key: &str, cost: u64) -> bool {
        let context = Context::from(HashMap::from([("user".to_owned(), key.to_owned())]));
        let answer = self.limiter.check_rate_limited_and_update(&self.namespace, &context, cost);
        answer.is_ok_and(|result| !result.limited)
    }
}

impl Peer for Limitador {
    fn charge(&self, key: &String, cost: u32) -> bool {
        self.decide(key, cost.into())
    }

    fn decide_all(&self, keys: &[String], order: &[u32]) -> u64 {
        count_refused(keys, order, |key| self.decide(key, 1))
    }
}
