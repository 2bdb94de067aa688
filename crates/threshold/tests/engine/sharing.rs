//! What is held against whom, on several nodes, after a restart and under a new secret.

use threshold::engine::{Engine, Reason, Secrets};
use threshold::ledger::{Change, SanctionKind, Tenant};
use threshold::{ManualClock, MemoryLedger, MemoryStore, Secret, Span, SubjectId, Timestamp};

use crate::common::{Ask, IDENTITY, Service, limited, override_all, rules_with, secrets};

/// A node with stores of its own on a ledger that others may share.
async fn node(policy: &str, secrets: Secrets, clock: &ManualClock, ledger: &MemoryLedger) -> Service {
    let store =
        || MemoryStore::builder().max_bytes(1 << 20).clock(clock.clone()).build().expect("a cap with room");
    let ready = (rules_with(policy, &secrets), secrets);
    let engine = Engine::with_ledger(ready, store(), store(), ledger.clone());
    engine.refresh().await.expect("memory answers");
    Service { engine, clock: clock.clone() }
}

fn clock() -> ManualClock {
    ManualClock::starting_at(Timestamp::from_micros(1_700_000_000_000_000))
}

fn policy() -> String {
    limited("rate = \"2/min\"\nalgorithm = \"fixed-window\"") + "[ladder]\n"
}

fn ban(subject: SubjectId, clock: &ManualClock) -> Change {
    let until = clock.advance(Span::ZERO).plus(Span::DAY);
    Change::Impose { subject, kind: SanctionKind::Ban, until, reason: "test".to_owned() }
}

#[tokio::test]
async fn what_one_node_writes_down_acts_on_the_others_when_they_look() {
    let (clock, ledger) = (clock(), MemoryLedger::new());
    let one = node(&policy(), secrets(), &clock, &ledger).await;
    let other = node(&policy(), secrets(), &clock, &ledger).await;
    let alice = Ask::get("/").by("alice");
    let user = one.engine.subjects().user(None, "alice");
    assert!(one.engine.operate("ops", ban(user, &clock)).await.unwrap());
    one.set(override_all("one", "50/min")).await;
    assert!(other.allows(&alice).await, "it has not looked yet");
    other.engine.refresh().await.unwrap();
    assert!(!other.allows(&alice).await);
    assert_eq!(other.drain(&Ask::get("/").by("bob"), 60).await, 55, "fifty, and a tenth by grace");
    assert!(other.engine.operate("ops", Change::Lift { subject: user, kind: None }).await.unwrap());
    assert!(other.remove("o").await);
    one.engine.refresh().await.unwrap();
    assert!(one.allows(&alice).await);
    assert!(one.engine.overrides().is_empty());
}

#[tokio::test]
async fn strikes_of_several_nodes_add_up_once_per_window() {
    let (clock, ledger) = (clock(), MemoryLedger::new());
    let nodes = [
        node(&policy(), secrets(), &clock, &ledger).await,
        node(&policy(), secrets(), &clock, &ledger).await,
    ];
    let alice = Ask::get("/").by("alice");
    for node in &nodes {
        node.drain(&alice, 10).await;
    }
    let user = nodes[0].engine.subjects().user(None, "alice");
    let strikes = |node: &Service| node.engine.held(&user).map(|held| held.strikes.parts().0);
    assert_eq!(nodes.each_ref().map(strikes), [Some(1), Some(1)], "both refused in the same window");
    for _ in 0..4 {
        clock.advance(Span::from_secs(360));
        for node in &nodes {
            node.drain(&alice, 10).await;
        }
    }
    for node in &nodes {
        let refusal = node.ask(&alice).await.refusal().unwrap();
        assert!(matches!(refusal.reason, Reason::Banned { .. }), "{refusal:?}");
    }
}

#[tokio::test]
async fn a_node_that_starts_again_knows_what_was_written_down() {
    let (clock, ledger) = (clock(), MemoryLedger::new());
    let before = node(&policy(), secrets(), &clock, &ledger).await;
    let user = before.engine.subjects().user(None, "alice");
    assert!(before.engine.operate("ops", ban(user, &clock)).await.unwrap());
    before.drain(&Ask::get("/").by("bob"), 4).await;
    drop(before);
    let after = node(&policy(), secrets(), &clock, &ledger).await;
    assert!(!after.allows(&Ask::get("/").by("alice")).await);
    let bob = after.engine.held(&after.engine.subjects().user(None, "bob")).unwrap();
    assert_eq!(bob.strikes.parts().0, 1);
}

#[tokio::test]
async fn sanctions_and_overrides_outlive_a_new_secret() {
    let (clock, ledger) = (clock(), MemoryLedger::new());
    let before = node(&policy(), secrets(), &clock, &ledger).await;
    let subjects = before.engine.subjects();
    assert!(before.engine.operate("ops", ban(subjects.user(None, "alice"), &clock)).await.unwrap());
    let address = subjects.address("203.0.113.9".parse().unwrap());
    assert!(before.engine.operate("ops", ban(address, &clock)).await.unwrap());
    let mut bob = override_all("one", "9/min");
    bob.subject = Some(subjects.user(None, "bob"));
    before.set(bob).await;
    let rotated = Secrets { current: Secret::new([6; 16]), previous: Some(secrets().current) };
    let after = node(&policy(), rotated, &clock, &ledger).await;
    assert!(!after.allows(&Ask::get("/").by("alice")).await);
    assert!(!after.allows(&Ask::get("/").from("203.0.113.9")).await);
    assert_eq!(after.drain(&Ask::get("/").by("bob").from("192.0.2.9"), 9).await, 9);
}

#[tokio::test]
async fn a_tenant_that_only_the_ledger_knows_is_believed() {
    let text = format!(
        "{IDENTITY}\ntenant = {{ host_label = true }}\nunknown_tier = \"small\"\n[tiers.small]\nrequests = \"2/min\"\n[tiers.big]\nrequests = \"20/min\"\n[[limit]]\nid = \"tenant\"\nlayer = \"tenant\"\ncategory = \"requests\"\n"
    )
    .replace("tenant = { header = \"x-tenant\" }\n", "");
    let service = Service::new(&text);
    let ask = Ask::get("/");
    assert_eq!(service.drain(&ask, 30).await, 2, "unknown, by address");
    let acme = service.engine.subjects().tenant("acme");
    let set = Change::SetTenant(Tenant { subject: acme, tier: "big".to_owned() });
    assert!(service.engine.operate("ops", set).await.unwrap());
    assert_eq!(service.drain(&ask, 30).await, 20, "the tenant acme");
    assert_eq!(service.drain(&ask.clone().from("198.51.100.1"), 30).await, 0, "from wherever");
    assert!(service.engine.operate("ops", Change::RemoveTenant(acme)).await.unwrap());
    assert_eq!(service.drain(&ask.from("198.51.100.2"), 30).await, 2, "unknown again");
}

#[tokio::test]
async fn where_memory_is_short_sanctions_are_kept_before_all_else() {
    let (clock, ledger) = (clock(), MemoryLedger::new());
    let service = node(&policy(), secrets(), &clock, &ledger).await;
    let service = Service { engine: service.engine.remembering(64), ..service };
    let ask = |number: u32| Ask::get("/").by(&format!("user-{number}"));
    for number in 0..300 {
        service.drain(&ask(number).from(&format!("10.0.{}.1", number % 250)), 3).await;
    }
    let (held, dropped) = service.engine.standing_figures();
    assert!(held <= 64 && dropped > 0, "{held} held, {dropped} dropped");
    let subjects = service.engine.subjects();
    for number in 0..40 {
        let user = subjects.user(None, &format!("user-{number}"));
        assert!(service.engine.operate("ops", ban(user, &clock)).await.unwrap());
    }
    let banned = (0..40).filter(|number| {
        let user = subjects.user(None, &format!("user-{number}"));
        service.engine.held(&user).is_some()
    });
    assert!(
        banned.count() >= 20,
        "one shard holds one subject here: those that share one cannot all be kept"
    );
    assert!(service.engine.standing_figures().0 <= 64);
}

#[tokio::test]
async fn what_is_over_is_forgotten_by_a_sweep() {
    let (clock, ledger) = (clock(), MemoryLedger::new());
    let service = node(&policy(), secrets(), &clock, &ledger).await;
    for number in 0..50 {
        service.drain(&Ask::get("/").by(&format!("user-{number}")), 3).await;
    }
    service.engine.sweep().await.unwrap();
    assert_eq!(service.engine.standing_figures().0, 50);
    clock.advance(Span::DAY);
    service.engine.sweep().await.unwrap();
    assert_eq!(service.engine.standing_figures().0, 0);
}
