//! Other numbers for some, without a new policy.

use std::borrow::Cow;

use threshold::Span;
use threshold::engine::{Override, OverrideError};
use threshold::identify::Identity;

use crate::common::{Ask, IDENTITY, Service, limited, override_all, rules};

fn service() -> Service {
    Service::new(&policy("10/hour"))
}

fn policy(rate: &str) -> String {
    format!("{IDENTITY}\n[[limit]]\nid = \"conversions\"\nlayer = \"user\"\nrate = \"{rate}\"\n")
}

fn everyone(id: &str, rate: &str, priority: i64) -> Override {
    Override {
        id: id.to_owned(),
        limit: "conversions".to_owned(),
        subject: None,
        rate: rate.parse().expect("a rate"),
        burst_allowance: 0,
        enabled: true,
        priority,
        expires: None,
    }
}

fn user(name: &str) -> Option<Identity<'static>> {
    Some(Identity {
        client: "192.0.2.1".parse().expect("an address"),
        tenant: None,
        tenant_verified: false,
        tier: None,
        user: Some(Cow::Owned(name.to_owned())),
        user_kind: None,
        doubts: Default::default(),
    })
}

#[tokio::test]
async fn one_subject_or_everyone() {
    let service = service();
    service.engine.set_override(everyone("all", "4/hour", 0)).unwrap();
    service
        .engine
        .set_override(Override { subject: user("alice"), ..everyone("alice", "20/hour", 0) })
        .unwrap();
    assert_eq!(service.drain(&Ask::get("/").by("alice"), 30).await, 20, "her own counts before everyone's");
    assert_eq!(service.drain(&Ask::get("/").by("bob"), 30).await, 4);
    assert!(service.engine.remove_override("all") && !service.engine.remove_override("all"));
    assert_eq!(service.drain(&Ask::get("/").by("bob"), 30).await, 6, "ten less the four");
}

#[tokio::test]
async fn the_highest_priority_counts_then_the_subjects_own_then_the_latest() {
    let service = service();
    service.engine.set_override(Override { subject: user("alice"), ..everyone("own", "3/hour", 1) }).unwrap();
    service.engine.set_override(everyone("early", "5/hour", 2)).unwrap();
    service.engine.set_override(everyone("late", "7/hour", 2)).unwrap();
    assert_eq!(service.drain(&Ask::get("/").by("alice"), 30).await, 7);
}

#[tokio::test]
async fn switched_off_and_expired_ones_do_nothing() {
    let service = service();
    let end = service.clock.advance(Span::ZERO).plus(Span::MINUTE);
    service.engine.set_override(Override { enabled: false, ..everyone("off", "1/hour", 9) }).unwrap();
    service.engine.set_override(Override { expires: Some(end), ..everyone("short", "20/hour", 1) }).unwrap();
    assert_eq!(service.drain(&Ask::get("/").by("alice"), 30).await, 20);
    service.wait(Span::MINUTE);
    assert_eq!(service.drain(&Ask::get("/").by("bob"), 30).await, 10);
    assert_eq!(service.drain(&Ask::get("/").by("alice"), 30).await, 0, "what she used stays used");
}

#[tokio::test]
async fn an_allowance_comes_on_top() {
    let service = service();
    service.engine.set_override(Override { burst_allowance: 5, ..everyone("more", "10/hour", 0) }).unwrap();
    assert_eq!(service.drain(&Ask::get("/").by("alice"), 30).await, 15);
}

#[tokio::test]
async fn overrides_outlive_a_reload() {
    let service = service();
    service.engine.set_override(everyone("all", "2/hour", 0)).unwrap();
    service.engine.reload(rules(&policy("50/hour"))).unwrap();
    assert_eq!(service.drain(&Ask::get("/").by("alice"), 30).await, 2);
    assert_eq!(service.engine.overrides().len(), 1);
}

#[tokio::test]
async fn what_suits_no_limit_is_refused() {
    let service = service();
    let lost = Override { limit: "converions".to_owned(), ..everyone("lost", "1/hour", 0) };
    assert_eq!(service.engine.set_override(lost), Err(OverrideError::NoLimit("converions".to_owned())));
    assert!(service.engine.overrides().is_empty());
}

#[tokio::test]
async fn an_override_for_everyone_suits_tiers_of_different_periods() {
    let text = format!(
        "{IDENTITY}\n[tiers.big]\nrequests = \"1000/hour\"\n[tiers.small]\nrequests = \"10/min\"\n[tenants]\nacme = \"small\"\n[[limit]]\nid = \"one\"\nlayer = \"tenant\"\ncategory = \"requests\"\n"
    );
    let service = Service::new(&text);
    let ask = Ask::get("/").of("acme");
    service.engine.set_override(override_all("one", "20/hour")).unwrap();
    assert_eq!(service.drain(&ask, 30).await, 20);
    service.engine.remove_override("o");
    service.wait(Span::from_secs(61));
    assert_eq!(
        service.drain(&ask, 30).await,
        10,
        "a limit of ten a minute never makes anybody wait longer than one"
    );
}

#[tokio::test]
async fn an_override_that_can_never_act_is_refused() {
    let service = Service::new(&limited("per = \"account\"\nrate = \"10/hour\""));
    let set = service.engine.set_override(Override { subject: user("bob"), ..override_all("one", "1/hour") });
    assert!(set.is_err(), "accepted, though it can never act");
}

#[tokio::test]
async fn an_override_of_another_period_is_charged_once_while_its_limit_retires() {
    let service = Service::new(&limited("rate = \"1000/hour\""));
    service.engine.set_override(override_all("one", "20/day")).unwrap();
    service.engine.reload(rules(&limited("rate = \"1000/min\""))).unwrap();
    assert_eq!(service.drain(&Ask::get("/").by("alice"), 30).await, 20);
}

#[tokio::test]
async fn a_retiring_limit_keeps_the_overrides_that_were_made_for_it() {
    let service = Service::new(&limited("rate = \"10/hour\""));
    let alice = Ask::get("/").by("alice");
    assert_eq!(service.drain(&alice, 30).await, 10);
    service.engine.set_override(override_all("one", "10/hour")).unwrap();
    service.engine.reload(rules(&limited("rate = \"10/hour\"\nalgorithm = \"sliding-log\""))).unwrap();
    assert_eq!(service.drain(&alice, 30).await, 0, "both the limit and its override are 10/hour throughout");
}

#[tokio::test]
async fn an_override_of_another_period_counts_from_when_it_is_set() {
    let service = Service::new(&limited("rate = \"10/hour\""));
    let alice = Ask::get("/").by("alice");
    assert_eq!(service.drain(&alice, 30).await, 10);
    service.engine.set_override(override_all("one", "10/day")).unwrap();
    assert_eq!(service.drain(&alice, 30).await, 10, "of the hour before it knows nothing");
}

#[tokio::test]
async fn a_limit_counts_on_while_an_override_of_another_period_stands_for_it() {
    let service = Service::new(&limited("rate = \"10/hour\""));
    let alice = Ask::get("/").by("alice");
    service.engine.set_override(override_all("one", "10 per 2h")).unwrap();
    assert_eq!(service.drain(&alice, 30).await, 10);
    service.engine.remove_override("o");
    assert_eq!(service.drain(&alice, 30).await, 0, "ten an hour, and ten were admitted this instant");
}

#[tokio::test]
async fn a_subject_keeps_its_override_while_the_limit_retires() {
    let service = Service::new(&limited("rate = \"10/hour\""));
    let alice = Ask::get("/").by("alice");
    service
        .engine
        .set_override(Override { subject: user("alice"), ..override_all("one", "100/hour") })
        .unwrap();
    assert_eq!(service.drain(&alice, 20).await, 20);
    service.engine.reload(rules(&limited("rate = \"10/min\""))).unwrap();
    assert_eq!(service.drain(&alice, 200).await, 80, "her override was 100/hour before and is 100/hour now");
}
