//! The graduated response, second by second.

use std::sync::{Arc, Mutex};

use threshold::event::Event;
use threshold::ledger::{Change, Query, Record, SanctionKind};
use threshold::{Ledger, Retry, Span, SubjectKind};

use crate::common::{Ask, IDENTITY, Service, limited, seen};

/// Two a minute for each user, and the ready-made ladder.
fn service() -> Service {
    Service::new(&(limited("rate = \"2/min\"\nalgorithm = \"fixed-window\"") + "[ladder]\n"))
}

fn alice() -> Ask {
    Ask::get("/").by("alice")
}

async fn see(service: &Service, many: usize) -> Vec<&'static str> {
    let mut all = Vec::new();
    for _ in 0..many {
        all.push(seen(&service.ask(&alice()).await));
    }
    all
}

fn wait_seconds(service: &Service, seconds: u64) {
    service.wait(Span::from_secs(seconds));
}

#[tokio::test]
async fn the_whole_ladder_from_a_warning_to_the_end_of_the_ban() {
    let service = service();
    // First strike: one more by grace, with a warning, and no more than that in the window.
    assert_eq!(see(&service, 5).await, ["allowed", "allowed", "warned", "limited", "limited"]);
    wait_seconds(&service, 60);
    // Second strike: the same.
    assert_eq!(see(&service, 4).await, ["allowed", "allowed", "warned", "limited"]);
    wait_seconds(&service, 60);
    // Third: refused, and for a minute whatever the window says.
    assert_eq!(see(&service, 4).await, ["allowed", "allowed", "limited", "cooldown"]);
    wait_seconds(&service, 59);
    assert_eq!(see(&service, 1).await, ["cooldown"]);
    wait_seconds(&service, 1);
    // Fourth: five minutes, then an hour of slow answers.
    assert_eq!(see(&service, 4).await, ["allowed", "allowed", "limited", "cooldown"]);
    wait_seconds(&service, 299);
    assert_eq!(see(&service, 1).await, ["cooldown"]);
    wait_seconds(&service, 1);
    assert_eq!(see(&service, 2).await, ["slow", "slow"]);
    // Fifth: a day's ban, to the second.
    assert_eq!(see(&service, 2).await, ["banned", "banned"]);
    wait_seconds(&service, 86_399);
    assert_eq!(see(&service, 1).await, ["banned"]);
    wait_seconds(&service, 1);
    // A day after the last strike everything is forgotten: grace again, and no delay.
    assert_eq!(see(&service, 4).await, ["allowed", "allowed", "warned", "limited"]);
}

#[tokio::test]
async fn five_excess_requests_in_one_second_are_one_strike() {
    let service = service();
    see(&service, 7).await;
    let user = service.engine.subjects().user(None, "alice");
    let held = service.engine.held(&user).unwrap();
    assert_eq!(held.strikes.parts().0, 1);
    let page =
        service.engine.ledger().read(&Query::Violations { subject: Some(user), after: 0 }).await.unwrap();
    assert_eq!(page.records.len(), 1, "one violation is written down");
}

#[tokio::test]
async fn a_refusal_says_how_long_the_cooldown_lasts_and_obeying_it_admits() {
    let service = service();
    for _ in 0..2 {
        see(&service, 4).await;
        wait_seconds(&service, 60);
    }
    see(&service, 2).await;
    wait_seconds(&service, 50);
    // The window ends in ten seconds, the cooldown in sixty.
    let third = service.ask(&alice()).await;
    assert_eq!(third.refusal().unwrap().retry, Retry::After(Span::MINUTE));
    service.wait(Span::MINUTE);
    assert!(service.allows(&alice()).await);
}

#[tokio::test]
async fn strikes_lapse_a_day_after_the_last() {
    let service = service();
    see(&service, 4).await;
    wait_seconds(&service, 86_399);
    assert_eq!(see(&service, 3).await.last(), Some(&"warned"));
    let user = service.engine.subjects().user(None, "alice");
    assert_eq!(service.engine.held(&user).unwrap().strikes.parts().0, 2, "the first still counted");
    wait_seconds(&service, 86_400);
    see(&service, 3).await;
    assert_eq!(service.engine.held(&user).unwrap().strikes.parts().0, 1);
}

#[tokio::test]
async fn a_shadowed_client_sees_nothing_but_time() {
    let wide = || Service::new(&(limited("rate = \"100/min\"\nalgorithm = \"sliding-log\"") + "[ladder]\n"));
    let (shadowed, clean) = (wide(), wide());
    let user = shadowed.engine.subjects().user(None, "alice");
    let until = shadowed.clock.advance(Span::ZERO).plus(Span::HOUR);
    let change =
        Change::Impose { subject: user, kind: SanctionKind::Shadow, until, reason: "test".to_owned() };
    assert!(shadowed.engine.operate("ops", change).await.unwrap());
    let mut delays = Vec::new();
    for _ in 0..40 {
        for (service, other) in [(&shadowed, false), (&clean, true)] {
            service.wait(Span::from_secs(17));
            let decision = service.ask(&alice()).await;
            if !other {
                delays.push(decision.delay());
            }
        }
        let (one, other) = (shadowed.ask(&alice()).await, clean.ask(&alice()).await);
        assert_eq!(one.allowed(), other.allowed());
        assert_eq!(one.refusal(), other.refusal());
        assert_eq!(one.quota(), other.quota());
        assert_eq!(one.warned(), other.warned());
        assert_eq!(one.considered(), other.considered());
        assert_eq!(other.delay().as_micros(), 0);
    }
    let held_back: Vec<_> = delays.into_iter().filter(|delay| !delay.is_zero()).collect();
    assert!(held_back.len() > 10, "{held_back:?}");
    assert!(held_back.iter().all(|delay| (1_000..=3_000).contains(&delay.as_millis())), "{held_back:?}");
    let mut different = held_back.clone();
    different.sort();
    different.dedup();
    assert!(different.len() > held_back.len() / 2, "the delay is not the same each time");
    shadowed.wait(Span::HOUR);
    assert!(shadowed.ask(&alice()).await.delay().is_zero(), "it ends");
}

#[tokio::test]
async fn tenants_and_the_edge_never_strike() {
    let policy = format!(
        "{IDENTITY}\n[[limit]]\nid = \"edge\"\nlayer = \"edge\"\nrate = \"5/min\"\n[[limit]]\nid = \"tenant\"\nlayer = \"tenant\"\nrate = \"2/min\"\n[ladder]\n"
    );
    let service = Service::new(&policy);
    let ask = Ask::get("/").of("acme").by("alice");
    assert_eq!(service.drain(&ask, 20).await, 2, "and no grace either");
    assert_eq!(service.engine.standing_figures().0, 0);
}

#[tokio::test]
async fn the_user_is_struck_and_not_the_network_behind_which_others_sit() {
    let service = service();
    see(&service, 4).await;
    for _ in 0..6 {
        wait_seconds(&service, 360);
        see(&service, 4).await;
    }
    assert_eq!(see(&service, 1).await, ["banned"]);
    assert!(service.allows(&Ask::get("/").by("bob")).await, "from the same address");
    assert!(service.allows(&Ask::get("/")).await, "nobody, from the same address");
    assert!(!service.allows(&alice().from("198.51.100.7")).await, "alice, from elsewhere");
}

#[tokio::test]
async fn who_has_not_logged_in_is_struck_by_network() {
    let service = service();
    let ask = |address: &str| Ask::get("/").from(address);
    for _ in 0..8 {
        service.drain(&ask("2001:db8::1"), 4).await;
        wait_seconds(&service, 360);
    }
    assert_eq!(seen(&service.ask(&ask("2001:db8::2")).await), "banned", "the /64 is one client");
    assert_eq!(seen(&service.ask(&ask("2001:db8:0:1::1")).await), "allowed");
    assert_eq!(
        seen(&service.ask(&ask("2001:db8::1").by("bob")).await),
        "banned",
        "the ban is for the network"
    );
}

#[tokio::test]
async fn a_name_that_anybody_can_write_is_never_banned() {
    let policy = "[identity]\nuser = { cookie = \"name\" }\n[[limit]]\nid = \"one\"\nlayer = \"user\"\nrate = \"2/min\"\n[ladder]\n";
    let service = Service::new(policy);
    let forger = Ask { peer: "203.0.113.9".parse().unwrap(), ..Ask::get("/") }.with("cookie", "name=victim");
    for _ in 0..8 {
        service.drain(&forger, 4).await;
        wait_seconds(&service, 360);
    }
    assert_eq!(service.engine.standing_figures().0, 0, "nor anybody's network: who used it up is unknown");
    let victim = Ask { peer: "192.0.2.77".parse().unwrap(), ..forger.clone() };
    assert_eq!(seen(&service.ask(&victim).await), "allowed");
}

#[tokio::test]
async fn a_limit_by_name_and_address_is_held_against_the_address() {
    let policy = "[identity]\nuser = { cookie = \"name\" }\n[[limit]]\nid = \"one\"\nlayer = \"user\"\nper = [\"user\", \"ip\"]\nrate = \"2/min\"\n[ladder]\n";
    let service = Service::new(policy);
    let forger = Ask { peer: "203.0.113.9".parse().unwrap(), ..Ask::get("/") }.with("cookie", "name=victim");
    for _ in 0..8 {
        service.drain(&forger, 4).await;
        wait_seconds(&service, 360);
    }
    assert_eq!(seen(&service.ask(&forger).await), "banned");
    let victim = Ask { peer: "192.0.2.77".parse().unwrap(), ..forger.clone() };
    assert_eq!(seen(&service.ask(&victim).await), "allowed", "only the forger's network is");
    let page = service.engine.ledger().read_now(&Query::Changes { after: 0 });
    let sanctioned = page.records.iter().filter_map(|record| match record {
        Record::Sanction(sanction) => Some(sanction.subject.kind()),
        _ => None,
    });
    assert!(sanctioned.eq([SubjectKind::Address; 4]), "two cooldowns, a shadow and a ban");
}

#[tokio::test]
async fn an_operator_bans_and_lifts_and_both_are_told() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&told);
    let service = service();
    let service = service.telling(move |event: &Event| heard.lock().unwrap().push(event.to_json()));
    let user = service.engine.subjects().user(None, "alice");
    let until = service.clock.advance(Span::ZERO).plus(Span::HOUR);
    let ban = |reason: &str, until| Change::Impose {
        subject: user,
        kind: SanctionKind::Ban,
        until,
        reason: reason.to_owned(),
    };
    assert!(service.engine.operate("ops", ban("spam", until)).await.unwrap());
    assert_eq!(see(&service, 1).await, ["banned"]);
    let sooner = until.minus(Span::MINUTE);
    assert!(!service.engine.operate("ops", ban("less", sooner)).await.unwrap(), "no end comes nearer");
    assert!(service.engine.operate("eve", Change::Lift { subject: user, kind: None }).await.unwrap());
    assert_eq!(see(&service, 1).await, ["allowed"]);
    assert!(!service.engine.operate("eve", Change::Lift { subject: user, kind: None }).await.unwrap());
    let told = told.lock().unwrap();
    let names: Vec<_> = told.iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!(names, ["sanction_imposed", "sanction_lifted"]);
    assert_eq!((told[0]["by"].as_str(), told[0]["reason"].as_str()), (Some("ops"), Some("spam")));
    assert_eq!(told[1]["by"].as_str(), Some("eve"));
}

#[tokio::test]
async fn every_strike_is_told_with_the_names_and_fields_that_tools_know() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&told);
    let service = service().telling(move |event: &Event| heard.lock().unwrap().push(event.to_json()));
    for _ in 0..5 {
        see(&service, 5).await;
        wait_seconds(&service, 360);
    }
    let told = told.lock().unwrap();
    let user = service.engine.subjects().user(None, "alice").to_string();
    let strikes: Vec<_> = told
        .iter()
        .filter(|event| event["event"] == "abuse_escalation")
        .map(|event| {
            assert_eq!(event["userId"], user.as_str());
            assert!(event["timestamp"].as_str().unwrap().ends_with('Z'));
            let banned = event["bannedUntil"].is_string();
            (event["warnings"].as_u64().unwrap(), event["shadowBanned"] == true, banned, event["log"] == true)
        })
        .collect();
    assert_eq!(
        strikes,
        [
            (1, false, false, false),
            (2, false, false, true),
            (3, false, false, true),
            (4, true, false, true),
            (5, true, true, true)
        ]
    );
    let sanctions: Vec<_> = told
        .iter()
        .filter(|event| event["event"] == "sanction_imposed")
        .map(|event| event["kind"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(sanctions, ["cooldown", "cooldown", "shadow", "ban"]);
}

#[tokio::test]
async fn grace_does_not_help_where_somebody_elses_limit_is_over_too() {
    let policy = format!(
        "{IDENTITY}\n[[limit]]\nid = \"tenant\"\nlayer = \"tenant\"\nrate = \"2/min\"\n[[limit]]\nid = \"user\"\nlayer = \"user\"\nrate = \"2/min\"\n[ladder]\n"
    );
    let service = Service::new(&policy);
    let ask = Ask::get("/").of("acme").by("alice");
    assert_eq!(service.drain(&ask, 20).await, 2);
}

#[tokio::test]
async fn grace_is_a_tenth_of_the_limit_in_each_window() {
    let service = Service::new(&(limited("rate = \"50/hour\"\nalgorithm = \"fixed-window\"") + "[ladder]\n"));
    assert_eq!(service.drain(&alice(), 100).await, 55);
    service.wait(Span::HOUR);
    assert_eq!(service.drain(&alice(), 100).await, 55);
    service.wait(Span::HOUR);
    assert_eq!(service.drain(&alice(), 100).await, 50, "no grace from the third strike on");
}

#[tokio::test]
async fn a_ladder_of_ones_own() {
    let ladder = "[ladder]\ngrace = \"0%\"\nlapse = \"1h\"\nrungs = [{ strikes = 2, ban = \"10min\" }]\n";
    let service = Service::new(&(limited("rate = \"2/min\"\nalgorithm = \"fixed-window\"") + ladder));
    assert_eq!(see(&service, 4).await, ["allowed", "allowed", "limited", "limited"]);
    wait_seconds(&service, 60);
    assert_eq!(see(&service, 4).await, ["allowed", "allowed", "banned", "banned"]);
    wait_seconds(&service, 600);
    assert_eq!(see(&service, 1).await, ["allowed"]);
    wait_seconds(&service, 3_600);
    assert_eq!(see(&service, 3).await, ["allowed", "allowed", "limited"], "the first of a new count");
}

#[tokio::test]
async fn without_a_ladder_nothing_is_held_against_anybody() {
    let service = Service::new(&limited("rate = \"2/min\""));
    assert_eq!(service.drain(&alice(), 50).await, 2);
    assert_eq!(service.engine.standing_figures().0, 0);
}

#[tokio::test]
async fn a_limit_that_only_observes_strikes_nobody() {
    let service = Service::new(&(limited("rate = \"2/min\"\nenforce = \"observe\"") + "[ladder]\n"));
    assert_eq!(service.drain(&alice(), 50).await, 50);
    assert_eq!(service.engine.standing_figures().0, 0);
}

#[tokio::test]
async fn what_is_refused_by_grace_and_limit_leaves_the_tenant_alone() {
    let policy = format!(
        "{IDENTITY}\n[[limit]]\nid = \"tenant\"\nlayer = \"tenant\"\nrate = \"100/min\"\n[[limit]]\nid = \"user\"\nlayer = \"user\"\nrate = \"2/min\"\nalgorithm = \"fixed-window\"\n[ladder]\n"
    );
    let service = Service::new(&policy);
    let ask = Ask::get("/").of("acme").by("alice");
    assert_eq!(service.drain(&ask, 20).await, 3, "two and one by grace");
    let bob = service.ask(&Ask::get("/").of("acme").by("bob")).await;
    let tenant = bob.considered().into_iter().find(|one| one.limit == "tenant").unwrap();
    assert_eq!(tenant.before, 97, "the tenant paid for what passed and nothing else");
}
