//! Ledgers that take their time, and time that passes.

use super::*;

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
async fn what_passes_stays_bounded_while_risk_changes() {
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
