//! Corners of standing: where one rule meets another.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};

use threshold::engine::{Decision, Engine, Extras, Reason, Secrets};
use threshold::event::Event;
use threshold::ledger::{Change, Query, Record, SanctionKind, ViolationRecord};
use threshold::login::{Attempt, LoginAnswer};
use threshold::standing::Reputation;
use threshold::{ManualClock, MemoryLedger, MemoryStore, Retry, Secret, Span, SubjectId, Timestamp};

use crate::common::{Ask, IDENTITY, Service, limited, override_all, rules, rules_with, secrets};

fn clock() -> ManualClock {
    ManualClock::starting_at(Timestamp::from_micros(1_700_000_000_000_000))
}

fn store(clock: &ManualClock) -> MemoryStore<ManualClock> {
    MemoryStore::builder().max_bytes(1 << 22).clock(clock.clone()).build().expect("room")
}

/// A node on a ledger and a store that others may share.
async fn node(
    policy: &str,
    secrets: Secrets,
    store: &MemoryStore<ManualClock>,
    clock: &ManualClock,
    ledger: &MemoryLedger,
) -> Service {
    let ready = (rules_with(policy, &secrets), secrets);
    let engine = Engine::with_ledger(ready, store.clone(), store.clone(), ledger.clone());
    engine.refresh().await.expect("memory answers");
    Service { engine, clock: clock.clone() }
}

fn rotated() -> Secrets {
    Secrets { current: Secret::new([6; 16]), previous: Some(secrets().current) }
}

fn alice() -> Ask {
    Ask::get("/").by("alice")
}

fn seconds(n: u64) -> Span {
    Span::from_secs(n)
}

fn seen(decision: &Decision) -> &'static str {
    match decision.refusal().map(|refusal| refusal.reason) {
        None if decision.warned() => "warned",
        None if !decision.delay().is_zero() => "slow",
        None => "allowed",
        Some(Reason::Limit(_)) => "limited",
        Some(Reason::Cooldown { .. }) => "cooldown",
        Some(Reason::Banned { .. }) => "banned",
        Some(_) => "other",
    }
}

fn impose(subject: SubjectId, kind: SanctionKind, until: Timestamp) -> Change {
    Change::Impose { subject, kind, until, reason: "test".to_owned() }
}

fn now(service: &Service) -> Timestamp {
    service.clock.advance(Span::ZERO)
}

fn violations(service: &Service) -> Vec<ViolationRecord> {
    let page = service.engine.ledger().read_now(&Query::Violations { subject: None, after: 0 });
    let one = |record| match record {
        Record::Violation(violation) => Some(violation),
        _ => None,
    };
    page.records.into_iter().filter_map(one).collect()
}

fn points(service: &Service, subject: SubjectId) -> u8 {
    let hourly = "1 per hour".parse().expect("a rate");
    let reputation = Reputation::new(10, hourly, [75, 50, 25], [60, 30, 10]).expect("sense");
    service.engine.held(&subject).map_or(100, |held| held.score.points(&reputation, now(service)))
}

fn from(address: u32) -> IpAddr {
    Ipv4Addr::from(0x0A00_0000 + address).into()
}

async fn attempt(service: &Service, account: &str, address: u32, success: bool) -> LoginAnswer {
    let attempt = Attempt { account: Some(account), client: from(address), device: None };
    service.engine.attempt(&attempt, success).await.expect("memory answers")
}

/// Makes alice medium (50 points) by two violations, then waits until the limit is as new.
async fn make_medium(service: &Service, over: usize) {
    for _ in 0..2 {
        service.drain(&alice(), over).await;
        service.wait(seconds(130));
    }
}

// ---- logins ------------------------------------------------------------------------------------------------------

#[tokio::test]
async fn no_spelling_of_an_account_escapes_the_ceiling() {
    let service = Service::new("");
    let padded = format!("victim{}", " ".repeat(300));
    let mut guesses = 0;
    for source in 0..2_000 {
        let attempt = Attempt { account: Some(&padded), client: from(source), device: None };
        if let Ok(begun) = service.engine.begin_attempt(&attempt).await.unwrap() {
            guesses += 1;
            let _ = service.engine.end_attempt(begun, false).await.unwrap();
        }
    }
    assert!(guesses <= 100, "{guesses} guesses at an account that any application that trims names takes");
}

#[tokio::test]
async fn who_obeys_the_wait_of_a_login_is_admitted() {
    let service = Service::new("");
    loop {
        let answer = attempt(&service, "alice", 1, false).await;
        if let Some(wait) = answer.retry_after {
            service.wait(Span::from(wait));
            if now(&service) > clock().advance(Span::ZERO).plus(seconds(300)) {
                break;
            }
        }
    }
    let attempt = Attempt { account: Some("alice"), client: from(1), device: None };
    assert!(service.engine.begin_attempt(&attempt).await.unwrap().is_ok(), "it waited as it was told");
}

#[tokio::test]
async fn an_operator_who_lifts_a_lockout_lets_in() {
    let service = Service::new("");
    for _ in 0..5 {
        let answer = attempt(&service, "alice", 1, false).await;
        if let Some(wait) = answer.retry_after.filter(|wait| wait.as_secs() == 60) {
            service.wait(Span::from(wait));
        }
    }
    let account = service.engine.subjects().account("alice");
    assert!(service.engine.operate("ops", Change::Unlock(account)).await.unwrap());
    assert!(attempt(&service, "alice", 1, true).await.allowed, "the operator lifted it");
}

#[tokio::test]
async fn login_events_are_told_once_under_two_secrets() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&told);
    let clock = clock();
    let service = node("", rotated(), &store(&clock), &clock, &MemoryLedger::new()).await;
    let service = service.telling(move |event: &Event| heard.lock().unwrap().push(event.name()));
    for account in 0..60 {
        let _ = attempt(&service, &format!("account {account}"), 1, false).await;
    }
    assert_eq!(told.lock().unwrap().as_slice(), ["auth_ip_rate_limit"]);
}

#[tokio::test]
async fn failures_before_a_rotation_count_after_it() {
    let (clock, ledger) = (clock(), MemoryLedger::new());
    let store = store(&clock);
    let text = "[login]\naddress = \"1000/min\"\naccount = \"1000/min\"\nceiling = \"1000/hour\"\n";
    let before = node(text, secrets(), &store, &clock, &ledger).await;
    for _ in 0..2 {
        assert!(attempt(&before, "alice", 1, false).await.allowed);
    }
    let after = node(text, rotated(), &store, &clock, &ledger).await;
    assert!(!attempt(&after, "alice", 1, false).await.allowed, "three failures");
}

#[tokio::test]
async fn unlock_after_a_rotation_ends_the_lockout() {
    let (clock, ledger) = (clock(), MemoryLedger::new());
    let store = store(&clock);
    let before = node("", secrets(), &store, &clock, &ledger).await;
    for _ in 0..3 {
        let _ = attempt(&before, "alice", 1, false).await;
    }
    let after = node("", rotated(), &store, &clock, &ledger).await;
    assert!(!attempt(&after, "alice", 1, true).await.allowed, "still locked");
    let mut unlocked = 0;
    for subjects in after.engine.all_subjects().collect::<Vec<_>>() {
        let unlock = Change::Unlock(subjects.account("alice"));
        unlocked += usize::from(after.engine.operate("ops", unlock).await.unwrap());
    }
    assert_eq!(unlocked, 1);
    assert!(attempt(&after, "alice", 1, true).await.allowed);
}

#[tokio::test]
async fn ceiling_holds_when_the_owner_succeeds_in_between() {
    let service = Service::new("");
    let begin = async |source| {
        let attempt = Attempt { account: Some("victim"), client: from(source), device: None };
        service.engine.begin_attempt(&attempt).await.unwrap().ok()
    };
    let mut guesses: Vec<Timestamp> = Vec::new();
    let mut source = 10_000;
    let mut owners = Vec::new();
    for step in 0..400_u32 {
        service.wait(seconds(30));
        if step % 7 == 0 {
            owners.extend(begin(step).await);
        }
        if step % 11 == 0 {
            for owner in owners.drain(..) {
                let _ = service.engine.end_attempt(owner, true).await.unwrap();
            }
        }
        for _ in 0..9 {
            source += 1;
            if let Some(begun) = begin(source).await {
                guesses.push(now(&service));
                if source % 2 == 0 {
                    let _ = service.engine.end_attempt(begun, false).await.unwrap();
                }
            }
        }
    }
    for (index, at) in guesses.iter().enumerate() {
        let hour = guesses[index..].iter().take_while(|other| **other < at.plus(Span::HOUR)).count();
        assert!(hour <= 100, "{hour} guesses in an hour");
    }
}

// ---- who is struck -----------------------------------------------------------------------------------------------

#[tokio::test]
async fn nobody_is_struck_for_what_a_forger_of_its_name_used_up() {
    let policy = "[identity]\nuser = { cookie = \"name\" }\n[[limit]]\nid = \"one\"\nlayer = \"user\"\nrate = \"2/min\"\nalgorithm = \"fixed-window\"\n[ladder]\n";
    let service = Service::new(policy);
    let at = |peer: &str| Ask { peer: peer.parse().unwrap(), ..Ask::get("/") }.with("cookie", "name=victim");
    let (forger, victim) = (at("203.0.113.9"), at("192.0.2.77"));
    let mut answers = Vec::new();
    for _ in 0..7 {
        service.drain(&forger, 2).await;
        answers.push(seen(&service.ask(&victim).await));
        service.wait(seconds(360));
    }
    let network = service.engine.subjects().address("192.0.2.77".parse().unwrap());
    let strikes = service.engine.held(&network).map_or(0, |held| held.strikes.parts().0);
    assert_eq!(strikes, 0, "one request in six minutes, of two a minute: {answers:?}");
}

#[test]
fn one_strike_whatever_the_crowd() {
    let service = Service::new(&(limited("rate = \"2/min\"\nalgorithm = \"fixed-window\"") + "[ladder]\n"));
    let ask = alice();
    for _ in 0..3 {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let facts = ask.facts();
                        let identity = service.engine.rules().identify(&facts, now(&service));
                        let _ = service.engine.decide_now(&facts, &identity, Extras::default());
                    }
                });
            }
        });
        service.wait(seconds(61));
    }
    assert_eq!(violations(&service).len(), 3);
}

// ---- measured against the base -----------------------------------------------------------------------------------

#[tokio::test]
async fn a_bucket_kept_within_breeds_no_violations() {
    // The default algorithm. What is asked never empties the policy's own bucket of 100, which refills 100 a minute.
    let text = limited("rate = \"100/min\"") + "[reputation]\n";
    let (service, judge) = (Service::new(&text), Service::new(&limited("rate = \"100/min\"")));
    let user = service.engine.subjects().user(None, "alice");
    make_medium(&service, 101).await;
    judge.wait(seconds(260));
    let before = violations(&service).len();
    assert_eq!((before, points(&service, user)), (2, 50));
    assert_eq!(judge.drain(&alice(), 95).await, 95);
    service.drain(&alice(), 95).await;
    for _ in 0..95 {
        service.wait(Span::from_micros(610_000));
        judge.wait(Span::from_micros(610_000));
        service.drain(&alice(), 1).await;
        assert!(judge.allows(&alice()).await, "the limit as the policy has it allows it");
    }
    assert_eq!(violations(&service).len(), before, "it kept to the limit");
}

#[tokio::test]
async fn a_fixed_window_kept_within_breeds_no_violations() {
    let rate = "rate = \"100/min\"\nalgorithm = \"fixed-window\"";
    let (service, judge) = (Service::new(&(limited(rate) + "[reputation]\n")), Service::new(&limited(rate)));
    make_medium(&service, 101).await;
    judge.wait(seconds(260));
    for (wait, many) in [(0, 1), (58, 99), (2, 100)] {
        service.wait(seconds(wait));
        judge.wait(seconds(wait));
        assert_eq!(judge.drain(&alice(), many).await, many, "the limit as the policy has it allows it");
        service.drain(&alice(), many).await;
    }
    assert_eq!(violations(&service).len(), 2, "it kept to the limit");
}

#[tokio::test]
async fn weighted_costs_within_the_base_are_no_violation() {
    let text = limited("rate = \"10/min\"\ncost = 5\nalgorithm = \"fixed-window\"") + "[reputation]\n";
    let service = Service::new(&text);
    make_medium(&service, 3).await;
    let before = violations(&service).len();
    assert_eq!(before, 2);
    service.drain(&alice(), 2).await;
    assert_eq!(violations(&service).len(), before, "two of five are ten, and ten a minute are allowed");
}

#[tokio::test]
async fn kinds_with_weights_measure_what_was_attempted() {
    // 60 passed and 60 refused: 1.2 times the limit.
    let text = limited("rate = \"100/min\"\ncost = 60\nalgorithm = \"fixed-window\"") + "[reputation]\n";
    let service = Service::new(&text);
    service.drain(&alice(), 2).await;
    let all = violations(&service);
    assert_eq!((all[0].kind.name(), all[0].count), ("RATE_EXCEEDED", 120));
}

#[tokio::test]
async fn under_two_secrets_the_base_is_still_the_measure() {
    let (clock, ledger) = (clock(), MemoryLedger::new());
    let store = store(&clock);
    let text = limited("rate = \"100/min\"\nalgorithm = \"fixed-window\"") + "[reputation]\n";
    let before = node(&text, secrets(), &store, &clock, &ledger).await;
    make_medium(&before, 101).await;
    before.drain(&alice(), 50).await;
    let after = node(&text, rotated(), &store, &clock, &ledger).await;
    after.drain(&alice(), 50).await;
    assert_eq!(violations(&after).len(), 2, "fifty and fifty are a hundred");
}

#[tokio::test]
async fn after_a_reload_the_base_is_still_the_measure() {
    let text =
        |kind: &str| limited(&format!("rate = \"100/min\"\nalgorithm = \"{kind}\"")) + "[reputation]\n";
    let service = Service::new(&text("fixed-window"));
    make_medium(&service, 101).await;
    service.drain(&alice(), 50).await;
    service.engine.reload(rules(&text("sliding-log"))).unwrap();
    service.drain(&alice(), 50).await;
    assert_eq!(violations(&service).len(), 2, "fifty and fifty are a hundred");
}

#[tokio::test]
async fn an_override_scaled_down_still_fits_one_request() {
    let text = limited("rate = \"20/min\"\ncost = 5\nalgorithm = \"fixed-window\"") + "[reputation]\n";
    let service = Service::new(&text);
    for _ in 0..12 {
        service.drain(&alice(), 9).await;
        service.wait(seconds(130));
    }
    assert!(service.allows(&alice()).await, "never less than one request");
    service.wait(seconds(130));
    service.set(override_all("one", "40/min")).await;
    let decision = service.ask(&alice()).await;
    assert!(decision.allowed(), "twice the limit, and never less than one request: {:?}", decision.refusal());
}

#[tokio::test]
async fn a_bucket_that_shrinks_locks_nobody_out_for_longer_than_its_window() {
    for kind in ["token-bucket", "sliding-log", "sliding-window", "fixed-window"] {
        let text = limited(&format!("rate = \"100/min\"\nalgorithm = \"{kind}\"")) + "[reputation]\n";
        let service = Service::new(&text);
        make_medium(&service, 101).await;
        for _ in 0..12 {
            let decision = {
                service.drain(&alice(), 301).await;
                service.ask(&alice()).await
            };
            let wait = decision.retry_after().unwrap();
            assert!(wait.as_secs() <= 120, "{kind}: {wait:?}");
            service.wait(seconds(61));
        }
    }
}

// ---- sanctions ---------------------------------------------------------------------------------------------------

async fn climb(service: &Service, strikes: usize, window: u64) {
    for _ in 0..strikes {
        service.drain(&alice(), 4).await;
        service.wait(seconds(window));
    }
}

#[tokio::test]
async fn who_obeys_a_cooldown_is_admitted_when_the_limit_lasts_longer() {
    let service = Service::new(&(limited("rate = \"2/hour\"\nalgorithm = \"fixed-window\"") + "[ladder]\n"));
    climb(&service, 2, 3_600).await;
    service.drain(&alice(), 3).await;
    let decision = service.ask(&alice()).await;
    assert_eq!(seen(&decision), "cooldown");
    service.wait(Span::from(decision.retry_after().unwrap()));
    assert_eq!(seen(&service.ask(&alice()).await), "allowed", "it waited as it was told");
}

#[tokio::test]
async fn who_obeys_a_ban_is_admitted_when_a_cooldown_lasts_longer() {
    let service = Service::new(&(limited("rate = \"2/hour\"") + "[ladder]\n"));
    let user = service.engine.subjects().user(None, "alice");
    let at = now(&service);
    let changes = [(SanctionKind::Cooldown, Span::HOUR), (SanctionKind::Ban, Span::MINUTE)];
    for (kind, span) in changes {
        assert!(service.engine.operate("ops", impose(user, kind, at.plus(span))).await.unwrap());
    }
    let decision = service.ask(&alice()).await;
    service.wait(Span::from(decision.retry_after().unwrap()));
    assert_eq!(seen(&service.ask(&alice()).await), "allowed", "it waited as it was told");
}

#[tokio::test]
async fn who_obeys_a_ban_is_admitted_when_the_limit_lasts_longer() {
    let text = limited("rate = \"2/day\"\nalgorithm = \"fixed-window\"")
        + "[ladder]\nrungs = [{ strikes = 1, log = true, ban = \"1h\" }]\n";
    let service = Service::new(&text);
    service.drain(&alice(), 2).await;
    let decision = service.ask(&alice()).await;
    assert_eq!(seen(&decision), "banned");
    service.wait(Span::from(decision.retry_after().unwrap()));
    assert_eq!(seen(&service.ask(&alice()).await), "allowed", "it waited as it was told");
}

#[tokio::test]
async fn the_event_of_a_sanction_says_when_it_really_ends() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&told);
    let service = Service::new(&limited("rate = \"2/hour\""))
        .telling(move |event: &Event| heard.lock().unwrap().push(event.clone()));
    let user = service.engine.subjects().user(None, "alice");
    let until = now(&service).plus(seconds(3_000 * 86_400));
    assert!(service.engine.operate("ops", impose(user, SanctionKind::Ban, until)).await.unwrap());
    let held = service.engine.held(&user).unwrap().until(SanctionKind::Ban);
    let told = told.lock().unwrap();
    let Event::SanctionImposed { until, .. } = &told[0] else { panic!("{told:?}") };
    assert_eq!(*until, held);
}

#[tokio::test]
async fn a_sanction_that_found_no_room_acts_when_there_is_room() {
    let (clock, ledger) = (clock(), MemoryLedger::new());
    let service = node(&limited("rate = \"20/hour\""), secrets(), &store(&clock), &clock, &ledger).await;
    let service = Service { engine: service.engine.remembering(1), ..service };
    let subjects = service.engine.subjects();
    let name = |number: u32| format!("user-{number}");
    for number in 0..200 {
        let user = subjects.user(None, &name(number));
        let end = now(&service).plus(if number < 100 { Span::MINUTE } else { Span::DAY });
        let _ = service.engine.operate("ops", impose(user, SanctionKind::Ban, end)).await.unwrap();
    }
    service.wait(seconds(120));
    service.engine.sweep().await.unwrap();
    service.engine.refresh().await.unwrap();
    let mut in_shards = std::collections::HashSet::new();
    for number in 100..200 {
        let user = subjects.user(None, &name(number));
        in_shards.insert(user.halves()[0] & 63);
    }
    let held = service.engine.standing_figures().0;
    assert_eq!(held, in_shards.len(), "every shard that has a banned subject has room for one");
}

// ---- rotation ----------------------------------------------------------------------------------------------------

#[tokio::test]
async fn a_strike_under_the_new_secret_ends_no_sanction_under_the_old() {
    let (clock, ledger) = (clock(), MemoryLedger::new());
    let store = store(&clock);
    let text = limited("rate = \"2/min\"\nalgorithm = \"fixed-window\"") + "[ladder]\n";
    let before = node(&text, secrets(), &store, &clock, &ledger).await;
    let user = before.engine.subjects().user(None, "alice");
    let end = now(&before).plus(Span::HOUR);
    assert!(before.engine.operate("ops", impose(user, SanctionKind::Shadow, end)).await.unwrap());
    let after = node(&text, rotated(), &store, &clock, &ledger).await;
    assert_eq!(seen(&after.ask(&alice()).await), "slow");
    after.drain(&alice(), 4).await;
    after.wait(seconds(61));
    assert_eq!(seen(&after.ask(&alice()).await), "slow", "no end comes nearer but by an operator's hand");
}

#[tokio::test]
async fn a_ban_under_the_old_secret_holds_whatever_is_held_under_the_new() {
    let (clock, ledger) = (clock(), MemoryLedger::new());
    let store = store(&clock);
    let text = limited("rate = \"2/min\"\nalgorithm = \"fixed-window\"") + "[ladder]\n";
    let old = node(&text, secrets(), &store, &clock, &ledger).await;
    let new = node(&text, rotated(), &store, &clock, &ledger).await;
    // Rolling deployment: one node has the new secret already. Alice has a strike there.
    new.drain(&alice(), 4).await;
    let user = old.engine.subjects().user(None, "alice");
    let end = now(&old).plus(Span::DAY);
    assert!(old.engine.operate("ops", impose(user, SanctionKind::Ban, end)).await.unwrap());
    new.engine.refresh().await.unwrap();
    new.wait(seconds(61));
    assert_eq!(seen(&new.ask(&alice()).await), "banned");
}

#[tokio::test]
async fn a_violation_under_the_new_secret_restores_no_reputation() {
    let (clock, ledger) = (clock(), MemoryLedger::new());
    let store = store(&clock);
    let text = limited("rate = \"100/min\"\nalgorithm = \"fixed-window\"") + "[reputation]\n";
    let before = node(&text, secrets(), &store, &clock, &ledger).await;
    for _ in 0..12 {
        before.drain(&alice(), 101).await;
        before.wait(seconds(61));
    }
    let after = node(&text, rotated(), &store, &clock, &ledger).await;
    assert_eq!(after.drain(&alice(), 101).await, 10, "critical");
    after.wait(seconds(61));
    assert_eq!(after.drain(&alice(), 100).await, 10, "one more violation makes no better name");
}

#[tokio::test]
async fn strikes_before_a_rotation_count_after_it() {
    let (clock, ledger) = (clock(), MemoryLedger::new());
    let store = store(&clock);
    let text = limited("rate = \"2/min\"\nalgorithm = \"fixed-window\"") + "[ladder]\n";
    let before = node(&text, secrets(), &store, &clock, &ledger).await;
    climb(&before, 4, 360).await;
    let after = node(&text, rotated(), &store, &clock, &ledger).await;
    after.drain(&alice(), 2).await;
    assert_eq!(seen(&after.ask(&alice()).await), "banned", "the fifth strike");
}

// ---- grace -------------------------------------------------------------------------------------------------------

#[tokio::test]
async fn grace_is_a_tenth_in_each_window_of_the_limit() {
    let service = Service::new(&(limited("rate = \"100/min\"\nalgorithm = \"fixed-window\"") + "[ladder]\n"));
    assert_eq!(service.drain(&alice(), 1).await, 1);
    service.wait(seconds(30));
    assert_eq!(service.drain(&alice(), 100).await, 100, "99 and one by grace");
    service.wait(seconds(30));
    // The second window of the limit, from 60 to 120 s.
    let mut admitted = service.drain(&alice(), 109).await;
    service.wait(seconds(30));
    admitted += service.drain(&alice(), 50).await;
    assert!(admitted <= 110, "{admitted} of a hundred and a tenth in one window");
}

#[tokio::test]
async fn grace_is_a_tenth_in_any_minute_of_a_log() {
    let service = Service::new(&(limited("rate = \"100/min\"\nalgorithm = \"sliding-log\"") + "[ladder]\n"));
    let mut admitted: Vec<Timestamp> = Vec::new();
    for (wait, many) in [(0, 101), (59, 9), (1, 120)] {
        service.wait(seconds(wait));
        for _ in 0..many {
            if service.allows(&alice()).await {
                admitted.push(now(&service));
            }
        }
    }
    for (index, at) in admitted.iter().enumerate() {
        let minute = admitted[index..].iter().take_while(|other| **other < at.plus(Span::MINUTE)).count();
        assert!(minute <= 110, "{minute} in a minute");
    }
}

#[tokio::test]
async fn grace_is_at_least_one_request_whatever_it_costs() {
    let text = limited("rate = \"20/min\"\ncost = 5\nalgorithm = \"fixed-window\"") + "[ladder]\n";
    let service = Service::new(&text);
    assert_eq!(service.drain(&alice(), 9).await, 5, "four, and one by grace");
}

#[tokio::test]
async fn grace_of_an_overridden_limit_is_a_tenth_of_it() {
    let service = Service::new(&(limited("rate = \"10/min\"\nalgorithm = \"fixed-window\"") + "[ladder]\n"));
    service.set(override_all("one", "100/min")).await;
    assert_eq!(service.drain(&alice(), 200).await, 110);
}

// ---- lists, explanations, reloads --------------------------------------------------------------------------------

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

// ---- ledgers that take their time --------------------------------------------------------------------------------

use std::sync::atomic::{AtomicBool, Ordering};
use threshold::ledger::{Entry, Page, Retention, Written};
use threshold::{Health, Ledger, StoreError, StoreErrorKind};

#[derive(Clone, Default)]
struct Slow {
    ledger: MemoryLedger,
    hold: Arc<AtomicBool>,
    blind: Arc<AtomicBool>,
}

impl Ledger for Slow {
    async fn write(&self, entries: &[Entry]) -> Result<Vec<Written>, StoreError> {
        std::future::poll_fn(|_| {
            if self.hold.load(Ordering::SeqCst) {
                std::task::Poll::Pending
            } else {
                std::task::Poll::Ready(())
            }
        })
        .await;
        self.ledger.write_now(entries)
    }

    async fn read(&self, query: &Query) -> Result<Page, StoreError> {
        if self.blind.load(Ordering::SeqCst) {
            return Err(StoreError::new(StoreErrorKind::Unavailable, "read", "blind"));
        }
        Ok(self.ledger.read_now(query))
    }

    async fn sweep(&self, now: Timestamp, retention: &Retention) -> Result<usize, StoreError> {
        Ledger::sweep(&self.ledger, now, retention).await
    }

    async fn health(&self) -> Health {
        Health::Up { latency: Span::ZERO }
    }

    async fn close(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

#[tokio::test]
async fn no_grace_while_the_third_strike_is_being_written() {
    let (clock, ledger) = (clock(), Slow::default());
    let text = limited("rate = \"100/min\"\nalgorithm = \"fixed-window\"") + "[ladder]\n";
    let ready = (rules(&text), secrets());
    let engine = Engine::with_ledger(ready, store(&clock), store(&clock), ledger.clone());
    let ask = alice();
    for _ in 0..2 {
        for _ in 0..120 {
            let _ = engine.decide(&ask.facts(), Extras::default()).await.unwrap();
        }
        clock.advance(seconds(61));
    }
    for _ in 0..100 {
        assert!(engine.decide(&ask.facts(), Extras::default()).await.unwrap().allowed());
    }
    ledger.hold.store(true, Ordering::SeqCst);
    let facts = ask.facts();
    let mut third = std::pin::pin!(engine.decide(&facts, Extras::default()));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(third.as_mut().poll(&mut context).is_pending(), "the strike is on its way to the disk");
    let mut passed = 0;
    for _ in 0..30 {
        passed += usize::from(engine.decide(&ask.facts(), Extras::default()).await.unwrap().allowed());
    }
    ledger.hold.store(false, Ordering::SeqCst);
    assert!(!third.await.unwrap().allowed());
    assert_eq!(passed, 0, "the third strike is refused, not graced");
}

#[tokio::test]
async fn a_sanction_is_told_though_the_ledger_could_not_be_read_after_it() {
    let (clock, ledger) = (clock(), Slow::default());
    let told = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&told);
    let ready = (rules(&limited("rate = \"2/min\"")), secrets());
    let engine = Engine::with_ledger(ready, store(&clock), store(&clock), ledger.clone())
        .telling(move |event: &Event| heard.lock().unwrap().push(event.name()));
    let user = engine.subjects().user(None, "alice");
    let change = || impose(user, SanctionKind::Ban, clock.advance(Span::ZERO).plus(Span::DAY));
    ledger.blind.store(true, Ordering::SeqCst);
    let _ = engine.operate("ops", change()).await;
    ledger.blind.store(false, Ordering::SeqCst);
    let _ = engine.operate("ops", change()).await.unwrap();
    let told = told.lock().unwrap();
    assert!(told.contains(&"sanction_imposed"), "it is in force, and nobody was told: {told:?}");
}

#[tokio::test]
async fn what_need_not_be_kept_is_dropped_by_a_program_that_does_what_the_guide_says() {
    let service = Service::new("");
    for account in 0..20_u32 {
        let _ = attempt(&service, &format!("account {account}"), 1, false).await;
    }
    for _ in 0..40 {
        service.wait(Span::DAY);
        service.engine.refresh().await.unwrap();
        service.engine.sweep().await.unwrap();
    }
    let source = service.engine.subjects().source("account 3", threshold::engine::Origin::Address(from(1)));
    let page = service.engine.ledger().read_now(&Query::Failures(source));
    assert!(page.records.is_empty(), "failed logins are kept 7 days: {:?}", page.records);
}

#[tokio::test]
async fn steady_clients_within_the_base_get_no_worse() {
    // A sliding window refuses now and then who asks at exactly its rate, whatever its name.
    for kind in ["token-bucket", "sliding-log", "fixed-window", "calendar-window"] {
        let text = limited(&format!("rate = \"10/min\"\nalgorithm = \"{kind}\"")) + "[reputation]\n";
        let service = Service::new(&text);
        for _ in 0..12 {
            service.drain(&alice(), 25).await;
            service.wait(seconds(130));
        }
        let before = violations(&service).len();
        for _ in 0..120 {
            service.wait(seconds(6));
            service.drain(&alice(), 1).await;
        }
        assert_eq!(violations(&service).len(), before, "{kind}: ten a minute, one every six seconds");
    }
}

#[tokio::test]
async fn a_stranger_on_the_same_network_is_not_slowed_by_a_users_name() {
    // A sliding window at its border: what is admitted in one minute never exceeds the base while risk changes.
    for kind in ["token-bucket", "sliding-log", "sliding-window", "fixed-window"] {
        let text = limited(&format!("rate = \"100/min\"\nalgorithm = \"{kind}\""))
            + "[reputation]\nrecovery = \"100 per 1min\"\n";
        let service = Service::new(&text);
        let mut admitted: Vec<Timestamp> = Vec::new();
        for _ in 0..600 {
            service.wait(Span::SECOND);
            for _ in 0..9 {
                if service.allows(&alice()).await {
                    admitted.push(now(&service));
                }
            }
        }
        let most = if kind == "sliding-log" { 100 } else { 200 };
        for (index, at) in admitted.iter().enumerate() {
            let minute = admitted[index..].iter().take_while(|other| **other < at.plus(Span::MINUTE)).count();
            assert!(minute <= most, "{kind}: {minute} in a minute");
        }
    }
}
