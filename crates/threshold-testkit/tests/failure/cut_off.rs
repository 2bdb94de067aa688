//! Ways to a server that go bad: silent, slow, deaf, reset.

use std::time::Duration;

use threshold_core::{OnFailure, Source, Store as _};
use threshold_testkit::servers::{Proxy, Redis, Way};

use super::common::{LIMIT, Load, eventually, node, one, wait};

const BAD: [Way; 4] = [Way::Silent, Way::Resets, Way::Slow, Way::Deaf];

#[tokio::test(flavor = "multi_thread")]
async fn closed_limits_admit_nothing_while_they_are_cut_off() {
    let server = Redis::start();
    let proxy = Proxy::to(server.port()).await;
    let node = node(&format!("redis://127.0.0.1:{}", proxy.port()), 2).await;
    for (number, way) in BAD.into_iter().enumerate() {
        let batch = one(number as u128, OnFailure::Closed);
        eventually("it is decided by the store", async || node.apply(&batch).await.is_ok()).await;
        proxy.set(way);
        // Connections that are open notice it a moment later.
        wait(30).await;
        for _ in 0..20 {
            let decided = node.apply(&batch).await;
            assert!(!decided.as_ref().is_ok_and(|outcome| outcome.admitted()), "{way:?}: {decided:?}");
        }
        proxy.set(Way::Clear);
        eventually("it goes on by itself", async || {
            node.apply(&batch).await.is_ok_and(|outcome| outcome.source == Source::Exact)
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn shares_of_nodes_that_are_cut_off_again_and_again_stay_within_twice_the_limit() {
    let server = Redis::start();
    let (mut proxies, mut nodes) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        let proxy = Proxy::to(server.port()).await;
        nodes.push(node(&format!("redis://127.0.0.1:{}", proxy.port()), 3).await);
        proxies.push(proxy);
    }
    let load = Load::start(&nodes, &one(1, OnFailure::Share), Duration::from_millis(3));
    for round in 0..8 {
        wait(40).await;
        let (proxy, way) = (&proxies[round % 3], BAD[round % 4]);
        proxy.set(way);
        wait(150).await;
        proxy.set(Way::Clear);
        wait(150).await;
    }
    let seen = load.stop().await;
    assert_eq!(seen.failed(), 0, "a limit that is shared always has an answer");
    // What an attacker gets by cutting nodes off, as often as it likes, is in the sentence that the limit prints.
    // Some was charged to nodes that were not told: less than the limit is no surprise.
    assert!((LIMIT / 2..=2 * LIMIT).contains(&seen.admitted()), "{seen:?}");
    let degraded: u64 = nodes.iter().map(|node| node.stats().degraded).sum();
    assert!(degraded > 0, "nobody was cut off");
}

#[tokio::test(flavor = "multi_thread")]
async fn open_limits_let_everything_pass_and_say_so() {
    let server = Redis::start();
    let proxy = Proxy::to(server.port()).await;
    let node = node(&format!("redis://127.0.0.1:{}", proxy.port()), 1).await;
    proxy.set(Way::Resets);
    let batch = one(1, OnFailure::Open);
    for _ in 0..2 * LIMIT {
        let outcome = node.apply(&batch).await.unwrap();
        assert!(outcome.admitted() || outcome.source == Source::Exact);
    }
    let outcome = node.apply(&batch).await.unwrap();
    assert_eq!((outcome.admitted(), outcome.source), (true, Source::Open));
}
