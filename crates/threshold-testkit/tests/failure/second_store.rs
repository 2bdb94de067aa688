//! A second store: counters continue on it, and refusals are shared by it.

use std::num::NonZeroU64;
use std::sync::{Arc, Mutex};

use threshold_core::{Action, OnFailure, Retry, Source, Store as _};
use threshold_store::node::{ComponentName, ComponentState, Strategy, Transition};
use threshold_store::{NodeStore, open_store};
use threshold_testkit::servers::{Redis, fresh_database};

use super::common::{LIMIT, Node, eventually, one, secret, settings};

/// A node with two stores, and what it tells of them.
async fn with_cache(store: &str, cache: &str) -> (Node, Arc<Mutex<Vec<Transition>>>) {
    let told = Arc::new(Mutex::new(Vec::new()));
    let telling = Arc::clone(&told);
    let node = NodeStore::new(open_store(store, (&secret(), None)).await.unwrap(), settings(2))
        .caching(open_store(cache, (&secret(), None)).await.unwrap())
        .telling(move |transition| telling.lock().unwrap().push(transition.clone()));
    (Arc::new(node), told)
}

#[tokio::test(flavor = "multi_thread")]
async fn counters_continue_on_it_and_the_strategy_says_so() {
    let (mut first, mut second) = (Redis::start(), Redis::start());
    let (node, told) = with_cache(&first.url(), &second.url()).await;
    let batch = one(1, OnFailure::Share);
    assert!(node.apply(&batch).await.unwrap().admitted());
    assert_eq!(node.strategy(), Strategy::Full);
    first.kill();
    let mut admitted = 1;
    for _ in 0..3 * LIMIT {
        admitted += u64::from(node.apply(&batch).await.unwrap().admitted());
    }
    assert_eq!(node.strategy(), Strategy::CacheOnly);
    assert_eq!(admitted, 1 + LIMIT / 2, "the half that the second store has, and no more");
    second.kill();
    eventually("both are given up", async || {
        let _ = node.apply(&one(3, OnFailure::Share)).await;
        node.strategy() == Strategy::MemoryOnly
    })
    .await;
    for _ in 0..3 * LIMIT {
        admitted += u64::from(node.apply(&batch).await.unwrap().admitted());
    }
    assert!(admitted <= 2 * LIMIT, "{admitted}: a second failure is worth nothing");
    assert_eq!(node.apply(&one(3, OnFailure::Share)).await.unwrap().source, Source::Fallback);
    first.start_again();
    eventually("the store is back", async || {
        let _ = node.apply(&one(3, OnFailure::Share)).await;
        node.strategy() == Strategy::StoreOnly
    })
    .await;
    second.start_again();
    eventually("all is back", async || {
        let _ = node.apply(&one(2, OnFailure::Share)).await;
        node.strategy() == Strategy::Full
    })
    .await;
    let told: Vec<_> = told.lock().unwrap().iter().map(|one| (one.component, one.state)).collect();
    let (down, up) = (ComponentState::Down, ComponentState::Up);
    let (store, cache) = (ComponentName::Store, ComponentName::Cache);
    assert_eq!(told, [(store, down), (cache, down), (store, up), (cache, up)], "one word for each change");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_that_one_node_was_given_is_known_to_the_others() {
    let (database, cache) = (fresh_database(), Redis::start());
    let (one_node, _) = with_cache(&database.url(), &cache.url()).await;
    let (other, _) = with_cache(&database.url(), &cache.url()).await;
    let batch = one(1, OnFailure::Closed);
    while one_node.apply(&batch).await.unwrap().admitted() {}
    let known = other.apply(&batch).await.unwrap();
    assert_eq!((known.admitted(), known.source), (false, Source::DenialCache));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_strategy_can_be_pinned() {
    let server = Redis::start();
    let store = open_store(&server.url(), (&secret(), None)).await.unwrap();
    let pinned = threshold_store::NodeSettings { pinned: Some(Strategy::MemoryOnly), ..settings(2) };
    let node = NodeStore::new(store, pinned);
    let outcome = node.apply(&one(1, OnFailure::Share)).await.unwrap();
    assert_eq!((outcome.source, node.strategy()), (Source::Fallback, Strategy::MemoryOnly));
    let keys = server.cli(&["KEYS", "*"]).unwrap();
    let ours = keys.lines().filter(|key| !key.ends_with(":secret") && !key.contains(":probe"));
    assert_eq!(ours.count(), 0, "nothing was counted there: {keys}");
    assert!(node.apply(&one(1, OnFailure::Closed)).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_starts_again_and_again_without_its_data_is_no_fresh_budget() {
    let (mut first, mut second) = (Redis::start(), Redis::start());
    let (node, _) = with_cache(&first.url(), &second.url()).await;
    let batch = one(1, OnFailure::Share);
    let mut admitted = 0;
    let mut ask = async || {
        for _ in 0..3 * LIMIT {
            admitted += u64::from(node.apply(&batch).await.unwrap().admitted());
        }
        admitted
    };
    assert_eq!(ask().await, LIMIT);
    first.kill();
    for _ in 0..5 {
        ask().await;
        second.kill();
        second.start_again();
    }
    let all = ask().await;
    assert!(all <= 2 * LIMIT, "{all} in all");
}

#[tokio::test(flavor = "multi_thread")]
async fn open_limits_stay_open_and_costs_that_fit_the_whole_are_refused_for_now() {
    let (mut first, second) = (Redis::start(), Redis::start());
    let (node, _) = with_cache(&first.url(), &second.url()).await;
    first.kill();
    let open = one(1, OnFailure::Open);
    for _ in 0..2 * LIMIT {
        let outcome = node.apply(&open).await.unwrap();
        assert_eq!((outcome.admitted(), outcome.source), (true, Source::Open));
    }
    let mut large = one(2, OnFailure::Share);
    large.steps_mut()[0].action = Action::Consume(NonZeroU64::new(LIMIT * 2 / 3).unwrap());
    let outcome = node.apply(&large).await.unwrap();
    assert!(matches!(outcome.retry, Retry::After(_)), "{outcome:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_only_looked_at_is_looked_at_there() {
    let (mut first, second) = (Redis::start(), Redis::start());
    let (node, _) = with_cache(&first.url(), &second.url()).await;
    first.kill();
    let batch = one(1, OnFailure::Share);
    while node.apply(&batch).await.unwrap().admitted() {}
    let looked = node.peek(&batch).await.unwrap();
    assert_eq!((looked.admitted(), looked.source), (false, Source::Fallback));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_emptied_redis_is_noticed_and_closed_limits_start_exhausted() {
    let server = Redis::start();
    let told = Arc::new(Mutex::new(Vec::new()));
    let telling = Arc::clone(&told);
    let node = NodeStore::new(open_store(&server.url(), (&secret(), None)).await.unwrap(), settings(2))
        .telling(move |transition: &Transition| telling.lock().unwrap().push(transition.reason.clone()));
    let batch = one(1, OnFailure::Closed);
    while node.apply(&batch).await.unwrap().admitted() {}
    server.cli(&["FLUSHALL"]).unwrap();
    node.sweep(1).await.unwrap();
    assert!(!node.apply(&one(2, OnFailure::Closed)).await.unwrap().admitted(), "nor does anybody else");
    assert!(!node.apply(&batch).await.unwrap().admitted());
    assert_eq!(told.lock().unwrap().len(), 1, "it is told once: {:?}", told.lock().unwrap());
}
