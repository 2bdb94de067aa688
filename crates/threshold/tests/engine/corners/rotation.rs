//! A new secret.

use super::*;

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
