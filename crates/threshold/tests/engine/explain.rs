//! Why a request was refused, and when it would pass.

use threshold::engine::{Extras, Skipped};
use threshold::{Retry, Span};

use crate::common::{Ask, IDENTITY, Service};

fn service() -> Service {
    Service::new(&format!(
        "{IDENTITY}\n[routes]\nposts = \"POST /api/posts\"\nai = \"* /api/ai/**\"\n\
         [[limit]]\nid = \"all\"\nlayer = \"tenant\"\nrate = \"100/min\"\n\
         [[limit]]\nid = \"posts\"\nlayer = \"user\"\nroute = \"posts\"\nrate = \"2/min\"\n\
         [[limit]]\nid = \"ai\"\nlayer = \"endpoint\"\nroute = \"ai\"\nrate = \"1/day\"\n\
         [[limit]]\nid = \"off\"\nlayer = \"endpoint\"\nrate = \"1/day\"\nenforce = \"off\"\n"
    ))
}

#[tokio::test]
async fn a_decision_says_what_it_was_made_of() {
    let service = service();
    let ask = Ask::post("/api/posts").of("acme").by("alice");
    let decision = service.ask(&ask).await;
    let told: Vec<_> =
        decision.considered().into_iter().map(|one| (one.limit, one.before, one.after)).collect();
    assert_eq!(told, [("all", 100, 99), ("posts", 2, 1)]);
    let keys: Vec<String> = decision.considered().into_iter().map(|one| one.key).collect();
    assert!(keys.iter().all(|key| key.len() == 32 && !key.contains("alice")), "{keys:?}");
}

#[tokio::test]
async fn an_explanation_charges_nothing_and_names_every_limit() {
    let service = service();
    let ask = Ask::post("/api/posts").of("acme").by("alice");
    assert_eq!(service.drain(&ask, 5).await, 2);
    let facts = ask.facts();
    let identity = service.engine.rules().identify(&facts, service.clock.advance(Span::ZERO));
    for _ in 0..3 {
        let explanation = service.engine.explain(&facts, &identity, Extras::default()).await.unwrap();
        assert_eq!(explanation.routes, ["posts"]);
        assert_eq!(explanation.passes, Retry::After(Span::from_secs(30)));
        let told: Vec<_> =
            explanation.considered.iter().map(|one| (one.limit, one.after, one.retry)).collect();
        assert_eq!(told, [("all", 98, Retry::Now), ("posts", 0, Retry::After(Span::from_secs(30)))]);
        assert_eq!(explanation.skipped, [("ai", Skipped::Route), ("off", Skipped::Off)]);
    }
    service.wait(Span::from_secs(30));
    assert!(service.allows(&ask).await, "it passes when it was said to");
}
