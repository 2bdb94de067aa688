//! Reputation: it falls with violations, scales limits, and recovers.

use threshold::Span;
use threshold::ledger::{Query, Record, ViolationRecord};
use threshold::standing::{Reputation, Risk, Violation};

use crate::common::{Ask, Service, limited};

fn service(more: &str) -> Service {
    let reputation = format!("[reputation]\nrecovery = \"1 per hour\"\n{more}\n");
    Service::new(&(limited("rate = \"100/min\"\nalgorithm = \"fixed-window\"") + &reputation))
}

fn alice() -> Ask {
    Ask::get("/").by("alice").with("user-agent", "browser/1")
}

fn points(service: &Service) -> u8 {
    let held = service.engine.held(&service.engine.subjects().user(None, "alice"));
    let hourly = "1 per hour".parse().expect("a rate");
    let reputation =
        Reputation::new(10, hourly, [75, 50, 25], [60, 30, 10]).expect("numbers that make sense");
    held.map_or(100, |held| held.score.points(&reputation, service.clock.advance(Span::ZERO)))
}

async fn violations(service: &Service) -> Vec<ViolationRecord> {
    let page = service.engine.ledger().read_now(&Query::Violations { subject: None, after: 0 });
    let one = |record| match record {
        Record::Violation(violation) => Some(violation),
        _ => None,
    };
    page.records.into_iter().filter_map(one).collect()
}

#[tokio::test]
async fn a_bad_name_scales_the_limits_down_and_time_restores_them() {
    let service = service("");
    let mut story = Vec::new();
    for _ in 0..11 {
        let admitted = service.drain(&alice(), 101).await;
        story.push((admitted, points(&service)));
        service.wait(Span::MINUTE);
    }
    // What was attempted counts: 101 of 100, whatever was left of the hundred.
    assert_eq!(
        story,
        [
            (100, 90),
            (100, 50),
            (60, 40),
            (30, 30),
            (30, 20),
            (10, 10),
            (10, 0),
            (10, 0),
            (10, 0),
            (10, 0),
            (10, 0)
        ]
    );
    // An hour a point, to the point: high, medium, low.
    let mut risen = Vec::new();
    for hours in [25, 25, 25, 25] {
        service.wait(Span::from_secs(hours * 3_600));
        risen.push((points(&service), service.drain(&alice(), 100).await));
        service.wait(Span::MINUTE);
    }
    assert_eq!(risen, [(25, 30), (50, 60), (75, 100), (100, 100)]);
}

#[tokio::test]
async fn a_client_that_stays_within_the_base_limit_never_gets_worse() {
    let service = service("");
    service.drain(&alice(), 101).await;
    service.wait(Span::MINUTE);
    service.drain(&alice(), 101).await;
    assert_eq!(points(&service), 50);
    for _ in 0..30 {
        service.wait(Span::MINUTE);
        assert_eq!(service.drain(&alice(), 100).await, 60, "forty of them are refused");
    }
    assert_eq!(points(&service), 50, "a hundred a minute is what the policy allows");
    assert_eq!(violations(&service).await.len(), 2);
}

#[tokio::test]
async fn kinds_of_violations_by_what_was_attempted() {
    for (requests, kind, count) in [
        (101, Violation::RateExceeded, 101),
        (150, Violation::SuspiciousPattern, 150),
        (299, Violation::SuspiciousPattern, 150),
        (300, Violation::BurstAttack, 300),
        (900, Violation::BurstAttack, 300),
    ] {
        let service = service("");
        service.drain(&alice(), requests).await;
        let violations = violations(&service).await;
        assert_eq!(violations.len(), 1, "{requests} requests are one violation");
        assert_eq!((violations[0].kind, violations[0].count), (kind, count), "{requests} requests");
        assert_eq!(points(&service), 90, "however bad, it costs as much");
    }
}

#[tokio::test]
async fn what_is_written_down_about_a_violation() {
    let service = service("country = \"cf-ipcountry\"");
    let ask = alice().with("cf-ipcountry", "de").with("accept-language", "de\u{7}");
    service.drain(&ask, 101).await;
    let violations = violations(&service).await;
    let violation = &violations[0];
    assert_eq!(violation.subject, service.engine.subjects().user(None, "alice"));
    assert_eq!((violation.limit.as_str(), violation.allowed, violation.window), ("one", 100, Span::MINUTE));
    assert_eq!(violation.user_agent.as_deref(), Some("browser/1"));
    assert_eq!(violation.country, Some(*b"DE"));
    assert!(violation.fingerprint.as_ref().is_some_and(|fingerprint| fingerprint.len() == 16));
}

#[tokio::test]
async fn a_change_of_country_or_a_churn_of_agents_is_suspicious() {
    let service = service("country = \"cf-ipcountry\"");
    let from = |country: &str| alice().with("cf-ipcountry", country);
    for country in ["DE", "DE", "US"] {
        service.drain(&from(country), 101).await;
        service.wait(Span::from_secs(120));
    }
    let kinds: Vec<_> = violations(&service).await.iter().map(|one| one.kind.name()).collect();
    assert_eq!(kinds, ["RATE_EXCEEDED", "RATE_EXCEEDED", "SUSPICIOUS_PATTERN"]);
    assert!(violations(&service).await[2].details.contains("change of country"));
}

#[tokio::test]
async fn nobody_but_a_trusted_proxy_names_the_country() {
    let policy = "[[limit]]\nid = \"one\"\nlayer = \"user\"\nrate = \"2/min\"\n[reputation]\ncountry = \"cf-ipcountry\"\n";
    let service = Service::new(policy);
    let ask = Ask { peer: "203.0.113.9".parse().unwrap(), ..Ask::get("/") }.with("cf-ipcountry", "DE");
    service.drain(&ask, 5).await;
    assert_eq!(violations(&service).await[0].country, None);
}

#[tokio::test]
async fn limits_that_others_share_are_not_scaled() {
    let policy = format!(
        "{}\n[[limit]]\nid = \"tenant\"\nlayer = \"tenant\"\nrate = \"50/min\"\nalgorithm = \"fixed-window\"\n[[limit]]\nid = \"user\"\nlayer = \"user\"\nrate = \"10/min\"\nalgorithm = \"fixed-window\"\n[reputation]\n",
        crate::common::IDENTITY
    );
    let service = Service::new(&policy);
    let alice = Ask::get("/").of("acme").by("alice");
    for _ in 0..12 {
        service.drain(&alice, 11).await;
        service.wait(Span::MINUTE);
    }
    assert_eq!(service.drain(&alice, 10).await, 1, "a tenth of ten");
    assert_eq!(service.drain(&Ask::get("/").of("acme").by("bob"), 20).await, 10);
    let decision = service.ask(&Ask::get("/").of("acme").by("carol")).await;
    let tenant = decision.considered().into_iter().find(|one| one.limit == "tenant").unwrap();
    assert_eq!(tenant.before, 39, "of the tenant's fifty");
    assert_eq!(Risk::Critical.max(Risk::Low), Risk::Critical);
}

#[tokio::test]
async fn ladder_and_reputation_go_together() {
    let both = "[reputation]\n[ladder]\n";
    let service = Service::new(&(limited("rate = \"10/min\"\nalgorithm = \"fixed-window\"") + both));
    assert_eq!(service.drain(&alice(), 20).await, 11, "ten, and one by grace");
    assert_eq!(points(&service), 90);
}
