//! Servers that are killed under load.

use std::sync::Arc;
use std::time::Duration;

use threshold_core::{AlgorithmKind, Batch, OnFailure, Source, Store as _};
use threshold_testkit::figures::{Claim, size};
use threshold_testkit::servers::{Postgres, Redis, RedisCluster, RedisOptions};

use super::common::{LIMIT, Load, Node, Seen, eventually, node, nodes, one, one_of, report_wait, wait};

/// The timeouts of stores whose address says nothing of it.
const REDIS: Duration = Duration::from_millis(20);
const POSTGRES: Duration = Duration::from_millis(100);

/// What clients of a limit that is closed or shared may be admitted in all, whatever happens.
const fn most(on_failure: OnFailure) -> u64 {
    match on_failure {
        OnFailure::Closed => LIMIT,
        OnFailure::Share => 2 * LIMIT,
        OnFailure::Open => u64::MAX,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn kills_of_redis_admit_nothing_beyond_the_bounds() {
    let claim =
        Claim::of("Redis is killed under load: without persistence for closed limits, with it for shares");
    let (kills, mut longest) = (size(5, 100), Duration::ZERO);
    for on_failure in [OnFailure::Closed, OnFailure::Share] {
        // The bound of shares is for a store that keeps its data.
        let mut server = match on_failure {
            OnFailure::Closed => Redis::start(),
            _ => Redis::durable(),
        };
        let nodes = nodes(&server.url(), 3).await;
        let batch = one(1, on_failure);
        let load = Load::start(&nodes, &batch, Duration::from_millis(2));
        wait(50).await;
        for _ in 0..kills {
            server.kill();
            wait(60).await;
            server.start_again();
            wait(60).await;
        }
        let seen = load.stop().await;
        longest = longest.max(seen.longest());
        assert!(seen.admitted() <= most(on_failure), "{on_failure:?}: {seen:?}");
        assert!(seen.admitted() >= LIMIT, "{on_failure:?}: before it was killed all was well: {seen:?}");
        // It goes on by itself: others, who were not asked for before, are decided by the store again.
        let other = one(2, OnFailure::Open);
        eventually("it is asked again", async || {
            nodes[0].apply(&other).await.is_ok_and(|outcome| outcome.source == Source::Exact)
        })
        .await;
    }
    claim.show("kill-redis", &format!("{kills} kills, closed 0 over, shares within twice"), "0 over", true);
    report_wait("kill-redis-wait", "the longest wait for a decision while Redis is killed", longest, REDIS);
}

/// Clients that are in the first half of a budget when its server is killed: how many had been admitted by then, and what
/// they saw in all.
async fn cut_short(nodes: &[Node], batch: &Batch, server: &mut impl Mortal) -> (u64, Arc<Seen>) {
    let load = Load::start(nodes, batch, Duration::from_millis(30));
    eventually("some are admitted", async || load.seen().admitted() >= 3).await;
    let before = load.seen().admitted();
    server.dies();
    wait(60).await;
    server.lives();
    eventually("it is asked again", async || {
        let other = nodes[0].apply(&one(u128::MAX, OnFailure::Open)).await;
        other.is_ok_and(|outcome| outcome.source == Source::Exact)
    })
    .await;
    wait(60).await;
    (before, load.stop().await)
}

/// A server that can be killed.
trait Mortal {
    fn dies(&mut self);
    fn lives(&mut self);
}

impl Mortal for Redis {
    fn dies(&mut self) {
        self.kill();
    }

    fn lives(&mut self) {
        self.start_again();
    }
}

impl Mortal for Postgres {
    fn dies(&mut self) {
        self.kill();
    }

    fn lives(&mut self) {
        self.start_again();
    }
}

/// What came of kills in the middle of budgets.
#[derive(Default)]
struct Early {
    kills: u64,
    /// Those before half of the budget was gone.
    early: u64,
    over: u64,
    longest: Duration,
}

impl Early {
    fn note(&mut self, on_failure: OnFailure, (before, seen): (u64, Arc<Seen>)) {
        self.kills += 1;
        self.early += u64::from(before <= LIMIT / 2);
        self.over += seen.admitted().saturating_sub(most(on_failure));
        self.longest = self.longest.max(seen.longest());
    }

    fn show(&self, claim: Claim, name: &str) {
        let Self { kills, early, over, .. } = self;
        assert!(*early > 0, "none was early enough to tell anything");
        let figure = format!("{kills} kills, {early} of them in the first half of the budget, {over} over");
        claim.show(name, &figure, "0 over", *over == 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn kills_of_redis_in_the_middle_of_a_budget_admit_nothing_beyond_it() {
    let claim = Claim::of("Redis is killed in the middle of a budget: closed limits and shares");
    let mut seen = Early::default();
    for on_failure in [OnFailure::Closed, OnFailure::Share] {
        let mut server = match on_failure {
            OnFailure::Closed => Redis::start(),
            _ => Redis::durable(),
        };
        for kill in 0..size(3, 100) {
            // A loss is felt by every closed limit of a store: so each time it is another one.
            let nodes = nodes(&format!("{}?prefix=kill{kill}", server.url()), 3).await;
            seen.note(on_failure, cut_short(&nodes, &one(1, on_failure), &mut server).await);
        }
    }
    seen.show(claim, "kill-redis-early");
    let text = "the longest wait for a decision while Redis is killed in the middle of a budget";
    report_wait("kill-redis-early-wait", text, seen.longest, REDIS);
}

#[tokio::test(flavor = "multi_thread")]
async fn kills_of_postgres_in_the_middle_of_a_budget_admit_nothing_beyond_it() {
    let claim = Claim::of("Postgres is killed in the middle of a budget: closed limits and shares");
    let mut seen = Early::default();
    let mut server = Postgres::start();
    let nodes = nodes(&server.url(), 3).await;
    for on_failure in [OnFailure::Closed, OnFailure::Share] {
        for kill in 0..size(3, 100) {
            let key = u128::from(on_failure == OnFailure::Share) << 64 | kill;
            let batch = one_of(AlgorithmKind::FixedWindow, key, on_failure);
            seen.note(on_failure, cut_short(&nodes, &batch, &mut server).await);
        }
    }
    seen.show(claim, "kill-postgres-early");
    let text = "the longest wait for a decision while Postgres is killed in the middle of a budget";
    report_wait("kill-postgres-early-wait", text, seen.longest, POSTGRES);
}

#[tokio::test(flavor = "multi_thread")]
async fn closed_limits_on_a_redis_that_lost_its_data_start_exhausted_and_refill() {
    let mut server = Redis::start();
    let node = node(&server.url(), 1).await;
    // One every fifty milliseconds, twenty at once.
    let batch = {
        let mut batch = one(1, OnFailure::Closed);
        let rate = "20/s".parse().unwrap();
        batch.steps_mut()[0].algorithm = threshold_core::Algorithm::token_bucket(&rate).unwrap();
        batch
    };
    assert!(node.apply(&batch).await.unwrap().admitted());
    server.kill();
    server.start_again();
    let mut in_a_row = 0;
    eventually("it answers again", async || match node.apply(&batch).await {
        Ok(outcome) => {
            in_a_row = if outcome.admitted() { in_a_row + 1 } else { 0 };
            true
        }
        Err(_) => false,
    })
    .await;
    for _ in 0..15 {
        let admitted = node.apply(&batch).await.is_ok_and(|outcome| outcome.admitted());
        in_a_row = if admitted { in_a_row + 1 } else { 0 };
    }
    assert!(in_a_row < 15, "fifteen at once: it started afresh");
    eventually("it refills", async || node.apply(&batch).await.is_ok_and(|outcome| outcome.admitted())).await;
}

/// How many `node` admits until it refuses.
async fn drained(node: &Node, batch: &Batch) -> u64 {
    let mut admitted = 0;
    eventually("all is used up", async || match node.apply(batch).await {
        Ok(outcome) if outcome.admitted() => {
            admitted += 1;
            false
        }
        Ok(_) => true,
        Err(_) => false,
    })
    .await;
    admitted
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_starts_after_a_redis_lost_its_data_hears_of_it_from_the_others() {
    let claim = Claim::of("a node starts beside others after each kill of a Redis without persistence");
    let kills: u32 = size(3, 50);
    let mut over = 0;
    let mut server = Redis::start();
    for kill in 0..kills {
        let url = format!("{}?prefix=kill{kill}", server.url());
        let (nodes, batch) = (nodes(&url, 2).await, one(1, OnFailure::Closed));
        for _ in 0..10 {
            assert!(nodes[0].apply(&batch).await.unwrap().admitted());
        }
        server.kill();
        server.start_again();
        eventually("the others have noticed", async || nodes[1].apply(&batch).await.is_ok()).await;
        over += drained(&node(&url, 3).await, &batch).await;
    }
    claim.show("kill-new-node", &format!("{kills} kills, {over} over"), "0 over", over == 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_starts_alone_knows_that_another_server_had_answered() {
    let options = RedisOptions::new().set("appendonly", "yes").set("appendfsync", "everysec");
    let mut server = options.start();
    let batch = one(1, OnFailure::Closed);
    let before = node(&server.url(), 1).await;
    for _ in 0..10 {
        assert!(before.apply(&batch).await.unwrap().admitted());
    }
    before.close().await.unwrap();
    let beside = node(&server.url(), 1).await;
    assert!(beside.apply(&batch).await.unwrap().admitted(), "the same server: nothing is lost");
    server.kill();
    server.start_again();
    assert_eq!(drained(&node(&server.url(), 1).await, &batch).await, 0, "some of it may be lost");
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_were_there_tell_one_that_found_nothing_at_all() {
    let server = Redis::start();
    let batch = one(1, OnFailure::Closed);
    let before = node(&server.url(), 2).await;
    assert!(before.apply(&batch).await.unwrap().admitted());
    server.cli(&["FLUSHALL"]).unwrap();
    // Nothing tells an emptied store from a new one.
    let new = node(&server.url(), 2).await;
    assert!(new.apply(&batch).await.unwrap().admitted());
    for node in [&before, &new] {
        node.sweep(1).await.unwrap();
    }
    assert_eq!(drained(&new, &batch).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_writes_everything_down_goes_on_where_it_was() {
    let mut server = Redis::durable();
    let node = node(&server.url(), 1).await;
    let batch = one(1, OnFailure::Closed);
    for _ in 0..10 {
        assert!(node.apply(&batch).await.unwrap().admitted());
    }
    server.kill();
    server.start_again();
    let mut admitted = 10;
    eventually("all is used up", async || match node.apply(&batch).await {
        Ok(outcome) if outcome.admitted() => {
            admitted += 1;
            false
        }
        Ok(_) => true,
        Err(_) => false,
    })
    .await;
    assert!(
        (LIMIT - 5..=LIMIT).contains(&admitted),
        "{admitted}: one whose answer was lost counts as charged"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn kills_of_postgres_admit_nothing_beyond_the_bounds() {
    let claim = Claim::of("Postgres is killed under load");
    let (kills, mut longest) = (size(5, 100), Duration::ZERO);
    for on_failure in [OnFailure::Closed, OnFailure::Share] {
        let mut server = Postgres::start();
        let nodes = nodes(&server.url(), 3).await;
        let load = Load::start(
            &nodes,
            &one_of(AlgorithmKind::FixedWindow, 1, on_failure),
            Duration::from_millis(20),
        );
        for _ in 0..kills {
            wait(60).await;
            server.kill();
            wait(100).await;
            server.start_again();
        }
        let seen = load.stop().await;
        longest = longest.max(seen.longest());
        assert!(seen.admitted() <= most(on_failure), "{on_failure:?}: {seen:?}");
        assert!(on_failure == OnFailure::Share || seen.failed() > 0, "nobody saw it die: {seen:?}");
        let mut left = 0;
        eventually("all is used up", async || {
            match nodes[0].apply(&one_of(AlgorithmKind::FixedWindow, 1, on_failure)).await {
                Ok(outcome) if outcome.admitted() => {
                    left += 1;
                    false
                }
                Ok(outcome) => outcome.source == Source::Exact,
                Err(_) => false,
            }
        })
        .await;
        let all = seen.admitted() + left;
        assert!(all <= most(on_failure), "{on_failure:?}: {all} in all");
    }
    claim.show(
        "kill-postgres",
        &format!("{kills} kills, closed 0 over, shares within twice"),
        "0 over",
        true,
    );
    let text = "the longest wait for a decision while Postgres is killed";
    report_wait("kill-postgres-wait", text, longest, POSTGRES);
}

/// The master that has the keys of these tests.
fn owner(cluster: &mut RedisCluster) -> usize {
    let slot = cluster.nodes()[0].cli(&["CLUSTER", "KEYSLOT", "{0000}"]);
    let slot = slot.or_else(|_| cluster.nodes()[1].cli(&["CLUSTER", "KEYSLOT", "{0000}"])).unwrap();
    let has_it = |node: &Redis| {
        let master = node.cli(&["ROLE"]).is_ok_and(|role| role.starts_with("master"));
        let keys = node.cli(&["CLUSTER", "COUNTKEYSINSLOT", slot.trim()]);
        master && keys.is_ok_and(|keys| keys.trim() != "0")
    };
    cluster.nodes().iter().position(has_it).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn failovers_of_a_cluster_admit_nothing_beyond_closed_limits() {
    let claim = Claim::of("masters of a Redis Cluster die under load and replicas take over");
    let failovers: u32 = size(2, 50);
    let mut cluster = RedisCluster::start();
    let mut over = 0;
    for round in 0..failovers {
        // A store that has seen one loss admits nothing on new keys either, for as long as it is felt: another one each time.
        let nodes = nodes(&format!("{}?timeout=500&prefix=failover{round}", cluster.url()), 2).await;
        let batch = one(u128::from(round) << 64 | 77, OnFailure::Closed);
        let load = Load::start(&nodes, &batch, Duration::from_millis(2));
        eventually("some are admitted", async || load.seen().admitted() >= 1).await;
        let master = owner(&mut cluster);
        let before = load.seen().failed();
        cluster.nodes()[master].kill();
        eventually("clients notice", async || load.seen().failed() > before).await;
        let (mut failed, mut quiet) = (load.seen().failed(), 0);
        eventually("another has taken over", async || {
            let now = load.seen().failed();
            quiet = if now == failed { quiet + 1 } else { 0 };
            failed = now;
            quiet > 20
        })
        .await;
        let seen = load.stop().await;
        over += seen.admitted().saturating_sub(LIMIT);
        cluster.nodes()[master].start_again();
        eventually("the other is a replica now", async || {
            cluster.nodes()[master]
                .cli(&["INFO", "replication"])
                .is_ok_and(|info| info.contains("master_link_status:up"))
        })
        .await;
    }
    claim.show("failover-cluster", &format!("{failovers} failovers, {over} over"), "0 over", over == 0);
}
