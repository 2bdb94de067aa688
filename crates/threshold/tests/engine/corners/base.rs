//! What is measured is the limit as the policy has it.

use super::*;

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
