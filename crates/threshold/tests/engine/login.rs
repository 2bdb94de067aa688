//! Logins: attempts, lockouts, known devices and the ceiling.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};

use threshold::event::Event;
use threshold::ledger::Change;
use threshold::login::{Attempt, LoginAnswer};
use threshold::{Span, Timestamp};

use crate::common::Service;

/// Numbers so wide that only the lockout is felt.
const LOCKOUT_ONLY: &str =
    "[login]\naddress = \"1000/min\"\naccount = \"1000/min\"\nceiling = \"1000/hour\"\n";

fn from(address: u32) -> IpAddr {
    Ipv4Addr::from(0x0A00_0000 + address).into()
}

async fn attempt(service: &Service, account: &str, address: u32, success: bool) -> LoginAnswer {
    let attempt = Attempt { account: Some(account), client: from(address), device: None };
    service.engine.attempt(&attempt, success).await.expect("memory answers")
}

async fn with_device(service: &Service, token: &str, address: u32, success: bool) -> LoginAnswer {
    let attempt = Attempt { account: Some("victim"), client: from(address), device: Some(token) };
    service.engine.attempt(&attempt, success).await.expect("memory answers")
}

fn seconds(answer: &LoginAnswer) -> u64 {
    answer.retry_after.map_or(0, |wait| wait.as_secs())
}

#[tokio::test]
async fn three_failures_lock_for_a_minute_five_for_five_and_ten_for_an_hour() {
    let service = Service::new(LOCKOUT_ONLY);
    let mut locks = Vec::new();
    for _ in 0..11 {
        let answer = attempt(&service, "alice", 1, false).await;
        locks.push(seconds(&answer));
        // Waiting to the second is enough, and a second less is not.
        if let Some(wait) = answer.retry_after {
            service.wait(Span::from(wait).into_less_a_second());
            assert!(!attempt(&service, "alice", 1, true).await.allowed, "the right password is refused too");
            service.wait(Span::SECOND);
        }
    }
    assert_eq!(locks, [0, 0, 60, 60, 300, 300, 300, 300, 300, 3600, 3600]);
}

trait LessASecond {
    fn into_less_a_second(self) -> Span;
}

impl LessASecond for Span {
    fn into_less_a_second(self) -> Span {
        Span::from_micros(self.as_micros() - 1_000_000)
    }
}

#[tokio::test]
async fn success_clears_and_time_forgets() {
    let service = Service::new(LOCKOUT_ONLY);
    for _ in 0..2 {
        assert!(attempt(&service, "alice", 1, false).await.allowed);
        assert!(attempt(&service, "alice", 1, false).await.allowed);
        assert!(attempt(&service, "alice", 1, true).await.allowed, "and two more failures are no three");
    }
    let _ = attempt(&service, "alice", 1, false).await;
    let _ = attempt(&service, "alice", 1, false).await;
    service.wait(Span::DAY);
    assert!(attempt(&service, "alice", 1, false).await.allowed, "a day later they count no more");
}

#[tokio::test]
async fn a_lockout_is_for_one_account_and_one_source() {
    let service = Service::new(LOCKOUT_ONLY);
    for _ in 0..3 {
        let _ = attempt(&service, "alice", 1, false).await;
    }
    assert!(!attempt(&service, "alice", 1, true).await.allowed);
    assert!(!attempt(&service, "  ALICE ", 1, true).await.allowed, "another spelling is the same account");
    assert!(attempt(&service, "bob", 1, true).await.allowed);
    assert!(attempt(&service, "alice", 2, true).await.allowed);
}

#[tokio::test]
async fn five_attempts_at_an_account_in_fifteen_minutes_and_twenty_from_an_address_in_five() {
    let service = Service::new("[login]\nlockout = []\n");
    for _ in 0..4 {
        assert!(attempt(&service, "alice", 1, false).await.allowed);
    }
    let fifth = attempt(&service, "alice", 1, false).await;
    assert_eq!((fifth.allowed, seconds(&fifth)), (false, 900), "it was tried, and the next would not be");
    let sixth = attempt(&service, "alice", 1, false).await;
    assert_eq!((sixth.allowed, seconds(&sixth)), (false, 900));
    for account in 0..14 {
        assert!(attempt(&service, &format!("account {account}"), 1, false).await.allowed);
    }
    assert!(
        !attempt(&service, "the twentieth", 1, false).await.allowed,
        "it was tried, and the next would not be"
    );
    let answer = attempt(&service, "one more", 1, false).await;
    assert_eq!((answer.allowed, seconds(&answer)), (false, 300));
    assert!(attempt(&service, "one more", 2, false).await.allowed, "from elsewhere");
}

#[tokio::test]
async fn attempts_without_a_password_count_for_the_address_only() {
    let service = Service::new("");
    let token = Attempt { account: None, client: from(1), device: None };
    for _ in 0..20 {
        assert!(service.engine.attempt(&token, true).await.unwrap().allowed);
    }
    assert!(!service.engine.attempt(&token, true).await.unwrap().allowed);
}

#[tokio::test]
async fn every_refusal_reads_the_same_whatever_account_it_is() {
    let service = Service::new("");
    let mut answers = Vec::new();
    for account in ["exists", "does-not"] {
        for (address, success) in [(1, false), (2, false), (2, false), (2, false), (2, true), (3, false)] {
            let mut answer = attempt(&service, account, address, success).await;
            assert!(answer.allowed || answer.device.is_none());
            answer.device = None;
            answers.push(answer);
        }
    }
    let (one, other) = answers.split_at(answers.len() / 2);
    assert_eq!(one, other);
}

#[tokio::test]
async fn ten_thousand_sources_guess_a_hundred_times_an_hour_and_the_owner_logs_in_every_time() {
    let service = Service::new("");
    let first = attempt(&service, "victim", 9_999_999, true).await;
    let token = first.device.expect("a device is known after a login");
    let start = service.clock.advance(Span::ZERO);
    let mut tried: Vec<Timestamp> = Vec::new();
    let mut logins = 0;
    for source in 0..10_000 {
        // Three hours of attack.
        service.wait(Span::from_micros(3 * 3_600_000_000 / 10_000));
        let attempt = Attempt { account: Some("victim"), client: from(source), device: None };
        if let Ok(begun) = service.engine.begin_attempt(&attempt).await.unwrap() {
            tried.push(service.clock.advance(Span::ZERO));
            let _ = service.engine.end_attempt(begun, false).await.unwrap();
        }
        if source % 100 == 99 {
            // From an address that the attackers use as well.
            assert!(with_device(&service, &token, source, true).await.allowed, "login {logins} of the owner");
            logins += 1;
        }
    }
    assert_eq!(logins, 100);
    assert!(tried.len() >= 200, "strangers are not shut out for good: {}", tried.len());
    for (index, at) in tried.iter().enumerate() {
        let in_the_hour = tried[index..].iter().take_while(|other| **other < at.plus(Span::HOUR)).count();
        assert!(in_the_hour <= 100, "{in_the_hour} guesses in an hour");
    }
    assert!(service.clock.advance(Span::ZERO) > start.plus(Span::HOUR));
}

#[tokio::test]
async fn a_crowd_that_guesses_at_once_is_held_to_the_ceiling_too() {
    let service = Service::new("");
    let mut begun = Vec::new();
    for source in 0..5_000 {
        let attempt = Attempt { account: Some("victim"), client: from(source), device: None };
        begun.extend(service.engine.begin_attempt(&attempt).await.unwrap().ok());
    }
    assert_eq!(begun.len(), 100, "before any of them has failed");
    for one in begun.drain(..).take(10) {
        let _ = service.engine.end_attempt(one, true).await.unwrap();
    }
    let next = Attempt { account: Some("victim"), client: from(6_000), device: None };
    assert!(service.engine.begin_attempt(&next).await.unwrap().is_ok(), "what succeeds is given back");
}

#[tokio::test]
async fn a_known_device_is_bound_to_its_account_and_by_its_own_failures() {
    let service = Service::new("");
    let token = attempt(&service, "victim", 1, true).await.device.unwrap();
    assert_eq!(with_device(&service, &token, 2, true).await.device, Some(token.clone()), "the same token");
    let other = Attempt { account: Some("other"), client: from(3), device: Some(&token) };
    for _ in 0..3 {
        let _ = service.engine.attempt(&other, false).await.unwrap();
    }
    assert!(
        !service.engine.attempt(&other, true).await.unwrap().allowed,
        "for another account it is a stranger"
    );
    for _ in 0..3 {
        let _ = with_device(&service, &token, 1, false).await;
    }
    assert!(!with_device(&service, &token, 1, true).await.allowed, "its own failures do lock it out");
    assert!(!with_device(&service, &token, 9, true).await.allowed, "from wherever it is");
    let forged = with_device(&service, &"0".repeat(64), 4, true).await;
    assert!(forged.allowed && forged.device != Some("0".repeat(64)), "a forged token is nothing");
}

#[tokio::test]
async fn lockouts_are_told_once_and_lifted_by_an_operator() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&told);
    let policy = "[privacy]\naddresses = \"full\"\n";
    let service =
        Service::new(policy).telling(move |event: &Event| heard.lock().unwrap().push(event.to_json()));
    for _ in 0..10 {
        let _ = attempt(&service, "alice", 1, false).await;
    }
    let account = service.engine.subjects().account("alice");
    assert!(service.engine.operate("ops", Change::Unlock(account)).await.unwrap());
    assert!(attempt(&service, "alice", 1, true).await.allowed);
    let told = told.lock().unwrap();
    let names: Vec<_> = told.iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!(names, ["auth_user_lockout", "lockout_lifted"]);
    assert_eq!(told[0]["ip"], "10.0.0.1");
    assert_eq!(told[0]["username"], account.to_string().as_str());
    assert_eq!(told[0]["failures"], 3);
}

#[tokio::test]
async fn an_address_that_tries_too_often_is_told_once_per_window() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&told);
    let service = Service::new("").telling(move |event: &Event| heard.lock().unwrap().push(event.to_json()));
    for account in 0..60 {
        let _ = attempt(&service, &format!("account {account}"), 1, false).await;
    }
    let told = told.lock().unwrap();
    assert_eq!(told.len(), 1);
    assert_eq!(told[0]["event"], "auth_ip_rate_limit");
    assert!(
        told[0]["ip"].as_str().unwrap().starts_with("address:"),
        "hashed unless the policy says otherwise"
    );
}
