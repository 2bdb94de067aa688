//! Sanctions and waits.

use super::*;

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
