//! A request that is allowed over all four layers takes nothing from the heap.

#[path = "engine/common.rs"]
#[allow(dead_code, reason = "shared with the scenarios, which use all of it")]
mod common;
#[path = "../../threshold-store/tests/common/heap.rs"]
mod heap;

use common::{Ask, IDENTITY, Service};
use heap::allocations_in;
use threshold::Span;
use threshold::engine::Extras;

#[test]
fn an_allowed_request_takes_nothing_from_the_heap() {
    let service = Service::new(&format!(
        "{IDENTITY}\nunknown_tier = \"free\"\n[routes]\napi = \"* /api/**\"\n[tiers.free]\nrequests = \"1000000/s\"\n\
         [[limit]]\nid = \"edge\"\nlayer = \"edge\"\nrate = \"1000000/s\"\n\
         [[limit]]\nid = \"tenant\"\nlayer = \"tenant\"\ncategory = \"requests\"\n\
         [[limit]]\nid = \"user\"\nlayer = \"user\"\nrate = \"1000000/s\"\n\
         [[limit]]\nid = \"endpoint\"\nlayer = \"endpoint\"\nroute = \"api\"\nrate = \"1000000/s\"\n"
    ));
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
    let taken = allocations_in(|| (0..50).for_each(|_| asks.iter().for_each(decide)));
    assert_eq!(taken, 0, "in 5,000 decisions");
}
