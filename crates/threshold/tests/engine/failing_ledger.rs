//! A ledger that fails: decisions go on, sanctions stay in force, nothing is counted that was not written down.

use std::sync::{Arc, Mutex};

use threshold::engine::{Engine, Reason};
use threshold::event::Event;
use threshold::ledger::{Change, SanctionKind};
use threshold::login::Attempt;
use threshold::{Ledger, ManualClock, MemoryStore, Span, SubjectId, Timestamp};
use threshold_testkit::flaky::{Fault, FlakyLedger};

use crate::common::{Ask, limited, rules, secrets};

type FlakyEngine = Engine<MemoryStore<ManualClock>, ManualClock, FlakyLedger>;

struct Flaky {
    engine: FlakyEngine,
    clock: ManualClock,
    told: Arc<Mutex<Vec<&'static str>>>,
}

fn flaky() -> Flaky {
    let clock = ManualClock::starting_at(Timestamp::from_micros(1_700_000_000_000_000));
    let store =
        || MemoryStore::builder().max_bytes(1 << 20).clock(clock.clone()).build().expect("a cap with room");
    let policy = limited("rate = \"2/min\"\nalgorithm = \"fixed-window\"") + "[ladder]\n";
    let told = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&told);
    let engine = Engine::with_ledger((rules(&policy), secrets()), store(), store(), FlakyLedger::default())
        .telling(move |event: &Event| heard.lock().expect("nobody panics").push(event.name()));
    Flaky { engine, clock, told }
}

impl Flaky {
    async fn drain(&self, ask: &Ask, many: usize) -> usize {
        let mut allowed = 0;
        for _ in 0..many {
            let decision = self.engine.decide(&ask.facts(), Default::default()).await;
            allowed += usize::from(decision.expect("a ledger keeps nothing from being decided").allowed());
        }
        allowed
    }

    fn alice(&self) -> SubjectId {
        self.engine.subjects().user(None, "alice")
    }

    fn ban(&self) -> Change {
        let until = self.clock.advance(Span::ZERO).plus(Span::HOUR);
        Change::Impose { subject: self.alice(), kind: SanctionKind::Ban, until, reason: "test".to_owned() }
    }
}

#[tokio::test]
async fn bans_stay_in_force_while_it_fails_and_end_when_they_end() {
    let flaky = flaky();
    let alice = Ask::get("/").by("alice");
    assert!(flaky.engine.operate("ops", flaky.ban()).await.unwrap());
    for fault in [Fault::Refuses, Fault::LosesAnswers] {
        flaky.engine.ledger().set(fault);
        assert!(flaky.engine.refresh().await.is_err());
        let decision = flaky.engine.decide(&alice.facts(), Default::default()).await.unwrap();
        assert!(matches!(decision.refusal().unwrap().reason, Reason::Banned { .. }));
    }
    flaky.clock.advance(Span::HOUR);
    assert_eq!(flaky.drain(&alice, 1).await, 1, "no ledger is needed to end it");
}

#[tokio::test]
async fn without_it_there_is_no_strike_and_no_grace_and_both_return_by_themselves() {
    let flaky = flaky();
    let bob = Ask::get("/").by("bob");
    flaky.engine.ledger().set(Fault::Refuses);
    assert_eq!(flaky.drain(&bob, 5).await, 2);
    assert_eq!(flaky.engine.standing_figures().0, 0);
    flaky.engine.ledger().set(Fault::None);
    assert_eq!(flaky.drain(&bob, 5).await, 1, "the next refusal is a strike, and has its grace");
    assert_eq!(
        flaky.told.lock().unwrap().as_slice(),
        ["ledger_failed", "ledger_recovered", "abuse_escalation"]
    );
}

#[tokio::test]
async fn requests_leave_a_ledger_alone_that_failed_five_times_and_operators_do_not() {
    let flaky = flaky();
    let bob = Ask::get("/").by("bob");
    flaky.engine.ledger().set(Fault::Refuses);
    assert_eq!(flaky.drain(&bob, 100).await, 2);
    assert_eq!(flaky.engine.ledger().written_to(), 5, "98 were refused");
    assert!(flaky.engine.operate("ops", flaky.ban()).await.is_err());
    assert_eq!(flaky.engine.ledger().written_to(), 6);
    flaky.clock.advance(Span::SECOND);
    flaky.drain(&bob, 100).await;
    assert_eq!(flaky.engine.ledger().written_to(), 7, "one tries again");
    flaky.engine.ledger().set(Fault::None);
    flaky.engine.refresh().await.unwrap();
    assert_eq!(flaky.drain(&bob, 5).await, 1, "once it answers it is asked at once");
}

#[tokio::test]
async fn a_strike_whose_answer_was_lost_is_counted_once() {
    let flaky = flaky();
    let bob = Ask::get("/").by("bob");
    flaky.engine.ledger().set(Fault::LosesAnswers);
    flaky.drain(&bob, 5).await;
    flaky.engine.ledger().set(Fault::None);
    flaky.drain(&bob, 5).await;
    let held = flaky.engine.held(&flaky.engine.subjects().user(None, "bob")).unwrap();
    assert_eq!(held.strikes.parts().0, 1);
}

#[tokio::test]
async fn what_an_operator_is_not_told_done_is_an_error() {
    let flaky = flaky();
    for fault in [Fault::Refuses, Fault::LosesAnswers] {
        flaky.engine.ledger().set(fault);
        assert!(flaky.engine.operate("ops", flaky.ban()).await.is_err());
    }
    assert!(matches!(flaky.engine.ledger().health().await, threshold::Health::Down { .. }));
}

#[tokio::test]
async fn nobody_logs_in_while_it_fails() {
    let flaky = flaky();
    let attempt = Attempt { account: Some("alice"), client: "10.0.0.1".parse().unwrap(), device: None };
    for fault in [Fault::Refuses, Fault::LosesAnswers] {
        flaky.engine.ledger().set(fault);
        assert!(flaky.engine.attempt(&attempt, true).await.is_err());
    }
    flaky.engine.ledger().set(Fault::None);
    assert!(flaky.engine.attempt(&attempt, true).await.unwrap().allowed);
}
