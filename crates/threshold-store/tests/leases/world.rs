//! A world of nodes that share a store, in a time of its own: links that fail, nodes that crash, clocks that drift.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use threshold_core::{
    Batch, Clock, Health, Key, Outcome, Span, Store, StoreError, StoreErrorKind, Swept, Timestamp,
};
use threshold_store::{MemoryStore, NodeSettings, NodeStore};
use tokio::time::Instant;

/// How long a node waits for the store.
const TIMEOUT: Duration = Duration::from_millis(20);
const EPOCH: u64 = 1_800_000_000_000_000;

/// The world's own time, a little faster or slower.
#[derive(Clone, Debug)]
pub(crate) struct DriftingClock {
    start: Instant,
    /// In parts of a million.
    drift: i64,
    /// Wall clocks disagree.
    offset: i64,
}

impl DriftingClock {
    pub(crate) fn new(start: Instant, drift: i64, offset: i64) -> Self {
        Self { start, drift, offset }
    }
}

impl Clock for DriftingClock {
    fn now(&self) -> Timestamp {
        let gone = i64::try_from(self.start.elapsed().as_micros()).unwrap();
        let shown = gone + gone * self.drift / 1_000_000 + self.offset;
        Timestamp::from_micros(EPOCH.checked_add_signed(shown).unwrap())
    }
}

/// What is wrong with the way to the store.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Weather {
    /// Until when nothing passes.
    pub(crate) cut_until: u64,
    /// Until when what is asked arrives and the answers are lost.
    pub(crate) deaf_until: u64,
    /// Until when the node stands still.
    pub(crate) paused_until: u64,
    /// How long it takes one way.
    pub(crate) delay: u64,
}

/// The weather of one node, in microseconds of the world's time.
#[derive(Debug, Default)]
pub(crate) struct Sky {
    cut_until: AtomicU64,
    deaf_until: AtomicU64,
    paused_until: AtomicU64,
    delay: AtomicU64,
}

impl Sky {
    pub(crate) fn set(&self, weather: Weather) {
        self.cut_until.store(weather.cut_until, Ordering::Relaxed);
        self.deaf_until.store(weather.deaf_until, Ordering::Relaxed);
        self.paused_until.store(weather.paused_until, Ordering::Relaxed);
        self.delay.store(weather.delay, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> Weather {
        let [cut_until, deaf_until, paused_until, delay] =
            [&self.cut_until, &self.deaf_until, &self.paused_until, &self.delay]
                .map(|value| value.load(Ordering::Relaxed));
        Weather { cut_until, deaf_until, paused_until, delay }
    }
}

/// The way of one node to the store.
#[derive(Clone)]
pub(crate) struct Link {
    pub(crate) store: MemoryStore<DriftingClock>,
    pub(crate) sky: Arc<Sky>,
    pub(crate) start: Instant,
    pub(crate) asked: Arc<AtomicU64>,
}

impl Link {
    pub(crate) fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).unwrap()
    }

    /// A node that stands still sees an answer only when it goes on.
    pub(crate) async fn awake(&self) {
        while let Some(left) = self.sky.get().paused_until.checked_sub(self.now()).filter(|left| *left > 0) {
            tokio::time::sleep(Duration::from_micros(left)).await;
        }
    }

    async fn ask<R>(&self, act: impl FnOnce(&MemoryStore<DriftingClock>) -> R) -> Result<R, StoreError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let (sent, weather) = (self.now(), self.sky.get());
        let lost = || StoreError::new(StoreErrorKind::Timeout, "ask", "no answer in time");
        if sent < weather.cut_until {
            tokio::time::sleep(TIMEOUT).await;
            return Err(lost());
        }
        tokio::time::sleep(Duration::from_micros(weather.delay)).await;
        let answer = act(&self.store);
        if self.now() < weather.deaf_until {
            tokio::time::sleep(TIMEOUT).await;
            return Err(lost());
        }
        tokio::time::sleep(Duration::from_micros(weather.delay)).await;
        self.awake().await;
        Ok(answer)
    }
}

impl Store for Link {
    async fn apply(&self, batch: &Batch) -> Result<Outcome, StoreError> {
        self.ask(|store| store.apply_now(batch)).await
    }

    async fn peek(&self, batch: &Batch) -> Result<Outcome, StoreError> {
        self.ask(|store| store.peek_now(batch)).await
    }

    async fn refund(&self, batch: &Batch, outcome: &Outcome) -> Result<(), StoreError> {
        self.ask(|store| store.refund_now(batch, outcome)).await
    }

    async fn reset(&self, keys: &[Key]) -> Result<(), StoreError> {
        self.ask(|store| store.reset_now(keys)).await
    }

    async fn sweep(&self, _: usize) -> Result<Swept, StoreError> {
        Ok(Swept::default())
    }

    async fn health(&self) -> Health {
        Health::Up { latency: Span::ZERO }
    }

    async fn close(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

/// A node: made again when it crashes.
pub(crate) struct Node {
    pub(crate) link: Link,
    clock: DriftingClock,
    settings: NodeSettings,
    store: Cell<Option<Rc<NodeStore<Link, DriftingClock>>>>,
}

impl Node {
    pub(crate) fn new(link: Link, clock: DriftingClock, settings: NodeSettings) -> Self {
        let node = Self { link, clock, settings, store: Cell::new(None) };
        node.restart();
        node
    }

    /// Starts anew: what it held is lost.
    pub(crate) fn restart(&self) {
        let memories = [(); 2].map(|()| {
            let builder = MemoryStore::builder().max_bytes(1 << 20).clock(self.clock.clone());
            builder.build().expect("there is room for the shards")
        });
        let store = NodeStore::with_clock(self.link.clone(), self.settings, self.clock.clone(), memories);
        self.store.set(Some(Rc::new(store)));
    }

    pub(crate) fn store(&self) -> Rc<NodeStore<Link, DriftingClock>> {
        let store = self.store.take().expect("it is always there");
        self.store.set(Some(Rc::clone(&store)));
        store
    }
}
