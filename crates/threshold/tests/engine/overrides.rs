//! Other numbers for some, without a new policy.

use threshold::engine::{Override, OverrideError, Subjects};
use threshold::{Span, SubjectId};

use crate::common::{Ask, IDENTITY, Service, limited, override_all, rules, secrets};

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

fn user(name: &str) -> Option<SubjectId> {
    Some(Subjects::new(&secrets().current, 64).user(None, name))
}

#[tokio::test]
async fn one_subject_or_everyone() {
    let service = service();
    service.set(everyone("all", "4/hour", 0)).await;
    service.set(Override { subject: user("alice"), ..everyone("alice", "20/hour", 0) }).await;
    assert_eq!(service.drain(&Ask::get("/").by("alice"), 30).await, 20, "her own counts before everyone's");
    assert_eq!(service.drain(&Ask::get("/").by("bob"), 30).await, 4);
    assert!(service.remove("all").await && !service.remove("all").await);
    assert_eq!(service.drain(&Ask::get("/").by("bob"), 30).await, 6, "ten less the four");
}

#[tokio::test]
async fn the_highest_priority_counts_then_the_subjects_own_then_the_latest() {
    let service = service();
    service.set(Override { subject: user("alice"), ..everyone("own", "3/hour", 1) }).await;
    service.set(everyone("early", "5/hour", 2)).await;
    service.set(everyone("late", "7/hour", 2)).await;
    assert_eq!(service.drain(&Ask::get("/").by("alice"), 30).await, 7);
}

#[tokio::test]
async fn switched_off_and_expired_ones_do_nothing() {
    let service = service();
    let end = service.clock.advance(Span::ZERO).plus(Span::MINUTE);
    service.set(Override { enabled: false, ..everyone("off", "1/hour", 9) }).await;
    service.set(Override { expires: Some(end), ..everyone("short", "20/hour", 1) }).await;
    assert_eq!(service.drain(&Ask::get("/").by("alice"), 30).await, 20);
    service.wait(Span::MINUTE);
    assert_eq!(service.drain(&Ask::get("/").by("bob"), 30).await, 10);
    assert_eq!(service.drain(&Ask::get("/").by("alice"), 30).await, 0, "what she used stays used");
}

#[tokio::test]
async fn an_allowance_comes_on_top() {
    let service = service();
    service.set(Override { burst_allowance: 5, ..everyone("more", "10/hour", 0) }).await;
    assert_eq!(service.drain(&Ask::get("/").by("alice"), 30).await, 15);
}

#[tokio::test]
async fn overrides_outlive_a_reload() {
    let service = service();
    service.set(everyone("all", "2/hour", 0)).await;
    service.engine.reload(rules(&policy("50/hour"))).unwrap();
    assert_eq!(service.drain(&Ask::get("/").by("alice"), 30).await, 2);
    assert_eq!(service.engine.overrides().len(), 1);
}

#[tokio::test]
async fn what_suits_no_limit_is_refused() {
    let service = service();
    let lost = Override { limit: "converions".to_owned(), ..everyone("lost", "1/hour", 0) };
    let set = service.engine.set_override("ops", lost).await;
    assert!(matches!(set, Err(OverrideError::NoLimit(limit)) if limit == "converions"));
    assert!(service.engine.overrides().is_empty());
}

#[tokio::test]
async fn an_override_for_everyone_suits_tiers_of_different_periods() {
    let text = format!(
        "{IDENTITY}\n[tiers.big]\nrequests = \"1000/hour\"\n[tiers.small]\nrequests = \"10/min\"\n[tenants]\nacme = \"small\"\n[[limit]]\nid = \"one\"\nlayer = \"tenant\"\ncategory = \"requests\"\n"
    );
    let service = Service::new(&text);
    let ask = Ask::get("/").of("acme");
    service.set(override_all("one", "20/hour")).await;
    assert_eq!(service.drain(&ask, 30).await, 20);
    service.remove("o").await;
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
    let change = Override { subject: user("bob"), ..override_all("one", "1/hour") };
    let set = service.engine.set_override("ops", change).await;
    assert!(matches!(set, Err(OverrideError::NoSubject(_))), "accepted, though it can never act");
}

#[tokio::test]
async fn an_override_of_another_period_is_charged_once_while_its_limit_retires() {
    let service = Service::new(&limited("rate = \"1000/hour\""));
    service.set(override_all("one", "20/day")).await;
    service.engine.reload(rules(&limited("rate = \"1000/min\""))).unwrap();
    assert_eq!(service.drain(&Ask::get("/").by("alice"), 30).await, 20);
}

#[tokio::test]
async fn a_retiring_limit_keeps_the_overrides_that_were_made_for_it() {
    let service = Service::new(&limited("rate = \"10/hour\""));
    let alice = Ask::get("/").by("alice");
    assert_eq!(service.drain(&alice, 30).await, 10);
    service.set(override_all("one", "10/hour")).await;
    service.engine.reload(rules(&limited("rate = \"10/hour\"\nalgorithm = \"sliding-log\""))).unwrap();
    assert_eq!(service.drain(&alice, 30).await, 0, "both the limit and its override are 10/hour throughout");
}

#[tokio::test]
async fn an_override_of_another_period_counts_from_when_it_is_set() {
    let service = Service::new(&limited("rate = \"10/hour\""));
    let alice = Ask::get("/").by("alice");
    assert_eq!(service.drain(&alice, 30).await, 10);
    service.set(override_all("one", "10/day")).await;
    assert_eq!(service.drain(&alice, 30).await, 10, "of the hour before it knows nothing");
}

#[tokio::test]
async fn a_limit_counts_on_while_an_override_of_another_period_stands_for_it() {
    let service = Service::new(&limited("rate = \"10/hour\""));
    let alice = Ask::get("/").by("alice");
    service.set(override_all("one", "10 per 2h")).await;
    assert_eq!(service.drain(&alice, 30).await, 10);
    service.remove("o").await;
    assert_eq!(service.drain(&alice, 30).await, 0, "ten an hour, and ten were admitted this instant");
}

#[tokio::test]
async fn a_subject_keeps_its_override_while_the_limit_retires() {
    let service = Service::new(&limited("rate = \"10/hour\""));
    let alice = Ask::get("/").by("alice");
    service.set(Override { subject: user("alice"), ..override_all("one", "100/hour") }).await;
    assert_eq!(service.drain(&alice, 20).await, 20);
    service.engine.reload(rules(&limited("rate = \"10/min\""))).unwrap();
    assert_eq!(service.drain(&alice, 200).await, 80, "her override was 100/hour before and is 100/hour now");
}
