//! By TLS, as Workers are asked: one connection of HTTP/2, or HTTP/1.1 where no more is spoken.

use std::collections::BTreeSet;
use std::sync::Arc;

use threshold_core::{AlgorithmKind, Batch, Store as _, StoreErrorKind};
use threshold_store::DurableObjectsStore;
use threshold_testkit::servers::{Front, Workerd};
use tokio::task::JoinSet;

use crate::traffic::{drain, open, secret, step};

fn url(front: &Front) -> String {
    let ca = front.authority().display();
    format!("durable-object+https://secret@localhost:{}?timeout=60000&ca={ca}", front.port())
}

/// Has a hundred callers ask a thousand times in many shards; gives the connections and the protocols that were used.
async fn crowd(front: &Front) -> (usize, BTreeSet<String>) {
    let store = open(&url(front)).await;
    let mut callers = JoinSet::new();
    for caller in 0..100_u16 {
        let store = Arc::clone(&store);
        callers.spawn(async move {
            let step = step(AlgorithmKind::FixedWindow, 150, ("shared", caller % 5));
            let mut admitted = 0_u64;
            for _ in 0..10 {
                admitted += u64::from(store.apply(&Batch::from(step)).await.unwrap().admitted());
            }
            admitted
        });
    }
    assert_eq!(callers.join_all().await.into_iter().sum::<u64>(), 5 * 150);
    assert_eq!(drain(&store, step(AlgorithmKind::FixedWindow, 150, ("shared", 0))).await, 0);
    store.close().await.unwrap();
    let spoken = front.spoken();
    let connections: BTreeSet<u64> = spoken.iter().map(|(connection, _)| *connection).collect();
    (connections.len(), spoken.into_iter().map(|(_, protocol)| protocol).collect())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_connection_of_http_2_carries_everything() {
    let server = Workerd::start();
    let front = Front::before(server.port(), true);
    assert_eq!(crowd(&front).await, (1, BTreeSet::from(["HTTP/2.0".to_owned()])));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_of_http_1_are_used_again() {
    let server = Workerd::start();
    let front = Front::before(server.port(), false);
    let (connections, protocols) = crowd(&front).await;
    assert_eq!(protocols, BTreeSet::from(["HTTP/1.1".to_owned()]));
    assert!(connections <= 64, "{connections} for a thousand decisions");
}

#[tokio::test]
async fn a_certificate_that_nobody_vouches_for_is_refused_with_the_remedy() {
    let server = Workerd::start();
    let front = Front::before(server.port(), true);
    let url = url(&front);
    let trusting_others = url.split("&ca=").next().unwrap();
    let error =
        DurableObjectsStore::open(trusting_others, &secret(), None).await.err().expect("it is unknown");
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{error}");
    assert!(error.to_string().contains("?ca=FILE"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_behind_the_front_may_die_and_come_back() {
    let mut server = Workerd::start();
    let front = Front::before(server.port(), true);
    let store = open(&url(&front)).await;
    let step = step(AlgorithmKind::FixedWindow, 10, ("a", 1));
    assert!(store.apply(&Batch::from(step)).await.unwrap().admitted());
    tokio::task::block_in_place(|| server.kill());
    let error = store.apply(&Batch::from(step)).await.expect_err("nobody is behind it");
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
    tokio::task::block_in_place(|| server.start_again());
    crate::traffic::answers_again(&store, crate::traffic::step(AlgorithmKind::FixedWindow, 99, ("b", 1)))
        .await;
    assert_eq!(drain(&store, step).await, 9);
}
