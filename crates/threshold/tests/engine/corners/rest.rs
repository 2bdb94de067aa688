//! Lists, explanations, reloads and numbers without bounds.

use super::*;

#[tokio::test]
async fn a_user_of_another_tenant_is_not_let_pass_by_its_name() {
    let policy = format!(
        "{IDENTITY}\n[tenants]\nacme = \"t\"\nevil = \"t\"\n[tiers.t]\nrequests = \"100/min\"\n[[limit]]\nid = \"edge\"\nlayer = \"edge\"\nrate = \"2/min\"\n[lists]\nallow_users = [\"acme/monitor\"]\n"
    );
    let service = Service::new(&policy);
    assert_eq!(service.drain(&Ask::get("/").of("evil").by("acme/monitor"), 10).await, 2);
}

#[tokio::test]
async fn a_denied_tenant_is_refused_though_no_table_names_it() {
    let policy = "[identity]\ntenant = { host_label = true }\n[[limit]]\nid = \"edge\"\nlayer = \"edge\"\nrate = \"5/min\"\n[lists]\ndeny_tenants = [\"acme\"]\n";
    let service = Service::new(policy);
    assert!(!service.allows(&Ask::get("/")).await, "the host is acme.example.com");
}

#[tokio::test]
async fn an_explanation_says_what_would_be_decided_of_who_is_let_pass() {
    let text = limited("rate = \"1/hour\"\nper = \"ip\"");
    let service = Service::new(&text);
    let ask = Ask::get("/");
    service.drain(&ask, 3).await;
    service.engine.reload(rules(&(text + "[lists]\nallow = [\"192.0.2.1\"]\n"))).unwrap();
    assert!(service.allows(&ask).await);
    let facts = ask.facts();
    let identity = service.engine.rules().identify(&facts, now(&service));
    let explained = service.engine.explain(&facts, &identity, Extras::default()).await.unwrap();
    assert_eq!(explained.passes, Retry::Now);
}

#[tokio::test]
async fn reputation_that_is_switched_off_and_on_again_is_remembered() {
    let limit = limited("rate = \"100/min\"\nalgorithm = \"fixed-window\"");
    let with = limit.clone() + "[reputation]\n";
    let service = Service::new(&with);
    for _ in 0..12 {
        service.drain(&alice(), 101).await;
        service.wait(seconds(61));
    }
    service.engine.refresh().await.unwrap();
    service.wait(Span::DAY);
    service.wait(Span::HOUR);
    assert_eq!(service.drain(&alice(), 100).await, 30, "25 points");
    service.engine.reload(rules(&limit)).unwrap();
    service.engine.sweep().await.unwrap();
    service.wait(seconds(61));
    service.engine.reload(rules(&with)).unwrap();
    service.engine.refresh().await.unwrap();
    assert_eq!(service.drain(&alice(), 100).await, 30, "the ledger says 25 points");
}

#[tokio::test]
async fn mapped_addresses_are_on_the_lists() {
    let text = format!(
        "{IDENTITY}\n[[limit]]\nid = \"e\"\nlayer = \"edge\"\nrate = \"2/min\"\n[lists]\nallow = [\"10.0.0.0/8\"]\ndeny = [\"2001:db8::/32\", \"198.51.100.0/24\"]\n"
    );
    let service = Service::new(&text);
    assert_eq!(service.drain(&Ask::get("/").from("::ffff:10.1.1.1"), 9).await, 9);
    assert_eq!(service.drain(&Ask::get("/").from("::ffff:198.51.100.7"), 9).await, 0);
    assert_eq!(service.drain(&Ask::get("/").from("2001:db8:9::1"), 9).await, 0);
}

#[tokio::test]
async fn at_the_end_of_time_nothing_panics() {
    let text = limited("rate = \"2/min\"\nalgorithm = \"fixed-window\"") + "[ladder]\n[reputation]\n";
    let service = Service::new(&text);
    service.clock.set(Timestamp::MAX);
    for _ in 0..20 {
        service.drain(&alice().bytes(u64::MAX), 3).await;
        let _ = attempt(&service, "alice", 1, false).await;
    }
    let user = service.engine.subjects().user(None, "alice");
    let _ = service.engine.operate("ops", impose(user, SanctionKind::Ban, Timestamp::MAX)).await;
    service.engine.sweep().await.unwrap();
}

#[tokio::test]
async fn bytes_without_bounds_do_not_panic() {
    let text = limited("rate = \"1000 B/min\"\nalgorithm = \"fixed-window\"") + "[ladder]\n[reputation]\n";
    let service = Service::new(&text);
    for bytes in [u64::MAX, 1 << 52, 999, 1000, u64::MAX - 1] {
        service.drain(&alice().bytes(bytes), 3).await;
    }
}

#[tokio::test]
async fn refunds_after_grace_give_back_what_was_charged() {
    let text = format!(
        "{IDENTITY}\n[[limit]]\nid = \"t\"\nlayer = \"tenant\"\nrate = \"10000 B/min\"\nalgorithm = \"fixed-window\"\n[[limit]]\nid = \"u\"\nlayer = \"user\"\nrate = \"1000 B/min\"\nalgorithm = \"fixed-window\"\n[ladder]\n"
    );
    let service = Service::new(&text);
    let ask = |bytes| Ask::get("/").of("acme").by("alice").bytes(bytes);
    assert!(service.allows(&ask(1000)).await);
    let mut graced = service.ask(&ask(100)).await;
    assert_eq!(seen(&graced), "warned");
    service.engine.refund_bytes(&mut graced, 10).await.unwrap();
    let next = service.ask(&ask(90)).await;
    let tenant = next.considered().into_iter().find(|one| one.limit == "t").unwrap();
    assert_eq!(seen(&next), "warned", "ninety of the grace were given back: {:?}", next.refusal());
    assert_eq!(tenant.before, 8_990);
}
