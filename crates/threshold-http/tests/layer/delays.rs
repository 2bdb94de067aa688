//! Holding back: a subject that is held back sees nothing but time, and nobody can hold up more than so many.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value as Json;
use threshold::Span;
use threshold::ledger::{Change, SanctionKind};
use threshold_http::ThresholdLayer;
use threshold_http::delay::DelayPool;
use tokio::time::Instant;
use tower_layer::Layer as _;

use crate::wire::{Answered, App, ManualEngine, START, engine, ok};
use crate::{ask, per_user, read};

/// An engine that holds mallory back and nobody else.
async fn holding_back() -> Arc<ManualEngine> {
    let (engine, _) = engine(&per_user("rate = \"2/min\"\nerror = \"slow_down\""));
    let subject = engine.subjects().user(None, "mallory");
    let (kind, until) = (SanctionKind::Shadow, START.plus(Span::HOUR));
    let change = Change::Impose { subject, kind, until, reason: "test".to_owned() };
    assert!(engine.operate("test", change).await.unwrap());
    engine
}

/// Time stands still but for those who wait for it.
#[tokio::test(start_paused = true)]
async fn who_is_held_back_gets_the_same_answer_later() {
    let service = ThresholdLayer::new(holding_back().await).layer(App(ok));
    for turn in 0..2 {
        let begun = Instant::now();
        let plain = read(&service, ask("alice", "GET", "/")).await;
        assert_eq!(begun.elapsed(), Duration::ZERO);
        let held_back = read(&service, ask("mallory", "GET", "/")).await;
        assert!((1_000..=3_000).contains(&begun.elapsed().as_millis()), "{:?}", begun.elapsed());
        assert_eq!(plain.status, 200);
        assert_eq!(exactly(&held_back), exactly(&plain), "turn {turn}");
    }
    let begun = Instant::now();
    let (plain, held_back) =
        (read(&service, ask("alice", "GET", "/")).await, read(&service, ask("mallory", "GET", "/")).await);
    assert_eq!((plain.status.as_u16(), begun.elapsed()), (429, Duration::ZERO));
    assert_eq!(exactly(&held_back), exactly(&plain), "refusals are not held back");
}

/// All that a client can see.
fn exactly(answered: &Answered) -> (u16, String, &[u8]) {
    (answered.status.as_u16(), format!("{:?}", answered.headers), &answered.body)
}

#[tokio::test(start_paused = true)]
async fn without_a_place_it_is_an_ordinary_refusal() {
    let pool = DelayPool::new(1);
    let layer = ThresholdLayer::new(holding_back().await).delaying(pool.clone());
    let service = layer.layer(App(ok));
    let taken = pool.take().unwrap();
    let begun = Instant::now();
    let refused = read(&service, ask("mallory", "GET", "/")).await;
    assert_eq!((refused.status.as_u16(), begun.elapsed()), (429, Duration::ZERO));
    assert!(refused.header("retry-after").parse::<u64>().unwrap() >= 1);
    drop(taken);
    assert_eq!(read(&service, ask("mallory", "GET", "/")).await.status, 200);
    assert_eq!(pool.taken(), 0, "the place came back");
}

/// Who is held back must not learn it from a refusal that looks like no other.
#[tokio::test(start_paused = true)]
async fn that_refusal_looks_like_any_other() {
    let pool = DelayPool::new(0);
    let service = ThresholdLayer::new(holding_back().await).delaying(pool).layer(App(ok));
    for _ in 0..2 {
        assert_eq!(read(&service, ask("alice", "GET", "/")).await.status, 200);
    }
    let ordinary = read(&service, ask("alice", "GET", "/")).await;
    let placeless = read(&service, ask("mallory", "GET", "/")).await;
    assert_eq!((ordinary.status.as_u16(), placeless.status.as_u16()), (429, 429));
    let names = |answered: &Answered| answered.headers.keys().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(names(&placeless), names(&ordinary));
    assert_eq!(placeless.left(), ordinary.left(), "a refusal with something left is one of a kind");
    assert_eq!(shape(&placeless.json()), shape(&ordinary.json()));
}

/// A body without what differs from one refusal to the next.
fn shape(body: &Json) -> Vec<(String, Json)> {
    let members = body.as_object().unwrap().iter();
    let kept = members.filter(|(name, _)| !["retryAfter", "resetAt"].contains(&name.as_str()));
    kept.map(|(name, value)| (name.clone(), value.clone())).collect()
}

#[tokio::test(start_paused = true)]
async fn nobody_holds_up_more_than_there_are_places() {
    let pool = DelayPool::new(2);
    let layer = ThresholdLayer::new(holding_back().await).delaying(pool.clone());
    let service = layer.layer(App(ok));
    let (first, second) = tokio::join!(read(&service, ask("mallory", "GET", "/")), async {
        (pool.taken(), read(&service, ask("mallory", "GET", "/")).await)
    },);
    assert_eq!((first.status.as_u16(), second.1.status.as_u16()), (200, 200));
    assert_eq!((second.0, pool.taken()), (1, 0));
}
