//! Logins.

use super::*;

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
