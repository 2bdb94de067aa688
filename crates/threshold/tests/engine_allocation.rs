//! A request that is allowed over all four layers takes nothing from the heap, whether it is counted or not.

#[path = "engine/common.rs"]
#[allow(dead_code, reason = "shared with the scenarios, which use all of it")]
mod common;
#[path = "../../threshold-store/tests/common/heap.rs"]
mod heap;

use common::{Ask, IDENTITY, Service};
use heap::allocations_in;
use std::sync::Arc;
use threshold::Span;
use threshold::engine::Extras;
use threshold::usage::Usage;

#[test]
fn an_allowed_request_takes_nothing_from_the_heap() {
    assert_eq!(taken_by(&service()), 0, "in 5,000 decisions");
}

#[test]
fn counting_a_request_takes_nothing_either_once_its_rows_are_known() {
    let usage = Arc::new(Usage::new(1 << 12));
    let Service { engine, clock } = service();
    let service = Service { engine: engine.tracking(Arc::clone(&usage)), clock };
    assert_eq!(taken_by(&service), 0, "in 5,000 decisions");
    let (rows, dropped) = (usage.drain().rows, usage.drain().dropped);
    assert_eq!(dropped, 0);
    let counted =
        |limit: &str| -> u64 { rows.iter().filter(|row| row.limit == limit).map(|row| row.requests).sum() };
    assert_eq!(["*", "edge", "tenant", "user", "endpoint"].map(counted), [5_100; 5]);
}

fn service() -> Service {
    Service::new(&format!(
        "{IDENTITY}\nunknown_tier = \"free\"\n[routes]\napi = \"* /api/**\"\n[tiers.free]\nrequests = \"1000000/s\"\n\
         [[limit]]\nid = \"edge\"\nlayer = \"edge\"\nrate = \"1000000/s\"\n\
         [[limit]]\nid = \"tenant\"\nlayer = \"tenant\"\ncategory = \"requests\"\n\
         [[limit]]\nid = \"user\"\nlayer = \"user\"\nrate = \"1000000/s\"\n\
         [[limit]]\nid = \"endpoint\"\nlayer = \"endpoint\"\nroute = \"api\"\nrate = \"1000000/s\"\n"
    ))
}

/// What 5,000 decisions take, after the first of each user.
fn taken_by(service: &Service) -> usize {
    let asks: Vec<Ask> =
        (0..100).map(|user| Ask::get("/api/posts/1").of("acme").by(&format!("user-{user}"))).collect();
    let decide = |ask: &Ask| {
        let facts = ask.facts();
        let identity = service.engine.rules().identify(&facts, service.clock.advance(Span::ZERO));
        let decision = service.engine.decide_now(&facts, &identity, Extras::default());
        assert!(decision.allowed());
        assert_eq!(decision.quota().map(|quota| quota.limit.is_empty()), Some(false));
    };
    asks.iter().for_each(decide);
    allocations_in(|| (0..50).for_each(|_| asks.iter().for_each(decide)))
}

#[test]
fn a_charge_by_a_rate_made_ready_takes_nothing_from_the_heap() {
    let service = service();
    let rate = "1000000/s".parse().expect("a rate");
    let ready =
        service.engine.adhoc(&rate, threshold::AlgorithmKind::TokenBucket).expect("it can be represented");
    let charge = || {
        for key in 0..100_u8 {
            let key = ready.key(&[b'k', key]);
            service.engine.prefetch_adhoc(&key);
            let charge = ready.charge_to(&key, std::num::NonZeroU64::MIN);
            assert!(service.engine.charge_adhoc_at_once(&charge).is_some());
        }
    };
    charge();
    assert_eq!(allocations_in(|| (0..50).for_each(|_| charge())), 0);
}
