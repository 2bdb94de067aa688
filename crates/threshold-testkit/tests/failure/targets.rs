//! A service over Postgres with Redis before it: how fast it answers while all is well, while one of them is gone and while
//! both are, and how soon it is itself again. Times are reported, never judged: what is judged is that everybody gets an
//! answer, and from where.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use threshold_core::{OnFailure, Source, Store as _};
use threshold_store::node::Strategy;
use threshold_store::{NodeSettings, NodeStore, open_store};
use threshold_testkit::figures::{Claim, size};
use threshold_testkit::servers::{Postgres, Redis};

use super::common::{LIMIT, Node, eventually, one, secret};

const CALLERS: usize = 128;

/// A node as a server would have it, with the defaults of everything.
async fn service(store: &str, cache: &str) -> Node {
    let node = NodeStore::new(open_store(store, (&secret(), None)).await.unwrap(), NodeSettings::default());
    Arc::new(node.caching(open_store(cache, (&secret(), None)).await.unwrap()))
}

/// What one caller waited for each of some answers, the shortest first.
struct Waits(Vec<Duration>);

impl Waits {
    /// Asks about each of `keys`, one after the other, and sees that the answers come from `source`.
    async fn of(node: &Node, keys: impl Iterator<Item = u128>, source: Source) -> Self {
        let mut waits = Vec::new();
        for key in keys {
            let (batch, begun) = (one(key, OnFailure::Share), Instant::now());
            let outcome = node.apply(&batch).await.unwrap();
            waits.push(begun.elapsed());
            assert_eq!(outcome.source, source, "key {key}");
        }
        waits.sort_unstable();
        Self(waits)
    }

    fn report(&self, name: &str, text: &'static str, goal: Duration) {
        let [half, most] = [50, 99].map(|percent| self.0[(self.0.len() - 1) * percent / 100]);
        let figure = format!("median {:.2} ms, 99 % {:.2} ms", millis(half), millis(most));
        let goal_text = format!("99 % under {} ms", goal.as_millis());
        Claim::of(text).report(name, &figure, &goal_text, most < goal);
    }
}

fn millis(span: Duration) -> f64 {
    span.as_secs_f64() * 1_000.0
}

/// Many who ask at once: how many there were, who answered, and how long it took.
struct Crowd {
    asked: u64,
    unanswered: u64,
    sources: BTreeMap<Source, u64>,
    took: Duration,
}

impl Crowd {
    /// Every one of `clients` asks `times`.
    async fn of(node: &Node, clients: usize, times: usize) -> Self {
        let (next, begun) = (Arc::new(AtomicU64::new(0)), Instant::now());
        let asked = (clients * times) as u64;
        let mut callers = tokio::task::JoinSet::new();
        for _ in 0..CALLERS {
            let (node, next) = (Arc::clone(node), Arc::clone(&next));
            callers.spawn(async move {
                let (mut sources, mut unanswered) = (BTreeMap::new(), 0);
                loop {
                    let turn = next.fetch_add(1, Ordering::Relaxed);
                    if turn >= asked {
                        return (sources, unanswered);
                    }
                    let client = u128::from(turn) % clients as u128;
                    match node.apply(&one(1_000 + client, OnFailure::Share)).await {
                        Ok(outcome) => *sources.entry(outcome.source).or_insert(0) += 1,
                        Err(_) => unanswered += 1,
                    }
                }
            });
        }
        let (mut sources, mut unanswered) = (BTreeMap::<_, u64>::new(), 0);
        for (theirs, failed) in callers.join_all().await {
            theirs.into_iter().for_each(|(source, count)| *sources.entry(source).or_default() += count);
            unanswered += failed;
        }
        Self { asked, unanswered, sources, took: begun.elapsed() }
    }

    /// The part of the questions that were answered, in percent.
    fn answered(&self) -> f64 {
        (self.asked - self.unanswered) as f64 * 100.0 / self.asked as f64
    }

    fn report(&self, name: &str, text: &'static str, goal: f64) {
        let by: Vec<String> =
            self.sources.iter().map(|(source, count)| format!("{} {count}", source.name())).collect();
        let figure = format!("{:.3} % of {} ({})", self.answered(), self.asked, by.join(", "));
        Claim::of(text).report(name, &figure, &format!("{goal} %"), self.answered() >= goal);
        assert_eq!(self.unanswered, 0, "a limit that goes on with a share leaves nobody without an answer");
    }
}

/// What this process has in memory, in bytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() * 1_024
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_over_two_stores_answers_everybody_whatever_is_gone() {
    let (mut postgres, mut redis) = (Postgres::start(), Redis::start());
    let (node, other) =
        (service(&postgres.url(), &redis.url()).await, service(&postgres.url(), &redis.url()).await);
    let (clients, samples) = (size(500, 50_000), size(20, 1_000));
    let mut hits = Waits(Vec::new());
    for refused in 0..samples {
        for _ in 0..LIMIT {
            let _ = other.apply(&one(refused, OnFailure::Share)).await.unwrap();
        }
        // The node has never met it: Redis tells it.
        hits.0.extend(Waits::of(&node, refused..=refused, Source::DenialCache).await.0);
    }
    hits.0.sort_unstable();
    hits.report("target-hit", "a refusal that the second store knows", Duration::from_millis(5));
    let misses = Waits::of(&node, samples + 1..2 * samples, Source::Exact).await;
    misses.report(
        "target-miss",
        "a decision of the store, after the second had nothing to say",
        Duration::from_millis(50),
    );

    let full = Crowd::of(&node, clients, 2).await;
    assert_eq!(node.strategy(), Strategy::Full);
    full.report("target-full", "decisions that are answered while all is well", 99.9);
    let rate = full.asked as f64 / full.took.as_secs_f64();
    let figure = format!("{rate:.0} a second, {clients} clients");
    Claim::of("exact decisions of one node on Postgres with Redis before it").report(
        "target-rate",
        &figure,
        "10,000 a second, 50,000 clients",
        rate >= 10_000.0,
    );

    redis.kill();
    let degraded = Crowd::of(&node, clients, 1).await;
    // Few clients may all be known from just before.
    let mut strangers = 1_000_000..;
    eventually("the second store is missed", async || {
        assert!(node.apply(&one(strangers.next().unwrap(), OnFailure::Share)).await.is_ok());
        node.strategy() == Strategy::StoreOnly
    })
    .await;
    degraded.report("target-degraded", "decisions that are answered while the second store goes", 99.95);

    let before = resident();
    postgres.kill();
    let alone = Crowd::of(&node, clients, 2).await;
    assert_eq!(node.strategy(), Strategy::MemoryOnly);
    alone.report("target-alone", "decisions that are answered while the last store goes", 99.99);
    let grown = resident().saturating_sub(before) as f64 / 1e6;
    Claim::of("what a node's own shares take while all stores are gone").report(
        "target-memory",
        &format!("{grown:.1} MB for {clients} clients"),
        "100 MB",
        grown < 100.0,
    );
    let fallback = Waits::of(&node, 1_000..1_000 + samples, Source::Fallback).await;
    fallback.report("target-fallback", "a decision by the node's own share", Duration::from_millis(10));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_back_is_asked_again_soon() {
    let mut recovered = Vec::new();
    let (mut redis, mut postgres) = (Redis::start(), Postgres::start());
    for kill in 0..size(3, 20) {
        let nodes =
            [service(&redis.url(), &postgres.url()).await, service(&postgres.url(), &redis.url()).await];
        redis.kill();
        postgres.kill();
        eventually("both are missed", async || {
            let mut missed = true;
            for node in &nodes {
                missed &= node.apply(&one(1, OnFailure::Share)).await.unwrap().source == Source::Fallback;
            }
            missed
        })
        .await;
        redis.start_again();
        postgres.start_again();
        let begun = Instant::now();
        for (turn, node) in nodes.iter().enumerate() {
            let key = 10 + kill * 2 + turn as u128;
            eventually("it is asked again", async || {
                node.apply(&one(key, OnFailure::Share)).await.unwrap().source == Source::Exact
            })
            .await;
        }
        recovered.push(begun.elapsed());
    }
    recovered.sort_unstable();
    let (half, most) = (recovered[recovered.len() / 2], recovered[recovered.len() - 1]);
    Claim::of("the time until Redis and Postgres, killed and started again, are both asked again").report(
        "target-recovery",
        &format!("median {:.0} ms, longest {:.0} ms of {}", millis(half), millis(most), recovered.len()),
        "2,000 ms",
        most < Duration::from_secs(2),
    );
}
