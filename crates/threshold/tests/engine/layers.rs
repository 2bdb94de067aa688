//! Four layers, one decision: what each of them counts, and that a refusal drains nobody.

use threshold::Source;
use threshold::engine::{Considered, Extras};
use threshold::identify::Doubt;
use threshold::policy::Layer;
use threshold::{Clock, Span};

use crate::common::{Ask, IDENTITY, Service};

fn grove() -> Service {
    Service::new(&format!(
        r#"{IDENTITY}
        unknown_tier = "seedling"
        [routes]
        posts-create = "POST /api/posts"
        writes = ["POST /**", "PUT /**", "PATCH /**", "DELETE /**"]
        uploads = ["* /api/upload/**", "* /api/images/**"]
        ai = ["* /api/ai/**", "* /api/wisp/**"]
        [tiers.seedling]
        requests = "100/min"
        writes = "50/hour"
        ai = "25/day"
        [tiers.oak]
        requests = "1000/min"
        writes = "500/hour"
        ai = "500/day"
        [tenants]
        small = "seedling"
        large = "oak"
        [[limit]]
        id = "edge"
        layer = "edge"
        rate = "2000/min"
        block_for = "1min"
        [[limit]]
        id = "requests"
        layer = "tenant"
        category = "requests"
        [[limit]]
        id = "writes"
        layer = "tenant"
        route = "writes"
        category = "writes"
        [[limit]]
        id = "tenant-ai"
        layer = "tenant"
        route = "ai"
        category = "ai"
        [[limit]]
        id = "posts"
        layer = "user"
        route = "posts-create"
        rate = "10/hour"
        [[limit]]
        id = "default"
        layer = "user"
        route = "unmatched"
        rate = "60/min"
        [[limit]]
        id = "upload-bytes"
        layer = "endpoint"
        route = "uploads"
        rate = "50MB/day"
        [[limit]]
        id = "ai-calls"
        layer = "endpoint"
        route = "ai"
        rate = "100/day"
        "#
    ))
}

/// Requests of many users, so that only the tenant's own limit binds.
async fn drain_tenant(service: &Service, ask: &Ask, many: usize) -> usize {
    let mut allowed = 0;
    for user in 0..many {
        allowed += usize::from(service.allows(&ask.clone().by(&format!("user-{user}"))).await);
    }
    allowed
}

#[tokio::test]
async fn every_tier_at_its_limit_and_one_past() {
    for (tenant, requests, writes, ai) in [("small", 100, 50, 25), ("large", 1000, 500, 500)] {
        let service = grove();
        let ask = |path: &str| Ask::get(path).of(tenant);
        assert_eq!(drain_tenant(&service, &ask("/"), requests + 1).await, requests, "{tenant}: requests");
        service.wait(Span::DAY);
        let mut written = 0;
        for round in 0..=writes / 50 {
            written +=
                drain_tenant(&service, &Ask { method: "PATCH", ..ask(&format!("/{round}")) }, 50).await;
        }
        assert_eq!(written, writes, "{tenant}: writes");
        service.wait(Span::from_micros(2 * Span::DAY.as_micros()));
        assert_eq!(drain_tenant(&service, &ask("/api/ai/x"), ai + 1).await, ai, "{tenant}: ai");
    }
}

#[tokio::test]
async fn moving_to_another_tier_keeps_what_was_consumed() {
    let service = grove();
    assert_eq!(drain_tenant(&service, &Ask::get("/api/ai/x").of("small"), 30).await, 25);
    let raised = crate::common::rules(&format!(
        "{IDENTITY}\n[routes]\nai = [\"* /api/ai/**\", \"* /api/wisp/**\"]\n[tiers.oak]\nai = \"500/day\"\n[tenants]\nsmall = \"oak\"\n\
         [[limit]]\nid = \"tenant-ai\"\nlayer = \"tenant\"\nroute = \"ai\"\ncategory = \"ai\"\n"
    ));
    service.engine.reload(raised).unwrap();
    assert_eq!(drain_tenant(&service, &Ask::get("/api/ai/x").of("small"), 600).await, 475);
}

#[tokio::test]
async fn a_tier_is_believed_from_the_table_then_from_a_trusted_proxy() {
    let identity =
        IDENTITY.replace("tenant =", "tier = { header = \"x-tier\" }\nunknown_tier = \"free\"\ntenant =");
    let service = Service::new(&format!(
        "{identity}\n[tiers.free]\nrequests = \"2/hour\"\n[tiers.paid]\nrequests = \"5/hour\"\n[tenants]\nknown = \"free\"\n\
         [[limit]]\nid = \"requests\"\nlayer = \"tenant\"\ncategory = \"requests\"\n"
    ));
    let ask = |tenant: &str, tier: &str| Ask::get("/").of(tenant).with("x-tier", tier);
    assert_eq!(service.drain(&ask("new", "paid"), 9).await, 5, "the proxy vouches for it");
    assert_eq!(service.drain(&ask("other", "gold"), 9).await, 2, "there is no such tier");
    assert_eq!(service.drain(&ask("known", "paid"), 9).await, 2, "the table comes first");
    let forged = Ask { peer: "192.0.2.9".parse().unwrap(), ..ask("new", "paid") };
    assert_eq!(service.drain(&forged, 9).await, 2, "nobody chooses a tier for themselves");
    assert_eq!(service.ask(&forged).await.doubts()[..], [Doubt::UntrustedIdentityHeader]);
}

#[tokio::test]
async fn a_user_past_its_limit_does_not_drain_the_tenant() {
    let service = grove();
    let mallory = Ask::post("/api/posts").of("small").by("mallory");
    assert_eq!(service.drain(&mallory, 40).await, 10);
    assert_eq!(service.refused_by(&mallory).await, "posts");
    let writes = Ask::post("/elsewhere").of("small");
    assert_eq!(drain_tenant(&service, &writes, 60).await, 40, "50 writes less the ten that were allowed");
}

#[tokio::test]
async fn tenants_and_users_never_affect_each_other() {
    let service = grove();
    assert_eq!(drain_tenant(&service, &Ask::get("/").of("small"), 200).await, 100);
    assert_eq!(service.refused_by(&Ask::get("/").of("small").by("late")).await, "requests");
    assert!(service.allows(&Ask::get("/").of("large").by("late")).await);
    let post = |user: &str| Ask::post("/api/posts").of("large").by(user);
    assert_eq!(service.drain(&post("alice"), 20).await, 10);
    assert_eq!(service.drain(&post("bob"), 20).await, 10);
    let same_name_elsewhere = Ask::post("/api/posts").of("small").by("alice");
    service.wait(Span::MINUTE);
    assert!(service.allows(&same_name_elsewhere).await, "alice of another tenant is another user");
}

#[tokio::test]
async fn bytes_are_counted_where_the_rate_says_so() {
    let service = grove();
    let upload = |bytes| Ask::post("/api/upload/photo").of("large").by("alice").bytes(bytes);
    assert!(service.allows(&upload(30_000_000)).await);
    assert!(!service.allows(&upload(30_000_000)).await);
    assert!(service.allows(&upload(20_000_000)).await);
    let decision = service.ask(&upload(1)).await;
    assert_eq!(decision.retry_after().unwrap().as_micros(), 1728, "a day for 50 million");
    assert!(service.allows(&upload(0)).await, "an empty body takes nothing");
    let too_large = service.ask(&upload(50_000_001)).await;
    assert_eq!(too_large.retry_after(), None, "it never fits");
}

#[tokio::test]
async fn bytes_that_did_not_come_are_given_back() {
    let service = grove();
    let upload = |bytes| Ask::post("/api/images").of("large").by("alice").bytes(bytes);
    let mut decision = service.ask(&upload(40_000_000)).await;
    assert!(!service.allows(&upload(20_000_000)).await);
    service.engine.refund_bytes(&mut decision, 10_000_000).await.unwrap();
    assert!(service.allows(&upload(40_000_000)).await);
    assert!(!service.allows(&upload(1)).await);
}

#[tokio::test]
async fn an_undeclared_body_is_charged_ahead() {
    let service = grove();
    let upload = Ask { bytes: None, ..Ask::post("/api/upload").of("large").by("alice") };
    let decision = service.ask(&upload).await;
    let bytes = decision.considered().into_iter().find(|one| one.limit == "upload-bytes").unwrap();
    assert_eq!(bytes.cost, 65_536);
}

#[tokio::test]
async fn unmatched_is_what_no_other_route_of_the_layer_matches() {
    let service = grove();
    let alice = |path: &str| Ask::get(path).of("large").by("alice");
    assert_eq!(
        service.drain(&alice("/api/ai/x"), 70).await,
        60,
        "only other layers have a limit for this route"
    );
    assert_eq!(service.refused_by(&alice("/other")).await, "default");
    let post = Ask::post("/api/posts").of("large").by("alice");
    assert_eq!(service.refused_by(&post).await, "nobody", "matched, so it is not for the default");
}

#[tokio::test]
async fn who_is_over_at_the_edge_is_kept_out_for_a_while() {
    let service = grove();
    let ask = Ask::get("/").of("large").by("alice");
    let (mut allowed, mut refused) = (0, "");
    for user in 0..2001 {
        let ask = Ask::get("/").by(&format!("u{user}")).of(if user % 3 == 0 { "small" } else { "large" });
        allowed += usize::from(service.allows(&ask).await);
        refused = service.refused_by(&ask).await;
        if refused == "edge" {
            break;
        }
    }
    assert!(allowed > 0);
    assert_eq!(refused, "edge");
    service.wait(Span::from_secs(59));
    assert_eq!(
        service.refused_by(&ask).await,
        "edge",
        "blocked for a minute, though the bucket is full again"
    );
    let elsewhere = ask.clone().from("198.51.100.7");
    assert_ne!(service.refused_by(&elsewhere).await, "edge");
    service.wait(Span::SECOND);
    assert_ne!(service.refused_by(&ask).await, "edge");
}

#[tokio::test]
async fn the_tightest_limit_is_shown() {
    let service = grove();
    let decision = service.ask(&Ask::post("/api/posts").of("large").by("alice")).await;
    let quota = decision.quota().unwrap();
    assert_eq!((quota.limit, quota.capacity, quota.remaining), ("posts", 10, 9));
}

#[tokio::test]
async fn a_path_that_cannot_be_read_is_refused() {
    let service = grove();
    assert_eq!(service.refused_by(&Ask::post("/api/%2561i/x")).await, "path");
}

#[tokio::test]
async fn every_spelling_of_a_path_meets_the_same_limit() {
    let service = grove();
    let spellings = [
        "/api/posts",
        "/api//posts",
        "/api/./posts",
        "/API/posts",
        "/api/posts/",
        "/api/%70osts",
        "/x/../api/posts",
    ];
    let mut allowed = 0;
    for _ in 0..10 {
        for path in spellings {
            allowed += usize::from(service.allows(&Ask::post(path).of("large").by("alice")).await);
        }
    }
    assert_eq!(allowed, 10);
}

#[tokio::test]
async fn layers_are_judged_in_their_order() {
    let service = grove();
    let decision = service.ask(&Ask::post("/api/posts").of("small").by("alice")).await;
    let layers: Vec<Layer> = decision.considered().iter().map(|one| one.layer).collect();
    let local = |one: &Considered| (one.source == Source::Local) == (one.layer == Layer::Edge);
    assert!(decision.considered().iter().all(local), "only the edge is this process's own");
    assert!(layers.is_sorted(), "{layers:?}");
    assert_eq!(layers.first(), Some(&Layer::Edge));
}

#[tokio::test]
async fn bytes_are_given_back_once() {
    let service =
        Service::new(&format!("{IDENTITY}\n[[limit]]\nid = \"one\"\nlayer = \"user\"\nrate = \"1MB/min\"\n"));
    let ask = Ask::post("/").by("alice").bytes(500_000);
    let (mut a, _b) = (service.ask(&ask).await, service.ask(&ask).await);
    service.engine.refund_bytes(&mut a, 0).await.unwrap();
    service.engine.refund_bytes(&mut a, 0).await.unwrap();
    assert_eq!(service.drain(&ask, 5).await, 1);
}

#[tokio::test]
async fn an_ipv4_address_inside_ipv6_has_no_larger_network() {
    let text = "[identity]\ntrusted_proxies = [\"127.0.0.1\"]\nclient_ip = \"x-forwarded-for\"\nipv6_aggregates = [{ prefix = 48, times = 1 }]\n[[limit]]\nid = \"one\"\nlayer = \"user\"\nper = \"ip\"\nrate = \"10/hour\"\n";
    let service = Service::new(text);
    let ask = Ask::get("/");
    let facts = ask.facts();
    let mut identity = service.engine.rules().identify(&facts, service.clock.now());
    identity.client = "::ffff:192.0.2.1".parse().unwrap();
    let allowed =
        (0..30).filter(|_| service.engine.decide_now(&facts, &identity, Extras::default()).allowed()).count();
    assert_eq!(allowed, 10);
}
