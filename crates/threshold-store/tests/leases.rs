//! Leases: however nodes crash, stand still and are cut off, together they stay within the limit.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "leases/world.rs"]
mod world;

use std::num::NonZeroU64;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use threshold_core::{
    Algorithm, AlgorithmKind, Batch, Consistency, Key, ManualClock, OnFailure, Rate, Sharing, Span, Step,
    Store, Timestamp,
};
use threshold_store::{MemoryStore, NodeSettings};
use threshold_testkit::figures::{Claim, size};
use threshold_testkit::simulate::Dice;
use tokio::task::LocalSet;
use tokio::time::Instant;
use world::{DriftingClock, Link, Node, Sky, Weather};

const NODES: u32 = 5;

/// One admission: when, in the world's time, and how much.
type Log = Vec<(u64, u64)>;

/// What is limited in one run.
#[derive(Clone, Copy)]
struct Limit {
    algorithm: Algorithm,
    sharing: Sharing,
}

impl Limit {
    fn leased(kind: AlgorithmKind, rate: &str, on_failure: OnFailure) -> Self {
        let rate: Rate = rate.parse().unwrap();
        let sharing = Sharing { consistency: Consistency::Leased, on_failure };
        Self { algorithm: Algorithm::new(kind, &rate).unwrap(), sharing }
    }

    fn batch(&self, cost: u64) -> Batch {
        let step = Step::consume(Key::from_raw(7, 7), self.algorithm, NonZeroU64::new(cost).unwrap());
        Batch::from(Step { sharing: self.sharing, ..step })
    }
}

/// The world of one run.
struct World {
    nodes: Vec<Node>,
    start: Instant,
    asked: Arc<AtomicU64>,
}

impl World {
    fn new(settings: NodeSettings, dice: &mut Dice) -> Self {
        let (start, asked) = (Instant::now(), Arc::new(AtomicU64::new(0)));
        let store = MemoryStore::builder().max_bytes(1 << 20).clock(DriftingClock::new(start, 0, 0));
        let store = store.build().unwrap();
        let nodes = (0..settings.nodes).map(|_| {
            let sky = Arc::new(Sky::default());
            sky.set(Weather { delay: 100 + dice.roll(2_000), ..Weather::default() });
            let link = Link { store: store.clone(), sky, start, asked: Arc::clone(&asked) };
            // Half of what is assumed of clocks, each way.
            let drift = i64::try_from(dice.roll(1_900)).unwrap() - 950;
            let offset = i64::try_from(dice.roll(600_000_000)).unwrap() - 300_000_000;
            Node::new(link, DriftingClock::new(start, drift, offset), settings)
        });
        Self { nodes: nodes.collect(), start, asked }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).unwrap()
    }

    /// Something happens to a node. One that crashes forgets what it admitted of its share.
    fn disturb(&self, crashes: bool, dice: &mut Dice) {
        let node = &self.nodes[usize::try_from(dice.roll(self.nodes.len() as u64)).unwrap()];
        let (now, length) = (self.now(), dice.roll(3_000_000));
        let weather = node.link.sky.get();
        match dice.roll(5) {
            0 if crashes => node.restart(),
            1 => node.link.sky.set(Weather { cut_until: now + length, ..weather }),
            2 => node.link.sky.set(Weather { deaf_until: now + length, ..weather }),
            3 => node.link.sky.set(Weather { paused_until: now + length, ..weather }),
            _ => node.link.sky.set(Weather { delay: dice.roll(15_000), ..weather }),
        }
    }
}

/// One run of `length`, with requests at random nodes and something happening now and then; what was admitted.
async fn run(seed: u64, limit: Limit, length: Duration) -> Log {
    let mut dice = Dice::new(seed);
    let settings = NodeSettings { nodes: NODES, ..NodeSettings::default() };
    let world = Rc::new(World::new(settings, &mut dice));
    let log = Rc::new(std::cell::RefCell::new(Log::new()));
    let (pause, faults) = (1_500 + dice.roll(8_000), 10 + dice.roll(80));
    let mut tasks = Vec::new();
    while world.start.elapsed() < length {
        tokio::time::sleep(Duration::from_micros(1 + dice.roll(2 * pause))).await;
        if dice.roll(faults) == 0 {
            world.disturb(limit.sharing.on_failure == OnFailure::Closed, &mut dice);
        }
        let node = usize::try_from(dice.roll(u64::from(NODES))).unwrap();
        let cost = if dice.roll(10) == 0 { 1 + dice.roll(5) } else { 1 };
        let (world, log) = (Rc::clone(&world), Rc::clone(&log));
        tasks.push(tokio::task::spawn_local(async move {
            let node = &world.nodes[node];
            node.link.awake().await;
            let store = node.store();
            // What a limit lets pass counts from when its answer is there.
            if let Ok(outcome) = store.apply(&limit.batch(cost)).await
                && outcome.admitted()
            {
                log.borrow_mut().push((world.now(), cost));
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    for node in &world.nodes {
        assert_eq!(node.store().stats().leases.overshoot, 0, "seed {seed}");
    }
    log.take()
}

/// True if one bucket or window by itself would have admitted all of it.
fn is_within(log: &Log, algorithm: Algorithm) -> bool {
    let start = Timestamp::from_micros(1_800_000_000_000_000);
    let clock = ManualClock::starting_at(start);
    let judge = MemoryStore::builder().max_bytes(1 << 20).clock(clock.clone()).build().unwrap();
    let mut log = log.clone();
    log.sort_unstable();
    log.iter().all(|(at, cost)| {
        clock.set(start.plus(Span::from_micros(*at)));
        let step = Step::consume(Key::from_raw(1, 1), algorithm, NonZeroU64::new(*cost).unwrap());
        judge.apply_one_now(&step).1.admitted()
    })
}

fn in_the_world<R>(run: impl Future<Output = R>) -> R {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    LocalSet::new().block_on(&runtime, run)
}

/// The limits that are tried, one after the other.
fn limit_of(seed: u64, on_failure: OnFailure) -> Limit {
    let (kind, rate) = match seed % 4 {
        0 => (AlgorithmKind::TokenBucket, "100/min"),
        1 => (AlgorithmKind::TokenBucket, "200/s burst 100"),
        2 => (AlgorithmKind::TokenBucket, "600/min burst 40"),
        _ => (AlgorithmKind::CalendarWindow, "50/s"),
    };
    Limit::leased(kind, rate, on_failure)
}

#[test]
fn nodes_together_stay_within_the_limit_whatever_happens_to_them() {
    let claim = Claim::of("leases of 5 nodes under random crashes, pauses, partitions and lost answers");
    let seeds = size(2_000, 100_000);
    let mut admitted = 0;
    for seed in 0..seeds {
        let limit = limit_of(seed, OnFailure::Closed);
        let log = in_the_world(run(seed, limit, Duration::from_secs(4)));
        admitted += log.len();
        assert!(is_within(&log, limit.algorithm), "seed {seed}: more than the limit was admitted");
    }
    assert!(admitted as u64 > seeds * 20, "only {admitted} in {seeds} runs: nothing was tried");
    claim.show("leases-simulated", &format!("0 over in {seeds} runs, {admitted} admitted"), "0 over", true);
}

/// What two of the limit beside each other would admit.
fn twice(algorithm: Algorithm) -> Algorithm {
    let (count, period) = match algorithm {
        Algorithm::TokenBucket(bucket) => (bucket.count(), bucket.period()),
        other => (other.capacity(), other.period()),
    };
    let rate = Rate::new(2 * count, period).unwrap();
    let rate = match algorithm.kind() {
        AlgorithmKind::TokenBucket => rate.with_burst(2 * algorithm.capacity()).unwrap(),
        _ => rate,
    };
    Algorithm::new(algorithm.kind(), &rate).unwrap()
}

#[test]
fn nodes_that_go_on_with_their_share_stay_within_twice_the_limit() {
    for seed in 0..size(300, 10_000) {
        // Windows of the calendar are as one only where wall clocks agree, and here they do not.
        let limit = limit_of(seed % 3, OnFailure::Share);
        let log = in_the_world(run(seed, limit, Duration::from_secs(4)));
        assert!(is_within(&log, twice(limit.algorithm)), "seed {seed}: more than twice the limit");
    }
}

/// Steady demand at all nodes; the share of the budget that was used, and decisions for each operation of the store.
async fn steady(limit: Limit, demand: Duration, length: Duration) -> (f64, f64) {
    let settings = NodeSettings { nodes: NODES, ..NodeSettings::default() };
    let world = Rc::new(World::new(settings, &mut Dice::new(1)));
    let (admitted, decided) = (Rc::new(AtomicU64::new(0)), Rc::new(AtomicU64::new(0)));
    let mut tasks = Vec::new();
    for place in 0..world.nodes.len() {
        let (world, admitted, decided) = (Rc::clone(&world), Rc::clone(&admitted), Rc::clone(&decided));
        tasks.push(tokio::task::spawn_local(async move {
            let store = world.nodes[place].store();
            while world.start.elapsed() < length {
                tokio::time::sleep(demand).await;
                let outcome = store.apply(&limit.batch(1)).await.unwrap();
                decided.fetch_add(1, Ordering::Relaxed);
                admitted.fetch_add(u64::from(outcome.admitted()), Ordering::Relaxed);
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    let budget = limit.algorithm.guarantee().most_in(length.into());
    let [admitted, decided, asked] =
        [&*admitted, &*decided, &*world.asked].map(|count| count.load(Ordering::Relaxed) as f64);
    (admitted / budget as f64, decided / asked)
}

#[test]
fn steady_demand_uses_the_budget_and_leaves_the_store_alone() {
    let mut worst = (f64::MAX, f64::MAX);
    for (rate, demand) in [("60000/min burst 6000", 2), ("60000/min burst 6000", 4), ("30000/min", 3)] {
        let limit = Limit::leased(AlgorithmKind::TokenBucket, rate, OnFailure::Closed);
        let found = in_the_world(steady(limit, Duration::from_millis(demand), Duration::from_secs(120)));
        worst = (worst.0.min(found.0), worst.1.min(found.1));
    }
    assert!(worst.0 >= 0.95, "only {:.3} of the budget was used", worst.0);
    assert!(worst.1 >= 50.0, "an operation of the store for every {:.1} decisions", worst.1);
}

#[test]
fn what_is_held_is_returned_when_a_node_stops() {
    in_the_world(async {
        let settings = NodeSettings { nodes: 1, ..NodeSettings::default() };
        let world = World::new(settings, &mut Dice::new(3));
        let limit = Limit::leased(AlgorithmKind::TokenBucket, "100/hour", OnFailure::Closed);
        let store = world.nodes[0].store();
        for _ in 0..20 {
            assert!(store.apply(&limit.batch(1)).await.unwrap().admitted());
        }
        assert!(store.stats().leases.tokens > 0, "nothing is held: {:?}", store.stats());
        store.close().await.unwrap();
        let leasable = limit.algorithm.leasable(Span::SECOND).unwrap().algorithm;
        let step = Step::consume(Key::from_raw(7, 7), leasable, NonZeroU64::MIN);
        let left = world.nodes[0].link.store.peek_now(&Batch::from(step)).verdicts[0].remaining;
        assert_eq!(left, leasable.capacity() - 20, "all that was not spent is back");
    });
}

#[test]
fn nothing_is_admitted_on_a_lease_that_ended_while_the_node_stood_still() {
    in_the_world(async {
        let settings = NodeSettings { nodes: 2, ..NodeSettings::default() };
        let world = World::new(settings, &mut Dice::new(4));
        let limit = Limit::leased(AlgorithmKind::TokenBucket, "100000/hour burst 1000", OnFailure::Closed);
        let node = &world.nodes[0];
        let store = node.store();
        for _ in 0..100 {
            store.apply(&limit.batch(1)).await.unwrap();
        }
        let held = store.stats().leases.tokens;
        assert!(held > 0);
        tokio::time::sleep(Duration::from_secs(30)).await;
        node.link.sky.set(Weather { cut_until: u64::MAX, ..Weather::default() });
        assert!(store.apply(&limit.batch(1)).await.is_err(), "{held} were held, and all have ended");
    });
}
