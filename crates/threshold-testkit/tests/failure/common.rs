//! Nodes, and clients that ask them.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use threshold_core::{
    Algorithm, AlgorithmKind, Batch, Consistency, Key, OnFailure, Outcome, Secret, SharedStore, Sharing,
    Span, Step, Store as _, StoreError,
};
use threshold_store::node::BreakerSettings;
use threshold_store::{NodeSettings, NodeStore, open_store};
use threshold_testkit::figures::Claim;

/// How many tokens there are: nothing is refilled while a test lasts.
pub(crate) const LIMIT: u64 = 60;

pub(crate) type Node = Arc<NodeStore<SharedStore>>;

pub(crate) fn settings(nodes: u32) -> NodeSettings {
    let breaker =
        BreakerSettings { failures: 3, open: Span::from_micros(100_000), probe: Span::from_micros(50_000) };
    NodeSettings { nodes, breaker, ..NodeSettings::default() }
}

pub(crate) fn secret() -> Secret {
    Secret::new([7; 16])
}

/// A node over the store at `url`.
pub(crate) async fn node(url: &str, nodes: u32) -> Node {
    Arc::new(NodeStore::new(open_store(url, (&secret(), None)).await.unwrap(), settings(nodes)))
}

pub(crate) async fn nodes(url: &str, count: u32) -> Vec<Node> {
    let mut nodes = Vec::new();
    for _ in 0..count {
        nodes.push(node(url, count).await);
    }
    nodes
}

/// One of key `key`, of a limit that does so when its store is gone.
pub(crate) fn one(key: u128, on_failure: OnFailure) -> Batch {
    one_of(AlgorithmKind::TokenBucket, key, on_failure)
}

pub(crate) fn one_of(kind: AlgorithmKind, key: u128, on_failure: OnFailure) -> Batch {
    let algorithm = Algorithm::new(kind, &format!("{LIMIT} per 3000d").parse().unwrap()).unwrap();
    let step = Step::consume(Key::from_raw(key, 7), algorithm, NonZeroU64::MIN);
    Batch::from(Step { sharing: Sharing { consistency: Consistency::Exact, on_failure }, ..step })
}

/// What clients saw: how many were admitted, refused, and not decided.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) admitted: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) failed: AtomicU64,
    /// The longest that one of them waited, in microseconds.
    longest: AtomicU64,
}

impl Seen {
    pub(crate) fn note(&self, outcome: &Result<Outcome, StoreError>) {
        let counter = match outcome {
            Ok(outcome) if outcome.admitted() => &self.admitted,
            Ok(_) => &self.refused,
            Err(_) => &self.failed,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn admitted(&self) -> u64 {
        self.admitted.load(Ordering::Relaxed)
    }

    pub(crate) fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    fn waited(&self, span: Duration) {
        self.longest.fetch_max(span.as_micros() as u64, Ordering::Relaxed);
    }

    pub(crate) fn longest(&self) -> Duration {
        Duration::from_micros(self.longest.load(Ordering::Relaxed))
    }
}

/// Clients that ask for `batch` at every node until they are told to stop.
pub(crate) struct Load {
    seen: Arc<Seen>,
    stop: Arc<AtomicBool>,
    clients: Vec<tokio::task::JoinHandle<()>>,
}

impl Load {
    pub(crate) fn start(nodes: &[Node], batch: &Batch, pause: Duration) -> Self {
        let (seen, stop) = (Arc::new(Seen::default()), Arc::new(AtomicBool::new(false)));
        let client = |node: &Node| {
            let (node, batch) = (Arc::clone(node), batch.clone());
            let (seen, stop) = (Arc::clone(&seen), Arc::clone(&stop));
            tokio::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    let begun = Instant::now();
                    seen.note(&node.apply(&batch).await);
                    seen.waited(begun.elapsed());
                    tokio::time::sleep(pause).await;
                }
            })
        };
        let clients = nodes.iter().flat_map(|node| [node; 4]).map(client).collect();
        Self { seen, stop, clients }
    }

    pub(crate) fn seen(&self) -> &Seen {
        &self.seen
    }

    /// Every client has its answer before this is over.
    pub(crate) async fn stop(self) -> Arc<Seen> {
        self.stop.store(true, Ordering::Relaxed);
        for client in self.clients {
            client.await.unwrap();
        }
        self.seen
    }
}

/// Reports the longest that anybody waited for a decision beside the store's timeout. Who is woken by a busy machine is woken
/// late, so the goal leaves it some.
pub(crate) fn report_wait(name: &str, claim: &'static str, longest: Duration, timeout: Duration) {
    let (longest, timeout) = (longest.as_secs_f64() * 1_000.0, timeout.as_secs_f64() * 1_000.0);
    let goal = format!("{timeout:.0} ms, the timeout, and 10 for the machine");
    Claim::of(claim).report(name, &format!("{longest:.1} ms"), &goal, longest <= timeout + 10.0);
}

/// Waits for a moment.
pub(crate) async fn wait(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}

/// Asks again and again until `is_so`, for half a minute at most.
pub(crate) async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    for _ in 0..1_200 {
        if is_so().await {
            return;
        }
        wait(25).await;
    }
    panic!("not within half a minute: {what}");
}
