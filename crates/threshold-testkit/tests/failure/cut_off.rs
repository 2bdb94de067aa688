//! Ways to a server that go bad: silent, slow, deaf, reset.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use threshold_core::{
    Algorithm, Batch, Clock as _, Consistency, Key, OnFailure, Sharing, Source, Step, Store as _,
};
use threshold_store::SystemClock;
use threshold_testkit::figures::{Claim, size};
use threshold_testkit::servers::{Postgres, Proxy, Redis, Way};

use super::common::{LIMIT, Load, Node, eventually, node, one, wait};
use super::leases::over;

const BAD: [Way; 4] = [Way::Silent, Way::Resets, Way::Slow, Way::Deaf];

/// A server, and how it is reached on another port.
enum Behind {
    Redis(Redis),
    Postgres(Postgres),
}

impl Behind {
    fn both() -> [Self; 2] {
        [Self::Redis(Redis::start()), Self::Postgres(Postgres::start())]
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Redis(_) => "Redis",
            Self::Postgres(_) => "Postgres",
        }
    }

    /// A node of so many, on a way of its own.
    async fn node(&self, nodes: u32) -> (Proxy, Node) {
        let (port, url) = match self {
            Self::Redis(server) => (server.port(), server.url()),
            Self::Postgres(server) => (server.port(), server.url()),
        };
        let proxy = Proxy::to(port).await;
        let url = url.replace(&format!(":{port}"), &format!(":{}", proxy.port()));
        // What is slow takes 50 milliseconds more each way.
        let node = node(&format!("{url}?timeout=40"), nodes).await;
        (proxy, node)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn closed_limits_admit_nothing_while_they_are_cut_off() {
    let claim =
        Claim::of("closed limits of a node that is cut off from its store: silent, reset, slow or deaf");
    let (rounds, mut asked, mut admitted) = (size(1, 10), 0, 0);
    for server in Behind::both() {
        let (proxy, node) = server.node(2).await;
        for (number, way) in BAD.repeat(rounds).into_iter().enumerate() {
            let batch = one(number as u128, OnFailure::Closed);
            eventually("it is decided by the store", async || node.apply(&batch).await.is_ok()).await;
            proxy.set(way);
            // Connections that are open notice it a moment later.
            wait(30).await;
            for _ in 0..20 {
                let decided = node.apply(&batch).await;
                asked += 1;
                admitted += u64::from(decided.is_ok_and(|outcome| outcome.admitted()));
            }
            assert_eq!(admitted, 0, "{}, {way:?}", server.name());
            proxy.set(Way::Clear);
            eventually("it goes on by itself", async || {
                node.apply(&batch).await.is_ok_and(|outcome| outcome.source == Source::Exact)
            })
            .await;
        }
    }
    let figure = format!("{asked} asked for on Redis and Postgres, {admitted} admitted");
    claim.show("partition-closed", &figure, "0 admitted", admitted == 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn shares_of_nodes_that_are_cut_off_again_and_again_stay_within_twice_the_limit() {
    let claim = Claim::of("shares of three nodes that are cut off one after the other, again and again");
    let mut most = 0;
    for server in Behind::both() {
        let (mut proxies, mut nodes) = (Vec::new(), Vec::new());
        for _ in 0..3 {
            let (proxy, node) = server.node(3).await;
            nodes.push(node);
            proxies.push(proxy);
        }
        let load = Load::start(&nodes, &one(1, OnFailure::Share), Duration::from_millis(3));
        for round in 0..size(8, 200) {
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
        assert!(seen.admitted() >= LIMIT / 2, "{}: {seen:?}", server.name());
        most = most.max(seen.admitted());
        let degraded: u64 = nodes.iter().map(|node| node.stats().degraded).sum();
        assert!(degraded > 0, "nobody was cut off");
    }
    let figure = format!("{most} at most on Redis and Postgres, of a limit of {LIMIT}");
    claim.show("partition-share", &figure, "twice the limit", most <= 2 * LIMIT);
}

/// Spends leases of `node` until it is told to stop; says when each admission was asked for and answered.
fn spender(node: &Node, stop: &Arc<AtomicBool>) -> tokio::task::JoinHandle<Vec<(u64, u64)>> {
    let step = Step::consume(Key::from_raw(7, 7), leased(), NonZeroU64::MIN);
    let sharing = Sharing { consistency: Consistency::Leased, on_failure: OnFailure::Closed };
    let batch = Batch::from(Step { sharing, ..step });
    let (node, stop) = (Arc::clone(node), Arc::clone(stop));
    tokio::spawn(async move {
        let (clock, mut admitted) = (SystemClock::new(), Vec::new());
        while !stop.load(Ordering::Relaxed) {
            let asked = clock.now();
            if node.apply(&batch).await.is_ok_and(|outcome| outcome.admitted()) {
                admitted.push((asked.as_micros(), clock.now().as_micros()));
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        admitted
    })
}

fn leased() -> Algorithm {
    Algorithm::token_bucket(&"300/s burst 300".parse().unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_of_nodes_that_are_cut_off_again_and_again_stay_within_the_limit() {
    let claim = Claim::of("leases of three nodes that are cut off one after the other, again and again");
    let (mut all, mut worst, mut overshoot) = (0, 0, 0);
    for server in Behind::both() {
        let (mut proxies, mut nodes) = (Vec::new(), Vec::new());
        for _ in 0..3 {
            let (proxy, node) = server.node(3).await;
            nodes.push(node);
            proxies.push(proxy);
        }
        let stop = Arc::new(AtomicBool::new(false));
        let spenders: Vec<_> = nodes.iter().map(|node| spender(node, &stop)).collect();
        for round in 0..size(8, 100) {
            wait(100).await;
            proxies[round % 3].set(BAD[round % 4]);
            wait(200).await;
            proxies[round % 3].set(Way::Clear);
        }
        stop.store(true, Ordering::Relaxed);
        let mut admitted = Vec::new();
        for spender in spenders {
            admitted.extend(spender.await.unwrap());
        }
        assert!(!admitted.is_empty(), "{}: nobody was admitted", server.name());
        all += admitted.len();
        worst = worst.max(over(&mut admitted, &leased()));
        overshoot += nodes.iter().map(|node| node.stats().leases.overshoot).sum::<u64>();
    }
    let figure = format!("{all} admitted on Redis and Postgres, {worst} over, overshoot {overshoot}");
    claim.show("partition-leases", &figure, "0 over", worst == 0 && overshoot == 0);
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
